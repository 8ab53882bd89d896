import koffi from 'koffi'
import { Batch } from './batch.ts'
import type { Llama } from './llama.ts'
import type { Model } from './model.ts'
import type { Pointer } from './structs.ts'

/** llama.cpp's `llama_pooling_type`. */
const POOLING_TYPES = { mean: 1, cls: 2, last: 3, rank: 4 } as const

interface EmbeddingContextOptions {
  readonly pooling: keyof typeof POOLING_TYPES
  /** Whether scores are already probabilities. */
  readonly ratesByProbability: boolean
  /** Maximum tokens of a text. */
  readonly contextTokens: number
  /** Maximum rows of a call, unless a text that must be in one call has more. */
  readonly batchRows: number
  /** Maximum texts of a call. */
  readonly sequences: number
  /** Maximum embeddings of an image that one call must take. */
  readonly mediaRows: number
  readonly threads: number
}

/** A llama.cpp context that pools: it turns each text or encoded image into a vector. */
export class EmbeddingContext {
  readonly #llama: Llama
  readonly #handle: Pointer
  /** Null for a model without a KV cache: its tokens attend only to others in the same call. */
  readonly #memory: Pointer | null
  readonly batch: Batch
  readonly sequences: number
  /**
   * Whether a text may take several calls, because the result depends only on its last token, which attends to all
   * others.
   */
  readonly splits: boolean
  readonly #size: number
  readonly #isRank: boolean
  readonly #isProbability: boolean

  constructor(llama: Llama, model: Model, options: EmbeddingContextOptions) {
    const { pooling, contextTokens, batchRows, threads } = options
    const architecture = model.text('general.architecture')
    const isCausal = model.text(`${architecture}.attention.causal`) !== 'false'
    const open = (rows: number) =>
      llama.init_from_model(model.handle, {
        ...llama.context_default_params(),
        embeddings: true,
        pooling_type: POOLING_TYPES[pooling],
        n_ctx: contextTokens,
        n_batch: rows,
        n_ubatch: rows,
        n_seq_max: Math.min(options.sequences, rows),
        n_threads: threads,
        n_threads_batch: threads,
        kv_unified: true,
      })
    const opened = (handle: Pointer | null): Pointer => {
      if (handle === null) throw new Error(`Cannot allocate memory for texts of ${contextTokens} tokens.`)
      return handle
    }
    let rows = Math.min(Math.max(batchRows, options.mediaRows), contextTokens)
    let handle = opened(open(rows))
    // The head of rerankers whose scores are probabilities reads the last token.
    const isLast = pooling === 'last' || (pooling === 'rank' && options.ratesByProbability)
    this.splits = isLast && isCausal && llama.get_memory(handle) !== null
    if (!this.splits && rows < contextTokens) {
      llama.free(handle)
      rows = contextTokens
      handle = opened(open(rows))
    }
    this.#llama = llama
    this.#handle = handle
    this.#memory = llama.get_memory(handle)
    this.batch = new Batch(llama, rows)
    this.sequences = Math.min(options.sequences, rows)
    this.#isRank = pooling === 'rank'
    this.#isProbability = options.ratesByProbability
    this.#size = this.#isRank ? llama.model_n_cls_out(model.handle) : llama.model_n_embd_out(model.handle)
  }

  /** Length of a vector. */
  get dimensions(): number {
    return this.#isRank ? 1 : this.#size
  }

  /** Computes the rows of `batch`, and clears it. Blocks. */
  compute(): void {
    const code = this.#llama.decode(this.#handle, this.batch.toNative())
    this.batch.clear()
    if (code !== 0) throw new Error(`llama_decode failed with code ${code}.`)
    this.#llama.synchronize(this.#handle)
  }

  /**
   * Computes rows of an encoded image. Blocks.
   * @param positions planes of `count` positions; see `Batch.toNativeEmbeddings`.
   * @param causal false if its tokens attend to each other. All of them must then be in one call.
   */
  decodeEmbeddings(rows: Float32Array, positions: Int32Array, count: number, sequence: number, causal: boolean): void {
    if (!causal) this.#llama.set_causal_attn(this.#handle, false)
    const code = this.#llama.decode(this.#handle, this.batch.toNativeEmbeddings(rows, positions, count, sequence, true))
    if (!causal) this.#llama.set_causal_attn(this.#handle, true)
    if (code !== 0) throw new Error(`llama_decode failed with code ${code} on embeddings.`)
    this.#llama.synchronize(this.#handle)
  }

  /**
   * The unit vector of a text of the last call, or the score of a pair, from 0 to 1.
   * @throws Error if the vector contains a value that is not finite.
   */
  vector(sequence: number): Float32Array {
    const pointer = this.#llama.get_embeddings_seq(this.#handle, sequence)
    if (pointer === null) throw new Error(`The text ${sequence} of the batch has no vector.`)
    const raw = new Float32Array(koffi.view(pointer, this.#size * Float32Array.BYTES_PER_ELEMENT))
    if (this.#isRank) return Float32Array.of(finite(this.#isProbability ? raw[0]! : 1 / (1 + Math.exp(-raw[0]!))))
    const length = finite(Math.sqrt(raw.reduce((sum, value) => sum + value * value, 0)))
    return raw.map((value) => (length === 0 ? 0 : value / length))
  }

  /** Removes all texts. */
  clear(): void {
    this.batch.clear()
    if (this.#memory !== null) this.#llama.memory_clear(this.#memory, false)
  }

  close(): void {
    this.batch.close()
    this.#llama.free(this.#handle)
  }
}

function finite(value: number): number {
  if (Number.isFinite(value)) return value
  throw new Error('The model has computed a vector that is not one of finite numbers.')
}
