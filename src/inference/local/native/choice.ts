import { type LogitsOperations, nucleusSize, sampleAmong } from './logits-operations.ts'

/** A sampling request for a row of logits: how to choose a token, and which log-probabilities to report. */
export interface Ask {
  /** A mask with a bit for each token, 32 to a word; without it, all tokens are allowed. */
  readonly allowed?: Int32Array | undefined
  /** Subtracted from the logits of tokens before one is chosen. */
  readonly penalties: ReadonlyMap<number, number>
  /** 0 for greedy sampling. */
  readonly temperature: number
  /** Number of the likeliest tokens that may be drawn; 0 for all. */
  readonly topK: number
  /** Nucleus sampling: only the likeliest tokens whose probabilities add up to this may be drawn. */
  readonly topP: number
  /** Seed of this draw: 32 random bits. */
  readonly drawSeed: number
  /** Number of top log-probabilities beside that of the chosen token; null for no log-probabilities. */
  readonly ranked: number | null
}

export interface Chosen {
  readonly token: number
  /** Null if no log-probabilities were requested. */
  readonly ranking: TokenRanking | null
}

/** The log-probability of a token among the allowed ones, before penalties. */
interface RankedId {
  readonly token: number
  /** Natural logarithm of its probability. */
  readonly logProb: number
}

export interface TokenRanking {
  /** Log-probability of the chosen token. */
  readonly logProb: number
  /** The likeliest tokens, in descending order; of equally likely ones, the lower first. */
  readonly top: readonly RankedId[]
}

export const NO_PENALTIES: ReadonlyMap<number, number> = new Map()

/** Greedy sampling, without penalties. */
export const LIKELIEST: Ask = { penalties: NO_PENALTIES, temperature: 0, topK: 0, topP: 1, drawSeed: 0, ranked: null }

/** Whether two requests have the same answer. */
export function isSame(one: Ask, other: Ask): boolean {
  if (one === other) return true
  const { penalties } = one
  return (
    one.allowed === other.allowed &&
    one.temperature === other.temperature &&
    one.topK === other.topK &&
    one.topP === other.topP &&
    one.drawSeed === other.drawSeed &&
    one.ranked === other.ranked &&
    penalties.size === other.penalties.size &&
    (penalties === other.penalties || [...penalties].every(([token, amount]) => other.penalties.get(token) === amount))
  )
}

/** Samples from a row of logits. */
export function chooseFrom(operations: LogitsOperations, logits: Float32Array, ask: Ask): Chosen {
  const token = penalised(logits, ask.penalties, () => chooseToken(operations, logits, ask))
  const { ranked, allowed } = ask
  return { token, ranking: ranked === null ? null : rankTokens(operations, logits, token, ranked, allowed) }
}

/** Applies the penalties during `choose` only: several requests may share a row. */
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
  const { temperature, topK, topP, drawSeed, allowed } = ask
  if (temperature > 0 && topK > 0) {
    const tokens = operations.topK(logits, topK, allowed)
    const own = new Float32Array(tokens.length)
    for (let at = 0; at < own.length; at++) own[at] = logits[tokens[at]!]!
    const drawn = sampleFromTopK(tokens, own, ask)
    if (drawn !== null) return drawn
  } else if (temperature > 0) {
    const minLogit = topP < 1 ? operations.topPCutoff(logits, topP, allowed) : Number.NEGATIVE_INFINITY
    const drawn = operations.sample(logits, { temperature, minLogit, drawSeed }, allowed)
    if (drawn !== null) return drawn
  }
  return operations.argmax(logits, allowed)
}

/**
 * Samples from a top-k list.
 * @param tokens in descending order of their logits. @param logits of the tokens.
 * @returns null for an empty list.
 */
export function sampleFromTopK(tokens: Int32Array, logits: Float32Array, ask: Ask): number | null {
  if (tokens.length === 0) return null
  const count = nucleusSize(logits, ask.topP)
  return sampleAmong(tokens.subarray(0, count), logits, { temperature: ask.temperature, drawSeed: ask.drawSeed })
}

/**
 * Computes log-probabilities. In a row with a NaN, all are minus infinity.
 * @param chosen an allowed token.
 * @param most number of top tokens.
 * @param allowed a mask with a bit for each token, 32 to a word; without it, all tokens are allowed.
 */
export function rankTokens(
  operations: LogitsOperations,
  logits: Float32Array,
  chosen: number,
  most: number,
  allowed?: Int32Array,
): TokenRanking {
  const top = Array.from(operations.topK(logits, most, allowed), (token) => ({ token, logit: logits[token]! }))
  return rankingOf(operations.logSumExp(logits, allowed), logits[chosen]!, top)
}

/** @param total log-sum-exp of the row. @param chosen logit of the chosen token. */
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
