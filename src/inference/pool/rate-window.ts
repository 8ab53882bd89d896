const BUCKET_MS = 500
const BUCKETS = 10

/** Counts events, and gives their rate over the last few seconds. */
export class RateWindow {
  readonly #counts = new Float64Array(BUCKETS)
  /** Number of the latest used bucket, from the start of the clock. */
  #latest = 0

  /** @param now by `performance.now()`. */
  add(count: number, now: number): void {
    this.#forget(now)
    this.#counts[this.#latest % BUCKETS]! += count
  }

  /** @param now by `performance.now()`. */
  perSecond(now: number): number {
    this.#forget(now)
    const total = this.#counts.reduce((sum, count) => sum + count, 0)
    // The latest bucket is incomplete.
    return total / (((BUCKETS - 1) * BUCKET_MS + (now % BUCKET_MS)) / 1000)
  }

  /** Clears expired and unused buckets. */
  #forget(now: number): void {
    const bucket = Math.floor(now / BUCKET_MS)
    const over = Math.min(BUCKETS, bucket - this.#latest)
    for (let i = 1; i <= over; i++) this.#counts[(this.#latest + i) % BUCKETS] = 0
    this.#latest = Math.max(this.#latest, bucket)
  }
}
