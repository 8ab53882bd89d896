/** One draw of a token. */
export interface Draw {
  /** Above 0. */
  readonly temperature: number
  /** The least logit that may be drawn. */
  readonly least: number
  /** Random bits of this draw, 32 of them. */
  readonly place: number
}

/**
 * What sampling asks of a row of logits, one for each token of the vocabulary. In each, `allowed` has a bit for each token
 * that may be chosen, 32 to a word; all may when it is left out.
 */
export interface LogitsOperations {
  /** The lowest of the tokens with the largest logit. A NaN is smaller than any number. */
  likeliest(logits: Float32Array, allowed?: Int32Array): number
  /**
   * The tokens with the largest logits, in descending order; of equal ones, the lower token first. Those whose logit is
   * NaN or minus infinity are left out.
   * @param most how many are wanted.
   */
  largest(logits: Float32Array, most: number, allowed?: Int32Array): Int32Array
  /** Natural logarithm of the sum of the exponentials, exact to 1e-14; NaN where one that counts is NaN. */
  logSum(logits: Float32Array, allowed?: Int32Array): number
  /**
   * The least logit of the nucleus: of the likeliest tokens that together have a share of the probability. The likeliest
   * token is always in.
   * @param share below 1.
   * @returns NaN where no logit is larger than minus infinity.
   */
  nucleus(logits: Float32Array, share: number, allowed?: Int32Array): number
  /**
   * Draws a token: the one whose logit, divided by the temperature, and noise add up to the most. The noise of a token
   * depends on the place and on the token alone.
   * @returns null where no logit that may be drawn is larger than minus infinity.
   */
  draw(logits: Float32Array, draw: Draw, allowed?: Int32Array): number | null
}

/** Without compiled kernels. `kernels/choice.cpp` computes the same many times as fast. */
export const PLAIN_OPERATIONS: LogitsOperations = { likeliest, largest, logSum, nucleus, draw }

const BITS = 32

function likeliest(logits: Float32Array, allowed?: Int32Array): number {
  return allowed === undefined ? likeliestOfAll(logits) : likeliestOf(logits, allowed)
}

function likeliestOfAll(logits: Float32Array): number {
  let best = 0
  let most = Number.NEGATIVE_INFINITY
  for (let token = 0; token < logits.length; token++) {
    const logit = logits[token]!
    if (logit > most) {
      most = logit
      best = token
    }
  }
  return best
}

function likeliestOf(logits: Float32Array, mask: Int32Array): number {
  let best: number | null = null
  let most = Number.NEGATIVE_INFINITY
  for (let word = 0; word < mask.length; word++) {
    const bits = mask[word]!
    if (bits === 0) continue
    const start = word * BITS
    const end = Math.min(start + BITS, logits.length)
    // Few logits are larger than all before them, so their bits are looked at last.
    for (let token = start; token < end; token++) {
      const logit = logits[token]!
      if (logit > most && ((bits >>> (token - start)) & 1) === 1) {
        most = logit
        best = token
      }
    }
  }
  return best ?? lowestToken(mask)
}

/** 0 when there is none. */
function lowestToken(mask: Int32Array): number {
  const word = mask.findIndex((bits) => bits !== 0)
  return word === -1 ? 0 : word * BITS + lowestBit(mask[word]!)
}

/** Of a word that is not 0. */
function lowestBit(bits: number): number {
  return BITS - 1 - Math.clz32(bits & -bits)
}

/** The logits of the tokens that may be chosen, and these tokens; null where they are all. */
interface Picked {
  readonly logits: Float32Array
  readonly tokens: Int32Array | null
}

function pick(logits: Float32Array, allowed: Int32Array | undefined): Picked {
  if (allowed === undefined) return { logits, tokens: null }
  let count = 0
  for (let word = 0; word < allowed.length; word++) count += bitsIn(allowed[word]!)
  const tokens = new Int32Array(count)
  const picked = new Float32Array(count)
  let at = 0
  for (let word = 0; word < allowed.length; word++) {
    for (let left = allowed[word]!; left !== 0; left &= left - 1) {
      const token = word * BITS + lowestBit(left)
      picked[at] = logits[token]!
      tokens[at++] = token
    }
  }
  return { logits: picked, tokens }
}

function bitsIn(word: number): number {
  const pairs = word - ((word >>> 1) & 0x55555555)
  const fours = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333)
  return Math.imul((fours + (fours >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
}

function largest(logits: Float32Array, most: number, allowed?: Int32Array): Int32Array {
  const picked = pick(logits, allowed)
  const places = most > FEW ? sortedPlaces(picked.logits).slice(0, most) : placesOfLargest(picked.logits, most)
  return Int32Array.from(places, (place) => picked.tokens?.[place] ?? place)
}

/** So many places are kept in order while a row is read. */
const FEW = 64

function placesOfLargest(logits: Float32Array, most: number): readonly number[] {
  const places: number[] = []
  if (most === 0) return places
  let least = Number.NEGATIVE_INFINITY
  for (let place = 0; place < logits.length; place++) {
    if (logits[place]! > least) least = insert(places, place, logits, most)
  }
  return places
}

/** @returns what a logit must exceed to come among them. */
function insert(places: number[], place: number, logits: Float32Array, most: number): number {
  if (places.length === most) places.pop()
  const after = places.findIndex((other) => logits[other]! < logits[place]!)
  places.splice(after === -1 ? places.length : after, 0, place)
  return places.length < most ? Number.NEGATIVE_INFINITY : logits[places.at(-1)!]!
}

function sortedPlaces(logits: Float32Array): Int32Array {
  const places = Int32Array.from(logits.keys()).filter((place) => logits[place]! > Number.NEGATIVE_INFINITY)
  return places.sort((a, b) => logits[b]! - logits[a]! || a - b)
}

/** Exponentials below this share of the largest change no sum of a vocabulary. */
const SMALLEST_LOG = -45

function logSum(logits: Float32Array, allowed?: Int32Array): number {
  const picked = pick(logits, allowed).logits
  const most = largestLogit(picked)
  return most + Math.log(sumOfExponentials(picked, most))
}

function sumOfExponentials(logits: Float32Array, most: number): number {
  let sum = 0
  for (let at = 0; at < logits.length; at++) {
    const difference = logits[at]! - most
    if (difference <= SMALLEST_LOG) continue
    sum += exponential(difference)
  }
  return sum
}

function largestLogit(logits: Float32Array): number {
  let most = Number.NEGATIVE_INFINITY
  for (let at = 0; at < logits.length; at++) if (logits[at]! > most) most = logits[at]!
  return most
}

/** Steps from one number to the next, in a table of exponentials. */
const STEPS = 256
const TABLE = Float64Array.from({ length: -SMALLEST_LOG * STEPS + 1 }, (_, step) => Math.exp(-step / STEPS))

/**
 * The exponential of a number from -45 to 0, to 15 digits, in a quarter of the time that `Math.exp` takes: the nearest in the
 * table, and the first terms of the series for the rest.
 */
function exponential(value: number): number {
  const step = (value * -STEPS + 0.5) | 0
  const rest = value + step * (1 / STEPS)
  return TABLE[step]! * (1 + rest * (1 + rest * (1 / 2 + rest * (1 / 6 + rest * (1 / 24)))))
}

/** Tokens whose logits are so much lower than the largest have no share in a nucleus. */
const NEGLIGIBLE = 30

/** Into which logits are sorted by how much lower than the largest they are. */
const BINS = 1024

function nucleus(logits: Float32Array, share: number, allowed?: Int32Array): number {
  const picked = pick(logits, allowed).logits
  const most = largestLogit(picked)
  if (!Number.isFinite(most)) return most > 0 ? most : Number.NaN
  const lowest = picked.reduce((low, logit) => (logit < low && logit >= most - NEGLIGIBLE ? logit : low), most)
  const scale = BINS / Math.max(most - lowest, 1e-6)
  const binOf = (logit: number) => Math.min(BINS - 1, ((most - logit) * scale) | 0)
  const masses = new Float64Array(BINS)
  for (let at = 0; at < picked.length; at++) {
    const logit = picked[at]!
    if (logit >= lowest) masses[binOf(logit)]! += exponential(logit - most)
  }
  const total = masses.reduce((sum, mass) => sum + mass)
  let mass = 0
  let bin = 0
  while (bin < BINS - 1 && (mass + masses[bin]!) / total < share) mass += masses[bin++]!
  // The nucleus ends in this bin.
  const inside = picked.filter((logit) => logit >= lowest && binOf(logit) === bin).sort()
  let at = inside.length
  do mass += exponential(inside[--at]! - most)
  while (at > 0 && mass / total < share)
  return inside[at]!
}

/** Noise is never larger. */
const MOST_NOISE = 23
/** The odd number nearest to 2^32 over the golden ratio: its multiples are all different modulo 2^32. */
const STRIDE = 0x9e3779b1

/** Tokens have their probabilities then (Gumbel's maximum), as if one random number were held against all of them in turn. */
function draw(logits: Float32Array, { temperature, least, place }: Draw, allowed?: Int32Array): number | null {
  const picked = pick(logits, allowed)
  const largest = largestLogit(picked.logits)
  if (!Number.isFinite(largest)) return largest > 0 ? likeliest(logits, allowed) : null
  let best: number | null = null
  let most = Number.NEGATIVE_INFINITY
  for (let at = 0; at < picked.logits.length; at++) {
    const logit = picked.logits[at]!
    if (!(logit >= least)) continue
    const score = (logit - largest) / temperature
    // Most tokens cannot win, whatever their noise is.
    if (score + MOST_NOISE <= most) continue
    const token = picked.tokens?.[at] ?? at
    const bits = bitsOf(place, token)
    // Nor with this noise: it is below ln 2 times so much, since 1 - u is at most exp(-x) where noise exceeds x.
    if ((most - score) * Math.LOG2E >= Math.clz32(~bits) + 1) continue
    const noisy = score + noiseOf(bits)
    if (noisy <= most) continue
    most = noisy
    best = token
  }
  return best
}

/**
 * Draws among some tokens alone, with the same noise.
 * @param logits of each of them; all are numbers, and there may be more.
 */
export function drawAmong(tokens: Int32Array, logits: Float32Array, draw: Pick<Draw, 'temperature' | 'place'>): number {
  let best = tokens[0]!
  let most = Number.NEGATIVE_INFINITY
  // `Float64Array.from` takes ten times as long.
  for (let at = 0; at < tokens.length; at++) {
    const noisy = logits[at]! / draw.temperature + noiseOf(bitsOf(draw.place, tokens[at]!))
    if (noisy <= most) continue
    most = noisy
    best = tokens[at]!
  }
  return best
}

/** How many of some logits, in descending order, together have a share of their probability. */
export function nucleusAmong(logits: Float32Array, share: number): number {
  if (share === 1) return logits.length
  const masses = new Float64Array(logits.length)
  let total = 0
  for (let at = 0; at < masses.length; at++) total += masses[at] = Math.exp(logits[at]! - logits[0]!)
  let mass = 0
  let count = 0
  do mass += masses[count++]!
  while (count < masses.length && mass / total < share)
  return count
}

/** Random bits of a token. */
function bitsOf(place: number, token: number): number {
  return mixed(place ^ Math.imul(token + 1, STRIDE))
}

/** A number of 32 bits in which each of the given one's changes about half. */
export function mixed(number: number): number {
  let bits = number | 0
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b)
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35)
  return (bits ^ (bits >>> 16)) >>> 0
}

function noiseOf(bits: number): number {
  return -Math.log(-Math.log((bits + 0.5) / 2 ** 32))
}
