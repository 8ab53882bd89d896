/** How long the least delay is remembered at least. It is forgotten because clocks drift apart. */
const WINDOW_MS = 30_000

/** Measures how much later than usual units arrive: cameras send a backlog after a stall. */
export class Lateness {
  #start = Number.NEGATIVE_INFINITY
  #least = Number.POSITIVE_INFINITY
  #leastBefore = Number.POSITIVE_INFINITY

  /**
   * @param mediaTime by the stream's own clock, in milliseconds; null if it has none: then units are never late.
   * @returns the delay in milliseconds.
   */
  of(mediaTime: number | null, now: number): number {
    if (mediaTime === null) return 0
    if (now - this.#start > WINDOW_MS) {
      this.#start = now
      this.#leastBefore = this.#least
      this.#least = Number.POSITIVE_INFINITY
    }
    const delay = now - mediaTime
    this.#least = Math.min(this.#least, delay)
    return delay - Math.min(this.#least, this.#leastBefore)
  }
}
