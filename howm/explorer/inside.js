"use strict";
/* The panels about the inside of a model, which follow the frame that the page shows. */

const RANK_PAUSE = 40; // milliseconds a frame is shown at least before it is ranked

class Inside {
  constructor(explorer) {
    this.explorer = explorer;
    this.model = 0;
    this.when = "now";
    this.allRows = false;
    this.looked = new Map();  // what inspect said, by time
    this.asked = new Set();  // answers that are still to come
    this.ranked = null;
    const { models } = explorer.about;
    $("tabs").hidden = models.length < 2;
    offer($("tabs"), models.map((model, m) => ({ value: m, text: model.name })), 0, (m) => { this.model = m; this.show(); });
    offer($("when"), [{ value: "now", text: "now" }, { value: "first", text: "first frame" }], "now",
      (when) => { this.when = when; this.inspect(); });
    $("all-rows").addEventListener("click", () => { this.allRows = !this.allRows; this.inspect(); });
  }

  show() {
    this.inspect();
    this.rank();
  }

  /* Forgets what was said of frames after a time. */
  forget(time) {
    for (const known of [...this.looked.keys()]) if (known > time) this.looked.delete(known);
  }

  /* A question about frames, which must stay until it is answered. */
  ask(answer) {
    this.asked.add(answer);
    answer.catch(() => {}).finally(() => this.asked.delete(answer));
    return answer;
  }

  /* Waits for answers, before frames are forgotten. */
  settle() {
    this.ranked = null;
    return Promise.allSettled([...this.asked]);
  }

  async known(time, model) {
    if (!this.looked.has(time)) this.looked.set(time, this.ask(this.explorer.backend.inspect(time)));
    return (await this.looked.get(time)).models[model];
  }

  /* Slots, binding and embeddings; an answer that comes too late is dropped. */
  async inspect() {
    const { explorer, model, when } = this;
    const { view, scene } = explorer;
    let [seen, embedding] = [];
    try {
      [seen, { embedding }] = [await this.known(when === "first" ? 0 : view, model), await this.known(view, model)];
    } catch (error) {
      this.looked.clear();
      explorer.fail(error);
      return;
    }
    if (view !== explorer.view || scene !== explorer.scene || model !== this.model || when !== this.when) return;
    const { world, models } = explorer.about;
    const acting = view > 0 ? Math.floor(explorer.frames[view].action / world.actionsPerObject) : null;
    const shown = { sprites: explorer.sprites, scene: scene.objects, acting, all: this.allRows };
    $("notes").replaceChildren(...models[model].notes.map((note) => element("p", { class: "note" }, note)));
    $("binding-card").hidden = seen.slots === null && seen.binding === null;
    $("binding-text").textContent = [
      seen.slots === null ? "" : "Each slot shows the part of the frame that it stands for.",
      seen.binding === null ? "" : "A row says to which slots the actions of an object go.",
    ].join(" ");
    showBinding($("binding"), seen, shown);
    $("all-rows").hidden = seen.binding === null || world.n === scene.objects.length;
    $("all-rows").textContent = this.allRows ? "Only the objects of the scene" : `All ${world.n} objects of the library`;
    $("all-rows").setAttribute("aria-pressed", String(this.allRows));
    const rows = { objects: "Lifted: a row for each object.", slots: "A row for each slot.", state: "One vector." };
    $("embedding-text").textContent = `${rows[embedding.rows]} Distances are measured between these.`;
    showEmbedding($("embedding"), embedding, shown);
  }

  async rank() {
    const { explorer, model } = this;
    const { view } = explorer;
    const mine = Symbol("rank");
    this.ranked = mine;
    if (view === 0) {
      const text = "Make a move: then the prediction is ranked among wrong states.";
      $("rank").replaceChildren(element("p", { class: "note" }, text));
      return;
    }
    await pause(RANK_PAUSE);
    if (mine !== this.ranked) return;
    try {
      const found = await this.ask(explorer.backend.rank(view));
      if (mine === this.ranked) showRank($("rank"), found.models[model], explorer.frames[view].truth);
    } catch (error) {
      if (mine === this.ranked) explorer.fail(error);
    }
  }
}
