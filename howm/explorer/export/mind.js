"use strict";
/* One model, for scenes of one size: its verbs, run by the executor, and how it compares embeddings. */

class Mind {
  /* model: { metric, sizes: { k: { graphs, state, rows, count, … } } }, as model_data.py writes it */
  constructor(executor, model, k, world) {
    this.executor = executor;
    this.verbs = model.sizes[k];
    this.metric = model.metric;
    this.shape = [1, world.height, world.width, 3];
  }

  can(verb) { return verb in this.verbs.graphs; }

  run(verb, inputs) { return this.executor.run(this.verbs.graphs[verb], inputs); }

  /* Bytes of RGB and the objects of the scene, which only privileged models read, to a latent state. */
  encode(picture, scene) {
    const ids = new Tensor([1, scene.length], Int32Array.from(scene), "int64");
    return this.run("encode", { picture: new Tensor(this.shape, picture, "uint8"), ids });
  }

  step(state, action) {
    return this.run("step", { action: new Tensor([1], Int32Array.of(action), "int64"), ...state });
  }

  embed(state) { return this.run("embed", state).embedding.data; }

  /* Bytes of RGB; null of a model that cannot draw. */
  draw(state) { return this.can("draw") ? asBytes(this.run("draw", state).picture.data) : null; }

  /* For each slot a picture, opaque where the slot's mask is; null of a model without masks. */
  slots(picture) {
    if (!this.can("masks")) return null;
    const { masks } = this.run("masks", { picture: new Tensor(this.shape, picture, "uint8") });
    const alpha = asBytes(masks.data), [, height, width] = this.shape, pixels = height * width;
    return Array.from({ length: masks.shape[1] }, (_, slot) => {
      const shown = asPicture(picture, width, height);
      for (let i = 0; i < pixels; i++) shown.data[4 * i + 3] = alpha[slot * pixels + i];
      return shown;
    });
  }

  binding(state) { return this.can("binding") ? rowsOf(this.run("binding", state).binding) : null; }

  /* An embedding as the matrix that it is shown as. */
  matrix(embedding) {
    return rowsOf(new Tensor([1, this.verbs.count, embedding.length / this.verbs.count], embedding, "float32"));
  }

  distance(one, other) {
    if (this.metric.kind === "euclidean") return Math.sqrt(squaredDistance(one, other, 0, 0, one.length));
    const { slots } = this.metric, size = one.length / slots;
    const costs = Array.from({ length: slots }, (_, i) => Array.from({ length: slots }, (__, j) =>
      squaredDistance(one, other, i * size, j * size, size)));
    return Math.sqrt(leastAssignment(costs));
  }
}

function squaredDistance(one, other, i, j, length) {
  let sum = 0;
  for (let d = 0; d < length; d++) sum += (one[i + d] - other[j + d]) ** 2;
  return sum;
}

/* The least total cost of giving each row a column of its own: shortest augmenting paths (Jonker and Volgenant). */
function leastAssignment(costs) {
  const n = costs.length, owner = new Array(n + 1).fill(n);
  const rows = new Float64Array(n), columns = new Float64Array(n + 1);
  for (let row = 0; row < n; row++) {
    const least = new Float64Array(n + 1).fill(Infinity);
    const from = new Array(n + 1).fill(n), done = new Array(n + 1).fill(false);
    owner[n] = row;
    let column = n;
    do {
      done[column] = true;
      const here = owner[column];
      let next = n, shortest = Infinity;
      for (let j = 0; j < n; j++) {
        if (done[j]) continue;
        const reduced = costs[here][j] - rows[here] - columns[j];
        if (reduced < least[j]) [least[j], from[j]] = [reduced, column];
        if (least[j] < shortest) [shortest, next] = [least[j], j];
      }
      for (let j = 0; j <= n; j++) {
        if (done[j]) [rows[owner[j]], columns[j]] = [rows[owner[j]] + shortest, columns[j] - shortest];
        else least[j] -= shortest;
      }
      column = next;
    } while (owner[column] !== n);
    for (; column !== n; column = from[column]) owner[column] = owner[from[column]];
  }
  return owner.slice(0, n).reduce((sum, row, column) => sum + costs[row][column], 0);
}

/* Numbers in 0-1 as bytes, rounded as Python's are. */
function asBytes(values) {
  return Uint8Array.from(values, (value) =>
    (Number.isNaN(value) ? 0 : roundEven(Math.fround(Math.min(Math.max(value, 0), 1) * 255))));
}

/* Bytes of RGB as a picture of the page, all of it opaque. */
function asPicture(bytes, width, height) {
  const data = new Uint8ClampedArray(4 * width * height).fill(255);
  for (let i = 0; i < width * height; i++) for (let c = 0; c < 3; c++) data[4 * i + c] = bytes[3 * i + c];
  return { width, height, data };
}

/* The rows of a tensor (1, rows, columns); null for a number that is none. */
function rowsOf({ shape: [, rows, columns], data }) {
  return Array.from({ length: rows }, (_, r) =>
    Array.from(data.subarray(r * columns, (r + 1) * columns), (value) => (Number.isFinite(value) ? value : null)));
}
