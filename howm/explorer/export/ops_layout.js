"use strict";
/* Operations that make tensors, and move numbers around without changing them. */

function sliced(x, axis = 0, start = 0, end = null, step = 1) {
  const at = axisOf(axis, x.shape.length), length = x.shape[at];
  const inside = (place) => Math.min(Math.max(place < 0 ? place + length : place, 0), length);
  const [first, last] = [inside(start ?? 0), inside(end ?? length)];
  return { at, first, last, step, count: Math.max(0, Math.ceil((last - first) / step)) };
}

function slice(x, axis, start, end, step) {
  const part = sliced(x, axis, start, end, step);
  if (part.count === x.shape[part.at] && part.step === 1) return x;
  const strides = stridesOf(x.shape);
  const shape = x.shape.with(part.at, part.count);
  return strided(x, shape, strides.with(part.at, strides[part.at] * part.step), part.first * strides[part.at]);
}

/* x with `source` put in the place of a slice. */
function sliceScatter(x, source, axis, start, end, step) {
  const part = sliced(x, axis, start, end, step);
  const made = new Tensor(x.shape, x.data.slice(), x.dtype), strides = stridesOf(x.shape);
  const from = stretched(source, x.shape.with(part.at, part.count));
  const apart = strides.with(part.at, strides[part.at] * part.step);
  walk(from.shape, apart, part.first * strides[part.at], (i, offset) => { made.data[offset] = from.data[i]; });
  return made;
}

function select(x, axis, index) {
  const at = axisOf(axis, x.shape.length), place = index < 0 ? index + x.shape[at] : index;
  const strides = stridesOf(x.shape);
  return strided(x, x.shape.toSpliced(at, 1), strides.toSpliced(at, 1), place * strides[at]);
}

function permute(x, axes) {
  const order = axes.map((axis) => axisOf(axis, axes.length)), strides = stridesOf(x.shape);
  return strided(x, order.map((axis) => x.shape[axis]), order.map((axis) => strides[axis]));
}

function expand(x, sizes) {
  const skipped = sizes.length - x.shape.length;
  return stretched(x, sizes.map((side, axis) => (side < 0 ? x.shape[axis - skipped] : side)));
}

function cat(tensors, axis = 0) {
  const given = tensors.filter((tensor) => tensor.size > 0 || tensor.shape.length > 1);
  if (!given.length) return tensors[0];
  const at = axisOf(axis, given[0].shape.length);
  const length = given.reduce((sum, tensor) => sum + tensor.shape[at], 0);
  const made = Tensor.empty(given[0].shape.with(at, length), given.map((tensor) => tensor.dtype).reduce(promoted));
  const [outer, , inner] = aroundAxis(made.shape, at);
  let begin = 0;
  for (const tensor of given) {
    const run = tensor.shape[at] * inner;
    for (let o = 0; o < outer; o++)
      made.data.set(tensor.data.subarray(o * run, (o + 1) * run), o * length * inner + begin);
    begin += run;
  }
  return made;
}

function splitWithSizes(x, sizes, axis = 0) {
  let begin = 0;
  return sizes.map((size) => slice(x, axis, begin, begin += size, 1));
}

/* Windows of `size` along an axis; they become the last axis. */
function unfold(x, axis, size, step) {
  const at = axisOf(axis, x.shape.length), strides = stridesOf(x.shape);
  const count = Math.floor((x.shape[at] - size) / step) + 1;
  return strided(x, [...x.shape.with(at, count), size], [...strides.with(at, strides[at] * step), strides[at]]);
}

/* pad = [before the last axis, after it, before the one before, …]; negative numbers cut off. */
function constantPad(x, pad, value = 0) {
  const rank = x.shape.length;
  const before = x.shape.map((_, axis) => pad[2 * (rank - 1 - axis)] ?? 0);
  const after = x.shape.map((_, axis) => pad[2 * (rank - 1 - axis) + 1] ?? 0);
  let kept = x;
  for (let axis = 0; axis < rank; axis++) {
    const last = kept.shape[axis] - Math.max(0, -after[axis]);
    if (before[axis] < 0 || after[axis] < 0) kept = slice(kept, axis, Math.max(0, -before[axis]), last, 1);
  }
  const made = Tensor.full(x.shape.map((side, axis) => side + before[axis] + after[axis]), value ?? 0, x.dtype);
  const strides = stridesOf(made.shape);
  const start = strides.reduce((sum, stride, axis) => sum + stride * Math.max(0, before[axis]), 0);
  walk(kept.shape, strides, start, (i, offset) => { made.data[offset] = kept.data[i]; });
  return made;
}

function repeat(x, counts) {
  const sides = [...new Array(counts.length - x.shape.length).fill(1), ...x.shape];
  const shape = counts.flatMap((count, axis) => [count, sides[axis]]);
  const strides = stridesOf(sides).flatMap((stride) => [0, stride]);
  return strided(x, shape, strides).reshaped(counts.map((count, axis) => count * sides[axis]));
}

function flip(x, axes) {
  const strides = stridesOf(x.shape);
  let start = 0;
  for (const axis of axes.map((one) => axisOf(one, x.shape.length))) {
    start += strides[axis] * (x.shape[axis] - 1);
    strides[axis] = -strides[axis];
  }
  return strided(x, x.shape, strides, start);
}

function arange(start, end, step, dtype) {
  const whole = [start, end, step].every(Number.isInteger);
  const made = Tensor.empty([Math.max(0, Math.ceil((end - start) / step))], dtype ?? (whole ? "int64" : "float32"));
  for (let i = 0; i < made.size; i++) made.data[i] = start + i * step;
  return made;
}

function squeezed(x, axes) {
  const gone = axes.map((axis) => axisOf(axis, x.shape.length));
  return x.reshaped(x.shape.filter((side, axis) => side !== 1 || !gone.includes(axis)));
}

const same = (x) => x;

Object.assign(OPERATIONS, {
  "view": (x, shape) => x.reshaped(shape),
  "_unsafe_view": (x, shape) => x.reshaped(shape),
  "unsqueeze": (x, axis) => x.reshaped(x.shape.toSpliced(axisOf(axis, x.shape.length + 1), 0, 1)),
  "squeeze.dims": squeezed,
  "squeeze.dim": (x, axis) => squeezed(x, [axis]),
  "clone": same,
  "alias": same,
  "detach": same,
  "_to_copy": (x, dtype) => (dtype === null ? x : x.to(dtype)),
  "copy": (x, source) => stretched(source, x.shape).to(x.dtype),
  "permute": permute,
  "expand": expand,
  "slice.Tensor": slice,
  "slice_scatter": sliceScatter,
  "select.int": select,
  "select_scatter": (x, source, axis, index) => {
    const at = axisOf(axis, x.shape.length), place = index < 0 ? index + x.shape[at] : index;
    return sliceScatter(x, source.reshaped(source.shape.toSpliced(at, 0, 1)), at, place, place + 1, 1);
  },
  "cat": cat,
  "split_with_sizes": splitWithSizes,
  "unfold": unfold,
  "constant_pad_nd": constantPad,
  "repeat": repeat,
  "flip": flip,
  "full": (shape, value, dtype) =>
    Tensor.full(shape, value, dtype ?? (typeof value === "boolean" ? "bool" : "float32")),
  "full_like": (x, value, dtype) => Tensor.full(x.shape, value, dtype ?? x.dtype),
  "scalar_tensor": (value, dtype) => Tensor.full([], value, dtype ?? "float32"),
  "arange.start_step": arange,
});
