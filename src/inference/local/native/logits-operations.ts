/** Parameters of a draw. */
export interface Draw {
  /** Above 0. */
  readonly temperature: number
  /** The smallest logit that may be drawn. */
  readonly minLogit: number
  /** Random bits of this draw, 32 of them. */
  readonly drawSeed: number
}

/**
 * Sampling operations on a row of logits, one for each token of the vocabulary. `allowed` is a mask with a bit for each token,
 * 32 to a word; without it, all tokens are allowed.
 */
export interface LogitsOperations {
  /** The token with the largest logit; of equal ones, the lowest. A NaN is smaller than any number. */
  argmax(logits: Float32Array, allowed?: Int32Array): number
  /**
   * The k tokens with the largest logits, in descending order; of equal ones, the lower token first. Those whose logit is
   * NaN or minus infinity are left out.
   */
  topK(logits: Float32Array, k: number, allowed?: Int32Array): Int32Array
  /** Natural logarithm of the sum of the exponentials, exact to 1e-14; NaN where an allowed logit is NaN. */
  logSumExp(logits: Float32Array, allowed?: Int32Array): number
  /**
   * The smallest logit of the nucleus: of the likeliest tokens whose probabilities add up to `topP`. The likeliest token is
   * always in.
   * @param topP below 1.
   * @returns NaN where no logit is larger than minus infinity.
   */
  topPCutoff(logits: Float32Array, topP: number, allowed?: Int32Array): number
  /**
   * Samples a token with the Gumbel-max trick: the argmax of logit / temperature + Gumbel noise. The noise of a token depends
   * only on `drawSeed` and the token.
   * @returns null where no logit that may be drawn is above minus infinity.
   */
  sample(logits: Float32Array, draw: Draw, allowed?: Int32Array): number | null
}

/** Used without compiled kernels. `kernels/logits.cpp` gives the same results many times as fast. */
export const PLAIN_OPERATIONS: LogitsOperations = { argmax, topK, logSumExp, topPCutoff, sample }

const WORD_BITS = 32

function argmax(logits: Float32Array, allowed?: Int32Array): number {
  return allowed === undefined ? argmaxOfAll(logits) : argmaxOfAllowed(logits, allowed)
}

function argmaxOfAll(logits: Float32Array): number {
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

function argmaxOfAllowed(logits: Float32Array, mask: Int32Array): number {
  let best: number | null = null
  let most = Number.NEGATIVE_INFINITY
  for (let word = 0; word < mask.length; word++) {
    const bits = mask[word]!
    if (bits === 0) continue
    const start = word * WORD_BITS
    const end = Math.min(start + WORD_BITS, logits.length)
    // Few logits exceed all before them, so the mask is tested last.
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
  return word === -1 ? 0 : word * WORD_BITS + lowestBit(mask[word]!)
}

/** The index of the lowest set bit of a word that is not 0. */
function lowestBit(bits: number): number {
  return WORD_BITS - 1 - Math.clz32(bits & -bits)
}

/** The logits of the allowed tokens, and these tokens; null for all. */
interface AllowedLogits {
  readonly logits: Float32Array
  readonly tokens: Int32Array | null
}

function pick(logits: Float32Array, allowed: Int32Array | undefined): AllowedLogits {
  if (allowed === undefined) return { logits, tokens: null }
  let count = 0
  for (let word = 0; word < allowed.length; word++) count += popCount(allowed[word]!)
  const tokens = new Int32Array(count)
  const picked = new Float32Array(count)
  let at = 0
  for (let word = 0; word < allowed.length; word++) {
    for (let left = allowed[word]!; left !== 0; left &= left - 1) {
      const token = word * WORD_BITS + lowestBit(left)
      picked[at] = logits[token]!
      tokens[at++] = token
    }
  }
  return { logits: picked, tokens }
}

function popCount(word: number): number {
  const pairs = word - ((word >>> 1) & 0x55555555)
  const fours = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333)
  return Math.imul((fours + (fours >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
}

function topK(logits: Float32Array, k: number, allowed?: Int32Array): Int32Array {
  const picked = pick(logits, allowed)
  const indices = k > MAX_INSERTION_SORT ? sortedIndices(picked.logits).slice(0, k) : indicesOfTopK(picked.logits, k)
  return Int32Array.from(indices, (index) => picked.tokens?.[index] ?? index)
}

/** Up to this k, insertion sort while reading is faster than sorting the row. */
const MAX_INSERTION_SORT = 64

function indicesOfTopK(logits: Float32Array, k: number): readonly number[] {
  const indices: number[] = []
  if (k === 0) return indices
  let least = Number.NEGATIVE_INFINITY
  for (let index = 0; index < logits.length; index++) {
    if (logits[index]! > least) least = insert(indices, index, logits, k)
  }
  return indices
}

/** @returns the minimum that a logit must exceed to be included. */
function insert(indices: number[], index: number, logits: Float32Array, k: number): number {
  if (indices.length === k) indices.pop()
  const after = indices.findIndex((other) => logits[other]! < logits[index]!)
  indices.splice(after === -1 ? indices.length : after, 0, index)
  return indices.length < k ? Number.NEGATIVE_INFINITY : logits[indices.at(-1)!]!
}

function sortedIndices(logits: Float32Array): Int32Array {
  const indices = Int32Array.from(logits.keys()).filter((index) => logits[index]! > Number.NEGATIVE_INFINITY)
  return indices.sort((a, b) => logits[b]! - logits[a]! || a - b)
}

/** exp() of anything smaller changes no sum over a vocabulary whose largest term is exp(0). */
const MIN_EXPONENT = -45

function logSumExp(logits: Float32Array, allowed?: Int32Array): number {
  const picked = pick(logits, allowed).logits
  const most = maxLogit(picked)
  return most + Math.log(sumOfExp(picked, most))
}

function sumOfExp(logits: Float32Array, most: number): number {
  let sum = 0
  for (let at = 0; at < logits.length; at++) {
    const difference = logits[at]! - most
    if (difference <= MIN_EXPONENT) continue
    sum += fastExp(difference)
  }
  return sum
}

function maxLogit(logits: Float32Array): number {
  let most = Number.NEGATIVE_INFINITY
  for (let at = 0; at < logits.length; at++) if (logits[at]! > most) most = logits[at]!
  return most
}

/** Table entries per unit. */
const STEPS = 256
const TABLE = Float64Array.from({ length: -MIN_EXPONENT * STEPS + 1 }, (_, step) => Math.exp(-step / STEPS))

/**
 * exp(x) for x from -45 to 0, to 15 digits, in a quarter of the time of `Math.exp`: the nearest entry of the table times a Taylor
 * polynomial of the rest.
 */
function fastExp(value: number): number {
  const step = (value * -STEPS + 0.5) | 0
  const rest = value + step * (1 / STEPS)
  return TABLE[step]! * (1 + rest * (1 + rest * (1 / 2 + rest * (1 / 6 + rest * (1 / 24)))))
}

/** Tokens whose logit is this far below the maximum are never in the nucleus. */
const NEGLIGIBLE = 30

/** Bins of the histogram of logits, from the maximum down to the lowest that is not negligible. */
const BINS = 1024

function topPCutoff(logits: Float32Array, topP: number, allowed?: Int32Array): number {
  const picked = pick(logits, allowed).logits
  const most = maxLogit(picked)
  if (!Number.isFinite(most)) return most > 0 ? most : Number.NaN
  const lowest = picked.reduce((low, logit) => (logit < low && logit >= most - NEGLIGIBLE ? logit : low), most)
  const scale = BINS / Math.max(most - lowest, 1e-6)
  const binOf = (logit: number) => Math.min(BINS - 1, ((most - logit) * scale) | 0)
  const masses = new Float64Array(BINS)
  for (let at = 0; at < picked.length; at++) {
    const logit = picked[at]!
    if (logit >= lowest) masses[binOf(logit)]! += fastExp(logit - most)
  }
  const total = masses.reduce((sum, mass) => sum + mass)
  let mass = 0
  let bin = 0
  while (bin < BINS - 1 && (mass + masses[bin]!) / total < topP) mass += masses[bin++]!
  // The nucleus ends in this bin.
  const inside = picked.filter((logit) => logit >= lowest && binOf(logit) === bin).sort()
  let at = inside.length
  do mass += fastExp(inside[--at]! - most)
  while (at > 0 && mass / total < topP)
  return inside[at]!
}

/** Upper bound of `gumbelNoise`. */
const MAX_NOISE = 23
/** The odd number nearest to 2^32 divided by the golden ratio (Fibonacci hashing): its multiples are distinct modulo 2^32. */
const FIBONACCI = 0x9e3779b1

/** Gumbel-max trick (Gumbel 1954): tokens are drawn with their softmax probabilities. */
function sample(logits: Float32Array, { temperature, minLogit, drawSeed }: Draw, allowed?: Int32Array): number | null {
  const picked = pick(logits, allowed)
  const largest = maxLogit(picked.logits)
  if (!Number.isFinite(largest)) return largest > 0 ? argmax(logits, allowed) : null
  let best: number | null = null
  let most = Number.NEGATIVE_INFINITY
  for (let at = 0; at < picked.logits.length; at++) {
    const logit = picked.logits[at]!
    if (!(logit >= minLogit)) continue
    const score = (logit - largest) / temperature
    // Most tokens cannot win with any noise.
    if (score + MAX_NOISE <= most) continue
    const token = picked.tokens?.[at] ?? at
    const bits = randomBits(drawSeed, token)
    // Nor with this noise, below ln 2 times (leading ones of u + 1): 1 - u is at most exp(-x) where noise exceeds x.
    if ((most - score) * Math.LOG2E >= Math.clz32(~bits) + 1) continue
    const perturbed = score + gumbelNoise(bits)
    if (perturbed <= most) continue
    most = perturbed
    best = token
  }
  return best
}

/**
 * Samples from a list of tokens, with the same noise.
 * @param logits of the tokens; none is NaN, and there may be more of them.
 */
export function sampleAmong(
  tokens: Int32Array,
  logits: Float32Array,
  draw: Pick<Draw, 'temperature' | 'drawSeed'>,
): number {
  let best = tokens[0]!
  let most = Number.NEGATIVE_INFINITY
  // `Float64Array.from` takes ten times as long.
  for (let at = 0; at < tokens.length; at++) {
    const perturbed = logits[at]! / draw.temperature + gumbelNoise(randomBits(draw.drawSeed, tokens[at]!))
    if (perturbed <= most) continue
    most = perturbed
    best = tokens[at]!
  }
  return best
}

/** Counts the logits of the nucleus. @param logits in descending order. */
export function nucleusSize(logits: Float32Array, topP: number): number {
  if (topP === 1) return logits.length
  const masses = new Float64Array(logits.length)
  let total = 0
  for (let at = 0; at < masses.length; at++) total += masses[at] = Math.exp(logits[at]! - logits[0]!)
  let mass = 0
  let count = 0
  do mass += masses[count++]!
  while (count < masses.length && mass / total < topP)
  return count
}

/** A token's random bits. */
function randomBits(drawSeed: number, token: number): number {
  return fmix32(drawSeed ^ Math.imul(token + 1, FIBONACCI))
}

/** MurmurHash3 fmix32. */
export function fmix32(number: number): number {
  let bits = number | 0
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b)
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35)
  return (bits ^ (bits >>> 16)) >>> 0
}

/** Standard Gumbel noise: -ln(-ln u). */
function gumbelNoise(bits: number): number {
  return -Math.log(-Math.log((bits + 0.5) / 2 ** 32))
}
