"use strict";
/* Finding scenes: by their objects, or by where the model breaks. */

class LibraryChoice {
  constructor(explorer) {
    this.explorer = explorer;
    this.picked = new Set();
    $("choose").addEventListener("click", () => ($("library").hidden ? this.open() : this.close()));
    $("library-play").addEventListener("click", () => this.play());
  }

  open() {
    const { about, scene, sprites } = this.explorer;
    this.picked = new Set(scene.objects);
    $("library").hidden = false;
    $("choose").setAttribute("aria-expanded", "true");
    $("sprites").replaceChildren(...about.world.objects.map((text, object) => {
      const label = `Object ${object}, ${text}`;
      const attributes = { type: "button", "aria-pressed": String(this.picked.has(object)), "aria-label": label, title: label };
      const button = element("button", attributes, sprites.of(object));
      button.addEventListener("click", () => {
        if (!this.picked.delete(object)) this.picked.add(object);
        button.setAttribute("aria-pressed", String(this.picked.has(object)));
        this.tell();
      });
      return button;
    }));
    this.tell();
  }

  tell() {
    const { sizes } = this.explorer.about;
    const range = sizes.length > 1 ? `${sizes[0]} to ${sizes[sizes.length - 1]}` : sizes[0];
    $("library-text").textContent = `${this.picked.size} objects chosen; ${range} can be played.`;
    $("library-play").disabled = !sizes.includes(this.picked.size);
  }

  close() {
    $("library").hidden = true;
    $("choose").setAttribute("aria-expanded", "false");
  }

  play() {
    this.close();
    return this.explorer.newScene({ objects: [...this.picked].sort((a, b) => a - b) });
  }
}

/* The rollouts with the largest error among some hundred; a search can be cancelled. */
class TroubleSearch {
  constructor(explorer) {
    this.explorer = explorer;
    this.running = null;
    $("break").hidden = explorer.about.search === null;
    $("break").addEventListener("click", () => this.run());
    $("search-cancel").addEventListener("click", () => this.running?.abort());
  }

  async run() {
    if (this.running !== null) return;
    this.running = new AbortController();
    const { explorer } = this;
    const { rollouts, steps } = explorer.about.search;
    $("search").hidden = $("search-cancel").hidden = $("search-progress").hidden = false;
    $("search-text").textContent = `Trying ${rollouts} random rollouts of ${steps} steps…`;
    $("search-progress").value = 0;
    $("search").scrollIntoView({ block: "nearest" });
    const progress = (done, total, worst) => {
      $("search-progress").value = done / total;
      $("search-text").textContent = `${done} of ${total} rollouts; the largest error so far is ${short(worst)}.`;
    };
    try {
      const { kind, size } = explorer;
      const found = await explorer.backend.search({ kind, size, signal: this.running.signal, progress });
      const done = `The largest errors of ${explorer.about.models[0].name} in ${rollouts} random rollouts: truth and imagination.`;
      $("search-text").textContent = found.length ? `${done} Open one to play on from there.` : "Cancelled.";
      showFound($("found"), found, (one) => this.open(one));
      explorer.say($("search-text").textContent);
    } catch (error) {
      $("search-text").textContent = "The search failed.";
      explorer.fail(error);
    }
    $("search-cancel").hidden = $("search-progress").hidden = true;
    this.running = null;
  }

  async open(one) {
    await this.explorer.newScene({ found: one.key });
    $("stage").scrollIntoView({ block: "nearest" });
    this.explorer.board.focus();
  }
}
