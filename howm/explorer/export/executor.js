"use strict";
/* Runs graphs: lists of operations on tensors that `howm explore --export` wrote down.

   A node is [name, operation, argument, …]. An argument that is a text and begins with % is what another node gave
   (%3, or %3.1 for the second of several results), with $ a weight; all else is as it is. */

class Executor {
  /* weights: { name: Tensor } */
  constructor(weights) {
    this.weights = weights;
    this.constants = new Map();  // by graph: what depends on no input is computed once
  }

  /* { name: Tensor } in, { name: Tensor } out */
  run(graph, inputs) {
    const constants = this.constantsOf(graph);
    const values = { ...inputs };
    for (const name of graph.inputs) if (!(name in inputs)) throw new Error(`the input ${name} is missing`);
    const find = (reference) => this.find(reference, values, constants);
    for (const node of graph.nodes)
      if (!(node[0] in constants)) values[node[0]] = this.compute(node, find);
    return Object.fromEntries(Object.entries(graph.outputs).map(([name, reference]) => [name, find(reference)]));
  }

  constantsOf(graph) {
    if (this.constants.has(graph)) return this.constants.get(graph);
    const constants = {};
    this.constants.set(graph, constants);
    for (const node of graph.nodes)
      if (references(node.slice(2)).every((name) => name in constants))
        constants[node[0]] = this.compute(node, (reference) => this.find(reference, constants, constants));
    return constants;
  }

  find(reference, values, constants) {
    if (reference[0] === "$") return this.weights[reference.slice(1)];
    const [name, part] = reference.slice(1).split(".");
    const value = name in values ? values[name] : constants[name];
    return part === undefined ? value : value[Number(part)];
  }

  compute([, operation, ...args], find) {
    const run = OPERATIONS[operation];
    if (run === undefined) throw new Error(`the page lacks the operation ${operation}`);
    return run(...args.map((argument) => resolved(argument, find)));
  }
}

function isReference(value) {
  return typeof value === "string" && (value[0] === "%" || value[0] === "$");
}

function resolved(argument, find) {
  if (Array.isArray(argument)) return argument.map((item) => resolved(item, find));
  if (isReference(argument)) return find(argument);
  if (argument === "inf") return Infinity;
  if (argument === "-inf") return -Infinity;
  return argument;
}

/* The nodes and inputs that arguments refer to. */
function references(value) {
  if (Array.isArray(value)) return value.flatMap(references);
  return typeof value === "string" && value[0] === "%" ? [value.slice(1).split(".")[0]] : [];
}

/* { name: { dtype, shape, data: base64 of little-endian numbers } } to tensors. */
function readWeights(stored) {
  return Object.fromEntries(Object.entries(stored).map(([name, { dtype, shape, data }]) => {
    const bytes = bytesOf(data);
    if (dtype !== "int64") return [name, new Tensor(shape, new ARRAYS[dtype](bytes.buffer), dtype)];
    const wide = new BigInt64Array(bytes.buffer);
    return [name, new Tensor(shape, Int32Array.from(wide, Number), dtype)];
  }));
}

function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}
