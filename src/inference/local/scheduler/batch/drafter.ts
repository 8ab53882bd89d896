import type { PromptChunk } from '../../tokens/prompt-tokens.ts'
import { GAP, NgramIndex } from './ngram-index.ts'

/** Expected next tokens. */
export interface Draft {
  readonly tokens: readonly number[]
  /**
   * For each token, the probability that it saves a step: the reply has it and all before it, and no constraint forces it.
   */
  readonly chances: readonly number[]
}

/**
 * Minimum match lengths of the classes: predictions from longer matches are right more often, so each class has its own
 * average.
 */
const LENGTHS = [0, 4, 6, 10] as const
/** Prior for the fraction of correct predictions of each class. */
const FIRST_CHANCES = [0.3, 0.5, 0.6, 0.8] as const
/** Weight of the newest prediction in the running averages. */
const AVERAGE_WEIGHT = 1 / 8

/**
 * Drafts the next tokens of one sequence from its prompt and its reply, and learns how often drafts are right. It also learns
 * from predictions that were never drafted, which costs nothing. It owns the index and the averages. Its sequence calls it.
 */
export class Drafter {
  readonly #index = new NgramIndex()
  readonly #chances = Float64Array.from(FIRST_CHANCES)

  /** Adds a part of the prompt. */
  read(chunks: readonly PromptChunk[]): void {
    for (const chunk of chunks) {
      if (chunk.type === 'text') for (const token of chunk.tokens) this.#index.push(token)
      else this.#index.push(GAP)
    }
  }

  /** Adds a token of the reply. */
  push(token: number): void {
    const { predicted, matched } = this.#index
    if (predicted !== null) {
      const level = levelOf(matched)
      const seen = predicted === token ? 1 : 0
      this.#chances[level] = this.#chances[level]! + AVERAGE_WEIGHT * (seen - this.#chances[level]!)
    }
    this.#index.push(token)
  }

  /**
   * @param most maximum number of tokens.
   * @param sampled fraction of the reply's tokens that were sampled. A constraint forced the others, which takes less time
   * than a draft.
   */
  propose(most: number, sampled: number): Draft {
    const tokens = this.#index.draft(most)
    const { matched } = this.#index
    let chance = sampled
    const chances = tokens.map((_, at) => {
      chance *= this.#chances[levelOf(matched + at)]!
      return chance
    })
    return { tokens, chances }
  }
}

function levelOf(matched: number): number {
  return LENGTHS.findLastIndex((length) => matched >= length)
}
