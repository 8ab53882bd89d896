import type { KvCache, KvSequence } from '../../cache/kv-cache.ts'
import type { PromptChunk } from '../../tokens/prompt-tokens.ts'
import { countUnencoded, PrefillCursor } from '../batch/prefill-cursor.ts'

/**
 * Owns a KV sequence and the cursor that fills it. Shared prefixes and sequences are holders; they form a tree in which each
 * continues its parent. The sequence manager opens and closes them.
 */
export abstract class KvHolder {
  /** The holder that it continues; null at the start of the prompt. */
  abstract readonly parent: KvHolder | null
  /** The chunks that it holds after its parent, and their number of cells. */
  abstract readonly chunks: readonly PromptChunk[]
  abstract readonly cells: number
  #kvSequence: KvSequence | null = null
  #cursor: PrefillCursor | null = null

  /** Null while it is not open. */
  get kvSequence(): KvSequence | null {
    return this.#kvSequence
  }

  /** Null before it is opened, and once all of it is prefilled. */
  get cursor(): PrefillCursor | null {
    return this.#cursor?.isDone === false ? this.#cursor : null
  }

  get isFilled(): boolean {
    return this.#kvSequence !== null && this.cursor === null
  }

  /** Cells still to be prefilled. */
  get remaining(): number {
    return this.#kvSequence === null ? this.cells : (this.cursor?.remaining ?? 0)
  }

  /** Cells of media among them that are still to be encoded. */
  get unencoded(): number {
    return this.#kvSequence === null ? countUnencoded(this.chunks) : (this.cursor?.unencoded ?? 0)
  }

  /** @param kvSequence a fork of the parent's; without a parent, it may hold the first cells already. */
  open(kvSequence: KvSequence): void {
    this.#kvSequence = kvSequence
    this.#cursor = new PrefillCursor(kvSequence, this.chunks, this.parent === null ? kvSequence.cells : 0)
  }

  /** Releases its cells. */
  close(kv: KvCache): void {
    if (this.#kvSequence !== null) kv.release(this.#kvSequence)
    this.#kvSequence = null
    this.#cursor = null
  }

  /** Prefills more text after its end. */
  protected continueWith(chunks: readonly PromptChunk[]): PrefillCursor {
    if (this.#kvSequence === null) throw new Error('A sequence that is not open cannot be continued.')
    this.#cursor = new PrefillCursor(this.#kvSequence, chunks, 0)
    return this.#cursor
  }
}
