"use strict";
/* node run_graph.js SOURCE… JOB: runs one graph of JOB ({ weights, graph, inputs }) and prints all that it gives. */

const fs = require("fs");
const vm = require("vm");

for (const source of process.argv.slice(2, -1)) vm.runInThisContext(fs.readFileSync(source, "utf8"), source);

const job = JSON.parse(fs.readFileSync(process.argv.at(-1), "utf8"));
const found = vm.runInThisContext(`({ weights, graph, inputs }) =>
  new Executor(readWeights(weights)).run(graph, readWeights(inputs))`)(job);
const plain = ([name, { shape, dtype, data }]) => [name, { shape, dtype, data: Array.from(data, (x) => (Number.isFinite(x) ? x : String(x))) }];
console.log(JSON.stringify(Object.fromEntries(Object.entries(found).map(plain))));
