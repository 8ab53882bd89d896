import type { Timeline } from './timeline.ts'

/** One processor that does one job after another, in order of arrival: an event loop, for example. */
export class Processor {
  readonly #timeline: Timeline
  #freeAt = 0
  #busyMs = 0

  constructor(timeline: Timeline) {
    this.#timeline = timeline
  }

  /** Time that it has worked, with all that it has accepted. */
  get busyMs(): number {
    return this.#busyMs
  }

  /** Does a job of `ms`, then `act`. */
  work(ms: number, act: () => void): void {
    this.#freeAt = Math.max(this.#freeAt, this.#timeline.now) + ms
    this.#busyMs += ms
    this.#timeline.after(this.#freeAt - this.#timeline.now, act)
  }
}
