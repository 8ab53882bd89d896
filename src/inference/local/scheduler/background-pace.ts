/** Steps up to so long hardly hold anybody up, in ms. Some native calls take longer, and nothing can stop them. */
const SHORT_MS = 20
/** Part of the time that work in the background has beside other work, by the length of its steps. */
const SHORT_SHARE = 0.02
const LONG_SHARE = 0.01
/** Whoever asks once may ask again: for so long after other work, the background makes way quickly; in ms. */
const WATCHFUL_MS = 10_000

/** When a step may be for work in the background. All times are in ms, by the clock of `performance`. */
export class BackgroundPace {
  /** When the next step is due, whatever else runs. */
  #dueAt = Number.NEGATIVE_INFINITY
  #watchfulUntil = Number.NEGATIVE_INFINITY

  isDue(now: number): boolean {
    return now >= this.#dueAt
  }

  /** Whether steps are to be short, because other work is there or is likely to come. */
  isWatchful(now: number): boolean {
    return now < this.#watchfulUntil
  }

  /** To be called after each step. @param ms that it took. */
  stepped(isBackground: boolean, now: number, ms: number): void {
    if (isBackground) this.#dueAt = now + ms / (ms <= SHORT_MS ? SHORT_SHARE : LONG_SHARE) - ms
    else this.#watchfulUntil = now + WATCHFUL_MS
  }
}
