"use strict";
/* Operations that treat every number alike. Arguments stand as in the schema of the ATen operation of the same name. */

const OPERATIONS = {};

const FLOATS = ["float32", "float64"];

/* The dtype of two numbers or tensors together: a tensor of no axes or a plain number yields to one with axes. */
function commonDtype(one, other) {
  const tensors = [one, other].filter((value) => value instanceof Tensor);
  const first = tensors.filter((tensor) => tensor.shape.length > 0);
  const leading = first.length ? first : tensors;
  const dtype = leading.map((tensor) => tensor.dtype).reduce(promoted);
  if (FLOATS.includes(dtype)) return dtype;
  const fractional = [one, other].some((value) => (value instanceof Tensor ? FLOATS.includes(value.dtype)
    : typeof value === "number" && !Number.isInteger(value)));
  if (fractional) return "float32";
  const counts = [one, other].some((value) => typeof value === "number") && dtype === "bool";
  return counts ? "int64" : dtype;
}

function unary(compute, dtype = null) {
  return (x) => {
    const wanted = dtype ?? (FLOATS.includes(x.dtype) ? x.dtype : "float32");
    const made = Tensor.empty(x.shape, wanted), from = x.data, to = made.data;
    for (let i = 0; i < to.length; i++) to[i] = compute(from[i]);
    return made;
  };
}

/* As unary, of integers too. */
function unaryKept(compute) {
  return (x) => {
    const made = Tensor.empty(x.shape, x.dtype), from = x.data, to = made.data;
    for (let i = 0; i < to.length; i++) to[i] = compute(from[i]);
    return made;
  };
}

function combine(one, other, dtype, compute) {
  const shapes = [one, other].map((value) => (value instanceof Tensor ? value.shape : []));
  const shape = broadcastShape(...shapes);
  const made = Tensor.empty(shape, dtype), to = made.data;
  const [a, b] = [one, other].map((value) => (value instanceof Tensor ? value.data : [Number(value)]));
  if (b.length === 1) {
    const y = b[0];
    if (a.length === to.length) {
      for (let i = 0; i < to.length; i++) to[i] = compute(a[i], y);
      return made;
    }
  } else if (a.length === to.length && b.length === to.length) {
    for (let i = 0; i < to.length; i++) to[i] = compute(a[i], b[i]);
    return made;
  }
  const left = stretchedStrides(shapes[0], shape), right = stretchedStrides(shapes[1], shape);
  const rank = shape.length, at = new Int32Array(rank);
  for (let i = 0, p = 0, q = 0; i < to.length; i++) {
    to[i] = compute(a[p], b[q]);
    for (let axis = rank - 1; axis >= 0; axis--) {
      p += left[axis];
      q += right[axis];
      if (++at[axis] < shape[axis]) break;
      p -= left[axis] * shape[axis];
      q -= right[axis] * shape[axis];
      at[axis] = 0;
    }
  }
  return made;
}

function binary(compute, dtype = null) {
  return (one, other) => combine(one, other, dtype ?? commonDtype(one, other), compute);
}

function comparison(compute) {
  return binary((x, y) => (compute(x, y) ? 1 : 0), "bool");
}

function divided(one, other, mode) {
  const found = commonDtype(one, other);
  const dtype = mode === null && !FLOATS.includes(found) ? "float32" : found;
  const round = { floor: Math.floor, trunc: Math.trunc }[mode];
  return combine(one, other, dtype, round ? (x, y) => round(x / y) : (x, y) => x / y);
}

const addition = (one, other, alpha = 1) => combine(one, other, commonDtype(one, other), (x, y) => x + alpha * y);
const subtraction = (one, other, alpha = 1) => combine(one, other, commonDtype(one, other), (x, y) => x - alpha * y);
const remainder = binary((x, y) => x - y * Math.floor(x / y));
const sigmoid = (x) => 1 / (1 + Math.exp(-x));
const isNaNAware = (choose) => (x, y) => (Number.isNaN(x) || Number.isNaN(y) ? NaN : choose(x, y));

function clamped(x, low, high) {
  const bounded = low === null ? x : OPERATIONS["maximum"](x, low);
  return high === null ? bounded : OPERATIONS["minimum"](bounded, high);
}

/* The error function, by its series near 0 and by a continued fraction far from it. */
function erf(x) {
  const size = Math.abs(x);
  if (size > 6) return Math.sign(x);
  if (size < 3) {
    let term = x, sum = x;
    for (let n = 1; n < 80; n++) {
      term *= -x * x / n;
      sum += term / (2 * n + 1);
    }
    return (2 / Math.sqrt(Math.PI)) * sum;
  }
  let fraction = size;
  for (let n = 40; n > 0; n--) fraction = size + n / 2 / fraction;
  return Math.sign(x) * (1 - Math.exp(-size * size) / (fraction * Math.sqrt(Math.PI)));
}

function gelu(x, approximate) {
  const curve = approximate === "tanh"
    ? (v) => 0.5 * v * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (v + 0.044715 * v ** 3)))
    : (v) => 0.5 * v * (1 + erf(v / Math.SQRT2));
  return unary(curve)(x);
}

function roundHalfEven(x) {
  const down = Math.floor(x);
  const rest = x - down;
  if (rest !== 0.5) return Math.round(x);
  return down % 2 === 0 ? down : down + 1;
}

Object.assign(OPERATIONS, {
  "abs": unaryKept(Math.abs),
  "neg": unaryKept((x) => -x),
  "sign": unaryKept(Math.sign),
  "relu": unaryKept((x) => (x > 0 || Number.isNaN(x) ? x : 0)),
  "floor": unaryKept(Math.floor),
  "ceil": unaryKept(Math.ceil),
  "trunc": unaryKept(Math.trunc),
  "round": unaryKept(roundHalfEven),
  "exp": unary(Math.exp),
  "expm1": unary(Math.expm1),
  "log": unary(Math.log),
  "log1p": unary(Math.log1p),
  "sqrt": unary(Math.sqrt),
  "rsqrt": unary((x) => 1 / Math.sqrt(x)),
  "reciprocal": unary((x) => 1 / x),
  "sin": unary(Math.sin),
  "cos": unary(Math.cos),
  "tanh": unary(Math.tanh),
  "erf": unary(erf),
  "gelu": gelu,
  "sigmoid": unary(sigmoid),
  "elu": (x, alpha, scale, inner) =>
    unary((v) => scale * (v > 0 ? v : alpha * Math.expm1(inner * v)))(x),
  "leaky_relu": (x, slope) => unary((v) => (v > 0 ? v : slope * v))(x),
  "hardtanh": (x, low, high) => clamped(x, low, high),
  "isnan": unary((x) => (Number.isNaN(x) ? 1 : 0), "bool"),
  "isinf": unary((x) => (Math.abs(x) === Infinity ? 1 : 0), "bool"),
  "logical_not": unary((x) => (x ? 0 : 1), "bool"),
  "bitwise_not": (x) => (x.dtype === "bool" ? unary((v) => (v ? 0 : 1), "bool") : unaryKept((v) => ~v))(x),
  "bitwise_and.Tensor": binary((x, y) => x & y),
  "bitwise_or.Tensor": binary((x, y) => x | y),
  "bitwise_xor.Tensor": binary((x, y) => x ^ y),
  "logical_and": comparison((x, y) => x && y),
  "logical_or": comparison((x, y) => x || y),
  "add.Tensor": addition,
  "add.Scalar": addition,
  "sub.Tensor": subtraction,
  "sub.Scalar": subtraction,
  "rsub.Scalar": (x, y, alpha) => combine(x, y, commonDtype(x, y), (v, w) => w - alpha * v),
  "mul.Tensor": binary((x, y) => x * y),
  "mul.Scalar": binary((x, y) => x * y),
  "div.Tensor": (x, y) => divided(x, y, null),
  "div.Scalar": (x, y) => divided(x, y, null),
  "div.Tensor_mode": divided,
  "remainder.Scalar": remainder,
  "remainder.Tensor": remainder,
  "fmod.Scalar": binary((x, y) => x % y),
  "pow.Tensor_Scalar": (x, power) => (power === 2 ? unaryKept((v) => v * v) : unary((v) => v ** power))(x),
  "pow.Tensor_Tensor": binary((x, y) => x ** y),
  "pow.Scalar": (base, x) => unary((v) => base ** v)(x),
  "atan2": binary(Math.atan2),
  "maximum": binary(isNaNAware(Math.max)),
  "minimum": binary(isNaNAware(Math.min)),
  "clamp": clamped,
  "clamp.Tensor": clamped,
  "eq.Tensor": comparison((x, y) => x === y),
  "eq.Scalar": comparison((x, y) => x === y),
  "ne.Tensor": comparison((x, y) => x !== y),
  "ne.Scalar": comparison((x, y) => x !== y),
  "lt.Tensor": comparison((x, y) => x < y),
  "lt.Scalar": comparison((x, y) => x < y),
  "le.Tensor": comparison((x, y) => x <= y),
  "le.Scalar": comparison((x, y) => x <= y),
  "gt.Tensor": comparison((x, y) => x > y),
  "gt.Scalar": comparison((x, y) => x > y),
  "ge.Tensor": comparison((x, y) => x >= y),
  "ge.Scalar": comparison((x, y) => x >= y),
  "where.self": (condition, yes, no) => {
    const shape = broadcastShape(condition.shape, yes.shape, no.shape);
    const [c, y, n] = [condition, yes, no].map((tensor) => stretched(tensor, shape).data);
    const made = Tensor.empty(shape, commonDtype(yes, no));
    for (let i = 0; i < made.data.length; i++) made.data[i] = c[i] ? y[i] : n[i];
    return made;
  },
  "masked_fill.Scalar": (x, mask, value) => OPERATIONS["where.self"](mask, Tensor.full([], value, x.dtype), x),
  "sym.add": (x, y) => x + y,
  "sym.sub": (x, y) => x - y,
  "sym.mul": (x, y) => x * y,
  "sym.floordiv": (x, y) => Math.floor(x / y),
  "sym.mod": (x, y) => x - y * Math.floor(x / y),
  "sym_size.int": (x, axis) => x.shape[axis],
});
