import type { Sampling } from './work.ts'

/** When a completion counts as repeating itself: it ends with the same block of tokens, over and over. */
export interface RepetitionLimits {
  /** Maximum tokens of the block. */
  readonly blockTokens: number
  /** Minimum consecutive occurrences of the block. */
  readonly repeats: number
  /** Minimum tokens of all occurrences together. */
  readonly tokens: number
}

/** Null if the model's card does not enable it, or if penalties encourage repetition. */
export function createRepetition(
  limits: RepetitionLimits | null,
  { frequencyPenalty, presencePenalty, repetitionPenalty = 1 }: Sampling,
): Repetition | null {
  const isWanted = frequencyPenalty < 0 || presencePenalty < 0 || repetitionPenalty < 1
  return limits === null || isWanted ? null : new Repetition(limits)
}

/** Follows the tokens of a completion and detects when they only repeat. */
export class Repetition {
  readonly #limits: RepetitionLimits
  /** The last tokens, in a ring buffer. */
  readonly #ring: Int32Array
  /** By block length: how many of the last tokens equal the token one block before them. */
  readonly #runs: Int32Array
  #count = 0

  constructor(limits: RepetitionLimits) {
    this.#limits = limits
    this.#ring = new Int32Array(limits.blockTokens)
    this.#runs = new Int32Array(limits.blockTokens + 1)
  }

  /** @returns whether the text repeats itself. */
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
