/** What is taken for granted before any answer has ended: long answers, but so few that the first ends count for more. */
const FIRST_GUESS = { tokens: 128, ends: 0.1 }
/** What an answer counts once the next one has ended. */
const MEMORY = 0.98

/**
 * Estimates how long answers become, from those that have ended. Of one that was cut at its limit, only so much is known
 * that it would have been longer; so the mean is all tokens over the number of answers that ended by themselves.
 */
export class AnswerLength {
  #tokens = FIRST_GUESS.tokens
  #ends = FIRST_GUESS.ends

  /** @param byItself whether the model ended it, and not its limit. */
  ended(tokens: number, byItself: boolean): void {
    this.#tokens = this.#tokens * MEMORY + tokens
    this.#ends = this.#ends * MEMORY + (byItself ? 1 : 0)
  }

  /**
   * Tokens until an answer ends that may get so many more, whatever it has got so far.
   * @param part of the answers that end sooner, from 0 to below 1.
   */
  quantile(most: number, part: number): number {
    const mean = this.#tokens / Math.max(this.#ends, Number.MIN_VALUE)
    return Math.max(1, Math.min(most, -mean * Math.log(1 - part)))
  }
}
