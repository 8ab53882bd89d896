import type { AudioPart } from '../../engine.ts'
import type { MediaChunks, Projector } from '../native/projector.ts'
import type { ContentKeys } from './content-keys.ts'

/** A sound as its encoder takes it. Its native memory is freed when it is neither used nor recent. */
export interface Sound {
  /** Names it by its content, within its organisation. */
  readonly key: string
  readonly chunks: MediaChunks
  release(): void
}

interface Entry {
  readonly key: string
  readonly chunks: MediaChunks
  readonly bytes: number
  users: number
  isRecent: boolean
}

/** Spectra of recent sounds, so that what was counted or asked about just now need not be computed again. */
const RECENT_BYTES = 64 * 2 ** 20
/** Of a spectrum: 80 floats for every 160 samples. */
const BYTES_PER_SAMPLE = 2

/**
 * Makes sounds ready for the encoder. The spectrum of ten minutes takes seconds, so it is computed on another thread
 * while answers go on.
 */
export class AudioFeatureCache {
  readonly #projector: Projector
  readonly #keys: ContentKeys
  /** Least recently used first. */
  readonly #recent = new Map<string, Entry>()
  readonly #pending = new Map<string, Promise<void>>()
  #bytes = 0

  constructor(projector: Projector, keys: ContentKeys) {
    this.#projector = projector
    this.#keys = keys
  }

  /** After it, `take` of the same sound does not block for a while. */
  async prepare(part: AudioPart, organisation: string): Promise<void> {
    const key = this.#keys.of(part, organisation)
    if (this.#recent.has(key)) return
    let pending = this.#pending.get(key)
    if (pending === undefined) {
      pending = this.#projector
        .tokenizeInBackground(part)
        .then((chunks) => this.#add(key, part, chunks))
        .finally(() => this.#pending.delete(key))
      this.#pending.set(key, pending)
    }
    await pending
  }

  /** Computes it now, unless it was prepared. The caller must release it. */
  take(part: AudioPart, organisation: string): Sound {
    const key = this.#keys.of(part, organisation)
    if (!this.#recent.has(key)) this.#add(key, part, this.#projector.tokenize([part], true))
    const entry = this.#recent.get(key)!
    this.#recent.delete(key)
    this.#recent.set(key, entry)
    entry.users++
    const release = () => {
      entry.users--
      if (entry.users === 0 && !entry.isRecent) entry.chunks.close()
    }
    return { key, chunks: entry.chunks, release }
  }

  close(): void {
    for (const entry of this.#recent.values()) this.#forget(entry)
  }

  #add(key: string, part: AudioPart, chunks: MediaChunks): void {
    const bytes = part.samples.length * BYTES_PER_SAMPLE
    this.#recent.set(key, { key, chunks, bytes, users: 0, isRecent: true })
    this.#bytes += bytes
    for (const oldest of this.#recent.values()) {
      // The newest is about to be taken.
      if (this.#bytes <= RECENT_BYTES || oldest.key === key) break
      this.#forget(oldest)
    }
  }

  #forget(entry: Entry): void {
    this.#recent.delete(entry.key)
    this.#bytes -= entry.bytes
    entry.isRecent = false
    if (entry.users === 0) entry.chunks.close()
  }
}
