"use strict";
/* NumPy's default generator (PCG64 seeded by a SeedSequence), for looks that worlds draw from seeds. */

const U32 = 0xffffffff, U64 = (1n << 64n) - 1n, U128 = (1n << 128n) - 1n;

/* 32-bit words that many seeds are mixed into. */
function seedWords(seeds, count) {
  const entropy = seeds.flatMap((seed) => {
    const words = [];
    for (let left = BigInt(seed); left > 0n || !words.length; left >>= 32n) words.push(Number(left & 0xffffffffn));
    return words;
  });
  let constant = 0x43b0d7e5;
  const hashed = (value) => {
    let mixed = (value ^ constant) >>> 0;
    constant = Math.imul(constant, 0x931e8875) >>> 0;
    mixed = Math.imul(mixed, constant) >>> 0;
    return (mixed ^ (mixed >>> 16)) >>> 0;
  };
  const mix = (x, y) => {
    const mixed = (Math.imul(0xca01f9dd, x) - Math.imul(0x4973f715, y)) >>> 0;
    return (mixed ^ (mixed >>> 16)) >>> 0;
  };
  const pool = [0, 1, 2, 3].map((i) => hashed(entropy[i] ?? 0));
  for (let from = 0; from < 4; from++)
    for (let to = 0; to < 4; to++) if (from !== to) pool[to] = mix(pool[to], hashed(pool[from]));
  for (const word of entropy.slice(4)) for (let to = 0; to < 4; to++) pool[to] = mix(pool[to], hashed(word));
  let other = 0x8b51f9dd;
  return Array.from({ length: count }, (_, i) => {
    let word = (pool[i % 4] ^ other) >>> 0;
    other = Math.imul(other, 0x58f38ded) >>> 0;
    word = Math.imul(word, other) >>> 0;
    return (word ^ (word >>> 16)) >>> 0;
  });
}

class SeededRandom {
  /* seeds: as in numpy.random.default_rng([…]) */
  constructor(seeds) {
    const words = seedWords(seeds, 8).map(BigInt);
    const [a, b, c, d] = [0, 2, 4, 6].map((i) => words[i] | (words[i + 1] << 32n));
    this.increment = ((((c << 64n) | d) << 1n) | 1n) & U128;
    this.state = 0n;
    this.spare = null;
    this.advance();
    this.state = (this.state + ((a << 64n) | b)) & U128;
    this.advance();
  }

  advance() {
    this.state = (this.state * 0x2360ed051fc65da44385df649fccf645n + this.increment) & U128;
  }

  next64() {
    this.advance();
    const folded = (this.state >> 64n) ^ (this.state & U64), turn = this.state >> 122n;
    return ((folded >> turn) | (folded << ((64n - turn) & 63n))) & U64;
  }

  next32() {
    if (this.spare !== null) {
      const kept = this.spare;
      this.spare = null;
      return kept;
    }
    const both = this.next64();
    this.spare = Number(both >> 32n);
    return Number(both & 0xffffffffn);
  }

  /* In [0, 1). */
  number() {
    return Number(this.next64() >> 11n) / 2 ** 53;
  }

  permutation(count) {
    const order = Array.from({ length: count }, (_, i) => i);
    for (let i = count - 1; i > 0; i--) {
      const mask = 2 ** Math.ceil(Math.log2(i + 1)) - 1;
      let j = (this.next32() & mask) >>> 0;
      while (j > i) j = (this.next32() & mask) >>> 0;
      [order[i], order[j]] = [order[j], order[i]];
    }
    return order;
  }
}

/* 64 well mixed bits of a number (the finaliser of splitmix64). */
function mixedBits(number) {
  let x = BigInt.asUintN(64, BigInt(number));
  for (const [shift, factor] of [[30n, 0xbf58476d1ce4e5b9n], [27n, 0x94d049bb133111ebn]])
    x = ((x ^ (x >> shift)) * factor) & U64;
  return x ^ (x >> 31n);
}

function roundEven(x) {
  const down = Math.floor(x), rest = x - down;
  if (rest !== 0.5) return Math.round(x);
  return down % 2 === 0 ? down : down + 1;
}
