import type { KvCache, KvSequence } from '../cache/kv-cache.ts'
import type { PromptChunk } from '../tokens/prompt-tokens.ts'
import { countCells, type PrefillCursor } from './prefill-cursor.ts'

/**
 * A piece of prompt that several completions of a request share: the prefix of its branches, or the suffix of a branch
 * with several completions. It is prefilled once; what comes after it forks its sequence.
 */
export class SharedPrefix {
  readonly parent: SharedPrefix | null
  readonly chunks: readonly PromptChunk[]
  readonly cells: number
  /** Running completions that have this stem below them. */
  users = 0
  /** Null while nothing of it is in the KV cache. */
  sequence: KvSequence | null = null
  /** Null before it is opened and once all of it is in the KV cache. */
  feed: PrefillCursor | null = null

  constructor(parent: SharedPrefix | null, chunks: readonly PromptChunk[]) {
    this.parent = parent
    this.chunks = chunks
    this.cells = countCells(chunks)
  }

  get isReady(): boolean {
    return this.sequence !== null && this.feed === null
  }

  addUser(change: 1 | -1): void {
    this.users += change
    this.parent?.addUser(change)
  }

  close(kv: KvCache): void {
    if (this.sequence !== null) kv.release(this.sequence)
    this.sequence = null
    this.feed = null
  }
}
