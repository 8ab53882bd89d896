import koffi from 'koffi'
import type { Llama } from './llama.ts'
import type { NativeBatch } from './structs.ts'

/** The rows of one decode call, written directly into native memory. */
export class Batch {
  readonly #llama: Llama
  readonly #native: NativeBatch
  readonly #tokens: Int32Array
  readonly #positions: Int32Array
  readonly #sequences: Int32Array[]
  /** Number of sequences of each row. */
  readonly #counts: Int32Array
  readonly #outputs: Int8Array
  readonly capacity: number
  #length = 0

  /**
   * @param capacity rows of tokens.
   * @param maxRows rows of tokens or embeddings; no fewer than `capacity`.
   * @param sequencesPerRow maximum sequences of a row.
   */
  constructor(llama: Llama, capacity: number, maxRows = capacity, sequencesPerRow = 1) {
    this.#llama = llama
    this.capacity = capacity
    const native = llama.batch_init(maxRows, 0, sequencesPerRow)
    this.#native = native
    this.#tokens = new Int32Array(koffi.view(native.token, 4 * maxRows))
    this.#positions = new Int32Array(koffi.view(native.pos, 4 * maxRows))
    this.#outputs = new Int8Array(koffi.view(native.logits, maxRows))
    this.#counts = new Int32Array(koffi.view(native.n_seq_id, 4 * maxRows))
    this.#counts.fill(1)
    this.#sequences = Array.from(
      { length: maxRows },
      (_, row) => new Int32Array(koffi.view(koffi.decode(native.seq_id, 8 * row, 'void *'), 4 * sequencesPerRow)),
    )
  }

  get length(): number {
    return this.#length
  }

  clear(): void {
    this.#length = 0
  }

  /** @param output whether the row's logits are needed. @returns the row's index, for reading its logits. */
  add(token: number, position: number, sequence: number, output: boolean): number {
    const row = this.#length++
    this.#tokens[row] = token
    this.#positions[row] = position
    this.#sequences[row]![0] = sequence
    this.#counts[row] = 1
    this.#outputs[row] = output ? 1 : 0
    return row
  }

  /** Adds a row that belongs to the sequences from `first` to below `end`. */
  addShared(token: number, position: number, first: number, end: number, output: boolean): number {
    const row = this.add(token, position, first, output)
    const sequences = this.#sequences[row]!
    for (let sequence = first + 1; sequence < end; sequence++) sequences[sequence - first] = sequence
    this.#counts[row] = end - first
    return row
  }

  /** The added rows whose logits are computed. */
  get outputs(): number[] {
    return Array.from({ length: this.#length }, (_, row) => row).filter((row) => this.#outputs[row] === 1)
  }

  /** The added rows as a `llama_batch`. */
  toNative(): NativeBatch {
    return { ...this.#native, n_tokens: this.#length }
  }

  /**
   * Makes a batch of embeddings for one sequence. It reuses this batch's native memory.
   * @param positions one plane of `count` positions per dimension of positions (4 for M-RoPE: t, y, x, 0).
   * @param output whether the results of the rows are needed.
   */
  toNativeEmbeddings(
    embeddings: Float32Array,
    positions: Int32Array,
    count: number,
    sequence: number,
    output = false,
  ): NativeBatch {
    for (let row = 0; row < count; row++) {
      this.#sequences[row]![0] = sequence
      this.#counts[row] = 1
      this.#outputs[row] = output ? 1 : 0
    }
    this.#length = 0
    return { ...this.#native, n_tokens: count, token: null, embd: embeddings, pos: positions }
  }

  close(): void {
    this.#llama.batch_free(this.#native)
  }
}
