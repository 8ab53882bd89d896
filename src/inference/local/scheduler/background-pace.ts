/** Steps up to so long hardly hold anybody up, in ms. Pictures are encoded in longer ones, which nothing can stop. */
const SHORT_MS = 20
/** Part of the time that work in the background has beside other work, by the length of its steps. */
const SHORT_SHARE = 0.1
const LONG_SHARE = 0.01
/** Whoever asks once may ask again: the background goes on when there has been no other work for so long, in ms. */
const QUIET_MS = 1000

/** When a step may be for work in the background. All times are in ms, by the clock of `performance`. */
export class BackgroundPace {
  readonly #quietMs: number
  /** When the next step is due, whatever else runs. */
  #dueAt = Number.NEGATIVE_INFINITY
  /** When other work will have been away for long enough. */
  #quietAt = Number.NEGATIVE_INFINITY

  constructor(quietMs = QUIET_MS) {
    this.#quietMs = quietMs
  }

  isDue(now: number): boolean {
    return now >= this.#dueAt
  }

  /** How long to wait where there is no other work. */
  waitMs(now: number): number {
    return Math.max(0, Math.min(this.#dueAt, this.#quietAt) - now)
  }

  /** To be called after each step. @param ms that it took. */
  stepped(isBackground: boolean, now: number, ms: number): void {
    if (isBackground) this.#dueAt = now + ms / (ms <= SHORT_MS ? SHORT_SHARE : LONG_SHARE) - ms
    else this.#quietAt = now + this.#quietMs
  }
}
