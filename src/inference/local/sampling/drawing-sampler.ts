import type { Sampling } from '../../contract/work.ts'
import { type Ask, NO_PENALTIES } from '../native/choice.ts'
import { fmix32 } from '../native/logits-operations.ts'
import type { FreeSampler, Rows } from './sampler.ts'

/**
 * Chooses tokens with penalties, or draws them with random numbers that belong to the seed, to the place in the completion
 * and to the token. A logit that is rounded differently, as beside other sequences, then changes the token only where two
 * come as close as that. If one random number were held against all tokens in turn, it would move the bounds of them all.
 */
export class DrawingSampler implements FreeSampler {
  readonly #sampling: Sampling
  readonly #seed: number
  /** How often the completion has each of its tokens. */
  readonly #counts = new Map<number, number>()
  #place = 0

  constructor(sampling: Sampling, seed: number) {
    this.#sampling = sampling
    this.#seed = seed
  }

  ask(ahead: readonly number[] = [], allowed?: Int32Array): Ask {
    const { temperature, topK, topP } = this.#sampling
    const place = fmix32(this.#seed ^ fmix32(this.#place + ahead.length))
    return { allowed, penalties: this.#penalties(ahead), temperature, topK, topP, place, ranked: null }
  }

  sample(rows: Rows, row: number, allowed?: Int32Array): number {
    const { token } = rows.choose(row, this.ask([], allowed))
    this.accept(token)
    return token
  }

  accept(token: number): void {
    this.#place++
    count(this.#counts, token)
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

function count(counts: Map<number, number>, token: number): void {
  counts.set(token, (counts.get(token) ?? 0) + 1)
}
