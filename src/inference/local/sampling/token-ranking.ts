/** How likely a token is, among those that could come next. */
export interface RankedId {
  readonly token: number
  /** Natural logarithm of its probability. */
  readonly logProb: number
}

export interface TokenRanking {
  /** Of the chosen token. */
  readonly logProb: number
  /** The likeliest tokens, in descending order; of equally likely ones, the lower first. */
  readonly top: readonly RankedId[]
}

const BITS = 32

/**
 * Computes log-probabilities in double precision. In a row that has what is not a number, all are minus infinity.
 * @param chosen a token that could come next.
 * @param most how many of the likeliest tokens are wanted.
 * @param allowed a bit for each token that could come next, 32 to a word; all could when it is left out.
 */
export function rankTokens(logits: Float32Array, chosen: number, most: number, allowed?: Int32Array): TokenRanking {
  const possible = allowed === undefined ? { logits, tokens: null } : pick(logits, allowed)
  const largest = largestOf(possible.logits)
  const total = largest + Math.log(sumOf(possible.logits, largest))
  const logProbOf = (token: number) => {
    const logProb = logits[token]! - total
    return Number.isNaN(logProb) ? Number.NEGATIVE_INFINITY : Math.min(logProb, 0)
  }
  const top = most === 0 ? [] : placesOfLargest(possible.logits, most)
  return {
    logProb: logProbOf(chosen),
    top: top.map((place) => {
      const token = possible.tokens?.[place] ?? place
      return { token, logProb: logProbOf(token) }
    }),
  }
}

/** The logits of the tokens of a mask, and these tokens. */
function pick(logits: Float32Array, mask: Int32Array): { readonly logits: Float32Array; readonly tokens: Int32Array } {
  let count = 0
  for (let word = 0; word < mask.length; word++) count += bitsIn(mask[word]!)
  const picked = { logits: new Float32Array(count), tokens: new Int32Array(count) }
  let at = 0
  for (let word = 0; word < mask.length; word++) {
    for (let left = mask[word]!; left !== 0; left &= left - 1) {
      const token = word * BITS + BITS - 1 - Math.clz32(left & -left)
      picked.logits[at] = logits[token]!
      picked.tokens[at++] = token
    }
  }
  return picked
}

function bitsIn(word: number): number {
  const pairs = word - ((word >>> 1) & 0x55555555)
  const fours = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333)
  return Math.imul((fours + (fours >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
}

function largestOf(logits: Float32Array): number {
  let largest = Number.NEGATIVE_INFINITY
  for (let place = 0; place < logits.length; place++) {
    const logit = logits[place]!
    if (logit > largest) largest = logit
  }
  return largest
}

/** The sum of exponentials, relative to the largest logit. */
function sumOf(logits: Float32Array, largest: number): number {
  let sum = 0
  for (let place = 0; place < logits.length; place++) {
    sum += exponential(Math.max(logits[place]! - largest, -NEGLIGIBLE))
  }
  return sum
}

/** In descending order of logits. */
function placesOfLargest(logits: Float32Array, most: number): readonly number[] {
  const places: number[] = []
  let least = Number.NEGATIVE_INFINITY
  for (let place = 0; place < logits.length; place++) {
    if (logits[place]! > least) least = insert(places, place, logits, most)
  }
  return places
}

/** There are few, so that each is inserted where it belongs. @returns what a logit must exceed to come among them. */
function insert(places: number[], place: number, logits: Float32Array, most: number): number {
  if (places.length === most) places.pop()
  const after = places.findIndex((other) => logits[other]! < logits[place]!)
  places.splice(after === -1 ? places.length : after, 0, place)
  return places.length < most ? Number.NEGATIVE_INFINITY : logits[places.at(-1)!]!
}

/** All smaller exponentials of the largest vocabulary together would not change a sum that is at least 1. */
const NEGLIGIBLE = 50
/** Steps from one number to the next, in a table of exponentials. */
const STEPS = 256
const TABLE = Float64Array.from({ length: NEGLIGIBLE * STEPS + 1 }, (_, step) => Math.exp(-step / STEPS))

/**
 * The exponential of a number from -50 to 0, to 15 digits, in a quarter of the time that `Math.exp` takes: the nearest in the
 * table, and the first terms of the series for the rest.
 */
function exponential(value: number): number {
  const step = (value * -STEPS + 0.5) | 0
  const rest = value + step * (1 / STEPS)
  return TABLE[step]! * (1 + rest * (1 + rest * (1 / 2 + rest * (1 / 6 + rest * (1 / 24)))))
}
