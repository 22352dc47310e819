"use strict";
/* The backend of an exported page (see backend.js): world and models run in the page itself. */

const REFERENCES = 100;  // random states of the scene, of which the nearest is shown for a model that cannot draw
const NEAR_MISSES = 20, SHOWN = 4;  // of the hard pool
const KEPT = 6;  // of the worst rollouts of a search

class LocalBackend {
  /* data: as model_data.py writes it; random: numbers in [0, 1) */
  constructor(data, random = Math.random) {
    this.data = data;
    this.random = random;
    this.about = withPictures(data.about);
    this.world = makeWorld(data.world);
    this.executor = new Executor(readWeights(data.weights));
    this.minds = {};  // by size
    this.others = {};  // states of other scenes and their embeddings, by size
    this.found = new Map();
    this.planner = new Planner(this);
  }

  async describe() { return this.about; }

  mindsFor(k) {
    return this.minds[k] ??= this.data.models.map((model) => new Mind(this.executor, model, k, this.world));
  }

  async newScene({ kind, size, objects, found }) {
    let actions = [];
    if (found !== undefined) {
      if (!this.found.has(found)) throw new Error("This rollout is no longer known; search again.");
      ({ scene: this.scene, start: this.start, actions } = this.found.get(found));
    } else {
      this.scene = objects ? this.chosen(objects) : this.drawScene(kind, size);
      this.start = this.world.reset(this.scene, this.random);
    }
    this.states = [this.start];
    this.actions = [];
    this.imagined = this.mindsFor(this.scene.length).map((mind) => ({ mind, states: [], embeddings: [], truths: [] }));
    this.look((mind) => mind.encode(this.picture(0), this.scene));
    for (const action of actions) this.take(action);
    return { scene: this.describeScene(), frames: this.states.map((_, time) => this.frame(time)) };
  }

  chosen(objects) {
    const scene = [...new Set(objects)].toSorted((one, other) => one - other);
    if (!this.about.sizes.includes(scene.length))
      throw new Error(`${scene.length} objects cannot be played here; choose ${this.about.sizes.join(", ")}.`);
    return scene;
  }

  drawScene(kind, size) {
    if (!(this.about.kinds[size] ?? []).includes(kind))
      throw new Error(`There is no scene of ${size} objects of the kind ${kind}; choose another size or kind.`);
    if (kind === "training") {
      const known = this.data.training[0].filter((scene) => scene.length === size);
      return known[Math.floor(this.random() * known.length)];
    }
    for (;;) {
      const items = Array.from({ length: this.world.n }, (_, i) => i);
      for (let i = 0; i < size; i++) {
        const j = i + Math.floor(this.random() * (items.length - i));
        [items[i], items[j]] = [items[j], items[i]];
      }
      const scene = items.slice(0, size).toSorted((one, other) => one - other);
      if (this.kindOf(scene) === kind) return scene;
    }
  }

  /* Which models were trained on a scene, as 1 or 0. */
  trainedOn(scene) {
    const name = scene.join();
    return this.data.training.map((scenes) => Number(scenes.some((one) => one.join() === name)));
  }

  kindOf(scene) {
    if (!this.data.training.flat().length) return "any";
    return this.trainedOn(scene).includes(1) ? "training" : "unseen";
  }

  describeScene() {
    const { scene } = this;
    const moves = Object.fromEntries(scene.map((item) => [item, this.data.moves[item]]));
    const text = this.data.texts[scene.length][this.trainedOn(scene).join()];
    return { objects: scene, kind: this.kindOf(scene), text, moves };
  }

  picture(time) { return this.world.render(this.scene, this.states[time]); }

  shown(bytes) { return asPicture(bytes, this.world.width, this.world.height); }

  /* Adds what each model imagines, and the encoding of the last true frame beside it. */
  look(imagine) {
    const truth = this.picture(this.states.length - 1);
    for (const rollout of this.imagined) {
      const state = imagine(rollout.mind, rollout);
      rollout.states.push(state);
      rollout.embeddings.push(rollout.mind.embed(state));
      rollout.truths.push(rollout.mind.embed(rollout.mind.encode(truth, this.scene)));
    }
  }

  take(action) {
    this.states.push(this.world.step(this.scene, this.states.at(-1), action));
    this.actions.push(action);
    this.look((mind, { states }) => mind.step(states.at(-1), action));
  }

  async step(action) {
    if (this.actions.length >= this.about.maxSteps)
      throw new Error(`This rollout has ${this.about.maxSteps} steps already; undo some or start again.`);
    this.take(action);
    return this.frame(this.actions.length);
  }

  async rewind(time) {
    this.states.length = time + 1;
    this.actions.length = time;
    for (const { states, embeddings, truths } of this.imagined)
      states.length = embeddings.length = truths.length = time + 1;
  }

  frame(time) {
    return {
      time,
      action: time ? this.actions[time - 1] : null,
      truth: this.shown(this.picture(time)),
      places: this.places(this.states[time]),
      changed: time > 0 && !sameState(this.states[time], this.states[time - 1]),
      models: this.imagined.map(({ mind, states, embeddings, truths }, m) => {
        const drawn = mind.draw(states[time]);
        return {
          imagined: this.shown(drawn ?? this.nearestPicture(m, time)),
          nearest: drawn === null,
          distance: mind.distance(embeddings[time], truths[time]),
        };
      }),
    };
  }

  places(state) {
    return this.world.masks(this.scene, state).map((mask, slot) => {
      const box = boxOf(mask, this.world.width);
      const [x, y] = box === null ? [null, null] : [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2];
      return { object: this.scene[slot], x, y, box };
    });
  }

  encoded(mind, scene, state) { return mind.embed(mind.encode(this.world.render(scene, state), scene)); }

  /* The picture whose encoding is nearest: of random states of the scene, all frames, and states next to the truth. */
  nearestPicture(m, time) {
    const rollout = this.imagined[m], { mind } = rollout;
    const withEncoding = (state) => ({ state, embedding: this.encoded(mind, this.scene, state) });
    rollout.references ??= Array.from({ length: REFERENCES }, () =>
      withEncoding(this.world.reset(this.scene, this.random)));
    const frames = this.states.slice(0, time + 1).map((state, t) => ({ state, embedding: rollout.truths[t] }));
    const aside = offeredActions(this.world, this.scene).map((action) =>
      withEncoding(this.world.step(this.scene, this.states[time], action)));
    const own = rollout.embeddings[time];
    const gap = ({ embedding }) => mind.distance(own, embedding);
    const all = [...frames, ...aside, ...rollout.references];
    const best = all.reduce((one, other) => (gap(other) < gap(one) ? other : one));
    return this.world.render(this.scene, best.state);
  }

  async inspect(time) {
    const picture = this.picture(time);
    return {
      models: this.imagined.map(({ mind, embeddings, truths }) => ({
        slots: mind.slots(picture),
        binding: mind.binding(mind.encode(picture, this.scene)),
        embedding: { rows: mind.verbs.rows, imagined: mind.matrix(embeddings[time]), truth: mind.matrix(truths[time]) },
      })),
    };
  }

  /* The rank of the truth in the hard pool: frames before, other plays from the same start, states of other scenes. */
  async rank(time) {
    const { scene, world } = this, own = (state, text, embeddings) => ({ scene, state, text, embeddings });
    const plays = Array.from({ length: NEAR_MISSES }, () =>
      play(world, scene, this.states[0], Math.max(time, 1), this.data.moving, this.random).states.at(-1));
    const candidates = [
      ...this.states.slice(0, time).map((state, t) =>
        own(state, `frame ${t} of this rollout`, this.imagined.map(({ truths }) => truths[t]))),
      ...plays.map((state) => own(state, "another play from the same start", null)),
      ...this.otherScenes(scene.length),
    ];
    const known = new Set([world.key(scene, this.states[time]).join()]);
    const pool = candidates.filter((one) => {  // each state once, and not the truth's
      const key = world.key(one.scene, one.state).join();
      return !known.has(key) && known.add(key);
    });
    const imagined = this.imagined.map(({ mind, embeddings, truths }) =>
      ({ mind, own: embeddings[time], truth: truths[time] }));
    const models = [];
    for (const [m, { mind, own: query, truth }] of imagined.entries()) {
      const distance = mind.distance(query, truth), gaps = [];
      for (const one of pool) {
        if (one.embeddings === null) await breathe();
        gaps.push(mind.distance(query, one.embeddings?.[m] ?? this.encoded(mind, one.scene, one.state)));
      }
      const nearer = gaps.filter((gap) => gap < distance).length, ties = gaps.filter((gap) => gap === distance).length;
      const nearest = pool.map((_, i) => i).toSorted((i, j) => gaps[i] - gaps[j]).slice(0, SHOWN).map((i) => ({
        picture: this.shown(world.render(pool[i].scene, pool[i].state)), distance: gaps[i], text: pool[i].text,
      }));
      models.push({ rank: 1 + nearer + ties / 2, of: pool.length + 1, distance, nearest });
    }
    return { models };
  }

  /* States of other scenes with their embeddings, which Python computed. */
  otherScenes(k) {
    if (this.others[k]) return this.others[k];
    const { scenes, states } = this.data.elsewhere[k];
    const tables = this.data.models.map((model) => new Float32Array(bytesOf(model.sizes[k].elsewhere).buffer));
    return this.others[k] = scenes.map((scene, i) => ({
      scene,
      state: states[i],
      text: "a state of another scene",
      embeddings: tables.map((table) => {
        const size = table.length / scenes.length;
        return table.subarray(i * size, (i + 1) * size);
      }),
    }));
  }

  async suggest(count) {
    return play(this.world, this.scene, this.states.at(-1), count, this.data.moving, this.random).actions;
  }

  async search({ kind, size, signal, progress }) {
    const { rollouts, steps } = this.about.search, [mind] = this.mindsFor(size);
    let worst = [];
    for (let done = 1; done <= rollouts; done++) {
      if (signal?.aborted) return [];
      const scene = this.drawScene(kind, size), start = this.world.reset(scene, this.random);
      worst.push(this.tryRollout(mind, scene, start, steps));
      worst = worst.toSorted((one, other) => other.error - one.error).slice(0, KEPT);
      progress?.(done, rollouts, worst[0].error);
      await breathe();
    }
    return worst.map(({ scene, start, actions, error, truth, imagined }, i) => {
      const key = `${i}`;
      this.found.set(key, { scene, start, actions });
      return { key, kind: this.kindOf(scene), objects: scene, steps: actions.length, error,
               truth: this.shown(truth), imagined: this.shown(imagined) };
    });
  }

  /* Random play, up to where the model is most wrong: in its picture, or, where it cannot draw, in its embedding. */
  tryRollout(mind, scene, start, steps) {
    const { states, actions } = play(this.world, scene, start, steps, this.data.moving, this.random);
    let state = mind.encode(this.world.render(scene, start), scene), worst = { error: -1 };
    actions.forEach((action, t) => {
      state = mind.step(state, action);
      const truth = this.world.render(scene, states[t + 1]), drawn = mind.draw(state);
      const error = drawn === null ? mind.distance(mind.embed(state), mind.embed(mind.encode(truth, scene)))
        : squaredDistance(truth, drawn, 0, 0, truth.length) / truth.length / 255 ** 2;
      if (error > worst.error)
        worst = { scene, start, actions: actions.slice(0, t + 1), error, truth, imagined: drawn ?? truth };
    });
    return worst;
  }

  async startGoal() { return this.planner.start(); }
  async stepGoal(action) { return this.planner.step(action); }
  async shuffleGoal() { return this.planner.shuffle(); }
  async plan() { return this.planner.plan(); }
}

/* Lets the page answer to clicks between two pieces of work. */
function breathe() {
  return new Promise((done) => setTimeout(done, 0));
}

/* Left, top, right and bottom of a mask, the last two exclusive; null where it is empty. */
function boxOf(mask, width) {
  let box = null;
  mask.forEach((covered, i) => {
    if (!covered) return;
    const x = i % width, y = Math.floor(i / width);
    box ??= [x, y, x + 1, y + 1];
    box = [Math.min(box[0], x), Math.min(box[1], y), Math.max(box[2], x + 1), Math.max(box[3], y + 1)];
  });
  return box;
}
