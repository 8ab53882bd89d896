import type { LogitsOperations } from '../native/logits-operations.ts'

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
  const total = operations.logSum(logits, allowed)
  const logProbOf = (token: number) => {
    const logProb = logits[token]! - total
    return Number.isNaN(logProb) ? Number.NEGATIVE_INFINITY : Math.min(logProb, 0)
  }
  const top = Array.from(operations.largest(logits, most, allowed), (token) => ({ token, logProb: logProbOf(token) }))
  return { logProb: logProbOf(chosen), top }
}
