import type { PromptChunk } from '../../tokens/prompt-tokens.ts'
import { countCells } from '../batch/prefill-cursor.ts'
import { KvHolder } from './kv-holder.ts'

/**
 * A part of a prompt that several sequences of a group share: the prefix of all branches, or the suffix of a branch with
 * several completions. It is prefilled once, and its continuations fork its KV sequence. It counts its users, so that the
 * sequence manager knows when to close it.
 */
export class SharedPrefix extends KvHolder {
  readonly parent: SharedPrefix | null
  readonly chunks: readonly PromptChunk[]
  readonly cells: number
  #users = 0

  constructor(parent: SharedPrefix | null, chunks: readonly PromptChunk[]) {
    super()
    this.parent = parent
    this.chunks = chunks
    this.cells = countCells(chunks)
  }

  /** Whether admitted sequences continue it, directly or through another shared prefix. */
  get isInUse(): boolean {
    return this.#users > 0
  }

  addUser(): void {
    this.#users++
    this.parent?.addUser()
  }

  removeUser(): void {
    this.#users--
    this.parent?.removeUser()
  }
}
