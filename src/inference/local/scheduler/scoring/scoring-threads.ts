/** A call that takes so many times as long as a single thread took during warm-up lost its threads' cores to others. */
const SLOW = 1.7
/** A further thread must take less than this share of the time. */
const WORTHWHILE = 0.9
/** Rows that a call's other costs are like. */
const CALL_ROWS = 16
/** Time until all threads are tried again, in ms. It doubles with each time that has shown nothing new. */
const SHORTEST_PAUSE_MS = 1000
const LONGEST_PAUSE_MS = 16_000

/**
 * Chooses between all threads and one, where that changes no number. Beside other busy programs, a thread that has lost its
 * core holds up all others in each of hundreds of operations: two threads on two busy cores took five times as long as one.
 * `ThreadCount` does the same for completions, whose steps are shorter and more alike.
 */
export class ScoringThreads {
  readonly #most: number
  readonly #rowMs: number
  #current: number
  /** Duration of the last call with one thread, in multiples of the expected time; 0 before there was any. */
  #single = 0
  #pauseMs = SHORTEST_PAUSE_MS
  #nextTrial = 0

  /** @param rowMs what a row took during warm-up. */
  constructor(most: number, rowMs: number) {
    this.#most = most
    this.#rowMs = rowMs
    this.#current = most
  }

  /** For the next call. */
  next(now = performance.now()): number {
    if (this.#current < this.#most && now >= this.#nextTrial) this.#current = this.#most
    return this.#current
  }

  /** Learns from a call with the number that `next` has said. */
  learn(rows: number, ms: number, now = performance.now()): void {
    const duration = ms / ((rows + CALL_ROWS) * this.#rowMs)
    if (this.#current < this.#most) {
      this.#single = duration
      return
    }
    if (duration <= SLOW || duration < WORTHWHILE * this.#single) {
      this.#pauseMs = SHORTEST_PAUSE_MS
      return
    }
    this.#current = 1
    this.#nextTrial = now + this.#pauseMs
    this.#pauseMs = Math.min(LONGEST_PAUSE_MS, 2 * this.#pauseMs)
  }
}
