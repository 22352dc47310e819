"use strict";
/* Goal mode: arrange the goal on a board of its own, then watch the plan being carried out in the scene. */

const PLAN_PAUSE = 260; // milliseconds a step of a plan is seen at least

class GoalMode {
  constructor(explorer) {
    this.explorer = explorer;
    this.running = false;
    this.board = new Board($("goal-board"), { act: (action) => this.act(action), undo: () => {}, chosen: () => {} });
    const { ready, why } = explorer.about.goal;
    $("goal-open").addEventListener("click", () => ($("goal").hidden ? this.open() : this.close()));
    $("goal-open").disabled = !ready;
    if (!ready) $("goal-open").title = why;
    $("goal-close").addEventListener("click", () => this.close());
    $("goal-shuffle").addEventListener("click", () => this.ask((backend) => backend.shuffleGoal()));
    $("goal-plan").addEventListener("click", () => this.carryOut());
  }

  async open() {
    $("goal").hidden = false;
    $("goal-open").setAttribute("aria-expanded", "true");
    $("goal-text").textContent = "Arrange the objects as you want them to be. The model sees this picture and nothing else.";
    this.board.open(this.explorer.about.world, this.explorer.scene);
    await this.ask((backend) => backend.startGoal());
    $("goal").scrollIntoView({ block: "nearest" });
    this.board.focus();
  }

  close() {
    this.running = false;
    $("goal").hidden = true;
    $("goal-open").setAttribute("aria-expanded", "false");
  }

  /* Shows the goal that an answer of the backend holds. */
  ask(question) {
    return this.explorer.queue(async () => {
      const goal = await question(this.explorer.backend);
      this.board.show(goal.picture, goal.places);
      this.picture = goal.picture;
      return goal.changed;
    });
  }

  act(action) {
    return this.ask((backend) => backend.stepGoal(action));
  }

  async carryOut() {
    if (this.running) return;
    this.running = true;
    $("goal-plan").disabled = true;
    $("goal-text").textContent = "Planning…";
    const { explorer } = this;
    const found = await explorer.queue(async () => {
      if (explorer.view < explorer.frames.length - 1) await explorer.cut(explorer.view);
      return explorer.backend.plan();
    });
    if (found) {
      $("goal-text").textContent = found.text;
      $("stage").scrollIntoView({ block: "nearest" });
      for (const action of found.actions) {
        if (!this.running) break;
        await Promise.all([explorer.act(action), pause(PLAN_PAUSE)]);
      }
      const last = explorer.frames[explorer.frames.length - 1];
      const reached = compare(last.truth, this.picture).error === 0;
      $("goal-text").textContent = `${found.text} ${reached ? "The goal is reached." : "The goal is not reached; plan again from here."}`;
      explorer.say($("goal-text").textContent);
    } else {
      $("goal-text").textContent = "No plan was found.";
    }
    $("goal-plan").disabled = false;
    this.running = false;
  }
}
