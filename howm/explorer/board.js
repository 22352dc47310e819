"use strict";
/* A scene that can be played: its picture, and a button over every object.

   Objects are chosen by click, tap or Tab; arrow keys, number keys and dragging ask for actions. `act(action)` is called
   with a library action and gives a promise that is true when the object has moved. */

const ARROWS = { ArrowUp: [0, -1], ArrowRight: [1, 0], ArrowDown: [0, 1], ArrowLeft: [-1, 0] };
const NAMES = { "↑": "ArrowUp", "→": "ArrowRight", "↓": "ArrowDown", "←": "ArrowLeft" };
const WORDS = { ArrowUp: "up", ArrowRight: "right", ArrowDown: "down", ArrowLeft: "left" };

class Board {
  constructor(holder, { act, undo, chosen }) {
    this.holder = holder;
    this.canvas = holder.querySelector("canvas");
    this.act = act;
    this.undo = undo;
    this.chosen = chosen;
    this.buttons = new Map();
    this.object = null;
    this.drag = null;
    holder.addEventListener("keydown", (event) => this.key(event));
    holder.addEventListener("pointerdown", (event) => this.down(event));
    holder.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel"]) holder.addEventListener(name, () => this.up());
  }

  /* A new scene of a world: its objects, and where their actions take them. */
  open(world, scene) {
    this.world = world;
    this.moves = scene.moves;
    for (const button of this.buttons.values()) button.remove();
    this.buttons.clear();
    for (const object of scene.objects) {
      const button = element("button", { type: "button", class: "object", "aria-pressed": "false", "data-object": object });
      button.addEventListener("focus", () => this.choose(object));
      this.buttons.set(object, button);
      this.holder.append(button);
    }
    this.choose(scene.objects.includes(this.object) ? this.object : scene.objects[0]);
  }

  show(picture, places) {
    paint(this.canvas, picture);
    this.places = new Map(places.map((place) => [place.object, place]));
    for (const { object, box } of places) {
      const button = this.buttons.get(object);
      button.classList.toggle("hidden", box === null);
      const [left, top, right, bottom] = box || [0, 0, picture.width, picture.height];
      const sides = { left: left / picture.width, top: top / picture.height };
      sides.width = (right - left) / picture.width;
      sides.height = (bottom - top) / picture.height;
      for (const [side, share] of Object.entries(sides)) button.style[side] = `${100 * share}%`;
      const where = box === null ? "out of sight" : `at ${Math.round(left)}, ${Math.round(top)}`;
      button.setAttribute("aria-label", `Object ${object}, ${this.world.objects[object]}, ${where}`);
    }
  }

  choose(object) {
    this.object = object;
    for (const [other, button] of this.buttons) button.setAttribute("aria-pressed", String(other === object));
    this.chosen(object);
  }

  focus() {
    this.buttons.get(this.object)?.focus({ preventScroll: true });
  }

  /* The action of an object that goes best in a direction, by where its actions take it, or else by their names. */
  actionTo(object, key) {
    const [x, y] = ARROWS[key];
    const each = this.world.actionsPerObject;
    let best = null;
    this.moves[object].forEach((shift, d) => {
      if (shift === null) return;
      const length = Math.hypot(...shift);
      if ((shift[0] * x + shift[1] * y) / length > 0.9 && (best === null || length < best.length)) best = { d, length };
    });
    if (best === null && this.moves[object].every((shift) => shift === null)) {
      const d = this.world.actionNames.findIndex((name) => NAMES[name] === key);
      if (d >= 0) best = { d };
    }
    return best === null ? null : each * object + best.d;
  }

  key(event) {
    if (event.altKey || event.metaKey || this.object === null) return;
    if ((event.ctrlKey && event.key === "z") || (!event.ctrlKey && (event.key === "u" || event.key === "Backspace"))) {
      event.preventDefault();
      this.undo();
      return;
    }
    if (event.ctrlKey) return;
    let action = null;
    if (event.key in ARROWS) {
      event.preventDefault();
      action = this.actionTo(this.object, event.key);
    } else if (/^[1-9]$/.test(event.key) && Number(event.key) <= this.world.actionsPerObject) {
      action = this.world.actionsPerObject * this.object + Number(event.key) - 1;
    }
    if (action !== null) this.act(action, { repeated: event.repeat });
  }

  at(event) {
    const area = this.canvas.getBoundingClientRect();
    return [
      ((event.clientX - area.left) / area.width) * this.canvas.width,
      ((event.clientY - area.top) / area.height) * this.canvas.height,
    ];
  }

  down(event) {
    const button = event.target.closest(".object");
    if (!button || event.button !== 0) return;
    const object = Number(button.dataset.object);
    this.choose(object);
    button.focus({ preventScroll: true });
    this.holder.setPointerCapture(event.pointerId);
    this.holder.classList.add("dragging");
    const [x, y] = this.at(event);
    const place = this.places.get(object);
    this.drag = { object, to: null, grip: [x - place.x, y - place.y], blocked: new Set(), busy: false };
    event.preventDefault();
  }

  move(event) {
    if (this.drag === null) return;
    this.drag.to = this.at(event);
    this.follow(this.drag);
  }

  up() {
    this.holder.classList.remove("dragging");
    this.drag = null;
  }

  /* Steps towards the pointer, one at a time; where the object is stopped, it tries that way only once. */
  async follow(drag) {
    if (drag.busy) return;
    drag.busy = true;
    try {
      for (let steps = 0; steps < 100; steps++) {
        const place = this.places.get(drag.object);
        if (place.x === null || drag.to === null) return;
        const gaps = [drag.to[0] - drag.grip[0] - place.x, drag.to[1] - drag.grip[1] - place.y];
        const ways = Object.keys(ARROWS)
          .map((key) => ({ key, gap: gaps[0] * ARROWS[key][0] + gaps[1] * ARROWS[key][1] }))
          .sort((one, other) => other.gap - one.gap);
        const way = ways.find(({ key, gap }) => !drag.blocked.has(key) && gap > 0.6 * this.stride(drag.object, key));
        if (way === undefined) return;
        if (await this.act(this.actionTo(drag.object, way.key), {})) drag.blocked.clear();
        else drag.blocked.add(way.key);
      }
    } finally {
      drag.busy = false;
    }
  }

  /* How far an object goes in a direction, in pixels; infinitely far where it cannot. */
  stride(object, key) {
    const action = this.actionTo(object, key);
    if (action === null) return Infinity;
    const shift = this.moves[object][action % this.world.actionsPerObject];
    return shift === null ? Infinity : Math.hypot(...shift);
  }
}
