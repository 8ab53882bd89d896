import type { Sampling } from '../../engine.ts'
import type { Context } from './context.ts'
import type { Llama } from './llama.ts'
import type { Pointer } from './structs.ts'

export interface TokenSampler {
  /** Chooses a token from the logits of one row of the last decoded batch. */
  sample(context: Context, row: number): number
  /** Whether it ended a thought because the thought's budget was used up. */
  readonly thoughtInterrupted?: boolean
  /** Ends the current thought, so that the reply comes next. @returns false when there is no thought. */
  endThought?(): boolean
  /**
   * The tokens that come next, whatever the logits are. They count as chosen.
   * @param most number of tokens that there is room for.
   */
  forced?(most: number): readonly number[]
  close(): void
}

/** Chooses the tokens of one completion. It holds the random state and the token counts for penalties. */
export class Sampler implements TokenSampler {
  readonly #llama: Llama
  readonly #chain: Pointer

  /**
   * @param maxTokens maximum length of the completion. Penalties count all of its tokens and none of the prompt's.
   */
  constructor(llama: Llama, sampling: Sampling, seed: number, vocabularySize: number, maxTokens: number) {
    this.#llama = llama
    this.#chain = llama.sampler_chain_init({ no_perf: true })
    const add = (sampler: Pointer) => llama.sampler_chain_add(this.#chain, sampler)
    const { temperature, topK, topP, frequencyPenalty, presencePenalty } = sampling
    if (frequencyPenalty !== 0 || presencePenalty !== 0) {
      add(llama.sampler_init_penalties(vocabularySize, maxTokens, 1, frequencyPenalty, presencePenalty))
    }
    if (temperature === 0) {
      add(llama.sampler_init_greedy())
      return
    }
    if (topK > 0) add(llama.sampler_init_top_k(topK))
    if (topP < 1) add(llama.sampler_init_top_p(topP, 1))
    add(llama.sampler_init_temp(temperature))
    add(llama.sampler_init_dist(seed))
  }

  sample(context: Context, row: number): number {
    return this.#llama.sampler_sample(this.#chain, context.handle, row)
  }

  /** Counts a token that was not sampled. */
  accept(token: number): void {
    this.#llama.sampler_accept(this.#chain, token)
  }

  close(): void {
    this.#llama.sampler_free(this.#chain)
  }
}
