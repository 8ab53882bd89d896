import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'

const MOST_BYTES = 32 * 2 ** 20
/** About what an entry takes beside its vector. */
const ENTRY_BYTES = 200

/** Vectors of inputs that were asked for before, kept for each organisation: the time of an answer tells no one else's texts. */
export class VectorCache {
  readonly #kept = new LRUCache<string, Float32Array>({
    maxSize: MOST_BYTES,
    sizeCalculation: ({ byteLength }) => byteLength + ENTRY_BYTES,
  })

  find(organisation: string, tokens: Int32Array): Float32Array | undefined {
    return this.#kept.get(keyOf(organisation, tokens))
  }

  keep(organisation: string, tokens: Int32Array, vector: Float32Array): void {
    this.#kept.set(keyOf(organisation, tokens), vector)
  }
}

function keyOf(organisation: string, tokens: Int32Array): string {
  return `${hash('sha256', tokens, 'base64')} ${organisation}`
}
