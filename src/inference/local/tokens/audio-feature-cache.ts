import { LRUCache } from 'lru-cache'
import { getOrMake } from '../../../lib/get-or-make.ts'
import type { AudioPart } from '../../contract/parts.ts'
import type { MediaChunks, Projector } from '../native/projector.ts'
import type { ContentKeys } from './content-keys.ts'

/** Audio in the form that the encoder takes. Its native memory is freed when it is neither used nor recent. */
export interface Sound {
  /** Identifies the content within its organisation. */
  readonly key: string
  readonly chunks: MediaChunks
  release(): void
}

interface Entry {
  readonly chunks: MediaChunks
  readonly bytes: number
  users: number
  isRecent: boolean
}

/** Maximum bytes of recent spectra, so that audio that was just counted or used is not recomputed. */
const RECENT_BYTES = 64 * 2 ** 20
/** A spectrum has 80 floats for every 160 samples. */
const BYTES_PER_SAMPLE = 2

/**
 * Prepares audio for the encoder. The spectrum of ten minutes takes seconds, so another thread computes it while steps
 * continue.
 */
export class AudioFeatureCache {
  readonly #projector: Projector
  readonly #keys: ContentKeys
  readonly #recent = new LRUCache<string, Entry>({
    maxSize: RECENT_BYTES,
    // Audio larger than the cache counts as the whole cache: it will be taken next and would otherwise be lost. The cache
    // takes no entry of size 0.
    sizeCalculation: ({ bytes }) => Math.min(Math.max(bytes, 1), RECENT_BYTES),
    dispose: (entry) => {
      entry.isRecent = false
      if (entry.users === 0) entry.chunks.close()
    },
  })
  readonly #pending = new Map<string, Promise<void>>()

  constructor(projector: Projector, keys: ContentKeys) {
    this.#projector = projector
    this.#keys = keys
  }

  /** Computes it on another thread, so that `take` does not block for a while. */
  async prepare(part: AudioPart, organisation: string): Promise<void> {
    const key = this.#keys.of(part, organisation)
    if (this.#recent.has(key)) return
    await getOrMake(this.#pending, key, () =>
      this.#projector
        .tokenizeInBackground(part)
        .then((chunks) => void this.#add(key, part, chunks))
        .finally(() => this.#pending.delete(key)),
    )
  }

  /** Returns the audio; computes it now unless it was prepared. The caller must release it. */
  take(part: AudioPart, organisation: string): Sound {
    const key = this.#keys.of(part, organisation)
    const entry = this.#recent.get(key) ?? this.#add(key, part, this.#projector.tokenize([part], true))
    entry.users++
    const release = () => {
      entry.users--
      if (entry.users === 0 && !entry.isRecent) entry.chunks.close()
    }
    return { key, chunks: entry.chunks, release }
  }

  close(): void {
    this.#recent.clear()
  }

  #add(key: string, part: AudioPart, chunks: MediaChunks): Entry {
    const entry = { chunks, bytes: part.samples.length * BYTES_PER_SAMPLE, users: 0, isRecent: true }
    this.#recent.set(key, entry)
    return entry
  }
}
