"use strict";
/* node run_graphs.js SOURCE… JOB: plays frames through exported graphs, as a page would.

   JOB names a file of JSON: { weights, verbs, pictures, ids, actions, out }. For every picture the model encodes,
   draws, binds, embeds and masks, and takes its actions. What it finds is written to the file `out`: float32 numbers
   one after the other; their names and shapes go to standard output, for each picture in the same order. */

const fs = require("fs");
const vm = require("vm");

const sources = process.argv.slice(2, -1);
for (const source of sources) vm.runInThisContext(fs.readFileSync(source, "utf8"), source);

const job = JSON.parse(fs.readFileSync(process.argv.at(-1), "utf8"));
const { found, times } = vm.runInThisContext(`(${playAll})`)(job);
const out = fs.openSync(job.out, "w");
for (const { data } of found) fs.writeSync(out, new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
fs.closeSync(out);
console.log(JSON.stringify({ tensors: found.map(({ name, shape }) => ({ name, shape })), times }));

function playAll({ weights, verbs, pictures, ids, actions }) {
  const executor = new Executor(readWeights(weights));
  const { graphs, state: names } = verbs;
  const found = [], times = {};
  const run = (verb, inputs) => {
    const begin = performance.now();
    const results = executor.run(graphs[verb], inputs);
    (times[verb] ??= []).push(performance.now() - begin);
    for (const [name, tensor] of Object.entries(results))
      found.push({ name: `${verb}.${name}`, shape: tensor.shape, data: tensor.to("float32").data });
    return results;
  };
  const bytes = bytesOf(pictures.data), [count, height, width] = pictures.shape, size = 3 * height * width;
  for (let i = 0; i < count; i++) {
    const picture = new Tensor([1, height, width, 3], bytes.slice(i * size, (i + 1) * size), "uint8");
    const scene = new Tensor([1, ids[i].length], Int32Array.from(ids[i]), "int64");
    let state = run("encode", { picture, ids: scene });
    for (const verb of ["embed", "draw", "binding"]) if (verb in graphs) run(verb, state);
    if ("masks" in graphs) run("masks", { picture });
    for (const action of actions[i]) {
      state = run("step", { action: new Tensor([1], Int32Array.of(action), "int64"), ...state });
      run("embed", state);
      if ("draw" in graphs) run("draw", state);
    }
  }
  return { found, times };
}
