import koffi from 'koffi'
import { getOrMake } from '../../../lib/get-or-make.ts'
import type { Adapter } from './adapter.ts'
import { Batch } from './batch.ts'
import { type Ask, type Chosen, chooseFrom } from './choice.ts'
import { DeviceRows, type RowAsk, type RowReading } from './device/device-rows.ts'
import type { NativeLibraries } from './libraries.ts'
import type { Llama } from './llama.ts'
import { type LogitsOperations, PLAIN_OPERATIONS } from './logits-operations.ts'
import type { Model } from './model.ts'
import { sortCells } from './sequence-state.ts'
import type { Pointer } from './structs.ts'

/** ggml's numbers of the types in which keys and values can be stored. */
const KV_TYPES = { f16: 1, q8_0: 8 }
const FLASH_ATTENTION = 1
const NO_ADAPTER: Adapter['native'] = [new BigUint64Array(0), new Float32Array(0)]

export interface ContextOptions {
  /** KV cells shared by all sequences; one cell holds one token. */
  readonly cells: number
  /** Storage type of keys and values; `f16` by default. */
  readonly kvType?: keyof typeof KV_TYPES
  /** Number of sequences; their ids are below it. */
  readonly sequences: number
  readonly threads: number
  /** Maximum token rows of one decode call. */
  readonly batchRows: number
  /** Embeddings that one decode call must be able to take. */
  readonly mediaRows?: number
  /** Rows of a batch that may have logits, no fewer than `sequences`; by default, one for each sequence. */
  readonly outputs?: number
  /** Sequences that a row may belong to; by default 1. */
  readonly sequencesPerRow?: number
}

/** A llama.cpp context: a model's KV cache, and decoding into it. */
export class Context {
  readonly #llama: Llama
  readonly #memory: Pointer
  /** Views of rows of logits by address: the library reuses the same buffers, and each new view costs garbage collection. */
  readonly #logits = new Map<bigint, Float32Array>()
  readonly handle: Pointer
  /** Sampling operations on rows of logits. */
  readonly operations: LogitsOperations
  readonly batch: Batch
  readonly cells: number
  /** Rows of a batch that may have logits. */
  readonly outputs: number
  /** Embeddings that one decode call can take. */
  readonly mediaRows: number
  readonly #vocabularySize: number
  readonly #isRecurrent: boolean
  /** Null if logits are always copied to main memory. */
  readonly #deviceRows: DeviceRows | null
  /** Initial number of threads. */
  readonly threads: number
  #currentThreads: number
  #adapter: Adapter | null = null

  constructor(
    { llama, kernels, deviceChoice }: Pick<NativeLibraries, 'llama' | 'kernels'> & Partial<NativeLibraries>,
    model: Model,
    options: ContextOptions,
  ) {
    const rows = Math.max(options.batchRows, options.mediaRows ?? 0)
    const { kvType = 'f16' } = options
    this.outputs = options.outputs ?? Math.min(options.sequences, options.batchRows)
    const handle = llama.init_from_model(model.handle, {
      ...llama.context_default_params(),
      type_k: KV_TYPES[kvType],
      type_v: KV_TYPES[kvType],
      // Quantised values require flash attention.
      ...(kvType === 'f16' ? {} : { flash_attn_type: FLASH_ATTENTION }),
      n_ctx: options.cells,
      n_batch: rows,
      n_ubatch: rows,
      n_seq_max: options.sequences,
      // The library reserves memory for a batch with one output per sequence.
      n_outputs_max: this.outputs,
      n_threads: options.threads,
      n_threads_batch: options.threads,
      kv_unified: true,
    })
    if (handle === null) throw new Error(`Cannot allocate a KV cache of ${options.cells} tokens.`)
    this.#llama = llama
    this.operations = kernels?.operations ?? PLAIN_OPERATIONS
    this.#vocabularySize = model.vocabularySize
    this.#isRecurrent = model.isRecurrent
    // For models with recurrent layers, llama.cpp may reorder rows.
    this.#deviceRows =
      deviceChoice == null || model.isRecurrent ? null : new DeviceRows(deviceChoice, model.vocabularySize)
    this.handle = handle
    this.threads = options.threads
    this.#currentThreads = options.threads
    this.#memory = llama.get_memory(handle)!
    this.cells = llama.n_ctx(handle)
    // A context with fewer cells has a smaller batch.
    this.mediaRows = llama.n_batch(handle)
    this.batch = new Batch(llama, Math.min(options.batchRows, this.mediaRows), this.mediaRows, options.sequencesPerRow)
  }

  /** Number of threads of the next decode calls. */
  setThreads(threads: number): void {
    if (threads === this.#currentThreads) return
    this.#llama.set_n_threads(this.handle, threads, threads)
    this.#currentThreads = threads
  }

  /**
   * The adapter of the next decode calls; null for the model alone. The first call after a change takes longer: the library
   * allocates its buffers again.
   */
  setAdapter(adapter: Adapter | null): void {
    if (adapter === this.#adapter) return
    const [addresses, scales] = adapter?.native ?? NO_ADAPTER
    const code = this.#llama.set_adapters_lora(this.handle, addresses, scales.length, scales)
    if (code !== 0) throw new Error(`llama_set_adapters_lora failed with code ${code}.`)
    this.#adapter = adapter
  }

  /** Decodes the rows of `batch` and clears it. Blocks for the whole step. */
  decodeBatch(): void {
    this.launchBatch()
    this.wait()
  }

  /**
   * Launches the decoding of `batch`, and clears it. On the CPU, the step is complete when the call returns. A device still
   * computes: the logits must not be read until `wait` returns.
   */
  launchBatch(): void {
    const { batch } = this
    const outputs = this.#deviceRows === null ? [] : batch.outputs
    const decode = () => {
      const code = this.#llama.decode(this.handle, batch.toNative())
      batch.clear()
      if (code !== 0) throw new Error(`llama_decode failed with code ${code}.`)
    }
    if (this.#deviceRows === null) decode()
    else this.#deviceRows.keep(outputs, decode)
  }

  /** Blocks until the launched step is complete. */
  wait(): void {
    this.#llama.synchronize(this.handle)
  }

  /**
   * Decodes embeddings into one sequence.
   * @param positions planes of `count` positions; see `Batch.toNativeEmbeddings`.
   * @param causal false for families whose image tokens attend to each other. All tokens must then be in one call.
   */
  decodeEmbeddings(
    embeddings: Float32Array,
    positions: Int32Array,
    count: number,
    sequence: number,
    causal: boolean,
  ): void {
    const batch = this.batch.toNativeEmbeddings(embeddings, positions, count, sequence)
    this.#deviceRows?.forget()
    if (!causal) this.#llama.set_causal_attn(this.handle, false)
    const code = this.#llama.decode(this.handle, batch)
    if (!causal) this.#llama.set_causal_attn(this.handle, true)
    // A device still computes when the call returns. With device sampling, the next step is prepared meanwhile: llama.cpp
    // synchronises before that step begins.
    if (code === 0 && this.#deviceRows === null) this.wait()
    if (code !== 0) throw new Error(`llama_decode failed with code ${code} on embeddings.`)
  }

  /** Whether the launched step keeps its logits on a device, so that `ask` is useful. */
  get keepsLogits(): boolean {
    return this.#deviceRows?.areKept ?? false
  }

  /** Queues sampling requests on the device, after the launched step. `choose` then returns their answers. */
  ask(asks: readonly RowAsk[]): void {
    this.#deviceRows?.ask(asks)
  }

  /** Chooses a token from one row of the last decoded batch. */
  choose(row: number, ask: Ask): Chosen {
    return this.#deviceRows?.chosen(row, ask) ?? chooseFrom(this.operations, this.logits(row), ask)
  }

  /** Reads logits of some tokens of rows of the last decoded batch, and the rows' log-sum-exps. */
  read(wanted: ReadonlyMap<number, ReadonlySet<number>>): ReadonlyMap<number, RowReading> {
    const found = this.#deviceRows?.read(wanted) ?? new Map<number, RowReading>()
    for (const [row, tokens] of wanted) {
      if (found.has(row)) continue
      const logits = this.logits(row)
      const own = new Map(Array.from(tokens, (token) => [token, logits[token]!]))
      found.set(row, { logits: own, logSum: this.operations.logSumExp(logits) })
    }
    return found
  }

  /** Logits of one row of the last decoded batch, by token. Valid until the next decode. */
  logits(row: number): Float32Array {
    this.#deviceRows?.fetch(row)
    const pointer = this.#llama.get_logits_ith(this.handle, row)
    if (pointer === null) throw new Error(`Row ${row} of the batch has no logits.`)
    const bytes = this.#vocabularySize * Float32Array.BYTES_PER_ELEMENT
    return getOrMake(this.#logits, koffi.address(pointer), () => new Float32Array(koffi.view(pointer, bytes)))
  }

  /** Makes `target` share the cells of `source` at positions from `start` to below `end`, without a copy. */
  forkSequence(source: number, target: number, end: number, start = 0): void {
    this.#llama.memory_seq_cp(this.#memory, source, target, start, end)
  }

  /** Removes the sequence's cells at positions from `start`. */
  removeSequence(sequence: number, start = 0): void {
    const isRemoved = this.#llama.memory_seq_rm(this.#memory, sequence, start, -1)
    if (!isRemoved) throw new Error(`Sequence ${sequence} cannot be cut at position ${start}.`)
  }

  /** The first position of which every layer has the sequence's cell; -1 for an empty sequence. */
  firstPosition(sequence: number): number {
    return this.#llama.memory_seq_pos_min(this.#memory, sequence)
  }

  /** Exact size of what `saveSequence` would return, in bytes. Copies nothing. */
  sequenceBytes(sequence: number): number {
    return this.#llama.state_seq_get_size(this.handle, sequence)
  }

  /** Copies a sequence's cells for `restoreSequence`, sorted by position. */
  saveSequence(sequence: number): Uint8Array {
    const size = this.#llama.state_seq_get_size(this.handle, sequence)
    // A slice of Node's buffer pool would keep the whole pool alive.
    const state = Buffer.allocUnsafeSlow(size)
    const written = this.#llama.state_seq_get_data(this.handle, state, size, sequence)
    if (written !== size) throw new Error(`Cannot save a sequence of ${size} bytes.`)
    sortCells(state, this.#isRecurrent)
    return state
  }

  /** Restores saved cells into an empty sequence. At least as many cells as were saved must be free. */
  restoreSequence(sequence: number, state: Uint8Array): void {
    const read = this.#llama.state_seq_set_data(this.handle, state, state.length, sequence)
    if (read !== state.length) throw new Error(`Cannot restore a sequence of ${state.length} bytes.`)
  }

  clear(): void {
    this.#llama.memory_clear(this.#memory, false)
  }

  close(): void {
    this.#deviceRows?.close()
    this.batch.close()
    this.#llama.free(this.handle)
  }
}
