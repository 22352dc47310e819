"use strict";
/* Shapes and Rush Hour: one object a cell. Scenes are lists of library objects, ascending; a state is [[cell], …].

   A world of a page has: n, height, width, actionsPerObject, reset(scene, random), step(scene, state, action),
   render(scene, state) -> bytes of RGB, masks(scene, state) -> for each object, which pixels show it, and
   key(scene, state) -> integers that are equal where two states count as the same. */

class GridWorld {
  constructor(data) {
    Object.assign(this, data);  // n, rows, columns, cell, headings
    this.sprites = bytesOf(data.sprites);
    this.height = this.rows * this.cell;
    this.width = this.columns * this.cell;
    this.actionsPerObject = 4;
  }

  reset(scene, random) {
    const cells = Array.from({ length: this.rows * this.columns }, (_, i) => i);
    for (let i = 0; i < scene.length; i++) {
      const j = i + Math.floor(random() * (cells.length - i));
      [cells[i], cells[j]] = [cells[j], cells[i]];
    }
    return scene.map((_, slot) => [cells[slot]]);
  }

  step(scene, state, action) {
    const item = Math.floor(action / 4), slot = scene.indexOf(item);
    if (slot < 0) return state;
    const direction = (this.headings[item] + (action % 4)) % 4;
    const row = Math.floor(state[slot][0] / this.columns) + [-1, 0, 1, 0][direction];
    const column = (state[slot][0] % this.columns) + [0, 1, 0, -1][direction];
    const inside = row >= 0 && row < this.rows && column >= 0 && column < this.columns;
    const target = row * this.columns + column;
    if (!inside || state.some(([cell]) => cell === target)) return state;
    return state.with(slot, [target]);
  }

  /* Calls visit(pixel of the picture, texel of the sprite) for the cell of an object. */
  eachPixel(item, cell, visit) {
    const top = Math.floor(cell / this.columns) * this.cell, left = (cell % this.columns) * this.cell;
    for (let y = 0; y < this.cell; y++)
      for (let x = 0; x < this.cell; x++)
        visit((top + y) * this.width + left + x, (item * this.cell + y) * this.cell + x);
  }

  render(scene, state) {
    const picture = new Uint8Array(3 * this.height * this.width);
    scene.forEach((item, slot) => this.eachPixel(item, state[slot][0], (pixel, texel) => {
      for (let c = 0; c < 3; c++) picture[3 * pixel + c] = this.sprites[3 * texel + c];
    }));
    return picture;
  }

  key(scene, state) { return [...scene, ...state.flat()]; }

  masks(scene, state) {
    return scene.map((item, slot) => {
      const mask = new Uint8Array(this.height * this.width);
      this.eachPixel(item, state[slot][0], (pixel, texel) => {
        mask[pixel] = this.sprites.subarray(3 * texel, 3 * texel + 3).some((value) => value > 0) ? 1 : 0;
      });
      return mask;
    });
  }
}

/* The world of some data that Python wrote. */
function makeWorld(data) {
  return data.kind === "grid" ? new GridWorld(data) : new BoxWorld(data);
}

/* All actions of the objects that are present, object by object. */
function offeredActions(world, scene) {
  const each = world.actionsPerObject;
  return scene.flatMap((item) => Array.from({ length: each }, (_, d) => item * each + d));
}

function sameState(one, other) {
  return one.every((row, slot) => row.every((value, i) => value === other[slot][i]));
}

/* Random play of `steps` actions: with probability `moving` an action that changes the state, else one that does not;
   any action where `moving` is null. */
function play(world, scene, start, steps, moving, random) {
  const offered = offeredActions(world, scene), states = [start], actions = [];
  for (let t = 0; t < steps; t++) {
    const here = states.at(-1);
    let wanted = offered;
    if (moving !== null) {
      const move = random() < moving;
      const fit = offered.filter((action) => sameState(world.step(scene, here, action), here) !== move);
      wanted = fit.length ? fit : offered;
    }
    const action = wanted[Math.floor(random() * wanted.length)];
    actions.push(action);
    states.push(world.step(scene, here, action));
  }
  return { states, actions };
}
