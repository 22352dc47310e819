"use strict";
/* What the page asks of whoever runs the world and the model.

   The page (page.js) talks to one object, the backend, and to nothing else. Two kinds exist: ServerBackend (below), which
   asks the server of `howm explore`, and one that runs in the page itself, for exported pages. The last script of a page
   calls `startExplorer(backend)`.

   All methods are asynchronous. A method that cannot do what it is asked throws an Error whose message is a sentence for
   people. The page makes one call at a time for `newScene`, `step`, `rewind` and the goal; `inspect` and `rank` may
   overlap with them.

   Picture   { width, height, data }: data is a Uint8ClampedArray of RGBA, alpha 255 (an ImageData is a Picture)
   action    a number: actionsPerObject * object + d, as everywhere in howm

   describe() -> {
     world: { title, n, height, width, actionsPerObject,
              actionNames: ["↑", "→", …],           of an object's actions, in their order
              objects: ["large circle rgb(…)", …],  what can be said of each library object
              sprites: [Picture, …] },              of each library object
     models: [ { name, title,                       one, or two with --against; the order is the same in every answer
                 can: { draw, masks, binding },     what the model can show
                 notes: ["…"] } ],                  what it cannot show and what is shown instead, in sentences
     sizes: [1, 2, …], size: 5,                     of scenes that all models can take, and that of training
     kinds: { "5": ["unseen", "training"], … },     for each size, the kinds of scenes that newScene can draw;
                                                    ["any"] where training scenes are not known
     maxSteps: 500,                                 of a rollout
     search: { rollouts: 400, steps: 10 } or null,  what search() looks at; null: there is no search
     goal: { ready: true } or { ready: false, why: "…" }
   }

   newScene({ kind, size }) or newScene({ objects: [id, …] }) or newScene({ found: key })    a result of search()
     -> { scene: { objects: [id, …], kind: "unseen" | "training" | "any", text: "…",
                   moves: { id: [[dx, dy] | null, …], … } },   for each action of an object: by how many pixels it
                                                               moves the object where nothing is in the way; null: unknown
          frames: [Frame, …] }            one, or, of a search result, all of its rollout
   step(action) -> Frame                  after one action in the last frame
   rewind(time)                           forgets all frames after that of `time`
   Frame: { time, action,                 action is null in frame 0
            truth: Picture,
            places: [{ object, x, y, box: [left, top, right, bottom] }, …],   in pixels; box ends are exclusive
            changed: true | false,        whether the action changed the true state
            models: [{ imagined: Picture, nearest: true | false,   nearest: a reference picture, as the model cannot draw
                       distance: number }, …] }                    from imagined to the encoded truth, by the model's metric

   inspect(time) -> { models: [{
            slots: [Picture, …] | null,            what each slot stands for in the true frame; alpha is the slot's mask
            binding: [[number, …], …] | null,      of the true frame: a row for each library object, a column for each slot
            embedding: { rows: "objects" | "slots" | "state", imagined: [[number, …], …], truth: [[number, …], …] } }] }
   rank(time) -> { models: [{ rank, of, distance,  of the truth among all references, for this rollout, in the hard pool
            nearest: [{ picture, distance, text }, …] }] }   the nearest wrong references; text: "frame 2", "another play" …

   suggest(count) -> [action, …]          random play from the last frame
   search({ kind, size, signal, progress }) -> [{ key, kind, objects, steps, error, truth: Picture, imagined: Picture }, …]
            the worst rollouts first; progress(done, total, worstError) is called now and then; an aborted `signal` ends it
            with an empty list

   startGoal() -> Goal                    a copy of the last true frame, to be arranged
   stepGoal(action) -> Goal               moves an object of the goal
   shuffleGoal() -> Goal                  another arrangement that can be reached from the last frame
   Goal: { picture: Picture, places, changed }
   plan() -> { actions: [action, …], text: "…", reached: true | false }    from the last frame to the goal; reached in imagination
*/

class ServerBackend {
  constructor() {
    this.session = null;
  }

  async describe() {
    return this.read(await fetch("api/describe"));
  }

  async newScene(options) {
    const answer = await this.ask("new", options);
    this.session = answer.session;
    return answer;
  }

  step(action) { return this.ask("step", { action }); }
  async rewind(time) { await this.ask("rewind", { time }); }
  inspect(time) { return this.ask("inspect", { time }); }
  rank(time) { return this.ask("rank", { time }); }
  async suggest(count) { return (await this.ask("suggest", { count })).actions; }
  startGoal() { return this.ask("goal/start", {}); }
  stepGoal(action) { return this.ask("goal/step", { action }); }
  shuffleGoal() { return this.ask("goal/shuffle", {}); }
  plan() { return this.ask("goal/plan", {}); }

  async search({ kind, size, signal, progress }) {
    let answer;
    try {
      answer = await this.send("search", { kind, size }, signal);
      if (!answer.ok) await this.read(answer);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return [];
        text += value;
        const lines = text.split("\n");
        text = lines.pop();
        for (const line of lines.map((one) => JSON.parse(one))) {
          if (line.error) throw new Error(line.error);
          if (line.found) return withPictures(line.found);
          progress(line.done, line.total, line.worst);
        }
      }
    } catch (error) {
      if (error.name === "AbortError") return [];
      throw error;
    }
  }

  send(question, asked, signal) {
    const body = JSON.stringify(this.session === null ? asked : { session: this.session, ...asked });
    return fetch(`api/${question}`, { method: "POST", headers: { "Content-Type": "application/json" }, body, signal });
  }

  async ask(question, asked) {
    return this.read(await this.send(question, asked));
  }

  async read(answer) {
    const said = await answer.json();
    if (answer.status === 410) this.session = null;  // the next scene opens a new session
    if (!answer.ok) throw new Error(said.error);
    return withPictures(said);
  }
}

/* Plain data with its pictures decoded: the server sends bytes of RGB or RGBA in base64. */
function withPictures(value) {
  if (Array.isArray(value)) return value.map(withPictures);
  if (value === null || typeof value !== "object") return value;
  if ("channels" in value && "data" in value) return decodePicture(value);
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, withPictures(part)]));
}

function decodePicture({ width, height, channels, data }) {
  const bytes = atob(data);
  const pixels = new Uint8ClampedArray(4 * width * height).fill(255);
  for (let i = 0; i < width * height; i++)
    for (let c = 0; c < channels; c++) pixels[4 * i + c] = bytes.charCodeAt(channels * i + c);
  return { width, height, data: pixels };
}
