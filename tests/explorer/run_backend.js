"use strict";
/* node run_backend.js SOURCE… JOB: plays a given rollout in the backend of an exported page, and asks it everything. */

const fs = require("fs");
const vm = require("vm");

for (const source of process.argv.slice(2, -1)) vm.runInThisContext(fs.readFileSync(source, "utf8"), source);

const { data, rollout } = JSON.parse(fs.readFileSync(process.argv.at(-1), "utf8"));
vm.runInThisContext(`(${askAll})`)(data, rollout).then((found) => {
  const plain = (key, value) => (value instanceof Uint8ClampedArray ? Array.from(value) : value);
  process.stdout.write(JSON.stringify(found, plain));
});

async function askAll(data, rollout) {
  const backend = new LocalBackend(data);
  const about = await backend.describe();
  backend.found.set("given", rollout);
  const { scene, frames } = await backend.newScene({ found: "given" });
  const last = frames.length - 1;
  const inspected = await backend.inspect(last), ranked = await backend.rank(last);
  const suggested = await backend.suggest(7);
  await backend.rewind(1);
  const again = await backend.step(rollout.actions[1]);
  await backend.startGoal();
  const goal = await backend.shuffleGoal(), plan = await backend.plan();
  const size = scene.objects.length, told = [];
  about.search.rollouts = 3;
  const worst = await backend.search({ kind: "unseen", size, progress: (...said) => told.push(said) });
  const stopped = await backend.search({ kind: "unseen", size, signal: { aborted: true } });
  const replayed = await backend.newScene({ found: worst[0].key });
  const refused = await backend.newScene({ kind: "training", size: 99 }).catch((error) => error.message);
  const drawn = await backend.newScene({ kind: "unseen", size });
  return { about, scene, frames, inspected, ranked, suggested, again, goal, plan, worst, told, stopped,
           replayed: replayed.frames.length, refused, drawn: drawn.scene };
}
