/** Steps up to this length hardly delay a request, in ms. Some native calls take longer and cannot be interrupted. */
const SHORT_MS = 20
/** Fractions of the time that background work gets beside other work, for short steps and for long ones. */
const SHORT_SHARE = 0.02
const LONG_SHARE = 0.01
/** For this long after other work, background steps stay short, because the client may send another request; in ms. */
const WATCHFUL_MS = 10_000

/** Decides when a step may be for background work. All times are in ms, by the clock of `performance`. */
export class BackgroundPace {
  /** When the next background step is due, regardless of other work. */
  #dueAt = Number.NEGATIVE_INFINITY
  #watchfulUntil = Number.NEGATIVE_INFINITY

  isDue(now: number): boolean {
    return now >= this.#dueAt
  }

  /** Whether steps must be short, because other work is present or likely. */
  isWatchful(now: number): boolean {
    return now < this.#watchfulUntil
  }

  /** Call it after each step. @param ms duration of the step. */
  stepped(isBackground: boolean, now: number, ms: number): void {
    if (isBackground) this.#dueAt = now + ms / (ms <= SHORT_MS ? SHORT_SHARE : LONG_SHARE) - ms
    else this.#watchfulUntil = now + WATCHFUL_MS
  }
}
