import { PRIORITIES, type Priority, yieldsTo } from '../../contract/priority.ts'
import { MAKING_WAY_MS } from './batch/prefill-pace.ts'
import { PriorityPace } from './priority-pace.ts'
import type { ReplyScorer } from './scoring/reply-scorer.ts'
import type { SequenceManager } from './sequences/sequence-manager.ts'

/** Scoring, which gets steps beside completions and has a KV cache of its own. */
export type Scorer = Pick<
  ReplyScorer,
  'has' | 'running' | 'waiting' | 'waitingOf' | 'prefilledTokens' | 'share' | 'step' | 'abort'
>

/** Whose work the next step computes. */
export interface StepTurn {
  readonly priority: Priority
  readonly isScoring: boolean
  /** Whether the step should be short, because more urgent work may come. */
  readonly makesWay: boolean
}

/** Target duration of a scoring step beside completions, in ms. Scoring gets half of the time. */
const SCORING_STEP_MS = 20

/**
 * Decides which priority gets the next step, and whether completions or scoring. It owns the times that each has taken. The
 * scheduler calls it.
 */
export class StepTurns {
  readonly #manager: Pick<SequenceManager, 'running' | 'hasRunning' | 'queue'>
  readonly #pace = new PriorityPace()
  #scorer: Pick<Scorer, 'has' | 'step'> | null = null
  /** Time by which the last scoring step exceeded all other steps since, in ms. */
  #scoringLeadMs = 0

  constructor(manager: Pick<SequenceManager, 'running' | 'hasRunning' | 'queue'>) {
    this.#manager = manager
  }

  attach(scorer: Pick<Scorer, 'has' | 'step'>): void {
    this.#scorer = scorer
  }

  /** The most urgent work gets it, or less urgent work whose fraction of the time is due. */
  next(now: number): StepTurn {
    const present = PRIORITIES.filter((one) => this.#manager.hasRunning(one) || this.#hasScoring(one))
    const [first = 'background', ...others] = present
    const priority = others.find((one) => this.#pace.isDue(one, now)) ?? first
    return { priority, isScoring: this.#isScoring(priority), makesWay: this.#pace.isWatchful(priority, now) }
  }

  /** The most urgent priority for which there is scoring to do. */
  get scoring(): Priority | undefined {
    return PRIORITIES.find((one) => this.#hasScoring(one))
  }

  /** Makes a scoring step. @returns its duration in ms. */
  score({ priority, makesWay }: Pick<StepTurn, 'priority' | 'makesWay'>, started = performance.now()): number {
    const isAlone = this.#manager.running.length === 0
    const budgetMs = isAlone ? Number.POSITIVE_INFINITY : SCORING_STEP_MS
    const served = this.#scorer!.step(priority, makesWay ? MAKING_WAY_MS : budgetMs)
    const ended = performance.now()
    const ms = ended - started
    if (isAlone || this.#manager.hasRunning(priority)) this.#scoringLeadMs = isAlone ? 0 : ms
    this.#pace.stepped(served, ended, ms, yieldsTo(served, priority))
    return ms
  }

  /** Records a step of completions. */
  stepped(priority: Priority, ended: number, ms: number): void {
    this.#pace.stepped(priority, ended, ms)
    this.#scoringLeadMs -= ms
  }

  #hasScoring(priority: Priority): boolean {
    return this.#scorer?.has(priority) === true
  }

  /** Beside completions of its priority, scoring gets half of the time. */
  #isScoring(priority: Priority): boolean {
    if (!this.#hasScoring(priority)) return false
    if (this.#manager.hasRunning(priority)) return this.#scoringLeadMs <= 0
    if (this.#manager.running.length > 0) return true
    // A request that can never run fails at once.
    return this.#manager.queue.head === undefined
  }
}
