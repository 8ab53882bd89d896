/** Weight of the newest request in the running average. */
const AVERAGE_WEIGHT = 0.1
/** Assumed before anything was measured. */
const INITIAL_MS = 1000

/** Measures how fast requests end while there is work. */
export class DrainRate {
  #averageMs: number | null = null
  #sinceLastMs = 0

  /** Counts time in which there was work. */
  worked(ms: number): void {
    this.#sinceLastMs += ms
  }

  finished(): void {
    const previous = this.#averageMs ?? this.#sinceLastMs
    this.#averageMs = previous + AVERAGE_WEIGHT * (this.#sinceLastMs - previous)
    this.#sinceLastMs = 0
  }

  /** Whole seconds until so many requests have ended, at least 1. */
  secondsFor(requests: number): number {
    // When nothing has ended for longer than usual, that says more than the average.
    const intervalMs = Math.max(this.#averageMs ?? INITIAL_MS, this.#sinceLastMs)
    return Math.max(1, Math.ceil((intervalMs * requests) / 1000))
  }
}
