"use strict";
/* Goal mode in an exported page: best-first search in the model's imagination, from the last picture to the goal's. */

const SHUFFLE_STEPS = 12;  // of random play, from which a goal can be reached
const EXPANSIONS = 150;  // of imagined states, until the nearest one found must do
const NEAR = 0.1;  // share of the distance at the beginning within which the goal counts as reached

class Planner {
  constructor(backend) {
    this.backend = backend;
    this.goal = null;
  }

  shown(changed) {
    const { world, scene } = this.backend;
    const picture = this.backend.shown(world.render(scene, this.goal));
    return { picture, places: this.backend.places(this.goal), changed };
  }

  start() {
    this.goal = this.backend.states.at(-1);
    return this.shown(false);
  }

  step(action) {
    const before = this.goal;
    this.goal = this.backend.world.step(this.backend.scene, before, action);
    return this.shown(!sameState(before, this.goal));
  }

  shuffle() {
    const { world, scene, states, random } = this.backend;
    this.goal = play(world, scene, states.at(-1), SHUFFLE_STEPS, 1, random).states.at(-1);
    return this.shown(true);
  }

  /* The first model sees the last frame and the goal as pictures; the imagined state nearest to it is expanded. */
  async plan() {
    const { world, scene, states } = this.backend, [{ mind }] = this.backend.imagined;
    if (this.goal === null) throw new Error("There is no goal to plan for yet; start one first.");
    const goal = this.backend.encoded(mind, scene, this.goal);
    const first = mind.encode(world.render(scene, states.at(-1)), scene), embedding = mind.embed(first);
    const gap = mind.distance(embedding, goal), offered = offeredActions(world, scene);
    let best = { state: first, actions: [], gap };
    const open = [best], seen = new Set([this.nameOf(embedding, gap)]);
    for (let i = 0; i < EXPANSIONS && open.length && best.gap > NEAR * gap; i++) {
      const nearest = open.reduce((one, other) => (this.cost(other, gap) < this.cost(one, gap) ? other : one));
      open.splice(open.indexOf(nearest), 1);
      for (const action of offered) {
        const state = mind.step(nearest.state, action), found = mind.embed(state), name = this.nameOf(found, gap);
        if (seen.has(name)) continue;
        seen.add(name);
        const one = { state, actions: [...nearest.actions, action], gap: mind.distance(found, goal) };
        open.push(one);
        if (one.gap < best.gap) best = one;
      }
      await breathe();
    }
    const reached = best.gap <= NEAR * gap, count = best.actions.length;
    const steps = `a plan of ${count} step${count === 1 ? "" : "s"}`;
    const expects = reached ? "and expects to reach the goal" : "which leads near the goal, not to it";
    const text = count ? `The model found ${steps}, ${expects}.` : "The model sees nothing to do.";
    return { actions: best.actions, text, reached };
  }

  /* How far a state is from the goal, and a little for each step: of two ways the shorter one. */
  cost({ gap, actions }, whole) { return gap + 0.002 * whole * actions.length; }

  /* Embeddings that agree to a part of the way to go count as the same state. */
  nameOf(embedding, whole) { return Array.from(embedding, (value) => Math.round(value / (0.03 * whole))).join(); }
}
