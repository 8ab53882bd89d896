import koffi from 'koffi'
import type { Sampling } from '../../src/inference/contract/work.ts'
import { declareIn } from '../../src/inference/local/native/declare.ts'
import type { Pointer } from '../../src/inference/local/native/structs.ts'

const llama_sampler_chain_params = koffi.struct({ no_perf: 'bool' })

/** llama.cpp's own samplers, as its server chains them. */
export class LlamaSampler {
  readonly #sample: (chain: Pointer, context: Pointer, row: number) => number
  readonly #free: (chain: Pointer) => void
  readonly #chain: Pointer

  /** @param library path of libllama, which must be loaded already. */
  constructor(library: string, { temperature, topK, topP }: Sampling) {
    const declare = declareIn(koffi.load(library), { llama_sampler_chain_params })
    const init = declare('pointer llama_sampler_chain_init(llama_sampler_chain_params params)')
    const append = declare('void llama_sampler_chain_add(pointer chain, pointer sampler)')
    this.#sample = declare('int32 llama_sampler_sample(pointer chain, pointer context, int32 row)')
    this.#free = declare('void llama_sampler_free(pointer chain)')
    this.#chain = init({ no_perf: true })
    const add = (sampler: Pointer) => append(this.#chain, sampler)
    if (temperature === 0) {
      add(declare('pointer llama_sampler_init_greedy()')())
      return
    }
    if (topK > 0) add(declare('pointer llama_sampler_init_top_k(int32 k)')(topK))
    if (topP < 1) add(declare('pointer llama_sampler_init_top_p(float p, size_t least)')(topP, 1))
    add(declare('pointer llama_sampler_init_temp(float temperature)')(temperature))
    add(declare('pointer llama_sampler_init_dist(uint32 seed)')(1))
  }

  sample(context: Pointer, row: number): number {
    return this.#sample(this.#chain, context, row)
  }

  close(): void {
    this.#free(this.#chain)
  }
}
