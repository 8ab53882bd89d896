import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { PromptChunk } from '../../tokens/prompt-tokens.ts'

const MOST_BYTES = 32 * 2 ** 20
/** About what an entry takes beside its vector. */
const ENTRY_BYTES = 200

/** Vectors of inputs that were asked for before, kept for each organisation: the time of an answer tells no one else's texts. */
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

/** Tokens, and what the media among them are. */
function keyOf(organisation: string, chunks: readonly PromptChunk[]): string {
  const hash = createHash('sha256')
  for (const chunk of chunks) {
    if (chunk.type === 'media') hash.update(`media ${chunk.key}\0`)
    else hash.update(`text ${chunk.tokens.length}\0`).update(chunk.tokens)
  }
  return `${hash.digest('base64')} ${organisation}`
}
