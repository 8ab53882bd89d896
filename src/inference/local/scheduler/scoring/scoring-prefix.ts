import { createHash } from 'node:crypto'
import { PrefixKey } from '../../cache/prefix-key.ts'
import type { Adapter } from '../../native/adapter.ts'
import type { PromptChunk } from '../../tokens/prompt-tokens.ts'
import type { Prompt } from '../sequences/prefix-reuse.ts'

/** The beginning of the prompt, which questions share. */
export interface ScoringPrefix extends Prompt {
  /** A hash of its organisation, its adapter and its content. */
  readonly name: string
  readonly chunks: readonly PromptChunk[]
  readonly cells: number
  /** Null for the model alone. */
  readonly adapter: Adapter | null
}

export function createPrefix(
  chunks: readonly PromptChunk[],
  organisation: string,
  adapter: Adapter | null = null,
): ScoringPrefix {
  const key = PrefixKey.of(chunks, adapter?.key)
  const hash = createHash('sha256')
    .update(`${organisation}\0${adapter?.key ?? ''}\0`)
    .update(key.symbols)
  for (const { key: content } of key.mediaWithin(0, key.length)) hash.update(`\0${content}`)
  return { name: hash.digest('base64'), organisation, key, chunks, cells: key.length, adapter }
}
