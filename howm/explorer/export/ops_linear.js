"use strict";
/* Sums, products and what is made of them. Sums are kept in double precision until they are stored. */

/* (rows, inner) times (inner, columns), as arrays; the result is added to `to` from `begin` on. Four rows of b are read
   at once, so that a line is written a quarter as often. */
function multiply(a, aStart, b, bStart, rows, inner, columns, to, begin) {
  const line = new Float64Array(columns), whole = inner - (inner % 4);
  for (let r = 0; r < rows; r++) {
    line.fill(0);
    const left = aStart + r * inner;
    for (let i = 0; i < whole; i += 4) {
      const x = a[left + i], y = a[left + i + 1], z = a[left + i + 2], w = a[left + i + 3];
      if (x === 0 && y === 0 && z === 0 && w === 0) continue;
      let p = bStart + i * columns;
      const q = columns, q2 = 2 * columns, q3 = 3 * columns;
      for (let c = 0; c < columns; c++, p++) line[c] += x * b[p] + y * b[p + q] + z * b[p + q2] + w * b[p + q3];
    }
    for (let i = whole; i < inner; i++) {
      const x = a[left + i], row = bStart + i * columns;
      for (let c = 0; c < columns; c++) line[c] += x * b[row + c];
    }
    const at = begin + r * columns;
    for (let c = 0; c < columns; c++) to[at + c] += line[c];
  }
}

function mm(a, b) {
  const [rows, inner] = a.shape, columns = b.shape[1];
  const made = Tensor.empty([rows, columns], a.dtype);
  multiply(a.data, 0, b.data, 0, rows, inner, columns, made.data, 0);
  return made;
}

function addmm(bias, a, b, beta = 1, alpha = 1) {
  const product = mm(a, b);
  const scaled = alpha === 1 ? product : OPERATIONS["mul.Scalar"](product, alpha);
  return OPERATIONS["add.Tensor"](scaled, bias, beta);
}

function bmm(a, b) {
  const [batch, rows, inner] = a.shape, columns = b.shape[2];
  const made = Tensor.empty([batch, rows, columns], a.dtype);
  for (let n = 0; n < batch; n++)
    multiply(a.data, n * rows * inner, b.data, n * inner * columns, rows, inner, columns,
             made.data, n * rows * columns);
  return made;
}

/* Every patch of the picture that the kernel covers becomes a column, and the kernels a matrix: one product. */
function convolution(x, weight, bias, stride, padding, dilation, transposed, outputPadding, groups) {
  if (transposed || x.shape.length !== 4) throw new Error("the page has plain convolutions of pictures only");
  const [batch, , height, width] = x.shape, [outputs, inputs, tall, wide] = weight.shape;
  const [sy, sx] = stride, [py, px] = padding, [dy, dx] = dilation;
  const rows = Math.floor((height + 2 * py - dy * (tall - 1) - 1) / sy) + 1;
  const columns = Math.floor((width + 2 * px - dx * (wide - 1) - 1) / sx) + 1;
  const places = rows * columns, taps = inputs * tall * wide, each = outputs / groups;
  const made = Tensor.empty([batch, outputs, rows, columns], x.dtype);
  const patches = new Float32Array(taps * places);
  for (let n = 0; n < batch; n++)
    for (let g = 0; g < groups; g++) {
      let tap = 0;
      for (let channel = 0; channel < inputs; channel++) {
        const plane = (n * x.shape[1] + g * inputs + channel) * height * width;
        for (let ky = 0; ky < tall; ky++)
          for (let kx = 0; kx < wide; kx++, tap++)
            for (let r = 0; r < rows; r++) {
              const y = r * sy - py + ky * dy, to = tap * places + r * columns;
              const inside = y >= 0 && y < height;
              for (let c = 0; c < columns; c++) {
                const across = c * sx - px + kx * dx;
                patches[to + c] = inside && across >= 0 && across < width ? x.data[plane + y * width + across] : 0;
              }
            }
      }
      const begin = (n * outputs + g * each) * places;
      multiply(weight.data, g * each * taps, patches, 0, each, taps, places, made.data, begin);
      if (bias !== null)
        for (let o = 0; o < each; o++)
          for (let p = 0; p < places; p++) made.data[begin + o * places + p] += bias.data[g * each + o];
    }
  return made;
}

/* Folds all entries along some axes (all, if there are none named) into one. */
function reduced(x, axes, keep, dtype, start, fold, finish = (value) => value) {
  const rank = x.shape.length;
  const gone = axes === null || axes.length === 0 ? x.shape.map((_, axis) => axis) : axes.map((a) => axisOf(a, rank));
  const full = x.shape.map((side, axis) => (gone.includes(axis) ? 1 : side));
  const shape = keep ? full : full.filter((_, axis) => !gone.includes(axis));
  const made = Tensor.empty(shape, dtype), sums = new Float64Array(made.size).fill(start);
  walk(x.shape, stretchedStrides(full, x.shape), 0, (() => {
    const from = x.data;
    return (i, offset) => { sums[offset] = fold(sums[offset], from[i]); };
  })());
  const count = made.size ? x.size / made.size : 0;
  for (let i = 0; i < made.size; i++) made.data[i] = finish(sums[i], count);
  return made;
}

const sumDtype = (x, dtype) => dtype ?? (FLOATS.includes(x.dtype) ? x.dtype : "int64");
const sum = (x, axes, keep, dtype) => reduced(x, axes, keep, sumDtype(x, dtype), 0, (total, value) => total + value);
const mean = (x, axes, keep) =>
  reduced(x, axes, keep, x.dtype, 0, (total, value) => total + value, (total, count) => total / count);
const greatest = isNaNAware(Math.max), least = isNaNAware(Math.min);

/* The variance along axes; `correction` is subtracted from the count. */
function variance(x, axes, correction, keep) {
  const centred = OPERATIONS["sub.Tensor"](x, mean(x, axes, true));
  const squares = OPERATIONS["mul.Tensor"](centred, centred);
  return reduced(squares, axes, keep, x.dtype, 0, (total, value) => total + value,
                 (total, count) => total / (count - (correction ?? 1)));
}

/* Softmax or its logarithm along an axis. */
function softmax(x, axis, logarithm) {
  const [outer, length, inner] = aroundAxis(x.shape, axisOf(axis, x.shape.length));
  const made = Tensor.empty(x.shape, x.dtype);
  for (let o = 0; o < outer; o++)
    for (let n = 0; n < inner; n++) {
      const place = (i) => (o * length + i) * inner + n;
      let top = -Infinity, total = 0;
      for (let i = 0; i < length; i++) top = Math.max(top, x.data[place(i)]);
      for (let i = 0; i < length; i++) total += Math.exp(x.data[place(i)] - top);
      const log = Math.log(total);
      for (let i = 0; i < length; i++) {
        const value = x.data[place(i)] - top;
        made.data[place(i)] = logarithm ? value - log : Math.exp(value) / total;
      }
    }
  return made;
}

function layerNorm(x, shape, weight, bias, epsilon) {
  const length = countOf(shape), rows = x.size / length, made = Tensor.empty(x.shape, x.dtype);
  for (let r = 0; r < rows; r++) {
    const begin = r * length;
    let total = 0, squares = 0;
    for (let i = 0; i < length; i++) total += x.data[begin + i];
    const middle = total / length;
    for (let i = 0; i < length; i++) squares += (x.data[begin + i] - middle) ** 2;
    const scale = 1 / Math.sqrt(squares / length + epsilon);
    for (let i = 0; i < length; i++) {
      const value = (x.data[begin + i] - middle) * scale;
      made.data[begin + i] = value * (weight === null ? 1 : weight.data[i]) + (bias === null ? 0 : bias.data[i]);
    }
  }
  return [made];
}

function batchNorm(x, weight, bias, means, variances, momentum, epsilon) {
  const [outer, channels, inner] = aroundAxis(x.shape, 1), made = Tensor.empty(x.shape, x.dtype);
  for (let o = 0; o < outer; o++)
    for (let c = 0; c < channels; c++) {
      const scale = (weight === null ? 1 : weight.data[c]) / Math.sqrt(variances.data[c] + epsilon);
      const shift = (bias === null ? 0 : bias.data[c]) - means.data[c] * scale;
      for (let n = 0, i = (o * channels + c) * inner; n < inner; n++, i++) made.data[i] = x.data[i] * scale + shift;
    }
  return [made];
}

/* X with A X = B (or X A = B), matrix by matrix: Gauss-Jordan elimination with the largest pivot. B may be vectors. */
function solve(a, b, left) {
  const vectors = b.shape.length === a.shape.length - 1;
  const n = a.shape.at(-1);
  let given = vectors ? b.reshaped([...b.shape, 1]) : b;
  const axes = a.shape.map((_, axis) => axis);
  const turn = (x) => permute(x, [...axes.slice(0, -2), axes.length - 1, axes.length - 2]);
  const matrix = left ? a : turn(a);
  if (!left) given = turn(given);
  const columns = given.shape.at(-1), made = new Tensor(given.shape, given.data.slice(), given.dtype);
  for (let m = 0; m < a.size / (n * n); m++) {
    const rows = Array.from({ length: n }, (_, r) => Float64Array.from({ length: n + columns }, (__, c) =>
      (c < n ? matrix.data[(m * n + r) * n + c] : given.data[(m * n + r) * columns + c - n])));
    for (let p = 0; p < n; p++) {
      let pivot = p;
      for (let r = p + 1; r < n; r++) if (Math.abs(rows[r][p]) > Math.abs(rows[pivot][p])) pivot = r;
      [rows[p], rows[pivot]] = [rows[pivot], rows[p]];
      for (let r = 0; r < n; r++) {
        const factor = r === p ? 0 : rows[r][p] / rows[p][p];
        if (factor) for (let c = p; c < n + columns; c++) rows[r][c] -= factor * rows[p][c];
      }
    }
    for (let r = 0; r < n; r++)
      for (let c = 0; c < columns; c++) made.data[(m * n + r) * columns + c] = rows[r][n + c] / rows[r][r];
  }
  const found = left ? made : turn(made);
  return [vectors ? found.reshaped(b.shape) : found];
}

/* All distances between the rows of two tensors. */
function cdist(x, y, p) {
  if (p !== 2) throw new Error("the page has Euclidean distances only");
  const one = x.reshaped(x.shape.toSpliced(-1, 0, 1)), other = y.reshaped(y.shape.toSpliced(-2, 0, 1));
  const apart = OPERATIONS["sub.Tensor"](one, other);
  return OPERATIONS["sqrt"](sum(OPERATIONS["mul.Tensor"](apart, apart), [-1], false, null));
}

Object.assign(OPERATIONS, {
  "mm": mm,
  "addmm": addmm,
  "bmm": bmm,
  "convolution": convolution,
  "sum.dim_IntList": sum,
  "sum": (x, dtype) => sum(x, null, false, dtype),
  "mean.dim": mean,
  "mean": (x) => mean(x, null, false),
  "var.correction": variance,
  "amax": (x, axes, keep) => reduced(x, axes, keep, x.dtype, -Infinity, greatest),
  "amin": (x, axes, keep) => reduced(x, axes, keep, x.dtype, Infinity, least),
  "max": (x) => reduced(x, null, false, x.dtype, -Infinity, greatest),
  "min": (x) => reduced(x, null, false, x.dtype, Infinity, least),
  "prod.dim_int": (x, axis, keep, dtype) =>
    reduced(x, [axis], keep, sumDtype(x, dtype), 1, (product, value) => product * value),
  "any": (x) => reduced(x, null, false, "bool", 0, (found, value) => (found || value ? 1 : 0)),
  "any.dim": (x, axis, keep) => reduced(x, [axis], keep, "bool", 0, (found, value) => (found || value ? 1 : 0)),
  "any.dims": (x, axes, keep) => reduced(x, axes, keep, "bool", 0, (found, value) => (found || value ? 1 : 0)),
  "_softmax": (x, axis) => softmax(x, axis, false),
  "_log_softmax": (x, axis) => softmax(x, axis, true),
  "native_layer_norm": layerNorm,
  "_native_batch_norm_legit_no_training": batchNorm,
  "_linalg_solve_ex": solve,
  "_cdist_forward": cdist,
});
