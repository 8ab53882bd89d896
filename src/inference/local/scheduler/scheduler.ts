import { randomInt } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { tryAgainIn } from '../../../lib/errors/errors.ts'
import type { PromptUsage } from '../../contract/generation.ts'
import type { Priority } from '../../contract/priority.ts'
import type { LocalStats } from '../../contract/stats.ts'
import type { Work } from '../../contract/work.ts'
import type { DiskPrefixes } from '../disk/disk-prefixes.ts'
import { FailureError, toFailure } from '../failure.ts'
import type { EngineSettings, FromEngine } from '../protocol.ts'
import { admit } from './admission.ts'
import { BatchBuilder } from './batch/batch-builder.ts'
import type { BatchSplitter } from './batch/batch-splitter.ts'
import { EncoderAside } from './batch/encoder-aside.ts'
import type { PrefillCosts } from './batch/prefill-costs.ts'
import { type Step, StepError } from './batch/step.ts'
import { EventSender } from './event-sender.ts'
import type { LoadedModel } from './loaded-model.ts'
import { type BegunStep, DONE, ModelRunner, type StepResult } from './model-runner.ts'
import { type Ahead, type Load, QueueForecast } from './queue-forecast.ts'
import type { PrefixReuse } from './sequences/prefix-reuse.ts'
import type { Sequence } from './sequences/sequence.ts'
import { SequenceGroup } from './sequences/sequence-group.ts'
import { SequenceManager } from './sequences/sequence-manager.ts'
import { type Scorer, type StepTurn, StepTurns } from './step-turns.ts'

export type SchedulerSettings = Pick<EngineSettings, 'maxWaiting' | 'prefixCacheBytes' | 'speculation' | 'seed'>

/** Maximum time for copies into the prefix cache after a step, in ms, and as a fraction of the step. */
const COPY_MS = 8
/** The same after a step that is short because more urgent work may come, in ms. */
const SHORT_COPY_MS = 2
const COPY_SHARE = 0.1
/** The same while the engine is idle, in ms: a request that arrives meanwhile waits for it. */
const IDLE_COPY_MS = 2

/** Messages are received for at most this fraction of a device's expected step: the device may be faster than expected. */
const SURE_SHARE = 0.8

/** A device was still computing when `finish` was called if the wait took at least this fraction of the step. */
const WAITED_SHARE = 0.05

/** A step that has begun and whose results are not settled. */
interface Flight {
  /** Null if its sequences were preempted. */
  readonly step: Step | null
  readonly begun: BegunStep
  readonly turn: StepTurn
  /** Whether a device computes it while the CPU is free. */
  readonly goesOn: boolean
  /** When its turn began, before admission, and when it was planned. */
  readonly started: number
  readonly planned: number
}

/** The prefix cache on disk, and the measured costs for it. */
export interface SchedulerDisk {
  readonly prefixes: DiskPrefixes
  readonly costs: PrefillCosts
}

export interface SchedulerOptions {
  readonly disk?: SchedulerDisk | null
  /** Receives the messages that have arrived, and those that arrive until a time by the clock of `performance`. */
  readonly receive?: (until: number) => Promise<void>
  /** Whether encoders run beside the steps, on a device. By default, encoding takes steps. */
  readonly encodesAside?: boolean
}

/**
 * Accepts requests, computes one step per turn of the event loop and sends the results. It owns the open groups and the token
 * counts. In each step, the sequence manager decides which sequences run, the batch builder decides what to compute, and the
 * model runner computes it. The engine process calls it. See `docs/contributing/scheduler.md`.
 */
export class Scheduler {
  readonly #loaded: LoadedModel
  readonly #settings: SchedulerSettings
  readonly #send: (message: FromEngine) => void
  readonly #groups = new Map<number, SequenceGroup>()
  readonly #manager: SequenceManager
  /** Scoring shares the prefix cache. */
  readonly reuse: PrefixReuse
  readonly #builder: BatchBuilder
  readonly #runner: ModelRunner
  readonly #forecast: QueueForecast
  readonly #sender: EventSender
  readonly #costs: PrefillCosts | null
  /** Groups whose prompts are being read from disk. They are not in the queue. */
  readonly #reading = new Set<SequenceGroup>()
  #scorer: Scorer | null = null
  readonly #receive: (until: number) => Promise<void>
  readonly #splitter: BatchSplitter
  /** The step that a device computes. The KV cache and the running sequences do not change until it ends. */
  #flight: Flight | null = null
  /** Requests that were aborted during the step. */
  readonly #aborted = new Set<number>()
  /** Groups with events that the sender has not received. */
  readonly #touched = new Set<SequenceGroup>()
  readonly #turns: StepTurns
  #prefilledTokens = 0
  #decodedTokens = 0
  #draftedTokens = 0
  #acceptedTokens = 0
  #isRunning = false
  /** Pause before copies continue. */
  #rest: NodeJS.Timeout | undefined
  #isClosed = false
  /** When the last step ended; null if the engine was idle since. */
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
    this.#turns = new StepTurns(this.#manager)
    const aside = encodesAside ? new EncoderAside(() => this.wake()) : null
    this.reuse = this.#manager.reuse
    this.#builder = new BatchBuilder(loaded, this.#manager, splitter, settings.speculation, aside)
    this.#runner = new ModelRunner(loaded, splitter)
    this.#costs = disk?.costs ?? null
    this.#receive = receive
    this.#splitter = splitter
    this.#forecast = new QueueForecast(splitter)
    this.#sender = new EventSender(send, this.#forecast, (group) => this.#close(group))
  }

  /** Adds the scorer, which then gets steps too. */
  attach(scorer: Scorer): void {
    this.#scorer = scorer
    this.#turns.attach(scorer)
  }

  get stats(): LocalStats {
    const { kv, context } = this.#loaded
    const { stats } = this.#manager
    return {
      ...stats,
      running: stats.running + (this.#scorer?.running ?? 0),
      waiting: this.#waiting,
      totalCells: context.cells,
      usedCells: kv.usedCells - stats.retainedCells,
      usedSequences: kv.usedSequences - stats.retainedSequences,
      prefilledTokens: this.#prefilledTokens + (this.#scorer?.prefilledTokens ?? 0),
      decodedTokens: this.#decodedTokens,
      draftedTokens: this.#draftedTokens,
      acceptedTokens: this.#acceptedTokens,
      residentBytes: process.memoryUsage.rss(),
    }
  }

  /**
   * Replies with `admitted`, then `events`; or with `error`.
   * @param traced whether to send `started` and `encoded` too.
   */
  submit(id: number, work: Work, traced = false): void {
    try {
      const group = this.#admit(id, work)
      if (traced) group.report = (stage) => this.#send({ ...stage, id })
      this.#groups.set(id, group)
      this.#scorer?.share(group)
      const reading = this.reuse.readAhead(group)
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

  /** Runs steps until there is nothing to do. The scorer's submissions call it. */
  wake(): void {
    if (!this.#isRunning) void this.#run()
  }

  /** Frees the request's resources before the next step. No further messages are sent for it. */
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
    // The last step may have ended it.
    if (!group.isFinished) this.#manager.drop(group, true)
    this.#close(group)
  }

  /**
   * Copies retained sequences for at most `copyMs`, and waits until the copies are on disk, if there is a disk cache. Submit
   * nothing after this call.
   */
  async close(copyMs: number): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#rest)
    this.#finish()
    this.#tell()
    this.#sender.flush()
    if (this.#costs === null) return
    const end = performance.now() + copyMs
    while (performance.now() < end && this.reuse.continueCopies(COPY_MS));
    await this.reuse.flush()
  }

  get #waiting(): number {
    return this.#manager.queue.waiting + this.#reading.size + (this.#scorer?.waiting ?? 0)
  }

  #waitingOf(priority: Priority): number {
    const reading = [...this.#reading].filter((group) => group.priority === priority).length
    return this.#manager.queue.waitingOf(priority) + reading + (this.#scorer?.waitingOf(priority) ?? 0)
  }

  /**
   * Runs one step: plans it, computes it and sends its results. On a device, this finishes the previous step, begins the next
   * one and only then sends the results of the previous one. So the device waits neither for the sending nor for the work
   * between two calls.
   * @param hold whether text may be held for that of the next steps.
   * @returns false when there is nothing to do.
   */
  step(hold = false): boolean {
    this.#finish()
    const now = performance.now()
    this.#manager.admit()
    const turn = this.#turns.next(now)
    if (turn.isScoring) {
      this.#tell()
      this.#score(turn, now)
      return true
    }
    if (this.#manager.running.length === 0) {
      this.#tell()
      if (this.reuse.restMs === 0 && this.reuse.continueCopies(IDLE_COPY_MS)) return true
      const next = this.#manager.queue.head
      if (next === undefined) return false
      // Admitted work fits the empty cache, so this is not the client's fault.
      this.#fail(next, new Error('The KV cache is too small for one completion.'))
      return true
    }
    if (!this.#begin(now, turn)) this.#finish()
    this.#tell(hold)
    return this.#flight !== null || !this.#builder.waitsForEncoder || this.#besideEncoder(turn)
  }

  /**
   * Does other work while all completions wait for an encoder, whose end wakes the scheduler. @returns false if there is
   * none.
   */
  #besideEncoder({ makesWay }: StepTurn): boolean {
    const priority = this.#turns.scoring
    if (priority === undefined) return false
    this.#score({ priority, makesWay })
    return true
  }

  /** Begins a step. `#finish` handles its failure. @returns whether a device still computes it. */
  #begin(started: number, turn: StepTurn): boolean {
    const planned = performance.now()
    let step: Step | null = null
    let begun: BegunStep
    try {
      step = this.#builder.next(turn.priority, turn.makesWay)
      // Media steps block until they are computed.
      if (step !== null && step.type !== 'text') this.#tell()
      begun = step === null ? DONE : this.#runner.begin(step)
    } catch (error) {
      const fail = () => {
        throw error
      }
      begun = { finish: fail }
    }
    const goesOn = this.#loaded.compute.leavesCpu && step?.type === 'text'
    this.#flight = { step, begun, turn, goesOn, started, planned }
    return goesOn
  }

  /** Finishes the step that has begun, if any, settles its results, and does the work that waited for its end. */
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
    this.#turns.stepped(flight.turn.priority, ended, ms)
    if (flight.step?.type === 'encode') {
      const { needsEncoding, media } = flight.step.prefill.cursor
      if (media !== null) this.#forecast.encoded(media, ended - since, needsEncoding ? 0 : media.encodable.length)
    } else {
      this.#forecast.stepped(
        ended - since,
        this.#decodedTokens - decodedTokens,
        this.#prefilledTokens - prefilledTokens,
      )
    }
  }

  /** Hands the events of the last step to the sender. @param hold whether they may wait for those of the next steps. */
  #tell(hold = false): void {
    if (hold) this.#sender.hold(this.#touched, this.#lastStepMs)
    else this.#sender.sendNow(this.#touched)
    this.#touched.clear()
  }

  #score(turn: Pick<StepTurn, 'priority' | 'makesWay'>, started?: number): void {
    this.#sender.hold(new Set(), this.#turns.score(turn, started))
  }

  /** @throws StepError */
  #settleStep({ step, begun, turn: { makesWay }, goesOn, planned }: Flight): void {
    const asked = performance.now()
    const { generated, decodeMs } = begun.finish()
    if (step !== null) {
      this.#prefilledTokens += step.promptTokens
      if (step.type === 'text') for (const { draft } of step.decoding) this.#draftedTokens += draft.length
      for (const one of generated) this.#settle(one)
    }
    const ms = performance.now() - planned
    // If the device had finished before the wait, the duration of its step is unknown.
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
    // A constraint that cannot be satisfied fails this branch only.
    if (error !== null) group.emit({ type: 'error', branch: sequence.branchIndex, error })
    if (error !== null || sequence.isFinished) this.#manager.finish(generated)
    if (events.length > 0 || error !== null) this.#touched.add(group)
  }

  /**
   * Each priority has its own places.
   * @throws FailureError when the queue is full.
   */
  checkQueue(priority: Priority = 'interactive'): void {
    if (this.#waitingOf(priority) < this.#settings.maxWaiting) return
    const retryAfter = this.#forecast.reserveRetryAfter(() => this.#load) / 1000
    const message = `The model is busy and its queue is full. ${tryAgainIn(retryAfter)}`
    throw new FailureError({ kind: 'overloaded', message, retryAfter })
  }

  /** @throws FailureError if the queue is full or the work does not fit. */
  #admit(id: number, work: Work): SequenceGroup {
    this.checkQueue(work.priority)
    const admitted = admit(this.#loaded, work)
    const seed = this.#settings.seed ?? randomInt(2 ** 32)
    const { organisation, priority, isTransient } = work
    return new SequenceGroup({ id, organisation, priority, isTransient }, admitted, this.#loaded, seed)
  }

  /** The work that a refused request would wait for. */
  get #load(): Load {
    const { running, queue } = this.#manager
    return {
      running: running.map(({ sequence }) => ahead(sequence)),
      waiting: queue.items.flatMap((group) =>
        group.waiting.map((sequence, index) =>
          index === 0 && !group.hasStarted ? aheadOfAll(group, sequence) : ahead(sequence),
        ),
      ),
    }
  }

  /** With several branches, a branch's cached tokens are those of the shared prefix, even if this request computed them. */
  #usage(group: SequenceGroup): readonly PromptUsage[] {
    const { usage } = group.work
    if (usage.length > 1) return usage
    const cachedTokens = this.reuse.find(group)?.cut.cells ?? 0
    return usage.map((prompt) => ({ ...prompt, cachedTokens }))
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    // The messages may include aborts.
    do await this.#receive(this.#busyUntil)
    while (this.step(true))
    this.#sender.flush()
    this.#isRunning = false
    this.#lastStepEnd = null
    clearTimeout(this.#rest)
    const { restMs } = this.reuse
    if (restMs > 0 && !this.#isClosed) this.#rest = setTimeout(() => this.wake(), restMs).unref()
  }

  /** A time before which the device's step will not have ended, by the calibrated times. */
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

  /** Drops the unsent events of a group. */
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
  const { remaining, unencoded, tokensLeft } = sequence
  return { promptTokens: remaining, mediaTokens: unencoded, mostTokens: tokensLeft, freesPlace: false }
}

/** For a group that has not started: its first sequence waits for the shared prefixes, and frees a place in the queue. */
function aheadOfAll({ prefixes }: SequenceGroup, sequence: Sequence): Ahead {
  const own = ahead(sequence)
  return {
    ...own,
    promptTokens: prefixes.reduce((sum, { cells }) => sum + cells, own.promptTokens),
    mediaTokens: prefixes.reduce((sum, { unencoded }) => sum + unencoded, own.mediaTokens),
    freesPlace: true,
  }
}
