"use strict";
/* node run_world.js SOURCE… JOB: takes the steps of JOB ({ world, episodes: [{ scene, start, actions }] }) in the page's
   world; prints every state, and SHA-256 of every picture and of all masks, episode by episode. */

const crypto = require("crypto");
const fs = require("fs");
const vm = require("vm");

for (const source of process.argv.slice(2, -1)) vm.runInThisContext(fs.readFileSync(source, "utf8"), source);

const job = JSON.parse(fs.readFileSync(process.argv.at(-1), "utf8"));
const world = vm.runInThisContext("(data) => makeWorld(data)")(job.world);
const digest = (bytes) => crypto.createHash("sha256").update(bytes).digest("hex");

const found = job.episodes.map(({ scene, start, actions }) => {
  let state = start;
  const states = [state];
  for (const action of actions) states.push(state = world.step(scene, state, action));
  return {
    states,
    pictures: states.map((one) => digest(world.render(scene, one))),
    masks: digest(Buffer.concat(world.masks(scene, states.at(-1)))),
  };
});
console.log(JSON.stringify(found));
