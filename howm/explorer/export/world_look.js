"use strict";
/* How worlds of boxes look: antialiased sprites drawn in integer arithmetic (howm/worlds/sprites.py) over a background
   that a camera sees (howm/worlds/backgrounds.py). Single-precision numbers are rounded as NumPy rounds them. */

const ONE = 256;  // of an opaque pixel
const NOTHING = [0, 0, 0];
const f32 = Math.fround;

class Sprites {
  constructor({ pixels, turns, uniform, coverage, colours, thresholds }) {
    Object.assign(this, { pixels, turns, uniform, thresholds });
    this.side = pixels + 2;
    this.coverage = new Float32Array(bytesOf(coverage).buffer);  // (N, turns, side, side), in 0-256
    this.colours = new Float32Array(bytesOf(colours).buffer);  // (N, side, side, 3) or, of plain objects, (N, 3)
  }

  /* Where a sprite lies: the corner of its patch, and a function of its coverage and colours at pixel (y, x) of it. */
  placed(item, centre, turn) {
    const { side } = this, area = side * side;
    const corner = centre.map((at) => at - this.pixels / 2), whole = corner.map((at) => Math.floor(at + 1e-9));
    const [down, right] = corner.map((at, axis) => f32(Math.min(Math.max(at - whole[axis], 0), 1)));
    const first = (item * this.turns + turn) * area;
    const texel = (y, x) => this.coverage[first + y * side + x];
    const shifted = (value, y, x) => {
      const column = (at) => between(value(y, at), value(y + 1, at), down);
      return between(column(x), column(x + 1), right);
    };
    const at = (y, x) => {
      const alpha = shifted(texel, y, x), quantised = roundEven(alpha);
      if (quantised === 0) return { alpha: 0, colour: NOTHING };
      const colour = [0, 1, 2].map((c) => {
        if (this.uniform) return this.colours[3 * item + c];
        const weighted = (v, u) => f32(texel(v, u) * this.colours[3 * (item * area + v * side + u) + c]);
        return roundEven(f32(shifted(weighted, y, x) / Math.max(alpha, f32(1e-6))));
      });
      return { alpha: quantised, colour };
    };
    return { whole, at };
  }

  eachPixel(height, width, item, centre, turn, visit) {
    const { whole, at } = this.placed(item, centre, turn);
    for (let y = 0; y <= this.pixels; y++)
      for (let x = 0; x <= this.pixels; x++) {
        const row = whole[0] + y, column = whole[1] + x;
        if (row >= 0 && row < height && column >= 0 && column < width) visit(row * width + column, at(y, x));
      }
  }

  /* Draws into a picture, the farthest object first. */
  draw(picture, width, scene, centres, turns, depths) {
    const height = picture.length / (3 * width);
    for (const slot of scene.map((_, j) => j).toSorted((i, j) => depths[j] - depths[i] || i - j))
      this.eachPixel(height, width, scene[slot], centres[slot], turns[slot], (pixel, { alpha, colour }) => {
        if (alpha === 0) return;
        for (let c = 0; c < 3; c++)
          picture[3 * pixel + c] = (picture[3 * pixel + c] * (ONE - alpha) + alpha * colour[c] + ONE / 2) >> 8;
      });
  }

  /* The pixels that each object covers by half or more of what it can, hidden or not. */
  masks(height, width, scene, centres, turns) {
    return scene.map((item, slot) => {
      const mask = new Uint8Array(height * width);
      this.eachPixel(height, width, item, centres[slot], turns[slot], (pixel, { alpha }) => {
        mask[pixel] = alpha >= this.thresholds[item] ? 1 : 0;
      });
      return mask;
    });
  }
}

/* `after` moved towards `before` by a share, in single precision. */
function between(before, after, share) {
  return f32(f32(f32(before - after) * share) + after);
}

class Background {
  constructor(data, height, width) {
    Object.assign(this, data, { height, width });  // kind, per, contrast, brightness, seed, plain, texture, noise
    this.fixed = data.texture ? bytesOf(data.texture) : null;
    this.bank = data.noise ? new Int16Array(bytesOf(data.noise).buffer) : null;  // (patterns, height, width, 3)
    this.textures = new Map();
  }

  /* An empty picture; equal keys have equal textures. */
  behind(key) {
    const picture = new Uint8Array(3 * this.height * this.width);
    if (this.kind === "plain") for (let i = 0; i < picture.length; i++) picture[i] = this.plain[i % 3];
    if (this.kind === "texture") picture.set(this.fixed ?? this.textureOf(key));
    return picture;
  }

  textureOf(key) {
    const name = key.join();
    if (!this.textures.has(name)) this.textures.set(name, this.makeTexture(key));
    return this.textures.get(name);
  }

  /* Smooth interpolation between random points. */
  makeTexture(key) {
    const random = new SeededRandom([this.seed, 0, ...key]);
    const down = Math.floor(this.height / this.textureCell) + 2, right = Math.floor(this.width / this.textureCell) + 2;
    const points = Float64Array.from({ length: 3 * down * right }, () => random.number());
    const rows = interpolation(this.height, down, this.textureCell);
    const columns = interpolation(this.width, right, this.textureCell);
    const texture = new Uint8Array(3 * this.height * this.width);
    for (let y = 0; y < this.height; y++)
      for (let x = 0; x < this.width; x++)
        for (let c = 0; c < 3; c++) {
          let smooth = 0;
          for (let p = 0; p < down; p++) {
            if (rows[y][p] === 0) continue;
            for (let q = 0; q < right; q++) smooth += rows[y][p] * points[3 * (p * right + q) + c] * columns[x][q];
          }
          texture[3 * (y * this.width + x) + c] = roundEven(255 * this.contrast * smooth);
        }
    return texture;
  }

  /* The picture as the camera gives it: the light of the episode, and noise that depends on the frame alone. */
  seenThrough(picture, frame, look) {
    const clipped = (value) => Math.min(Math.max(value, 0), 255);
    if (this.brightness) {
      const unit = Number(mixedBits(look) >> 11n) / 2 ** 53, light = 1 + this.brightness * (2 * unit - 1);
      for (let i = 0; i < picture.length; i++) picture[i] = clipped(roundEven(picture[i] * light));
    }
    if (this.bank) {
      const mixed = mixedBits(frame()), { height, width } = this, size = 3 * height * width;
      const which = Number(mixed % BigInt(this.bank.length / size));
      const down = Number((mixed >> 16n) % BigInt(height)), right = Number((mixed >> 32n) % BigInt(width));
      for (let y = 0; y < height; y++)
        for (let x = 0; x < width; x++) {
          const from = which * size + 3 * (((down + y) % height) * width + ((right + x) % width));
          const to = 3 * (y * width + x);
          for (let c = 0; c < 3; c++) picture[to + c] = clipped(picture[to + c] + this.bank[from + c]);
        }
    }
    return picture;
  }
}

/* Weights of points that are `cell` pixels apart, for every pixel. */
function interpolation(size, points, cell) {
  return Array.from({ length: size }, (_, pixel) => {
    const weights = Array.from({ length: points }, (__, point) => {
      const near = Math.min(Math.max(1 - Math.abs(pixel / cell - point), 0), 1);
      return near * near * (3 - 2 * near);
    });
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    return weights.map((weight) => weight / total);
  });
}
