"use strict";
/* Operations that look numbers up, put them in their places, or order them. */

function gather(x, axis, index) {
  const made = Tensor.empty(index.shape, x.dtype);
  atIndex(x.shape, axis, index, (i, place) => { made.data[i] = x.data[place]; });
  return made;
}

/* Calls visit(i, place) for every entry i of `index`; place is where it points to in a tensor of `shape`. */
function atIndex(shape, axis, index, visit) {
  const at = axisOf(axis, shape.length), strides = stridesOf(shape);
  const aside = strides.with(at, 0);
  walk(index.shape, aside, 0, (i, offset) => visit(i, offset + strides[at] * index.data[i]));
}

/* x with the entries of `source` put (or added) where `index` points. */
function scatter(x, axis, index, source, add) {
  const made = new Tensor(x.shape, x.data.slice(), x.dtype);
  const from = source instanceof Tensor
    ? strided(source, index.shape, stridesOf(source.shape)).data
    : new Array(index.size).fill(source);
  atIndex(x.shape, axis, index, (i, place) => {
    if (add) made.data[place] += from[i];
    else made.data[place] = from[i];
  });
  return made;
}

/* Tensors of indices, of which those of booleans stand for where they are true, one for each of their axes. */
function plainIndices(indices) {
  return indices.flatMap((index) => {
    if (index === null || index.dtype !== "bool") return [index];
    const places = nonzero(index);
    return index.shape.map((_, axis) => select(places, 1, axis));
  });
}

/* Where x[indices] takes its numbers from: the shape of the result, and a function of what to do with each place. */
function indexed(x, given) {
  const indices = plainIndices(given);
  const strides = stridesOf(x.shape);
  const used = indices.map((index, axis) => (index === null ? -1 : axis)).filter((axis) => axis >= 0);
  const shape = broadcastShape(...used.map((axis) => indices[axis].shape));
  const together = used.every((axis, i) => i === 0 || axis === used[i - 1] + 1);
  const free = x.shape.map((_, axis) => axis).filter((axis) => !used.includes(axis));
  const before = together ? free.filter((axis) => axis < used[0]) : [];
  const after = free.filter((axis) => !before.includes(axis));
  const looked = new Int32Array(countOf(shape));
  for (const axis of used) {
    const index = stretched(indices[axis], shape);
    for (let i = 0; i < looked.length; i++) {
      const place = index.data[i] < 0 ? index.data[i] + x.shape[axis] : index.data[i];
      if (place < 0 || place >= x.shape[axis]) throw new Error(`index ${index.data[i]} is outside of ${x.shape[axis]}`);
      looked[i] += strides[axis] * place;
    }
  }
  const sides = (axes) => axes.map((axis) => x.shape[axis]);
  const visitAll = (visit) => {
    const afterCount = countOf(sides(after));
    walk(sides(before), before.map((axis) => strides[axis]), 0, (b, first) => {
      for (let i = 0; i < looked.length; i++)
        walk(sides(after), after.map((axis) => strides[axis]), first + looked[i], (a, place) =>
          visit((b * looked.length + i) * afterCount + a, place));
    });
  };
  return { shape: [...sides(before), ...shape, ...sides(after)], visitAll };
}

function index(x, indices) {
  const { shape, visitAll } = indexed(x, indices);
  const made = Tensor.empty(shape, x.dtype);
  visitAll((i, place) => { made.data[i] = x.data[place]; });
  return made;
}

function indexPut(x, indices, values, accumulate = false) {
  const { shape, visitAll } = indexed(x, indices);
  const from = stretched(values, shape);
  const made = new Tensor(x.shape, x.data.slice(), x.dtype);
  visitAll((i, place) => {
    if (accumulate) made.data[place] += from.data[i];
    else made.data[place] = from.data[i];
  });
  return made;
}

function indexSelect(x, axis, chosen) {
  return index(x, [...new Array(axisOf(axis, x.shape.length)).fill(null), chosen]);
}

function indexAdd(x, axis, chosen, source, alpha = 1) {
  const scaled = alpha === 1 ? source : OPERATIONS["mul.Scalar"](source, alpha);
  return indexPut(x, [...new Array(axisOf(axis, x.shape.length)).fill(null), chosen], scaled, true);
}

/* Pictures enlarged or reduced, each pixel that of the nearest source; steps are rounded as torch rounds them. */
function upsampleNearest(x, size, factors) {
  const [tall, wide] = x.shape.slice(2);
  const [height, width] = size ?? [Math.floor(tall * factors[0]), Math.floor(wide * factors[1])];
  const sources = (from, to) => new Tensor([to], Int32Array.from({ length: to }, (_, i) =>
    Math.min(Math.floor(Math.fround(i * Math.fround(from / to))), from - 1)), "int64");
  return indexSelect(indexSelect(x, 2, sources(tall, height)), 3, sources(wide, width));
}

/* The places of all entries that are not zero, in rows. */
function nonzero(x) {
  const places = [];
  for (let i = 0; i < x.size; i++) if (x.data[i]) places.push(i);
  const strides = stridesOf(x.shape);
  const made = Tensor.empty([places.length, x.shape.length], "int64");
  places.forEach((place, row) =>
    x.shape.forEach((side, axis) => {
      made.data[row * x.shape.length + axis] = Math.floor(place / strides[axis]) % side;
    }));
  return made;
}

/* Values and places along an axis in order, the first `count` of them; equal values keep their order. */
function ordered(x, axis, descending, count = null) {
  const at = axisOf(axis, Math.max(1, x.shape.length)), given = x.shape.length ? x : x.reshaped([1]);
  const [outer, length, inner] = aroundAxis(given.shape, at);
  const kept = count ?? length;
  const shape = given.shape.with(at, kept);
  const values = Tensor.empty(shape, x.dtype), places = Tensor.empty(shape, "int64");
  const order = Array.from({ length }, (_, i) => i);
  for (let o = 0; o < outer; o++)
    for (let n = 0; n < inner; n++) {
      const entry = (i) => given.data[(o * length + i) * inner + n];
      const line = order.toSorted((i, j) => (descending ? entry(j) - entry(i) : entry(i) - entry(j)) || i - j);
      for (let i = 0; i < kept; i++) {
        const to = (o * kept + i) * inner + n;
        values.data[to] = entry(line[i]);
        places.data[to] = line[i];
      }
    }
  return [values, places];
}

/* The best entry along an axis and its place; the first of equals. */
function extreme(x, axis, keep, better) {
  const at = axisOf(axis, x.shape.length), [outer, length, inner] = aroundAxis(x.shape, at);
  const shape = keep ? x.shape.with(at, 1) : x.shape.toSpliced(at, 1);
  const values = Tensor.empty(shape, x.dtype), places = Tensor.empty(shape, "int64");
  for (let o = 0; o < outer; o++)
    for (let n = 0; n < inner; n++) {
      let best = 0;
      const entry = (i) => x.data[(o * length + i) * inner + n];
      for (let i = 1; i < length; i++) if (better(entry(i), entry(best))) best = i;
      values.data[o * inner + n] = entry(best);
      places.data[o * inner + n] = best;
    }
  return [values, places];
}

const larger = (x, y) => x > y, smaller = (x, y) => x < y;

function placeOfExtreme(x, axis, keep, better) {
  if (axis !== null) return extreme(x, axis, keep, better)[1];
  return extreme(x.reshaped([x.size]), 0, false, better)[1];
}

/* Running sums and the like along an axis. */
function running(x, axis, dtype, combineTwo) {
  const [outer, length, inner] = aroundAxis(x.shape, axisOf(axis, x.shape.length));
  const wanted = dtype ?? (["bool", "uint8", "int32"].includes(x.dtype) ? "int64" : x.dtype);
  const made = x.to(wanted).data.slice();
  for (let o = 0; o < outer; o++)
    for (let i = 1; i < length; i++)
      for (let n = 0; n < inner; n++) {
        const place = (o * length + i) * inner + n;
        made[place] = combineTwo(made[place - inner], made[place]);
      }
  return new Tensor(x.shape, made, wanted);
}

Object.assign(OPERATIONS, {
  "gather": gather,
  "scatter.src": (x, axis, at, source) => scatter(x, axis, at, source, false),
  "scatter.value": (x, axis, at, value) => scatter(x, axis, at, value, false),
  "scatter_add": (x, axis, at, source) => scatter(x, axis, at, source, true),
  "index.Tensor": index,
  "_unsafe_index.Tensor": index,
  "index_put": indexPut,
  "_unsafe_index_put": indexPut,
  "index_select": indexSelect,
  "index_add": indexAdd,
  "embedding": (weight, at) => index(weight, [at]),
  "nonzero": nonzero,
  "upsample_nearest2d.vec": upsampleNearest,
  "topk": (x, count, axis, largest) => ordered(x, axis, largest, count),
  "sort": (x, axis, descending) => ordered(x, axis, descending),
  "sort.stable": (x, stable, axis, descending) => ordered(x, axis, descending),
  "max.dim": (x, axis, keep) => extreme(x, axis, keep, larger),
  "min.dim": (x, axis, keep) => extreme(x, axis, keep, smaller),
  "argmax": (x, axis, keep) => placeOfExtreme(x, axis, keep, larger),
  "argmin": (x, axis, keep) => placeOfExtreme(x, axis, keep, smaller),
  "cumsum": (x, axis, dtype) => running(x, axis, dtype, (sum, value) => sum + value),
  "cumprod": (x, axis, dtype) => running(x, axis, dtype, (product, value) => product * value),
});
