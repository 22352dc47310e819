"use strict";
/* The page: one scene, its time line, and panels that follow it. What it asks of a backend is said in backend.js. */

const WALK_STEPS = 30;
const WALK_PAUSE = 110; // milliseconds a step of a walk is seen at least

const $ = (id) => document.getElementById(id);
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

class Explorer {
  constructor(backend) {
    this.backend = backend;
    this.frames = [];
    this.view = 0;  // the time that is shown
    this.waiting = 0;
    this.turn = Promise.resolve();
    this.walking = false;
  }

  async start() {
    try {
      this.about = await this.backend.describe();
    } catch (error) {
      this.fail(error);
      $("title").textContent = "The model could not be loaded";
      return;
    }
    const { world, models } = this.about;
    this.sprites = new Sprites(world);
    this.size = this.about.size;
    this.kind = this.about.kinds[this.size][0];
    this.board = new Board($("board"), {
      act: (action, how) => this.act(action, how), undo: () => this.undo(), chosen: (object) => this.hold(object),
    });
    document.documentElement.style.setProperty("--ratio", `${world.width} / ${world.height}`);
    $("world").textContent = `${world.title}, ${world.n} objects`;
    $("title").textContent = `What ${models.map(({ name }) => name).join(" and ")} imagine${models.length > 1 ? "" : "s"}`;
    document.title = `${models[0].name} · howm explorer`;
    this.layOut(models);
    this.connect();
    this.inside = new Inside(this);
    this.goal = new GoalMode(this);
    this.library = new LibraryChoice(this);
    this.search = new TroubleSearch(this);
    await this.newScene({ kind: this.kind, size: this.size });
    document.body.classList.remove("loading");
  }

  layOut(models) {
    $("stage").classList.toggle("two", models.length > 1);
    $("models").replaceChildren(...models.map((model, m) => {
      const figure = (id, title, label) => element("figure", {},
        element("figcaption", {}, element("h2", {}, title), element("span", { class: "measure", id: `${id}-text-${m}` })),
        element("div", { class: "frame" }, element("canvas", { id: `${id}-${m}`, class: "pixels", role: "img", "aria-label": label })));
      return element("div", { class: "model" }, models.length > 1 ? element("p", { class: "name" }, model.name) : null,
        figure("imagined", "Imagined", `What ${model.name} imagines`),
        figure("difference", "Difference", `Where the truth and what ${model.name} imagines differ`));
    }));
  }

  connect() {
    const { sizes } = this.about;
    $("size").replaceChildren(...sizes.map((k) => element("option", { value: k, selected: k === this.size }, String(k))));
    $("size").addEventListener("change", () => { this.size = Number($("size").value); this.offerKinds(); this.draw(); });
    this.offerKinds();
    $("new").addEventListener("click", () => this.draw());
    $("undo").addEventListener("click", () => this.undo());
    $("restart").addEventListener("click", () => this.queue(() => this.cut(0)));
    $("surprise").addEventListener("click", () => this.walk());
    $("time").addEventListener("input", () => this.look(Number($("time").value)));
    document.querySelector(".controls").addEventListener("keydown", (event) => this.board.key(event));
  }

  offerKinds() {
    const there = this.about.kinds[this.size];
    if (!there.includes(this.kind)) this.kind = there[0];
    const all = [...new Set(Object.values(this.about.kinds).flat())];
    const options = all.map((kind) => ({ value: kind, text: kind, disabled: !there.includes(kind) }));
    offer($("kinds"), options, this.kind, (kind) => { this.kind = kind; this.draw(); });
  }

  /* One thing after the other; an error is said, and what follows is tried all the same. */
  queue(work) {
    this.wait(1);
    const slow = setTimeout(() => document.body.setAttribute("aria-busy", "true"), 250);
    const done = this.turn.then(work).then((value) => { $("error").hidden = true; return value; }, (error) => this.fail(error))
      .finally(() => {
        this.wait(-1);
        clearTimeout(slow);
        document.body.removeAttribute("aria-busy");
      });
    this.turn = done;
    return done;
  }

  /* How much is still to be done; the page says it, so that others can wait for it. */
  wait(more) {
    this.waiting += more;
    document.body.dataset.waiting = this.waiting;
  }

  fail(error) {
    const lost = error instanceof TypeError && /fetch|network/i.test(error.message);
    $("error").textContent = lost ? "The server does not answer. Is `howm explore` still running?" : error.message;
    $("error").hidden = false;
    this.walking = false;
  }

  say(text) {
    $("said").textContent = text;
  }

  draw() {
    this.walking = false;
    return this.newScene({ kind: this.kind, size: this.size });
  }

  newScene(options) {
    return this.queue(async () => {
      await this.inside.settle();
      const { scene, frames } = await this.backend.newScene(options);
      this.scene = scene;
      this.frames = [];
      this.inside.forget(-1);
      frames.forEach((frame) => this.add(frame));
      this.board.open(this.about.world, scene);
      $("kind").textContent = scene.kind;
      $("kind").className = `badge ${scene.kind}`;
      $("scene-text").textContent = scene.text;
      $("strip").replaceChildren(...this.frames.map((frame) => this.stripItem(frame)));
      this.goal.close();
      this.look(this.frames.length - 1);
      this.say(`New scene: ${scene.text}`);
    });
  }

  add(frame) {
    frame.compared = frame.models.map(({ imagined }) => compare(frame.truth, imagined));
    this.frames.push(frame);
  }

  /* Takes an action in the frame that is shown; true when it changed the truth. */
  act(action, { repeated = false } = {}) {
    if (repeated && this.waiting > 1) return Promise.resolve(false);  // a key that is held down does not pile up steps
    return this.queue(async () => {
      if (this.view < this.frames.length - 1) await this.cut(this.view);
      const frame = await this.backend.step(action);
      this.add(frame);
      $("strip").append(this.stripItem(frame));
      this.look(frame.time);
      this.say(`${this.actionText(action)}: ${frame.changed ? "moved" : "nothing moved"}. ${this.measureText(frame, 0)}.`);
      return frame.changed;
    });
  }

  async cut(time) {
    await this.inside.settle();
    await this.backend.rewind(time);
    this.frames.length = time + 1;
    this.inside.forget(time);
    while ($("strip").children.length > time + 1) $("strip").lastChild.remove();
    this.look(time);
  }

  undo() {
    this.walking = false;
    return this.queue(async () => {
      if (this.frames.length < 2) return;
      await this.cut(this.frames.length - 2);
      this.say(`Undone. Step ${this.view}.`);
    });
  }

  actionText(action) {
    const { world } = this.about;
    const object = Math.floor(action / world.actionsPerObject);
    const name = world.actionNames[action % world.actionsPerObject];
    const way = WORDS[this.screenWay(action) || NAMES[name]];
    return `object ${object} ${way || (/^\d+$/.test(name) ? `action ${name}` : name)}`;
  }

  /* The arrow key that stands for an action, by where it takes its object on the screen. */
  screenWay(action) {
    const object = Math.floor(action / this.about.world.actionsPerObject);
    if (!(object in this.scene.moves)) return null;
    return Object.keys(ARROWS).find((key) => this.board.actionTo(object, key) === action) || null;
  }

  actionMark(action) {
    const mark = Object.keys(NAMES).find((name) => NAMES[name] === this.screenWay(action));
    return mark || this.about.world.actionNames[action % this.about.world.actionsPerObject];
  }

  stripItem(frame) {
    const { world } = this.about;
    const wrong = frame.compared[0].wrong;
    const item = element("li", { class: frame.action !== null && !frame.changed ? "stopped" : "" });
    if (frame.action === null) item.append(element("b", {}, "start"));
    else item.append(this.sprites.of(Math.floor(frame.action / world.actionsPerObject)), element("b", {}, this.actionMark(frame.action)));
    const bar = element("i");
    bar.style.setProperty("--wrong", `${Math.min(100, 400 * wrong)}%`);
    item.append(bar);
    item.title = `Step ${frame.time}: ${percent(wrong)} of pixels wrong`;
    item.addEventListener("click", () => this.look(frame.time));
    return item;
  }

  measureText(frame, m) {
    return `${percent(frame.compared[m].wrong)} wrong`;
  }

  /* Shows the frame of a time. */
  look(time) {
    this.view = time;
    const frame = this.frames[time];
    const last = this.frames.length - 1;
    this.board.show(frame.truth, frame.places);
    frame.models.forEach((model, m) => {
      paint($(`imagined-${m}`), model.imagined);
      paint($(`difference-${m}`), frame.compared[m].picture);
      $(`imagined-${m}`).parentElement.classList.toggle("nearest", model.nearest);
      $(`imagined-text-${m}`).textContent = `distance ${short(model.distance)}`;
      const text = $(`difference-text-${m}`);
      text.textContent = this.measureText(frame, m);
      text.title = "of the pixels, by more than a tenth in some channel";
      text.className = `measure ${frame.compared[m].wrong === 0 ? "right" : "wrong"}`;
    });
    const stopped = time > 0 && !frame.changed ? "nothing moved" : "";
    $("time-text").textContent = time === 0 ? "the first frame" : `after ${this.actionText(frame.action)}${stopped && `: ${stopped}`}`;
    $("time").max = last;
    $("time").value = time;
    $("time").setAttribute("aria-valuetext", `step ${time} of ${last}: ${this.measureText(frame, 0)}`);
    $("time-now").textContent = time;
    $("time-last").textContent = last;
    $("undo").disabled = $("restart").disabled = last === 0;
    [...$("strip").children].forEach((item, t) => item.classList.toggle("now", t === time));
    const shown = $("strip").children[time];
    const area = $("strip-scroll");
    if (shown) area.scrollLeft = Math.max(0, shown.offsetLeft - area.clientWidth + 2 * shown.offsetWidth);
    this.inside.show();
  }

  hold(object) {
    const { world } = this.about;
    paint($("held"), world.sprites[object]);
    $("held-text").replaceChildren(`Object ${object}`, element("small", {}, `${world.objects[object]} · drag it, or use the keys`));
    $("actions").replaceChildren(...world.actionNames.map((name, d) => {
      const action = world.actionsPerObject * object + d;
      const button = element("button", { type: "button", "aria-label": this.actionText(action), title: `key ${d + 1}` }, this.actionMark(action));
      button.addEventListener("click", () => this.act(action));
      return button;
    }));
  }

  /* A long random walk; the same button stops it. */
  async walk() {
    if (this.walking) {
      this.walking = false;
      return;
    }
    this.walking = true;
    $("surprise").textContent = "Stop";
    const actions = await this.queue(async () => {
      if (this.view < this.frames.length - 1) await this.cut(this.view);
      return this.backend.suggest(Math.min(WALK_STEPS, Math.max(1, this.about.maxSteps - this.view)));
    });
    for (const action of actions || []) {
      if (!this.walking) break;
      await Promise.all([this.act(action), pause(WALK_PAUSE)]);
    }
    this.walking = false;
    $("surprise").textContent = "Surprise me";
  }
}

function startExplorer(backend) {
  const explorer = new Explorer(backend);
  explorer.start();
  return explorer;
}
