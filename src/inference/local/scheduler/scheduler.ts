import { randomInt } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { tryAgainIn } from '../../../lib/errors.ts'
import type { EngineEvent, EngineStats, PromptUsage, Work } from '../../engine.ts'
import { FailureError, toFailure } from '../failure.ts'
import type { EngineSettings, FromEngine, RequestEvents } from '../protocol.ts'
import { admit } from './admission.ts'
import { BatchBuilder, StepError } from './batch-builder.ts'
import type { BatchSplitter } from './batch-splitter.ts'
import type { LoadedModel } from './loaded-model.ts'
import { type Ahead, type Load, QueueForecast } from './queue-forecast.ts'
import type { Sequence } from './sequence.ts'
import { SequenceGroup } from './sequence-group.ts'
import { SequenceManager } from './sequence-manager.ts'

/**
 * Text may wait so long for more of it: a message for every token of a small model costs time on both sides. A model whose
 * steps take this long sends each at once.
 */
const HOLD_MS = 5

export type SchedulerSettings = Pick<EngineSettings, 'maxWaiting' | 'prefixCacheCells' | 'seed'>

/** Takes requests, has them computed a step per turn of the event loop, and sends what comes of it. */
export class Scheduler {
  readonly #loaded: LoadedModel
  readonly #settings: SchedulerSettings
  readonly #send: (message: FromEngine) => void
  readonly #requests = new Map<number, SequenceGroup>()
  readonly #manager: SequenceManager
  readonly #builder: BatchBuilder
  readonly #forecast: QueueForecast
  #isRunning = false
  /** Requests whose text waits to be sent. */
  readonly #held = new Set<SequenceGroup>()
  #heldSince = 0
  /** When the last step ended, if the next one follows it. */
  #lastStepEnd: number | null = null

  constructor(
    loaded: LoadedModel,
    splitter: BatchSplitter,
    settings: SchedulerSettings,
    send: (message: FromEngine) => void,
  ) {
    this.#loaded = loaded
    this.#settings = settings
    this.#send = send
    this.#manager = new SequenceManager(loaded, settings.prefixCacheCells)
    this.#builder = new BatchBuilder(loaded, this.#manager, splitter)
    this.#forecast = new QueueForecast(splitter)
  }

  get stats(): EngineStats {
    const { running, waitingRequests, cache, reusedTokens, prefixHits, prefixMisses, interruptions } = this.#manager
    return {
      running: running.length,
      waiting: waitingRequests,
      totalCells: this.#loaded.context.cells,
      usedCells: this.#loaded.kv.usedCells,
      cachedCells: cache.cells,
      cachedSequences: cache.entries,
      usedSequences: this.#loaded.kv.usedSequences,
      prefilledTokens: this.#builder.prefilledTokens,
      reusedTokens,
      prefixHits,
      prefixMisses,
      decodedTokens: this.#builder.decodedTokens,
      interruptions,
      residentBytes: process.memoryUsage.rss(),
    }
  }

  /** Answers with `admitted`, then `events`; or with `error`. */
  submit(id: number, work: Work): void {
    try {
      const request = this.#admit(id, work)
      this.#requests.set(id, request)
      finishEmpty(request)
      this.#flush([request])
      if (request.unfinished === 0) return
      this.#manager.enqueue(request)
      this.#manager.start()
    } catch (error) {
      const request = this.#requests.get(id)
      if (request === undefined) this.#send({ type: 'error', id, error: toFailure(error) })
      else this.#fail(request, error)
      return
    }
    if (!this.#isRunning) void this.#run()
  }

  /** Frees what the request holds before the next step. Nothing more is sent for it. */
  abort(id: number): void {
    const request = this.#requests.get(id)
    if (request === undefined) return
    this.#held.delete(request)
    this.#manager.drop(request, true)
    this.#close(request)
  }

  /**
   * Computes one step.
   * @param hold whether text may wait for that of the next steps.
   * @returns false when there is nothing to do.
   */
  step(hold = false): boolean {
    const started = performance.now()
    const since = this.#lastStepEnd ?? started
    this.#manager.start()
    if (this.#manager.running.length === 0) {
      const { next } = this.#manager
      if (next === undefined) return false
      // Admitted work fits by itself, so this is no fault of a client's.
      this.#fail(next, new Error('The KV cache is too small for one completion.'))
      return true
    }
    const { decodedTokens, prefilledTokens } = this.#builder
    try {
      const touched = this.#builder.step()
      if (hold) this.#hold(touched, performance.now() - started)
      else this.#flush(touched)
    } catch (error) {
      if (!(error instanceof StepError)) throw error
      this.#loaded.context.batch.clear()
      for (const request of error.requests) this.#fail(request, error.cause)
    }
    this.#lastStepEnd = performance.now()
    this.#forecast.stepped(
      this.#lastStepEnd - since,
      this.#builder.decodedTokens - decodedTokens,
      this.#builder.prefilledTokens - prefilledTokens,
    )
    return true
  }

  #admit(id: number, work: Work): SequenceGroup {
    if (this.#manager.waitingRequests >= this.#settings.maxWaiting) {
      const retryAfter = this.#forecast.promisePlace(() => this.#load) / 1000
      const message = `The model is busy and its queue is full. ${tryAgainIn(retryAfter)}`
      throw new FailureError({ kind: 'overloaded', message, retryAfter })
    }
    const admitted = admit(this.#loaded, work)
    const seed = this.#settings.seed ?? randomInt(2 ** 32)
    const request = new SequenceGroup(id, work.organisation, admitted, this.#loaded, seed)
    this.#send({ type: 'admitted', id, prompts: this.#usage(request) })
    return request
  }

  /** What those who are refused wait for. */
  get #load(): Load {
    const { running, queued } = this.#manager
    return {
      running: running.map((completion) => ahead(completion, false)),
      waiting: queued.flatMap(({ waiting, hasStarted }) =>
        waiting.map((completion, index) => ahead(completion, index === 0 && !hasStarted)),
      ),
    }
  }

  /** With several branches, what one finds already done is the prefix that another paid for, whoever computed it. */
  #usage(request: SequenceGroup): readonly PromptUsage[] {
    const { usage } = request.work
    if (usage.length > 1) return usage
    const match = this.#manager.findPrefix(request)
    return usage.map((prompt) => ({ ...prompt, cachedTokens: match?.cut.cells ?? 0 }))
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    // Messages that come meanwhile are read between two steps, aborts among them.
    do await nextTurn()
    while (this.step(true))
    this.#flush(this.#held)
    this.#held.clear()
    this.#isRunning = false
    this.#lastStepEnd = null
  }

  /** Keeps text for a moment, but none that somebody waits for: the first of a request, its end, a slow step's. */
  #hold(touched: ReadonlySet<SequenceGroup>, stepMs: number): void {
    if (touched.size === 0 && this.#held.size === 0) return
    const now = performance.now()
    if (this.#held.size === 0) this.#heldSince = now
    for (const request of touched) this.#held.add(request)
    const due = now - this.#heldSince + stepMs > HOLD_MS || [...touched].some((request) => isUrgent(request))
    if (!due) return
    this.#flush(this.#held)
    this.#held.clear()
  }

  /** Sends the events of a step, all in one message. */
  #flush(requests: Iterable<SequenceGroup>): void {
    const batch: RequestEvents[] = []
    for (const request of requests) {
      const last = request.unfinished === 0
      if (request.events.length === 0 && !last) continue
      for (const event of request.events) {
        if (event.type === 'finish') this.#forecast.ended(event.completionTokens, event.reason === 'stop')
      }
      batch.push({ id: request.id, events: joined(request.events), last })
      request.events = []
      request.hasSpoken = true
      if (last) this.#close(request)
    }
    if (batch.length > 0) this.#send({ type: 'events', requests: batch })
  }

  #fail(request: SequenceGroup, error: unknown): void {
    this.#held.delete(request)
    this.#manager.drop(request, false)
    this.#close(request)
    this.#send({ type: 'error', id: request.id, error: toFailure(error) })
  }

  #close(request: SequenceGroup): void {
    this.#requests.delete(request.id)
    request.close()
  }
}

function isUrgent({ unfinished, hasSpoken, events }: SequenceGroup): boolean {
  return unfinished === 0 || !hasSpoken || events.some(({ type }) => type !== 'text')
}

/** @param leavesPlace whether its start leaves a place in the queue. */
function ahead({ request, branch, tokens, sequence, feed, promptCells }: Sequence, leavesPlace: boolean): Ahead {
  const stems = leavesPlace ? request.stems.reduce((sum, stem) => sum + stem.cells, 0) : 0
  return {
    promptTokens: stems + (sequence === null ? promptCells + tokens.length : (feed?.remaining ?? 0)),
    mostTokens: branch.maxTokens - tokens.length,
    leavesPlace,
  }
}

/** Text of one completion after another, unless something stands between, as one. */
function joined(events: readonly EngineEvent[]): EngineEvent[] {
  const out: EngineEvent[] = []
  const open = new Map<string, number>()
  for (const event of events) {
    if (event.type !== 'text') {
      open.clear()
      out.push(event)
      continue
    }
    const key = `${event.branch} ${event.completion}`
    const at = open.get(key)
    const before = at === undefined ? null : out[at]
    if (before?.type === 'text') {
      out[at!] = { ...before, text: before.text + event.text, tokens: before.tokens + event.tokens }
    } else open.set(key, out.push(event) - 1)
  }
  return out
}

/** Completions of no tokens need no model. */
function finishEmpty(request: SequenceGroup): void {
  const isEmpty = ({ branch }: SequenceGroup['completions'][number]) => branch.maxTokens === 0
  const empty = request.waiting.filter(isEmpty)
  request.waiting = request.waiting.filter((completion) => !isEmpty(completion))
  request.unfinished = request.waiting.length
  request.events = empty.map(
    ({ branchIndex, index }): EngineEvent => ({
      type: 'finish',
      branch: branchIndex,
      completion: index,
      reason: 'length',
      completionTokens: 0,
    }),
  )
}
