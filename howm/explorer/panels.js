"use strict";
/* What is shown of the inside of a model: slots and binding, rank, embeddings; and what a search has found. */

/* Sprites of library objects as canvases, with what can be said of them. */
class Sprites {
  constructor(world) {
    this.world = world;
  }

  of(object) {
    return canvasOf(this.world.sprites[object], "", "sprite");
  }

  text(object) {
    return this.world.objects[object];
  }
}

/* Slots as pictures above the columns; rows are library objects, whose numbers say to which slot their actions go. */
function showBinding(holder, { slots, binding }, { sprites, scene, acting, all }) {
  if (slots === null && binding === null) {
    holder.replaceChildren();
    return;
  }
  const count = slots === null ? binding[0].length : slots.length;
  const heads = Array.from({ length: count }, (_, s) => element(
    "th", { scope: "col" }, slots === null ? null : canvasOf(slots[s], `Slot ${s + 1}`), element("small", {}, `${s + 1}`),
  ));
  const table = element("table", {}, element("caption", { class: "quiet" }, "Objects by slots"),
    element("thead", {}, element("tr", {}, element("th", { scope: "col" }, element("small", {}, "slot")), ...heads)));
  table.style.minWidth = `${4.6 + 2.5 * count}rem`;  // many slots scroll in their own box
  if (binding !== null) {
    const rows = binding.map((row, object) => ({ row, object })).filter(({ object }) => all || scene.includes(object));
    table.append(element("tbody", {}, ...rows.map(({ row, object }) => {
      const head = element("th", { scope: "row", title: sprites.text(object) }, sprites.of(object), String(object));
      const made = element("tr", { class: object === acting ? "acts" : "" }, head);
      for (const share of row) made.append(bindingCell(share));
      return made;
    })));
  }
  holder.replaceChildren(table);
}

function bindingCell(share) {
  const value = Math.max(0, Math.min(1, share ?? 0));
  const cell = element("td", { class: value >= 0.5 ? "strong" : "" }, value < 0.005 ? "·" : value.toFixed(2));
  const mixed = value < 0.5 ? 80 * value : 80 + 40 * (value - 0.5);  // both ends can be read, in light and in dark
  cell.style.background = `color-mix(in srgb, var(--accent) ${mixed}%, var(--wash))`;
  return cell;
}

function showRank(holder, { rank, of, distance, nearest }, truth) {
  const first = rank <= 1;
  const place = Number.isInteger(rank) ? String(rank) : rank.toFixed(1);
  const text = first
    ? "Nothing else in the pool is nearer to what was imagined than the truth."
    : "Wrong states are as near to what was imagined as the truth, or nearer.";
  const shown = [{ picture: truth, distance, text: "the truth", own: true }, ...nearest];
  holder.replaceChildren(
    element("p", { class: "big" }, place, element("small", {}, ` of ${of} in the hard pool`)),
    element("p", { class: "note" }, text),
    element("ul", { class: "rivals" }, ...shown.map((one) => element(
      "li", { class: !one.own && one.distance <= distance ? "nearer" : "" },
      canvasOf(one.picture, one.own ? "The truth" : `Wrong: ${one.text}`),
      element("b", {}, short(one.distance)), one.text,
    ))),
  );
}

/* Three heat maps row by row: what was imagined, the encoded truth, and their difference. */
function showEmbedding(holder, { rows, imagined, truth }, { sprites, scene }) {
  const difference = imagined.map((row, r) => row.map((value, c) => (value ?? 0) - (truth[r][c] ?? 0)));
  const numbers = [...imagined, ...truth].flat().map((value) => Math.abs(value ?? 0));
  const size = Math.max(...numbers) || 1;
  const shown = imagined.map((_, r) => r).filter((r) => rows !== "objects" || scene.includes(r));
  const cells = ["", "imagined", "truth", "difference"].map((name) => element("b", {}, name));
  for (const r of shown) {
    if (rows === "objects") cells.push(sprites.of(r));
    else cells.push(element("span", { class: "name" }, rows === "slots" ? `slot ${r + 1}` : "state"));
    for (const [name, matrix] of Object.entries({ imagined, truth, difference })) {
      const numbersText = matrix[r].slice(0, 16).map(short).join(", ");
      cells.push(canvasOf(matrixPicture([matrix[r]], size), `${name}: ${numbersText}`, "heat"));
    }
  }
  holder.replaceChildren(...cells);
}

function showFound(holder, found, open) {
  holder.replaceChildren(...found.map((one) => {
    const text = `Objects ${one.objects.join(", ")}: ${one.steps} step${one.steps === 1 ? "" : "s"}, error ${short(one.error)}`;
    const button = element("button", { type: "button", "aria-label": `Open: ${text}` },
      canvasOf(one.truth, "Truth"), canvasOf(one.imagined, "Imagined"), element("span", {}, text));
    button.addEventListener("click", () => open(one));
    return button;
  }));
}

/* A choice between a few words, as radio buttons that look like one control. */
function offer(fieldset, options, chosen, pick) {
  const name = fieldset.id;
  fieldset.querySelectorAll("label").forEach((label) => label.remove());
  for (const { value, text, disabled } of options) {
    const input = element("input", { type: "radio", name, value, disabled });
    input.checked = String(value) === String(chosen);
    input.addEventListener("change", () => pick(value));
    fieldset.append(element("label", {}, input, element("span", {}, text)));
  }
}
