import { createHash } from 'node:crypto'
import { PrefixKey } from '../../cache/prefix-key.ts'
import type { PromptChunk } from '../../tokens/prompt-tokens.ts'
import { countCells } from '../batch/prefill-cursor.ts'

/** What questions share: the beginning of their prompts. */
export interface ScoringPrefix {
  /** Names it by its content, within its organisation. */
  readonly key: string
  readonly chunks: readonly PromptChunk[]
  readonly cells: number
}

export function createPrefix(chunks: readonly PromptChunk[], organisation: string): ScoringPrefix {
  const { symbols, length } = PrefixKey.of(chunks)
  const hash = createHash('sha256').update(`${organisation}\0`).update(symbols)
  for (const chunk of chunks) if (chunk.type === 'media') hash.update(`\0${chunk.key}`)
  return { key: hash.digest('base64'), chunks, cells: length === 0 ? 0 : countCells(chunks) }
}
