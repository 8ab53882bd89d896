import type { Moment } from './event-state.ts'

/** A window in which fewer than half of the due looks were made. */
export interface Lag {
  /** Unix milliseconds. */
  readonly from: number
  readonly lookedFps: number
}

/** Notices that looks have been too slow for a whole window. */
export class LagMeter {
  readonly #windowMs: number
  #start: Moment | null = null
  #made = 0
  #missed = 0
  #missedAt = Number.NEGATIVE_INFINITY
  #lag: Lag | null = null

  /** @param windowMs over which looks are counted. */
  constructor(windowMs: number) {
    this.#windowMs = windowMs
  }

  /** Over the last window that has ended; null where enough looks were made. */
  get lag(): Lag | null {
    return this.#lag
  }

  made(now: Moment): void {
    this.#made++
    this.#roll(now)
  }

  /**
   * A frame was dropped though a look was due. Several frames within one interval count once.
   * @param distanceMs interval between looks.
   */
  missed(now: Moment, distanceMs: number): void {
    if (now.at - this.#missedAt >= distanceMs) {
      this.#missed++
      this.#missedAt = now.at
    }
    this.#roll(now)
  }

  #roll(now: Moment): void {
    this.#start ??= now
    const start = this.#start
    const ms = now.at - start.at
    if (ms < this.#windowMs) return
    const lookedFps = Math.round((this.#made / ms) * 100_000) / 100
    this.#lag = this.#missed > this.#made ? { from: start.time, lookedFps } : null
    this.#start = now
    this.#made = 0
    this.#missed = 0
  }
}
