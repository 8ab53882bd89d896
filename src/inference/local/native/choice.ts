import { type LogitsOperations, nucleusSize, sampleAmong } from './logits-operations.ts'

/** A sampling request for a row of logits: how to choose a token, and which log-probabilities to report. */
export interface Ask {
  /** A mask with a bit for each token, 32 to a word; without it, all tokens are allowed. */
  readonly allowed?: Int32Array | undefined
  /** Subtracted from the logits of tokens before one is chosen. */
  readonly penalties: ReadonlyMap<number, number>
  /** Null without a repetition penalty. It applies before the other penalties. */
  readonly repeated?: Repeated | null
  /** 0 for greedy sampling. */
  readonly temperature: number
  /** Number of the likeliest tokens that may be drawn; 0 for all. */
  readonly topK: number
  /** Nucleus sampling: only the likeliest tokens whose probabilities add up to this may be drawn. */
  readonly topP: number
  /** Least probability of a token that may be drawn, as a share of that of the likeliest; 0, the default, for all. */
  readonly minP?: number
  /** Seed of this draw: 32 random bits. */
  readonly drawSeed: number
  /** Number of top log-probabilities beside that of the chosen token; null for no log-probabilities. */
  readonly ranked: number | null
}

/** The tokens that a repetition penalty applies to, and the penalty. */
interface Repeated {
  /** Each token once, always in the same order. */
  readonly tokens: { readonly size: number; forEach(visit: (token: number) => void): void }
  readonly penalty: number
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
  const token = penalised(logits, ask, () => chooseToken(operations, logits, ask))
  const { ranked, allowed } = ask
  return { token, ranking: ranked === null ? null : rankTokens(operations, logits, token, ranked, allowed) }
}

/** Applies the penalties during `choose` only: several requests may share a row. */
function penalised(logits: Float32Array, { penalties, repeated }: Ask, choose: () => number): number {
  return penalisedRepetition(logits, repeated, () => {
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
  })
}

function penalisedRepetition(logits: Float32Array, repeated: Ask['repeated'], choose: () => number): number {
  if (!repeated) return choose()
  const { tokens, penalty } = repeated
  // Not a map by token, which would take several times as long.
  const before = new Float32Array(tokens.size)
  let at = 0
  tokens.forEach((token) => {
    const logit = logits[token]!
    before[at++] = logit
    logits[token] = logit > 0 ? logit / penalty : logit * penalty
  })
  try {
    return choose()
  } finally {
    at = 0
    tokens.forEach((token) => {
      logits[token] = before[at++]!
    })
  }
}

function chooseToken(operations: LogitsOperations, logits: Float32Array, ask: Ask): number {
  const { temperature, topK, topP, minP = 0, drawSeed, allowed } = ask
  if (temperature > 0 && topK > 0) {
    const tokens = operations.topK(logits, topK, allowed)
    const own = new Float32Array(tokens.length)
    for (let at = 0; at < own.length; at++) own[at] = logits[tokens[at]!]!
    const drawn = sampleFromTopK(tokens, own, ask)
    if (drawn !== null) return drawn
  } else if (temperature > 0) {
    const nucleus = topP < 1 ? operations.topPCutoff(logits, topP, allowed) : Number.NEGATIVE_INFINITY
    const least = minP > 0 ? leastLogit(logits[operations.argmax(logits, allowed)]!, ask) : nucleus
    const drawn = operations.sample(logits, { temperature, minLogit: Math.max(nucleus, least), drawSeed }, allowed)
    if (drawn !== null) return drawn
  }
  return operations.argmax(logits, allowed)
}

/** The least logit that min-p lets through. @param most the largest one. */
function leastLogit(most: number, { temperature, minP = 0 }: Ask): number {
  return most + temperature * Math.log(minP)
}

/**
 * Samples from a top-k list.
 * @param tokens in descending order of their logits. @param logits of the tokens.
 * @returns null for an empty list.
 */
export function sampleFromTopK(tokens: Int32Array, logits: Float32Array, ask: Ask): number | null {
  if (tokens.length === 0) return null
  const nucleus = nucleusSize(logits, ask.topP)
  const least = leastLogit(logits[0]!, ask)
  const beyond = logits.findIndex((logit) => logit < least)
  const count = beyond === -1 ? nucleus : Math.min(nucleus, beyond)
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
