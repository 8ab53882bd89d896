import { randomInt } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { tryAgainIn } from '../../../lib/errors.ts'
import type { EngineStats, PromptUsage, Work } from '../../engine.ts'
import type { DiskPrefixes } from '../disk/disk-prefixes.ts'
import { FailureError, toFailure } from '../failure.ts'
import type { EngineSettings, FromEngine } from '../protocol.ts'
import { admit } from './admission.ts'
import { BackgroundPace } from './background-pace.ts'
import { BatchBuilder } from './batch-builder.ts'
import type { BatchSplitter } from './batch-splitter.ts'
import { EventSender } from './event-sender.ts'
import type { LoadedModel } from './loaded-model.ts'
import { ModelRunner, type StepResult } from './model-runner.ts'
import type { PrefillCosts } from './prefill-costs.ts'
import { MAKING_WAY_MS } from './prefill-pace.ts'
import { type Ahead, type Load, QueueForecast } from './queue-forecast.ts'
import type { Sequence } from './sequence.ts'
import { SequenceGroup } from './sequence-group.ts'
import { SequenceManager } from './sequence-manager.ts'
import type { SideWork } from './side-work.ts'
import { StepError } from './step.ts'

export type SchedulerSettings = Pick<EngineSettings, 'maxWaiting' | 'prefixCacheBytes' | 'speculation' | 'seed'>

/** Time that copies into the prefix cache may take after a step, in ms, and as a share of the step. */
const COPY_MS = 8
/** The same after a step that makes way. */
const SHORT_COPY_MS = 2
const COPY_SHARE = 0.1
/** The same while nothing runs: a request that arrives meanwhile waits for it. */
const IDLE_COPY_MS = 2

/** How long a step of other work should take beside completions, in ms. It has half of the time. */
const SIDE_STEP_MS = 20

/** The prefix cache on disk, and what measures for it. */
export interface SchedulerDisk {
  readonly prefixes: DiskPrefixes
  readonly costs: PrefillCosts
}

export interface SchedulerOptions {
  readonly disk?: SchedulerDisk | null
  readonly side?: SideWork | null
  /** Lets in, between two steps, the messages that have arrived. */
  readonly receive?: () => Promise<void>
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
  readonly #side: SideWork | null
  readonly #receive: () => Promise<void>
  /** Time by which other work's last step was longer than all other steps since, in ms. */
  #sideLeadMs = 0
  readonly #pace = new BackgroundPace()
  #prefilledTokens = 0
  #decodedTokens = 0
  #draftedTokens = 0
  #acceptedTokens = 0
  #isRunning = false
  /** Until copies go on. */
  #rest: NodeJS.Timeout | undefined
  /** When the last step ended, if the next one follows it. */
  #lastStepEnd: number | null = null

  constructor(
    loaded: LoadedModel,
    splitter: BatchSplitter,
    settings: SchedulerSettings,
    send: (message: FromEngine) => void,
    { disk = null, side = null, receive = nextTurn }: SchedulerOptions = {},
  ) {
    this.#loaded = loaded
    this.#settings = settings
    this.#send = send
    this.#manager = new SequenceManager(loaded, settings.prefixCacheBytes, splitter, disk?.prefixes)
    this.#builder = new BatchBuilder(loaded, this.#manager, splitter, settings.speculation)
    this.#runner = new ModelRunner(loaded, splitter)
    this.#costs = disk?.costs ?? null
    this.#side = side
    this.#receive = receive
    this.#forecast = new QueueForecast(splitter)
    this.#sender = new EventSender(send, this.#forecast, (group) => this.#close(group))
  }

  get stats(): EngineStats {
    const { kv, context } = this.#loaded
    const { held } = this.#manager
    return {
      ...this.#manager.stats,
      running: this.#manager.stats.running + (this.#side?.running ?? 0),
      waiting: this.#waiting,
      totalCells: context.cells,
      usedCells: kv.usedCells - held.cells,
      usedSequences: kv.usedSequences - held.sequences,
      prefilledTokens: this.#prefilledTokens + (this.#side?.prefilledTokens ?? 0),
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
    this.#manager.admit()
    this.wake()
  }

  /** Computes steps until there is nothing to do: for other work that was submitted. */
  wake(): void {
    if (!this.#isRunning) void this.#run()
  }

  /** Frees what the request holds before the next step. Nothing more is sent for it. */
  abort(id: number): void {
    this.#side?.abort(id)
    const group = this.#groups.get(id)
    if (group === undefined) return
    this.#sender.forget(group)
    if (!this.#reading.delete(group)) this.#manager.drop(group, true)
    this.#close(group)
  }

  /**
   * Copies what has ended, for at most so long, and waits until that is on disk, if anything is kept there. Nothing may be
   * submitted any more.
   */
  async close(copyMs: number): Promise<void> {
    if (this.#costs === null) return
    const end = performance.now() + copyMs
    while (performance.now() < end && this.#manager.continueCopies(COPY_MS));
    await this.#manager.flush()
  }

  get #waiting(): number {
    return this.#manager.waitingGroups + this.#reading.size + (this.#side?.waiting ?? 0)
  }

  get #waitingBackground(): number {
    return this.#manager.waitingBackground + (this.#side?.waitingBackground ?? 0)
  }

  /**
   * Computes one step.
   * @param hold whether text may wait for that of the next steps.
   * @returns false when there is nothing to do.
   */
  step(hold = false): boolean {
    const started = performance.now()
    const since = this.#lastStepEnd ?? started
    this.#manager.admit()
    const isBackground = this.#isBackgroundTurn(started)
    const makesWay = isBackground && this.#pace.isWatchful(started)
    if (this.#isSideTurn(isBackground)) {
      this.#sideStep(makesWay)
      const ended = performance.now()
      this.#pace.stepped(isBackground, ended, ended - started)
      return true
    }
    if (this.#manager.running.length === 0) {
      if (this.#manager.restMs === 0 && this.#manager.continueCopies(IDLE_COPY_MS)) return true
      const { next } = this.#manager
      if (next === undefined) return false
      // Work that passed admission fits by itself, so this is no client's fault.
      this.#fail(next, new Error('The KV cache is too small for one completion.'))
      return true
    }
    const [decodedTokens, prefilledTokens] = [this.#decodedTokens, this.#prefilledTokens]
    try {
      const touched = this.#compute(isBackground, makesWay)
      if (hold) this.#sender.hold(touched, performance.now() - started)
      else this.#sender.sendNow(touched)
    } catch (error) {
      if (!(error instanceof StepError)) throw error
      for (const group of error.groups) this.#fail(group, error.cause)
    }
    this.#lastStepEnd = performance.now()
    this.#pace.stepped(isBackground, this.#lastStepEnd, this.#lastStepEnd - started)
    this.#sideLeadMs -= this.#lastStepEnd - started
    this.#forecast.stepped(
      this.#lastStepEnd - since,
      this.#decodedTokens - decodedTokens,
      this.#prefilledTokens - prefilledTokens,
    )
    return true
  }

  get #hasForeground(): boolean {
    return this.#manager.hasRunning(false) || (this.#side !== null && !this.#side.isIdle && !this.#side.isBackground)
  }

  get #hasBackground(): boolean {
    return this.#manager.hasRunning(true) || this.#side?.isBackground === true
  }

  /** Work in the background has all of the time that others leave, and a small part of the rest, so that it ends some day. */
  #isBackgroundTurn(now: number): boolean {
    return !this.#hasForeground || (this.#hasBackground && this.#pace.isDue(now))
  }

  /** Beside completions of its class, other work has half of the time. */
  #isSideTurn(isBackground: boolean): boolean {
    if (this.#side === null || this.#side.isIdle || this.#side.isBackground !== isBackground) return false
    if (this.#manager.hasRunning(isBackground)) return this.#sideLeadMs <= 0
    if (this.#manager.running.length > 0) return true
    // What can never run is told so at once.
    return this.#manager.next === undefined
  }

  #sideStep(makesWay: boolean): void {
    const started = performance.now()
    const isAlone = this.#manager.running.length === 0
    const budgetMs = isAlone ? Number.POSITIVE_INFINITY : SIDE_STEP_MS
    this.#side?.step(makesWay ? MAKING_WAY_MS : budgetMs)
    const ms = performance.now() - started
    this.#sideLeadMs = isAlone ? 0 : ms
    this.#sender.hold(new Set(), ms)
  }

  /** @returns groups with new events. @throws StepError */
  #compute(isBackground: boolean, makesWay: boolean): ReadonlySet<SequenceGroup> {
    const started = performance.now()
    const touched = new Set<SequenceGroup>()
    const step = this.#builder.next(isBackground, makesWay)
    let decodeMs = 0
    if (step !== null) {
      const result = this.#runner.run(step)
      decodeMs = result.decodeMs
      this.#prefilledTokens += step.promptTokens
      if (step.type === 'text') for (const { draft } of step.decoding) this.#draftedTokens += draft.length
      for (const generated of result.generated) if (this.#settle(generated)) touched.add(generated.group)
    }
    const ms = performance.now() - started
    this.#builder.learn(step, decodeMs, ms)
    if (step !== null) this.#costs?.learn(step, ms)
    this.#manager.endStep(makesWay ? SHORT_COPY_MS : Math.max(COPY_MS, COPY_SHARE * decodeMs))
    return touched
  }

  /** @returns whether the client is to be told of it. */
  #settle(generated: StepResult['generated'][number]): boolean {
    const { group, sequence, events, tokens, agreed, error } = generated
    this.#decodedTokens += tokens
    this.#acceptedTokens += agreed
    group.emit(...events)
    // A constraint that cannot be followed concerns this branch alone.
    if (error !== null) group.emit({ type: 'error', branch: sequence.branchIndex, error })
    if (error !== null || sequence.isFinished) this.#manager.finish(generated)
    return events.length > 0 || error !== null
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
    do await this.#receive()
    while (this.step(true))
    this.#sender.flush()
    this.#isRunning = false
    this.#lastStepEnd = null
    clearTimeout(this.#rest)
    const { restMs } = this.#manager
    if (restMs > 0) this.#rest = setTimeout(() => this.wake(), restMs).unref()
  }

  #fail(group: SequenceGroup, error: unknown): void {
    this.#sender.forget(group)
    this.#manager.drop(group, false)
    this.#close(group)
    this.#send({ type: 'error', id: group.id, error: toFailure(error) })
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
