import type { BatchSplitter } from './batch/batch-splitter.ts'

/**
 * A step that takes this many times as long as during calibration is slow. In deep contexts all steps are: a trial then shows
 * nothing, and costs little.
 */
const SLOW = 1.7
/** Steps of a trial of another number of threads. */
interface TrialSteps {
  /**
   * The baseline is the mean of this many steps before it: beside another program, some steps are slow and others are not.
   */
  readonly before: number
  readonly during: number
}

const SHORT_STEPS: TrialSteps = { before: 4, during: 3 }
/** Steps of many rows take so long that other programs delay each of them equally. */
export const LONG_STEPS: TrialSteps = { before: 1, during: 1 }
/** Another number must take less than this fraction of the time. */
const WORTHWHILE = 0.9
/** Minimum pause before the next trial, in ms. The pause doubles with each trial without a result. */
const SHORTEST_PAUSE_MS = 500
const DOUBLED_UP_TO_MS = 4000
/** After a trial without a result, the pause is at least this many times as long as the trial. */
const TIMES_TRIAL = 20
/** Maximum pause, in ms. */
const LONGEST_PAUSE_MS = 16_000
/** Observations older than this are discarded, in ms. */
const STALE_MS = 2000

interface Trial {
  readonly threads: number
  /** Duration of steps before it, in multiples of the calibrated time. */
  readonly before: number
  readonly durations: number[]
  /** Total duration of its steps, and of those of the trial that it repeats. */
  ms: number
  /** Whether it repeats an inconclusive trial. */
  readonly isRepeated: boolean
}

/**
 * Chooses the number of threads for steps of a kind. Beside another busy program, a thread that has lost its core delays all
 * others for a time slice of that program, so fewer threads are faster. With the prebuilt kernels, whose threads never sleep,
 * they are many times as fast. When steps take longer than during calibration, it tries half of the threads, and from time to
 * time more again. It learns from steps of one kind only, such as decode steps, because other steps are not comparable.
 */
export class ThreadCount {
  readonly #times: Pick<BatchSplitter, 'roundMs'>
  readonly #steps: TrialSteps
  readonly #most: number
  readonly #first: number
  /** The number without recent observations. */
  #usual: number
  #current: number
  #trial: Trial | null = null
  /** Durations of the last steps, in multiples of the calibrated time; the newest last. */
  #recent: number[] = []
  /** The smallest number that was tried without success since the current one was chosen. */
  #lowest: number
  #pauseMs = SHORTEST_PAUSE_MS
  #nextTrial = Number.NEGATIVE_INFINITY
  #lastSeen = Number.NEGATIVE_INFINITY

  /**
   * @param times expected by calibration.
   * @param first threads during calibration.
   * @param most maximum number to try.
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
   * Whether the machine seems to have fewer free cores than usual. Numbers above the first do not count: for steps of few
   * rows they are sometimes faster and sometimes slower, which says nothing about other steps.
   */
  get isLow(): boolean {
    return this.#current < this.#first
  }

  /** Threads for the next step. @param isComparable whether `learn` is called for it; only such steps are trials. */
  next(isComparable: boolean, now = performance.now()): number {
    if (now - this.#lastSeen > STALE_MS) this.#forget()
    return isComparable ? (this.#trial?.threads ?? this.#current) : this.#current
  }

  /** Learns from a step that took `ms` and ended at `now`. */
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
      // If half of them still lose cores to other programs, a quarter may not.
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
    // One pause of the machine distorts the mean, and the next trial may be many seconds away.
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
