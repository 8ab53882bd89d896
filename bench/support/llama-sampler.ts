import koffi from 'koffi'
import type { Sampling } from '../../src/inference/contract/work.ts'
import type { Pointer } from '../../src/inference/local/native/structs.ts'
import { declareIn } from '../../test/support/declare-c.ts'

const p = 'void *'
const chainParams = koffi.struct({ no_perf: 'bool' })

/** llama.cpp's own samplers, as its server chains them. */
export class LlamaSampler {
  readonly #sample: (chain: Pointer, context: Pointer, row: number) => number
  readonly #free: (chain: Pointer) => void
  readonly #chain: Pointer

  /** @param library path of libllama, which must be loaded already. */
  constructor(library: string, { temperature, topK, topP }: Sampling) {
    const declare = declareIn(koffi.load(library))
    const init = declare<(params: { no_perf: boolean }) => Pointer>('llama_sampler_chain_init', p, [chainParams])
    const append = declare<(chain: Pointer, sampler: Pointer) => void>('llama_sampler_chain_add', 'void', [p, p])
    const maker = (name: string, args: string[]) =>
      declare<(...args: number[]) => Pointer>(`llama_sampler_init_${name}`, p, args)
    this.#sample = declare('llama_sampler_sample', 'int32', [p, p, 'int32'])
    this.#free = declare('llama_sampler_free', 'void', [p])
    this.#chain = init({ no_perf: true })
    const add = (sampler: Pointer) => append(this.#chain, sampler)
    if (temperature === 0) {
      add(maker('greedy', [])())
      return
    }
    if (topK > 0) add(maker('top_k', ['int32'])(topK))
    if (topP < 1) add(maker('top_p', ['float', 'size_t'])(topP, 1))
    add(maker('temp', ['float'])(temperature))
    add(maker('dist', ['uint32'])(1))
  }

  sample(context: Pointer, row: number): number {
    return this.#sample(this.#chain, context, row)
  }

  close(): void {
    this.#free(this.#chain)
  }
}
