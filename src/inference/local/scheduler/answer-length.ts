/** Prior before any answer has ended: long answers, with less weight than the first real ends. */
const FIRST_GUESS = { tokens: 128, ends: 0.1 }
/** Weight that an answer keeps each time a later one ends. */
const MEMORY = 0.98

/**
 * Estimates how long answers become, from those that have ended; the queue forecast owns one. An answer that was cut at
 * its limit would have been longer, so the mean is all tokens divided by the number of answers that ended by themselves.
 */
export class AnswerLength {
  #tokens = FIRST_GUESS.tokens
  #ends = FIRST_GUESS.ends

  /** @param byItself whether the model ended it, not its limit. */
  ended(tokens: number, byItself: boolean): void {
    this.#tokens = this.#tokens * MEMORY + tokens
    this.#ends = this.#ends * MEMORY + (byItself ? 1 : 0)
  }

  /**
   * Tokens until an answer ends, regardless of its length so far.
   * @param most maximum of further tokens.
   * @param part fraction of answers that end sooner, at least 0 and below 1.
   */
  quantile(most: number, part: number): number {
    const mean = this.#tokens / Math.max(this.#ends, Number.MIN_VALUE)
    return Math.max(1, Math.min(most, -mean * Math.log(1 - part)))
  }
}
