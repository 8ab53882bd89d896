import type { Sampling } from '../../contract/work.ts'
import { type Ask, NO_PENALTIES } from '../native/choice.ts'
import { fmix32 } from '../native/logits-operations.ts'
import type { FreeSampler, Rows } from './sampler.ts'
import { SeenTokens } from './seen-tokens.ts'

/**
 * Chooses tokens with penalties, or draws them with noise that depends on the seed, the position in the completion and the
 * token. A rounding difference of a logit, as in another batch, then changes the token only if two candidates are that close.
 * A single random number compared with cumulative probabilities would be sensitive to the rounding of all of them.
 */
export class DrawingSampler implements FreeSampler {
  readonly #sampling: Sampling
  readonly #seed: number
  /** Number of occurrences of each token in the completion. */
  readonly #counts = new Map<number, number>()
  /** Tokens that a repetition penalty applies to; null without one. */
  readonly #seen: SeenTokens | null
  #position = 0

  /** @param prompt the tokens before the completion, which may be shared; needed for a repetition penalty only. */
  constructor(sampling: Sampling, seed: number, prompt: SeenTokens | null = null) {
    this.#sampling = sampling
    this.#seed = seed
    this.#seen = penalisesRepetition(sampling) ? new SeenTokens(prompt, []) : null
  }

  ask(ahead: readonly number[] = [], allowed?: Int32Array): Ask {
    const { temperature, topK, topP, minP = 0, repetitionPenalty: penalty = 1 } = this.#sampling
    const drawSeed = fmix32(this.#seed ^ fmix32(this.#position + ahead.length))
    const seen = this.#seen && ahead.length > 0 ? new SeenTokens(this.#seen, ahead) : this.#seen
    const repeated = seen && { tokens: seen, penalty }
    const penalties = this.#penalties(ahead)
    return { allowed, penalties, repeated, temperature, topK, topP, minP, drawSeed, ranked: null }
  }

  sample(rows: Rows, row: number, allowed?: Int32Array): number {
    const token = this.choose(rows, row, allowed)
    this.accept(token)
    return token
  }

  choose(rows: Rows, row: number, allowed?: Int32Array): number {
    return rows.choose(row, this.ask([], allowed)).token
  }

  accept(token: number): void {
    this.#position++
    count(this.#counts, token)
    this.#seen?.add(token)
  }

  #penalties(ahead: readonly number[]): ReadonlyMap<number, number> {
    const { frequencyPenalty, presencePenalty } = this.#sampling
    if (frequencyPenalty === 0 && presencePenalty === 0) return NO_PENALTIES
    const counts = new Map(this.#counts)
    for (const token of ahead) count(counts, token)
    for (const [token, times] of counts) counts.set(token, frequencyPenalty * times + presencePenalty)
    return counts
  }
}

export function penalisesRepetition({ repetitionPenalty = 1 }: Sampling): boolean {
  return repetitionPenalty !== 1
}

function count(counts: Map<number, number>, token: number): void {
  counts.set(token, (counts.get(token) ?? 0) + 1)
}
