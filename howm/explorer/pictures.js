"use strict";
/* Pictures on canvases, how two of them differ, and colours for numbers. */

const WRONG = 25; // of 255, in any channel, from which a pixel counts as wrong

/* An element with attributes and children; a child that is text is only ever text. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  made.append(...children.filter((child) => child !== null));
  return made;
}

/* Draws over what was there: nothing is cleared before, so nothing flickers. */
function paint(canvas, picture) {
  if (canvas.width !== picture.width || canvas.height !== picture.height) {
    canvas.width = picture.width;
    canvas.height = picture.height;
  }
  canvas.getContext("2d").putImageData(new ImageData(picture.data, picture.width, picture.height), 0, 0);
}

function canvasOf(picture, label, className = "") {
  const canvas = element("canvas", { class: `pixels ${className}`, role: "img", "aria-label": label });
  paint(canvas, picture);
  return canvas;
}

/* How far two pictures are apart: mean squared error in 0-1, the share of wrong pixels, and a picture of it. */
function compare(one, other) {
  const { width, height } = one;
  const data = new Uint8ClampedArray(one.data.length);
  let squares = 0;
  let wrong = 0;
  for (let i = 0; i < data.length; i += 4) {
    let largest = 0;
    for (let c = 0; c < 3; c++) {
      const gap = Math.abs(one.data[i + c] - other.data[i + c]);
      squares += (gap / 255) ** 2;
      largest = Math.max(largest, gap);
    }
    if (largest > WRONG) wrong += 1;
    heat(data, i, largest / 255);
  }
  const pixels = width * height;
  return { error: squares / (3 * pixels), wrong: wrong / pixels, picture: { width, height, data } };
}

/* From black over red and orange to white. */
function heat(data, i, value) {
  data[i] = 255 * Math.min(1, 2.2 * value);
  data[i + 1] = 255 * Math.max(0, Math.min(1, 2 * value - 0.6));
  data[i + 2] = 255 * Math.max(0, Math.min(1, 3 * value - 2));
  data[i + 3] = 255;
}

/* A colour of the style sheet, which writes them as #rrggbb. */
function themeColour(name) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

/* A matrix as a picture: blue below zero, pale at zero, red above; `size` is the largest number. */
function matrixPicture(matrix, size) {
  const height = matrix.length;
  const width = matrix[0].length;
  const data = new Uint8ClampedArray(4 * width * height);
  const ends = { low: [52, 112, 184], middle: themeColour("--wash"), high: [196, 70, 36] };
  matrix.forEach((row, y) => row.forEach((number, x) => {
    const value = number === null ? 0 : Math.max(-1, Math.min(1, number / size));
    const end = value < 0 ? ends.low : ends.high;
    for (let c = 0; c < 3; c++)
      data[4 * (y * width + x) + c] = ends.middle[c] + Math.abs(value) * (end[c] - ends.middle[c]);
    data[4 * (y * width + x) + 3] = 255;
  }));
  return { width, height, data };
}

function percent(share) {
  const value = 100 * share;
  return `${value === 0 || value >= 9.95 ? value.toFixed(0) : value < 0.05 ? "<0.1" : value.toFixed(1)} %`;
}

/* A number as people write it: 0.0123, 4.5, 3e-5. */
function short(value) {
  if (value === null || value === undefined) return "not finite";
  if (value === 0) return "0";
  return Math.abs(value) < 0.001 ? value.toExponential(0) : String(Number(value.toPrecision(2)));
}
