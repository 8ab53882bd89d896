import { drawAmong, type LogitsOperations, nucleusAmong } from './logits-operations.ts'

/** What is asked of a row of logits: to choose a token, and how likely it is. */
export interface Ask {
  /** A bit for each token that may be chosen, 32 to a word; all may when it is left out. */
  readonly allowed?: Int32Array | undefined
  /** By how much the logits of tokens are lowered before one is chosen. */
  readonly penalties: ReadonlyMap<number, number>
  /** 0: the likeliest token is chosen. */
  readonly temperature: number
  /** How many of the likeliest tokens may be drawn; 0: all. */
  readonly topK: number
  /** The likeliest tokens that together have this share of the probability may be drawn. */
  readonly topP: number
  /** Random bits of this choice, 32 of them. */
  readonly place: number
  /** How many of the likeliest tokens are ranked beside the chosen one; null where no log-probabilities are wanted. */
  readonly ranked: number | null
}

export interface Chosen {
  readonly token: number
  /** Null where no log-probabilities are wanted. */
  readonly ranking: TokenRanking | null
}

/** How likely a token is, among those that could come next, before penalties. */
interface RankedId {
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

export const NO_PENALTIES: ReadonlyMap<number, number> = new Map()

/** The likeliest token, without regard to earlier ones. */
export const LIKELIEST: Ask = { penalties: NO_PENALTIES, temperature: 0, topK: 0, topP: 1, place: 0, ranked: null }

/** Whether the answers to both are the same. */
export function isSame(one: Ask, other: Ask): boolean {
  if (one === other) return true
  const { penalties } = one
  return (
    one.allowed === other.allowed &&
    one.temperature === other.temperature &&
    one.topK === other.topK &&
    one.topP === other.topP &&
    one.place === other.place &&
    one.ranked === other.ranked &&
    penalties.size === other.penalties.size &&
    (penalties === other.penalties || [...penalties].every(([token, amount]) => other.penalties.get(token) === amount))
  )
}

/** Answers from a row of logits. */
export function chooseFrom(operations: LogitsOperations, logits: Float32Array, ask: Ask): Chosen {
  const token = penalised(logits, ask.penalties, () => chooseToken(operations, logits, ask))
  const { ranked, allowed } = ask
  return { token, ranking: ranked === null ? null : rankTokens(operations, logits, token, ranked, allowed) }
}

/** Applies the penalties for as long as `choose` takes: several asks may share a row. */
function penalised(logits: Float32Array, penalties: ReadonlyMap<number, number>, choose: () => number): number {
  if (penalties.size === 0) return choose()
  const before = new Map<number, number>()
  for (const [token, amount] of penalties) {
    before.set(token, logits[token]!)
    logits[token]! -= amount
  }
  try {
    return choose()
  } finally {
    for (const [token, logit] of before) logits[token] = logit
  }
}

function chooseToken(operations: LogitsOperations, logits: Float32Array, ask: Ask): number {
  const { temperature, topK, topP, place, allowed } = ask
  if (temperature > 0 && topK > 0) {
    const tokens = operations.largest(logits, topK, allowed)
    const own = new Float32Array(tokens.length)
    for (let at = 0; at < own.length; at++) own[at] = logits[tokens[at]!]!
    const drawn = drawFromLargest(tokens, own, ask)
    if (drawn !== null) return drawn
  } else if (temperature > 0) {
    const least = topP < 1 ? operations.nucleus(logits, topP, allowed) : Number.NEGATIVE_INFINITY
    const drawn = operations.draw(logits, { temperature, least, place }, allowed)
    if (drawn !== null) return drawn
  }
  return operations.likeliest(logits, allowed)
}

/**
 * Draws one of the likeliest tokens.
 * @param tokens in descending order. @param logits of each of them.
 * @returns null where there is none.
 */
export function drawFromLargest(tokens: Int32Array, logits: Float32Array, ask: Ask): number | null {
  if (tokens.length === 0) return null
  const count = nucleusAmong(logits, ask.topP)
  return drawAmong(tokens.subarray(0, count), logits, ask)
}

/**
 * Computes log-probabilities. In a row that has what is not a number, all are minus infinity.
 * @param chosen a token that could come next.
 * @param most how many of the likeliest tokens are wanted.
 * @param allowed a bit for each token that could come next, 32 to a word; all could when it is left out.
 */
export function rankTokens(
  operations: LogitsOperations,
  logits: Float32Array,
  chosen: number,
  most: number,
  allowed?: Int32Array,
): TokenRanking {
  const top = Array.from(operations.largest(logits, most, allowed), (token) => ({ token, logit: logits[token]! }))
  return rankingOf(operations.logSum(logits, allowed), logits[chosen]!, top)
}

/** @param total logarithm of the sum of the exponentials. @param chosen logit of the chosen token. */
export function rankingOf(
  total: number,
  chosen: number,
  top: readonly { readonly token: number; readonly logit: number }[],
): TokenRanking {
  const logProbOf = (logit: number) => {
    const logProb = logit - total
    return Number.isNaN(logProb) ? Number.NEGATIVE_INFINITY : Math.min(logProb, 0)
  }
  return { logProb: logProbOf(chosen), top: top.map(({ token, logit }) => ({ token, logProb: logProbOf(logit) })) }
}
