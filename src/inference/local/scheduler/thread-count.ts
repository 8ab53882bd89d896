import type { BatchSplitter } from './batch/batch-splitter.ts'

/**
 * A step that takes this many times as long as during calibration is slow. In deep contexts all are: then a trial shows
 * nothing, and costs little.
 */
const SLOW = 1.7
/** Of a trial of another number of threads. */
interface TrialSteps {
  /** The mean of so many steps before it counts: beside another program, some are slow and some are not. */
  readonly before: number
  readonly during: number
}

const SHORT_STEPS: TrialSteps = { before: 4, during: 3 }
/** A step of many rows takes so long that other programs hold it up as much as the next one. */
export const LONG_STEPS: TrialSteps = { before: 1, during: 1 }
/** Another number must take less than this share of the time. */
const WORTHWHILE = 0.9
/** Time until the next trial, in ms. It doubles with each trial that has shown nothing new. */
const SHORTEST_PAUSE_MS = 500
const DOUBLED_UP_TO_MS = 4000
/** After a trial that has shown nothing new, the pause is at least so many times as long as the trial took. */
const TIMES_TRIAL = 20
/** But never longer, in ms. */
const LONGEST_PAUSE_MS = 16_000
/** What was seen so long ago says nothing about the machine any more, in ms. */
const STALE_MS = 2000

interface Trial {
  readonly threads: number
  /** Duration of steps before it, in multiples of the calibrated time. */
  readonly before: number
  readonly durations: number[]
  /** Of its steps, all together, and of those of the trial that it repeats. */
  ms: number
  /** Whether it repeats one that was left in doubt. */
  readonly isRepeated: boolean
}

/**
 * Chooses the number of threads for steps of a kind. Beside another busy program, a thread that has lost its core holds up
 * all others for as long as the system lets that program run, so fewer threads are faster. With the prebuilt kernels, whose
 * threads never sleep, they are many times as fast. When steps take longer than they did during calibration, it tries half
 * of the threads, and from time to time more again. It learns from steps of one kind alone, such as next tokens: others
 * cannot be compared.
 */
export class ThreadCount {
  readonly #times: Pick<BatchSplitter, 'roundMs'>
  readonly #steps: TrialSteps
  readonly #most: number
  readonly #first: number
  /** What is used while nothing is known of the machine. */
  #usual: number
  #current: number
  #trial: Trial | null = null
  /** Durations of the last steps, in multiples of the calibrated time; the newest last. */
  #recent: number[] = []
  /** The smallest number that was tried in vain since the current one was chosen. */
  #lowest: number
  #pauseMs = SHORTEST_PAUSE_MS
  #nextTrial = Number.NEGATIVE_INFINITY
  #lastSeen = Number.NEGATIVE_INFINITY

  /**
   * @param times expected by calibration.
   * @param first threads during calibration.
   * @param most threads that may be tried.
   */
  constructor(times: Pick<BatchSplitter, 'roundMs'>, first: number, most = first, steps = SHORT_STEPS) {
    this.#times = times
    this.#steps = steps
    this.#most = most
    this.#first = first
    this.#usual = first
    this.#current = first
    this.#lowest = first
  }

  /**
   * Whether the machine seems to have fewer cores to spare than usual. One thread more than at first may be faster now and
   * slower then for steps of few rows, which says nothing about others.
   */
  get isLow(): boolean {
    return this.#current < this.#first
  }

  /** For the next step. @param isComparable whether it is of the kind that `learn` is told of; trials are made with such steps. */
  next(isComparable: boolean, now = performance.now()): number {
    if (now - this.#lastSeen > STALE_MS) this.#forget()
    return isComparable ? (this.#trial?.threads ?? this.#current) : this.#current
  }

  /** Learns from a step that took so many ms and ended at `now`. */
  learn(rows: number, ms: number, now = performance.now()): void {
    this.#lastSeen = now
    const duration = ms / this.#times.roundMs(rows)
    if (this.#trial !== null) {
      this.#trial.durations.push(duration)
      this.#trial.ms += ms
      if (this.#trial.durations.length === this.#steps.during) this.#judge(this.#trial, now)
      return
    }
    this.#recent = [...this.#recent, duration].slice(-this.#steps.before)
    if (this.#recent.length < this.#steps.before || now < this.#nextTrial) return
    const before = mean(this.#recent)
    if (before > SLOW && this.#current > 1) {
      // Where half of them still lose cores to other programs, a quarter may not.
      if (this.#lowest === 1) this.#lowest = this.#current
      this.#lowest = Math.ceil(this.#lowest / 2)
      this.#try(this.#lowest, before)
    } else if (this.#current < this.#most) this.#try(Math.min(this.#most, this.#current * 2), before)
  }

  #forget(): void {
    this.#current = this.#usual
    this.#lowest = this.#usual
    this.#trial = null
    this.#recent = []
  }

  #try(threads: number, before: number): void {
    this.#trial = { threads, before, durations: [], ms: 0, isRepeated: false }
  }

  #judge({ threads, before, durations, ms, isRepeated }: Trial, now: number): void {
    const isBetter = mean(durations) < WORTHWHILE * before
    // One pause of the machine spoils the mean, and the next trial may be many seconds away.
    if (!isBetter && !isRepeated && Math.min(...durations) < WORTHWHILE * before) {
      this.#trial = { threads, before, durations: [], ms, isRepeated: true }
      return
    }
    const pauseMs = Math.max(Math.min(DOUBLED_UP_TO_MS, 2 * this.#pauseMs), TIMES_TRIAL * ms)
    this.#pauseMs = isBetter ? SHORTEST_PAUSE_MS : Math.min(LONGEST_PAUSE_MS, pauseMs)
    if (isBetter) {
      this.#current = threads
      this.#lowest = threads
      this.#usual = Math.max(this.#usual, threads)
    }
    this.#nextTrial = isBetter && threads < this.#most ? Number.NEGATIVE_INFINITY : now + this.#pauseMs
    this.#trial = null
    this.#recent = []
  }
}

function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length
}
