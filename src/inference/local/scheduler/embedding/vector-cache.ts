import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { PromptChunk } from '../../tokens/prompt-tokens.ts'

const MOST_BYTES = 32 * 2 ** 20
/** Approximate bytes of an entry besides its vector. */
const ENTRY_BYTES = 200

/**
 * Caches vectors of inputs, separately for each organisation: the time of an answer must not reveal the texts of
 * others.
 */
export class VectorCache {
  readonly #kept = new LRUCache<string, Float32Array>({
    maxSize: MOST_BYTES,
    sizeCalculation: ({ byteLength }) => byteLength + ENTRY_BYTES,
  })

  find(organisation: string, chunks: readonly PromptChunk[]): Float32Array | undefined {
    return this.#kept.get(keyOf(organisation, chunks))
  }

  keep(organisation: string, chunks: readonly PromptChunk[], vector: Float32Array): void {
    this.#kept.set(keyOf(organisation, chunks), vector)
  }
}

/** Key of the tokens and of the media among them. */
function keyOf(organisation: string, chunks: readonly PromptChunk[]): string {
  const hash = createHash('sha256')
  for (const chunk of chunks) {
    if (chunk.type === 'media') hash.update(`media ${chunk.key}\0`)
    else hash.update(`text ${chunk.tokens.length}\0`).update(chunk.tokens)
  }
  return `${hash.digest('base64')} ${organisation}`
}
