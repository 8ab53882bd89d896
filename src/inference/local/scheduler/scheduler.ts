import { randomInt } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { tryAgainIn } from '../../../lib/errors.ts'
import type { PromptUsage } from '../../contract/generation.ts'
import type { LocalStats } from '../../contract/stats.ts'
import type { Work } from '../../contract/work.ts'
import type { DiskPrefixes } from '../disk/disk-prefixes.ts'
import { FailureError, toFailure } from '../failure.ts'
import type { EngineSettings, FromEngine } from '../protocol.ts'
import { admit } from './admission.ts'
import { BackgroundPace } from './background-pace.ts'
import { BatchBuilder } from './batch/batch-builder.ts'
import type { BatchSplitter } from './batch/batch-splitter.ts'
import { EncoderAside } from './batch/encoder-aside.ts'
import type { PrefillCosts } from './batch/prefill-costs.ts'
import { MAKING_WAY_MS } from './batch/prefill-pace.ts'
import { type Step, StepError } from './batch/step.ts'
import { EventSender } from './event-sender.ts'
import type { LoadedModel } from './loaded-model.ts'
import { type BegunStep, DONE, ModelRunner, type StepResult } from './model-runner.ts'
import { type Ahead, type Load, QueueForecast } from './queue-forecast.ts'
import type { ReplyScorer } from './scoring/reply-scorer.ts'
import type { PrefixReuse } from './sequences/prefix-reuse.ts'
import type { Sequence } from './sequences/sequence.ts'
import { SequenceGroup } from './sequences/sequence-group.ts'
import { SequenceManager } from './sequences/sequence-manager.ts'

export type SchedulerSettings = Pick<EngineSettings, 'maxWaiting' | 'prefixCacheBytes' | 'speculation' | 'seed'>

/** Time that copies into the prefix cache may take after a step, in ms, and as a share of the step. */
const COPY_MS = 8
/** The same after a step that makes way. */
const SHORT_COPY_MS = 2
const COPY_SHARE = 0.1
/** The same while nothing runs: a request that arrives meanwhile waits for it. */
const IDLE_COPY_MS = 2

/** How long a step of scoring should take beside completions, in ms. It has half of the time. */
const SCORING_STEP_MS = 20

/** A device may be this much faster than the scheduler expects; messages are let in for no longer than that leaves. */
const SURE_SHARE = 0.8

/** A device is known to have computed until it was waited for if that took at least this share of the step. */
const WAITED_SHARE = 0.05

/** What is being computed, from its beginning until its results are settled. */
interface Flight {
  /** Null when what was to be computed was preempted. */
  readonly step: Step | null
  readonly begun: BegunStep
  readonly isBackground: boolean
  readonly makesWay: boolean
  /** Whether a device computes it, and the CPU is free meanwhile. */
  readonly goesOn: boolean
  /** When its turn began, with the admission of others, and when it was planned. */
  readonly started: number
  readonly planned: number
}

/** The prefix cache on disk, and what measures for it. */
export interface SchedulerDisk {
  readonly prefixes: DiskPrefixes
  readonly costs: PrefillCosts
}

/** What gets steps beside completions. It has a KV cache of its own. */
export type Scorer = Pick<
  ReplyScorer,
  'isIdle' | 'isBackground' | 'running' | 'waiting' | 'waitingBackground' | 'prefilledTokens' | 'step' | 'abort'
>

export interface SchedulerOptions {
  readonly disk?: SchedulerDisk | null
  /** Lets in the messages that have arrived, and those that arrive until a time by the clock of `performance`. */
  readonly receive?: (until: number) => Promise<void>
  /** Whether encoders run beside the steps, on a device. By default, encoding takes steps. */
  readonly encodesAside?: boolean
}

/**
 * Takes requests, has them computed one step per turn of the event loop, and has the results sent. It owns the groups that
 * are not closed and the token counts; each step it asks the sequence manager who runs, the batch builder what to compute
 * and the model runner to compute it. The engine process calls it. See `docs/contributing/scheduler.md`.
 */
export class Scheduler {
  readonly #loaded: LoadedModel
  readonly #settings: SchedulerSettings
  readonly #send: (message: FromEngine) => void
  readonly #groups = new Map<number, SequenceGroup>()
  readonly #manager: SequenceManager
  readonly #builder: BatchBuilder
  readonly #runner: ModelRunner
  readonly #forecast: QueueForecast
  readonly #sender: EventSender
  readonly #costs: PrefillCosts | null
  /** Groups that wait for a part of their prompt to be read from disk. They are in no queue. */
  readonly #reading = new Set<SequenceGroup>()
  #scorer: Scorer | null = null
  readonly #receive: (until: number) => Promise<void>
  readonly #splitter: BatchSplitter
  /** While a device computes. The KV cache and what runs stay as they are until it ends. */
  #flight: Flight | null = null
  /** Requests that were aborted meanwhile. */
  readonly #aborted = new Set<number>()
  /** Groups with events that the sender has not been given. */
  readonly #touched = new Set<SequenceGroup>()
  /** Time by which the last step of scoring was longer than all other steps since, in ms. */
  #scoringLeadMs = 0
  readonly #pace = new BackgroundPace()
  #prefilledTokens = 0
  #decodedTokens = 0
  #draftedTokens = 0
  #acceptedTokens = 0
  #isRunning = false
  /** Until copies go on. */
  #rest: NodeJS.Timeout | undefined
  #isClosed = false
  /** When the last step ended, if the next one follows it. */
  #lastStepEnd: number | null = null
  #lastStepMs = 0

  constructor(
    loaded: LoadedModel,
    splitter: BatchSplitter,
    settings: SchedulerSettings,
    send: (message: FromEngine) => void,
    { disk = null, receive = () => nextTurn(), encodesAside = false }: SchedulerOptions = {},
  ) {
    this.#loaded = loaded
    this.#settings = settings
    this.#send = send
    this.#manager = new SequenceManager(loaded, settings.prefixCacheBytes, splitter, disk?.prefixes)
    const aside = encodesAside ? new EncoderAside(() => this.wake()) : null
    this.#builder = new BatchBuilder(loaded, this.#manager, splitter, settings.speculation, aside)
    this.#runner = new ModelRunner(loaded, splitter)
    this.#costs = disk?.costs ?? null
    this.#receive = receive
    this.#splitter = splitter
    this.#forecast = new QueueForecast(splitter)
    this.#sender = new EventSender(send, this.#forecast, (group) => this.#close(group))
  }

  /** For scoring, which shares the copies. */
  get reuse(): PrefixReuse {
    return this.#manager.reuse
  }

  /** Gives scoring steps too. */
  attach(scorer: Scorer): void {
    this.#scorer = scorer
  }

  get stats(): LocalStats {
    const { kv, context } = this.#loaded
    const { held } = this.#manager
    return {
      ...this.#manager.stats,
      running: this.#manager.stats.running + (this.#scorer?.running ?? 0),
      waiting: this.#waiting,
      totalCells: context.cells,
      usedCells: kv.usedCells - held.cells,
      usedSequences: kv.usedSequences - held.sequences,
      prefilledTokens: this.#prefilledTokens + (this.#scorer?.prefilledTokens ?? 0),
      decodedTokens: this.#decodedTokens,
      draftedTokens: this.#draftedTokens,
      acceptedTokens: this.#acceptedTokens,
      residentBytes: process.memoryUsage.rss(),
    }
  }

  /**
   * Answers with `admitted`, then `events`; or with `error`.
   * @param traced whether `started` and `encoded` are among the answers.
   */
  submit(id: number, work: Work, traced = false): void {
    try {
      const group = this.#admit(id, work)
      if (traced) group.report = (stage) => this.#send({ ...stage, id })
      this.#groups.set(id, group)
      const reading = this.#manager.readAhead(group)
      if (reading === null) this.#enter(group)
      else this.#enterAfter(group, reading)
    } catch (error) {
      const group = this.#groups.get(id)
      if (group === undefined) this.#send({ type: 'error', id, error: toFailure(error) })
      else this.#fail(group, error)
    }
  }

  #enterAfter(group: SequenceGroup, reading: Promise<void>): void {
    this.#reading.add(group)
    void reading.then(() => {
      if (!this.#reading.delete(group)) return
      try {
        this.#enter(group)
      } catch (error) {
        this.#fail(group, error)
      }
    })
  }

  #enter(group: SequenceGroup): void {
    this.#send({ type: 'admitted', id: group.id, prompts: this.#usage(group) })
    this.#sender.sendNow([group])
    if (group.isFinished) return
    this.#manager.enqueue(group)
    if (this.#flight === null) this.#manager.admit()
    this.wake()
  }

  /** Computes steps until there is nothing to do: for what was submitted to the scorer. */
  wake(): void {
    if (!this.#isRunning) void this.#run()
  }

  /** Frees what the request holds before the next step. Nothing more is sent for it. */
  abort(id: number): void {
    const group = this.#groups.get(id)
    if (group !== undefined) this.#forget(group)
    if (group !== undefined && this.#reading.delete(group)) this.#close(group)
    else if (this.#flight === null) this.#abortNow(id)
    else this.#aborted.add(id)
  }

  #abortNow(id: number): void {
    this.#scorer?.abort(id)
    const group = this.#groups.get(id)
    if (group === undefined) return
    this.#forget(group)
    // Its last step may have ended it.
    if (!group.isFinished) this.#manager.drop(group, true)
    this.#close(group)
  }

  /**
   * Copies what has ended, for at most so long, and waits until that is on disk, if anything is kept there. Nothing may be
   * submitted any more.
   */
  async close(copyMs: number): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#rest)
    this.#finish()
    this.#tell()
    this.#sender.flush()
    if (this.#costs === null) return
    const end = performance.now() + copyMs
    while (performance.now() < end && this.#manager.continueCopies(COPY_MS));
    await this.#manager.flush()
  }

  get #waiting(): number {
    return this.#manager.waitingGroups + this.#reading.size + (this.#scorer?.waiting ?? 0)
  }

  get #waitingBackground(): number {
    return this.#manager.waitingBackground + (this.#scorer?.waitingBackground ?? 0)
  }

  /**
   * Computes one step: decides what it computes, has it computed and sends what it gave. A device computes after the call
   * that begins it. There, this ends the step before, begins the next one and only then sends what the other gave, so that
   * the device does not wait for that, nor for what happens until the next call.
   * @param hold whether text may wait for that of the next steps.
   * @returns false when there is nothing to do.
   */
  step(hold = false): boolean {
    this.#finish()
    const now = performance.now()
    this.#manager.admit()
    const isBackground = this.#isBackgroundTurn(now)
    const makesWay = isBackground && this.#pace.isWatchful(now)
    if (this.#isScoringTurn(isBackground)) {
      this.#tellBeforeOthers()
      this.#scoringStep(makesWay)
      const ended = performance.now()
      this.#pace.stepped(isBackground, ended, ended - now)
      return true
    }
    if (this.#manager.running.length === 0) {
      this.#tellBeforeOthers()
      if (this.#manager.restMs === 0 && this.#manager.continueCopies(IDLE_COPY_MS)) return true
      const { next } = this.#manager
      if (next === undefined) return false
      // Work that passed admission fits by itself, so this is no client's fault.
      this.#fail(next, new Error('The KV cache is too small for one completion.'))
      return true
    }
    if (!this.#begin(now, isBackground, makesWay)) this.#finish()
    this.#tell(hold)
    return this.#flight !== null || !this.#builder.waitsForEncoder || this.#besideEncoder(makesWay)
  }

  /** What else there is to do while all completions wait for an encoder. Its end wakes the scheduler. @returns false for nothing. */
  #besideEncoder(makesWay: boolean): boolean {
    if (this.#scorer === null || this.#scorer.isIdle) return false
    this.#scoringStep(makesWay)
    return true
  }

  /** Begins a step. A failure shows when it is finished. @returns whether a device goes on with it. */
  #begin(started: number, isBackground: boolean, makesWay: boolean): boolean {
    const planned = performance.now()
    let step: Step | null = null
    let begun: BegunStep
    try {
      step = this.#builder.next(isBackground, makesWay)
      // Media block until they are computed.
      if (step !== null && step.type !== 'text') this.#tellBeforeOthers()
      begun = step === null ? DONE : this.#runner.begin(step)
    } catch (error) {
      const fail = () => {
        throw error
      }
      begun = { finish: fail }
    }
    const goesOn = this.#loaded.compute.leavesCpu && step?.type === 'text'
    this.#flight = { step, begun, isBackground, makesWay, goesOn, started, planned }
    return goesOn
  }

  /** Finishes the step that has begun, if any, settles what it gave, and does what had to wait for its end. */
  #finish(): void {
    const flight = this.#flight
    if (flight === null) return
    const since = this.#lastStepEnd ?? flight.started
    const [decodedTokens, prefilledTokens] = [this.#decodedTokens, this.#prefilledTokens]
    try {
      this.#settleStep(flight)
    } catch (error) {
      if (!(error instanceof StepError)) throw error
      for (const group of error.groups) this.#fail(group, error.cause)
    } finally {
      this.#flight = null
    }
    for (const id of this.#aborted) this.#abortNow(id)
    this.#aborted.clear()
    const ended = performance.now()
    const ms = ended - flight.started
    this.#lastStepEnd = ended
    this.#lastStepMs = ms
    this.#pace.stepped(flight.isBackground, ended, ms)
    this.#scoringLeadMs -= ms
    this.#forecast.stepped(ended - since, this.#decodedTokens - decodedTokens, this.#prefilledTokens - prefilledTokens)
  }

  /** Hands the events of the last step to the sender. */
  #tell(hold = false): void {
    if (hold) this.#sender.hold(this.#touched, this.#lastStepMs)
    else this.#sender.sendNow(this.#touched)
    this.#touched.clear()
  }

  /** The same before what may take long, or when nothing follows. */
  #tellBeforeOthers(): void {
    if (this.#touched.size > 0) this.#tell()
  }

  get #hasForeground(): boolean {
    return (
      this.#manager.hasRunning(false) || (this.#scorer !== null && !this.#scorer.isIdle && !this.#scorer.isBackground)
    )
  }

  get #hasBackground(): boolean {
    return this.#manager.hasRunning(true) || this.#scorer?.isBackground === true
  }

  /** Work in the background has all of the time that others leave, and a small part of the rest, so that it ends some day. */
  #isBackgroundTurn(now: number): boolean {
    return !this.#hasForeground || (this.#hasBackground && this.#pace.isDue(now))
  }

  /** Beside completions of its class, scoring has half of the time. */
  #isScoringTurn(isBackground: boolean): boolean {
    if (this.#scorer === null || this.#scorer.isIdle || this.#scorer.isBackground !== isBackground) return false
    if (this.#manager.hasRunning(isBackground)) return this.#scoringLeadMs <= 0
    if (this.#manager.running.length > 0) return true
    // What can never run is told so at once.
    return this.#manager.next === undefined
  }

  #scoringStep(makesWay: boolean): void {
    const started = performance.now()
    const isAlone = this.#manager.running.length === 0
    const budgetMs = isAlone ? Number.POSITIVE_INFINITY : SCORING_STEP_MS
    this.#scorer?.step(makesWay ? MAKING_WAY_MS : budgetMs)
    const ms = performance.now() - started
    this.#scoringLeadMs = isAlone ? 0 : ms
    this.#sender.hold(new Set(), ms)
  }

  /** @throws StepError */
  #settleStep({ step, begun, makesWay, goesOn, planned }: Flight): void {
    const asked = performance.now()
    const { generated, decodeMs } = begun.finish()
    if (step !== null) {
      this.#prefilledTokens += step.promptTokens
      if (step.type === 'text') for (const { draft } of step.decoding) this.#draftedTokens += draft.length
      for (const one of generated) this.#settle(one)
    }
    const ms = performance.now() - planned
    // A step that had ended before it was asked for says nothing about its time.
    const isTimed = !goesOn || decodeMs - (asked - planned) > WAITED_SHARE * decodeMs
    this.#builder.learn(step, isTimed ? decodeMs : null, ms)
    if (step !== null && isTimed) this.#costs?.learn(step, ms)
    const rows = step === null || step.type === 'encode' ? 1 : step.rows
    this.#manager.endStep(makesWay ? SHORT_COPY_MS : Math.max(COPY_MS, COPY_SHARE * decodeMs), rows)
  }

  #settle(generated: StepResult['generated'][number]): void {
    const { group, sequence, events, tokens, agreed, error } = generated
    this.#decodedTokens += tokens
    this.#acceptedTokens += agreed
    group.emit(...events)
    // A constraint that cannot be followed concerns this branch alone.
    if (error !== null) group.emit({ type: 'error', branch: sequence.branchIndex, error })
    if (error !== null || sequence.isFinished) this.#manager.finish(generated)
    if (events.length > 0 || error !== null) this.#touched.add(group)
  }

  /**
   * Work in the background takes no place from others.
   * @throws FailureError when the queue is full.
   */
  checkQueue(isBackground = false): void {
    const waiting = isBackground ? this.#waitingBackground : this.#waiting - this.#waitingBackground
    if (waiting < this.#settings.maxWaiting) return
    const retryAfter = this.#forecast.promisePlace(() => this.#load) / 1000
    const message = `The model is busy and its queue is full. ${tryAgainIn(retryAfter)}`
    throw new FailureError({ kind: 'overloaded', message, retryAfter })
  }

  /** @throws FailureError when the queue is full or the work does not fit. */
  #admit(id: number, work: Work): SequenceGroup {
    this.checkQueue(work.isBackground)
    const admitted = admit(this.#loaded, work)
    const seed = this.#settings.seed ?? randomInt(2 ** 32)
    const { organisation, isBackground } = work
    return new SequenceGroup({ id, organisation, isBackground }, admitted, this.#loaded, seed)
  }

  /** What a request that is refused would wait for. */
  get #load(): Load {
    const { running, queued } = this.#manager
    return {
      running: running.map(({ sequence }) => ahead(sequence)),
      waiting: queued.flatMap((group) =>
        group.waiting.map((sequence, index) =>
          index === 0 && !group.hasStarted ? aheadOfAll(group, sequence) : ahead(sequence),
        ),
      ),
    }
  }

  /** With several branches, a branch's cached tokens are those of the shared prefix, whoever computed them. */
  #usage(group: SequenceGroup): readonly PromptUsage[] {
    const { usage } = group.work
    if (usage.length > 1) return usage
    const match = this.#manager.findPrefix(group)
    return usage.map((prompt) => ({ ...prompt, cachedTokens: match?.cut.cells ?? 0 }))
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    // Aborts may be among the messages.
    do await this.#receive(this.#busyUntil)
    while (this.step(true))
    this.#sender.flush()
    this.#isRunning = false
    this.#lastStepEnd = null
    clearTimeout(this.#rest)
    const { restMs } = this.#manager
    if (restMs > 0 && !this.#isClosed) this.#rest = setTimeout(() => this.wake(), restMs).unref()
  }

  /** A time before which a device will not have ended its step, by what was measured during warm-up. */
  get #busyUntil(): number {
    if (this.#flight?.goesOn !== true || this.#flight.step?.type !== 'text') return 0
    const { planned, step } = this.#flight
    const { rowMs } = this.#splitter
    const expectedMs = Math.min(this.#splitter.batchMs(step.rows), this.#splitter.batchMs(1) + step.rows * rowMs)
    return planned + SURE_SHARE * expectedMs
  }

  #fail(group: SequenceGroup, error: unknown): void {
    this.#forget(group)
    this.#manager.drop(group, false)
    this.#close(group)
    if (!this.#aborted.has(group.id)) this.#send({ type: 'error', id: group.id, error: toFailure(error) })
  }

  /** Sends nothing more of what a group was given. */
  #forget(group: SequenceGroup): void {
    this.#touched.delete(group)
    this.#sender.forget(group)
  }

  #close(group: SequenceGroup): void {
    this.#groups.delete(group.id)
    group.close()
  }
}

function ahead(sequence: Sequence): Ahead {
  return { promptTokens: sequence.remaining, mostTokens: sequence.tokensLeft, leavesPlace: false }
}

/** Of a group that has not started: its first sequence waits for the shared prefixes, and leaves a place in the queue. */
function aheadOfAll({ prefixes }: SequenceGroup, sequence: Sequence): Ahead {
  const shared = prefixes.reduce((sum, { cells }) => sum + cells, 0)
  return { ...ahead(sequence), promptTokens: shared + sequence.remaining, leavesPlace: true }
}
