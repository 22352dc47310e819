"use strict";
/* Boxes in a grid or in free space (howm/worlds/boxes.py). A state is [[row, column, turns?, look?], …]. */

const TOUCH = 1e-9;  // boxes that overlap by no more than this only touch
const MOVABLE = 0, FIXED = 2, GHOST = 3;

class BoxWorld {
  constructor(data) {
    Object.assign(this, data);  // see world_data.py
    this.grid = data.space === "grid";
    this.actionsPerObject = 4;
    this.sprites = new Sprites(data.sprites);
    this.background = new Background(data.background, data.height, data.width);
    this.sides = this.grid ? data.cells : [data.height / data.unit, data.width / data.unit];
    this.stride = this.grid ? 1 : data.stepSize;
  }

  reset(scene, random) {
    const places = this.grid ? this.placeOnGrid(scene, random) : this.placeFreely(scene, random);
    const look = Math.floor(random() * 2 ** 31);
    return places.map((place) => {
      const row = [...place];
      if (this.turn) row.push(Math.floor(random() * this.turns));
      if (this.hasLook) row.push(look);
      return row;
    });
  }

  placeOnGrid(scene, random) {
    const cells = Array.from({ length: this.cells[0] * this.cells[1] }, (_, i) => i);
    return scene.map((_, slot) => {
      const j = slot + Math.floor(random() * (cells.length - slot));
      [cells[slot], cells[j]] = [cells[j], cells[slot]];
      return [Math.floor(cells[slot] / this.cells[1]), cells[slot] % this.cells[1]];
    });
  }

  placeFreely(scene, random) {
    for (let attempt = 0; attempt < 200; attempt++) {
      const found = [];
      for (const item of scene) {
        const half = this.half[item];
        for (let trial = 0; trial < 200 && found.length <= scene.indexOf(item); trial++) {
          const place = this.sides.map((side) => half + random() * (side - 2 * half));
          const hit = this.contact !== "overlap" && found.some((other, j) =>
            this.solid(item) && this.solid(scene[j])
            && place.every((at, axis) => Math.abs(other[axis] - at) < this.half[scene[j]] + half - TOUCH));
          if (!hit) found.push(place);
        }
        if (found.length <= scene.indexOf(item)) break;
      }
      if (found.length === scene.length) return found;
    }
    throw new Error(`There is no room for ${scene.length} objects; choose fewer.`);
  }

  solid(item) { return this.classes[item] !== GHOST; }

  step(scene, state, action) {
    const item = Math.floor(action / 4), what = action % 4, slot = scene.indexOf(item);
    if (slot < 0) return state;
    if (this.turn && what % 2 === 1) {
      const turned = (state[slot][2] + (what === 1 ? 1 : -1) + this.turns) % this.turns;
      return state.with(slot, state[slot].with(2, turned));
    }
    let degrees = 90 * (this.headings[item] + what);
    if (this.turn) degrees = 90 * this.headings[item] + this.turn * state[slot][2] + 90 * what;
    if (this.turn % 90) return this.moveFreely(scene, state, slot, degrees);
    const direction = Math.floor(degrees / 90) % 4;
    const moved = CONTACTS[this.contact](this.boxes(scene, state, direction), this.stride, slot);
    const sign = direction === 1 || direction === 2 ? 1 : -1, axis = direction % 2;
    return state.map((row, j) => (moved[j] ? row.with(axis, row[axis] + sign * moved[j]) : row));
  }

  /* The objects as boxes for a move in a direction, turned so that it goes along growing numbers. */
  boxes(scene, state, direction) {
    const sideways = direction % 2, sign = direction === 1 || direction === 2 ? 1 : -1;
    const middle = this.grid ? 0.5 : 0;
    return scene.map((item, slot) => {
      const [down, right] = state[slot].map((at) => at + middle), half = this.half[item], kind = this.classes[item];
      return {
        along: sign * (sideways ? right : down),
        across: sideways ? down : right,
        half,
        limit: sign > 0 ? this.sides[sideways] - half : -half,
        solid: kind !== GHOST,
        mobile: kind !== FIXED,
        pushable: kind === MOVABLE,
        team: this.teams[item],
      };
    });
  }

  /* A step at an angle, to block or overlap. */
  moveFreely(scene, state, slot, degrees) {
    const [down, right] = this.displacements[degrees], own = this.half[scene[slot]], kind = this.classes[scene[slot]];
    const target = [state[slot][0] + down, state[slot][1] + right];
    if (kind === FIXED) return state;
    if (!target.every((at, axis) => at >= own - TOUCH && at <= this.sides[axis] - own + TOUCH)) return state;
    const hit = this.contact === "block" && kind !== GHOST && state.some((other, j) =>
      j !== slot && this.solid(scene[j])
      && target.every((at, axis) => Math.abs(other[axis] - at) < this.half[scene[j]] + own - TOUCH));
    return hit ? state : state.with(slot, [...target, ...state[slot].slice(2)]);
  }

  centres(state) {
    const middle = this.grid ? 0.5 : 0;
    return state.map(([row, column]) => [(row + middle) * this.unit, (column + middle) * this.unit]);
  }

  turnsOf(state) { return state.map((row) => (this.turn ? row[2] : 0)); }

  /* How far away each object is, by rank. */
  depths(scene) {
    if (this.depth === "library") return scene.map((_, slot) => slot);
    return new SeededRandom([this.seed, 11, ...scene]).permutation(scene.length);
  }

  render(scene, state) {
    const look = this.hasLook ? state[0].at(-1) : 0;
    const picture = this.background.behind(this.background.per === "episode" ? [look] : scene);
    this.sprites.draw(picture, this.width, scene, this.centres(state), this.turnsOf(state), this.depths(scene));
    return this.background.seenThrough(picture, () => this.frameNumber(scene, state), look);
  }

  /* Integers that are equal where two states count as the same: positions to a thousandth of a pixel. */
  key(scene, state) {
    const rows = state.map((row) => row.map((value, i) =>
      roundEven(!this.grid && i < 2 ? value * this.unit * 1000 : value)));
    return [...scene, ...rows.flat()];
  }

  /* One number for each state. */
  frameNumber(scene, state) {
    let mixed = 0n;
    this.key(scene, state).forEach((word, i) => {
      const bits = BigInt.asUintN(64, BigInt(word));
      mixed ^= ((bits ^ ((bits << 21n) & U64)) * BigInt(this.factors[i])) & U64;
    });
    return mixed >> 1n;
  }

  masks(scene, state) {
    const masks = this.sprites.masks(this.height, this.width, scene, this.centres(state), this.turnsOf(state));
    const hidden = new Uint8Array(this.height * this.width), depths = this.depths(scene);
    for (const slot of scene.map((_, j) => j).toSorted((i, j) => depths[i] - depths[j])) {
      const own = masks[slot], opaque = !this.classesShown || this.solid(scene[slot]);
      masks[slot] = own.map((covered, i) => (covered && !hidden[i] ? 1 : 0));
      if (opaque) own.forEach((covered, i) => { hidden[i] |= covered; });
    }
    return masks;
  }
}

/* What happens when the box `mover` sets out by `step`: by how much each box moves (howm/worlds/contact.py). */
const CONTACTS = {
  overlap: (boxes, step, mover) => alone(boxes, mover, fits(boxes[mover], step) ? step : 0),

  block(boxes, step, mover) {
    const own = boxes[mover];
    const hit = boxes.some((other, j) => j !== mover && meet(own, other)
      && Math.abs(other.along - own.along - step) < own.half + other.half - TOUCH);
    return alone(boxes, mover, !hit && fits(own, step) ? step : 0);
  },

  slide(boxes, step, mover) {
    const own = boxes[mover];
    let room = Math.min(own.limit - own.along, step);
    boxes.forEach((other, j) => {
      const ahead = other.along - own.along;
      if (j !== mover && meet(own, other) && ahead > 0) room = Math.min(room, ahead - (own.half + other.half));
    });
    return alone(boxes, mover, own.mobile && room > TOUCH ? room : 0);
  },

  push(boxes, step, mover) {
    const order = boxes.map((_, i) => i).toSorted((i, j) => boxes[i].along - boxes[j].along || i - j);
    const line = order.map((i) => boxes[i]), first = order.indexOf(mover);
    const moved = line.map((box, i) => (i === first && box.mobile ? step : 0));
    for (let j = first + 1; j < line.length; j++)
      for (let i = first; i < j; i++) {
        const ahead = line[j].along - line[i].along;
        if (!meet(line[i], line[j]) || !(ahead > 0)) continue;
        const pushed = moved[i] - (ahead - (line[i].half + line[j].half));
        if (pushed > moved[j] + TOUCH) moved[j] = pushed;
      }
    const stuck = line.some((box, i) => moved[i] > 0
      && ((i !== first && !box.pushable) || box.along + moved[i] > box.limit + TOUCH));
    return boxes.map((_, i) => (stuck ? 0 : moved[order.indexOf(i)]));
  },

  team(boxes, step, mover) {
    const order = boxes.map((_, i) => i).toSorted((i, j) => boxes[j].along - boxes[i].along || i - j);
    const own = boxes[mover], moved = boxes.map(() => 0);
    for (const i of order) {
      const one = boxes[i];
      const goes = one.team === own.team && own.mobile && fits(one, step) && !order.some((j) => {
        const other = boxes[j], reach = one.half + other.half - TOUCH;
        return j !== i && Math.abs(other.across - one.across) < reach && one.solid && other.solid
          && Math.abs(other.along - one.along - step + moved[j]) < reach;
      });
      moved[i] = goes ? step : 0;
    }
    return moved;
  },
};

function alone(boxes, mover, distance) {
  return boxes.map((_, i) => (i === mover ? distance : 0));
}

function fits(box, step) {
  return box.mobile && box.along + step <= box.limit + TOUCH;
}

/* Whether two boxes meet if one comes far enough. */
function meet(one, other) {
  return Math.abs(other.across - one.across) < one.half + other.half - TOUCH && one.solid && other.solid;
}
