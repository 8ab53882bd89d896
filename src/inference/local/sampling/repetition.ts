import type { RepetitionLimits } from '../protocol.ts'

/** Follows the tokens of a completion and detects when they only repeat themselves. */
export class Repetition {
  readonly #limits: RepetitionLimits
  /** The last tokens, in a ring buffer. */
  readonly #ring: Int32Array
  /** By length of a block: how many of the last tokens are those that came so many tokens before. */
  readonly #runs: Int32Array
  #count = 0

  constructor(limits: RepetitionLimits) {
    this.#limits = limits
    this.#ring = new Int32Array(limits.blockTokens)
    this.#runs = new Int32Array(limits.blockTokens + 1)
  }

  /** @returns whether the text goes round in circles. */
  push(token: number): boolean {
    const { blockTokens, repeats, tokens } = this.#limits
    let isStuck = false
    for (let block = 1; block <= Math.min(blockTokens, this.#count); block++) {
      const before = this.#ring[(this.#count - block) % blockTokens]
      const run = before === token ? this.#runs[block]! + 1 : 0
      this.#runs[block] = run
      if (run + block >= Math.max(tokens, repeats * block)) isStuck = true
    }
    this.#ring[this.#count % blockTokens] = token
    this.#count++
    return isStuck
  }

  /** Starts over for another text. */
  reset(): void {
    this.#count = 0
    this.#runs.fill(0)
  }
}
