import { LRUCache } from 'lru-cache'

const MOST_BATCHES = 10_000

interface Pause {
  /** By the monotonic clock. */
  readonly until: number
  readonly ms: number
}

/** Batches that are paused because something that they need has failed: each time for twice as long. */
export class Pauses {
  readonly #firstMs: number
  readonly #longestMs: number
  readonly #pauses = new LRUCache<string, Pause>({ max: MOST_BATCHES })

  constructor(firstMs: number, longestMs: number) {
    this.#firstMs = firstMs
    this.#longestMs = longestMs
  }

  has(batch: string): boolean {
    const pause = this.#pauses.get(batch)
    return pause !== undefined && performance.now() < pause.until
  }

  /**
   * Does nothing for a batch that is already paused: lines that run at the same time fail for the same reason.
   * @returns the length of the pause in milliseconds; null if it was paused already.
   */
  add(batch: string): number | null {
    if (this.has(batch)) return null
    const last = this.#pauses.get(batch)
    const ms = last === undefined ? this.#firstMs : Math.min(this.#longestMs, last.ms * 2)
    this.#pauses.set(batch, { until: performance.now() + ms, ms })
    return ms
  }

  /** Call it when something has worked. */
  end(batch: string): void {
    this.#pauses.delete(batch)
  }
}
