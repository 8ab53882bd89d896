import { PRIORITIES, type Priority, yieldsTo } from '../../contract/priority.ts'

/** Steps up to this length hardly delay a request, in ms. Some native calls take longer and cannot be interrupted. */
const SHORT_MS = 20
/** Fractions of the time that background work gets beside other work, for short steps and for long ones. */
const SHORT_SHARE = 0.02
const LONG_SHARE = 0.01
/** The fraction that live work gets beside interactive work. */
const LIVE_SHARE = 0.25
/** For this long after more urgent work, steps stay short, because the client may send another request; in ms. */
const WATCHFUL_MS = 10_000

/**
 * Decides when a step may be for less urgent work than there is. All times are in ms, by the clock of `performance`.
 */
export class PriorityPace {
  /** When the next step of each is due, regardless of more urgent work. */
  readonly #dueAt = new Map<Priority, number>()
  readonly #steppedAt = new Map<Priority, number>()

  isDue(priority: Priority, now: number): boolean {
    return now >= (this.#dueAt.get(priority) ?? now)
  }

  /** Whether steps must be short, because more urgent work is present or likely. */
  isWatchful(priority: Priority, now: number): boolean {
    return PRIORITIES.some(
      (other) => yieldsTo(priority, other) && now < (this.#steppedAt.get(other) ?? -WATCHFUL_MS) + WATCHFUL_MS,
    )
  }

  /**
   * Call it after each step.
   * @param ms duration of the step.
   * @param isBorrowed whether the step was in the time of more urgent work, which is to be given back.
   */
  stepped(priority: Priority, now: number, ms: number, isBorrowed = false): void {
    this.#steppedAt.set(priority, now)
    if (priority === 'interactive') return
    const started = now - ms
    const from = isBorrowed ? Math.max(started, this.#dueAt.get(priority) ?? started) : started
    this.#dueAt.set(priority, from + ms / shareOf(priority, ms))
  }
}

function shareOf(priority: Exclude<Priority, 'interactive'>, ms: number): number {
  if (priority === 'live') return LIVE_SHARE
  return ms <= SHORT_MS ? SHORT_SHARE : LONG_SHARE
}
