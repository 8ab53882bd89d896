import { forbidOthers } from '../../constraints/token-mask.ts'
import type { Sampling } from '../../engine.ts'
import type { Context } from '../native/context.ts'
import type { Llama } from '../native/llama.ts'
import type { Pointer } from '../native/structs.ts'
import type { FreeSampler } from './sampler.ts'

/**
 * Chooses the tokens of one completion by a chain of llama.cpp's samplers. It holds the random state and the token counts
 * for penalties.
 */
export class ChainSampler implements FreeSampler {
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

  sample(context: Context, row: number, allowed?: Int32Array): number {
    const sample = () => this.#llama.sampler_sample(this.#chain, context.handle, row)
    if (allowed === undefined) return sample()
    return context.withChangedLogits(row, (logits) => forbidOthers(logits, allowed), sample)
  }

  accept(token: number): void {
    this.#llama.sampler_accept(this.#chain, token)
  }

  close(): void {
    this.#llama.sampler_free(this.#chain)
  }
}
