"use strict";
/* Tensors: a shape and numbers in reading order. Operations make new ones and never change what they are given.

   dtype      numbers in
   float32    Float32Array
   float64    Float64Array
   int64      Int32Array: indices and actions are small
   uint8      Uint8Array
   bool       Uint8Array of 0 and 1
*/

const ARRAYS = { float32: Float32Array, float64: Float64Array, int64: Int32Array, int32: Int32Array, uint8: Uint8Array,
                 bool: Uint8Array };
const RANKS = ["bool", "uint8", "int32", "int64", "float32", "float64"];  // by which dtypes are promoted

class Tensor {
  constructor(shape, data, dtype) {
    this.shape = shape;
    this.data = data;
    this.dtype = dtype;
  }

  static empty(shape, dtype = "float32") {
    if (!(dtype in ARRAYS)) throw new Error(`the page has no tensors of ${dtype}`);
    return new Tensor(shape, new ARRAYS[dtype](countOf(shape)), dtype);
  }

  static full(shape, value, dtype = "float32") {
    const made = Tensor.empty(shape, dtype);
    made.data.fill(value);
    return made;
  }

  get size() { return this.data.length; }

  /* The same numbers in another shape, of which one side may be -1: as long as it takes. */
  reshaped(shape) {
    const open = shape.indexOf(-1);
    const sides = shape.slice();
    if (open >= 0) sides[open] = this.size / shape.reduce((product, side) => (side < 0 ? product : product * side), 1);
    if (countOf(sides) !== this.size) throw new Error(`a tensor of ${this.shape} has no shape ${sides}`);
    return new Tensor(sides, this.data, this.dtype);
  }

  to(dtype) {
    if (dtype === this.dtype) return this;
    const made = Tensor.empty(this.shape, dtype);
    if (dtype === "bool") for (let i = 0; i < made.data.length; i++) made.data[i] = this.data[i] !== 0 ? 1 : 0;
    else made.data.set(this.data);
    return made;
  }
}

function countOf(shape) {
  let product = 1;
  for (const side of shape) product *= side;
  return product;
}

function stridesOf(shape) {
  const strides = new Array(shape.length);
  let step = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    strides[axis] = step;
    step *= shape[axis];
  }
  return strides;
}

/* An axis that may be counted from the end. */
function axisOf(axis, rank) {
  return axis < 0 ? axis + rank : axis;
}

function promoted(one, other) {
  return RANKS[Math.max(RANKS.indexOf(one), RANKS.indexOf(other))];
}

/* The shape that all of some shapes are stretched to: axes are counted from the end, sides of one are repeated. */
function broadcastShape(...shapes) {
  const rank = Math.max(...shapes.map((shape) => shape.length));
  const found = new Array(rank).fill(1);
  for (const shape of shapes)
    shape.forEach((side, axis) => {
      const at = axis + rank - shape.length;
      if (side !== 1) found[at] = side;
    });
  return found;
}

/* How far apart neighbours along each axis of `shape` are in a tensor that is stretched to it. */
function stretchedStrides(from, shape) {
  const strides = stridesOf(from);
  const skipped = shape.length - from.length;
  return shape.map((_, axis) => (axis < skipped || from[axis - skipped] === 1 ? 0 : strides[axis - skipped]));
}

/* Calls visit(i, offset) for every entry i of `shape` in reading order; offset follows the strides. */
function walk(shape, strides, start, visit) {
  const rank = shape.length, total = countOf(shape);
  const at = new Int32Array(rank);
  let offset = start;
  for (let i = 0; i < total; i++) {
    visit(i, offset);
    for (let axis = rank - 1; axis >= 0; axis--) {
      offset += strides[axis];
      if (++at[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      at[axis] = 0;
    }
  }
}

/* A copy of what `shape` and `strides` show of a tensor from `start` on: all views are made by this. */
function strided(tensor, shape, strides, start = 0) {
  const made = Tensor.empty(shape, tensor.dtype), from = tensor.data, to = made.data;
  walk(shape, strides, start, (i, offset) => { to[i] = from[offset]; });
  return made;
}

function stretched(tensor, shape) {
  if (sameShape(tensor.shape, shape)) return tensor;
  return strided(tensor, shape, stretchedStrides(tensor.shape, shape));
}

function sameShape(one, other) {
  return one.length === other.length && one.every((side, axis) => side === other[axis]);
}

/* A tensor as (outer, length, inner) around one axis. */
function aroundAxis(shape, axis) {
  return [countOf(shape.slice(0, axis)), shape[axis], countOf(shape.slice(axis + 1))];
}
