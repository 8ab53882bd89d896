import { invalidRequest, modelOverloaded, tryAgainIn, wholeSeconds } from '../../lib/errors/errors.ts'
import { cannotEmbed, cannotRead } from '../contract/cannot-read.ts'
import type { CountOptions, Engine, EngineState, ModelInfo, Numerics } from '../contract/engine.ts'
import type { Embedding, Generation, Measurement, Reading } from '../contract/generation.ts'
import type { Hold } from '../contract/hold.ts'
import type { PromptPart } from '../contract/parts.ts'
import type { Priority } from '../contract/priority.ts'
import type { EngineStats } from '../contract/stats.ts'
import type { EmbedWork, ReadWork, Work } from '../contract/work.ts'
import type { WorkTrace } from '../contract/work-trace.ts'
import { noteAnswers, noteEvents, noteVectors, type Outcome, type PoolMeter } from './pool-meter.ts'
import { RateWindow } from './rate-window.ts'

/** A model that the pool can run. */
export interface PoolModel {
  /** Name in logs, metrics and error messages. */
  readonly name: string
  /** Read from the model's files; null for a model that is loaded before the first request. */
  readonly info: ModelInfo | null
  /** Estimated memory of its engine, in bytes; null if not needed. */
  readonly memoryBytes: number | null
  /** @param signal aborted when the engine is no longer wanted. */
  start(signal: AbortSignal): Promise<Engine>
}

/** The part of the pool that its engines use. */
export interface PoolSide {
  readonly loadWaitMs: number
  /** Maximum requests that wait for the engine to load. */
  readonly maxWaiting: number
  readonly meter: PoolMeter
  /** Resolves with null when the engine is no longer wanted. */
  load(signal: AbortSignal): Promise<Engine | null>
  /**
   * Called when the engine is no longer in use and may be unloaded, may give way again, or now wants others to give
   * way.
   */
  changed(): void
}

/** The caller of a method of the engine. */
type Asker = Pick<Work, 'hold' | 'priority'>

/** A work that has acquired the engine. */
interface Run {
  readonly trace: WorkTrace | undefined
  readonly signal: AbortSignal
  release(): void
  /** Tokens that the engine has computed for it so far. */
  computedTokens: () => number
}

const RETRY_SECONDS = 5
/** Pause after a failed load, in ms; doubled after each further failure. */
const FIRST_PAUSE_MS = 1_000
const LONGEST_PAUSE_MS = 60_000
/**
 * After a failed load, engines in use give way to the engine only after this many times that pause: they may leave in
 * vain.
 */
const TURN_PAUSE_FACTOR = 60
/**
 * An engine that gave way in vain is not asked again for this many times as long: it loses at most a quarter of its
 * time.
 */
const VAIN_FACTOR = 3
/**
 * Maximum idle time, in ms, between consecutive requests of one client for which an engine still counts as in constant
 * use.
 */
const PAUSE_MS = 1_000

/**
 * An engine that is loaded on demand and may be unloaded when idle. It always accepts work, but may be slow to start.
 */
export class PooledEngine implements Engine {
  readonly model: PoolModel
  /** Order of last use: the larger, the later. */
  lastUse = 0
  /** Whether any work other than background work has used it since it was loaded. */
  hasClients = false
  readonly #pool: PoolSide
  readonly #closing = new AbortController()
  readonly #generated = new RateWindow()
  #engine: Engine | null = null
  #info: ModelInfo | null
  #numerics: Numerics | null = null
  #loading: Promise<void> | null = null
  /** Works in progress, works that wait for the engine, and requests with at least one accepted work. */
  readonly #users = new Set<object>()
  /** Requests that may still submit work. */
  readonly #holds = new Set<Hold>()
  /** Works that wait until the engine has loaded or accepts work again. They then all get it at once. */
  readonly #waiting = new Map<object, Priority | undefined>()
  /** Resolves when the engine accepts work again; null while it does. */
  #gate: (PromiseWithResolvers<void> & { readonly since: number }) | null = null
  /** Users that kept it in use when it last gave way in vain. */
  readonly #kept = new Set<object>()
  #staysUntil = 0
  /** When it was last in use, by `performance.now()`. */
  #usedAt = Number.NEGATIVE_INFINITY
  /** When its turn for memory last came or was given up, by `performance.now()`; infinite while it is still to come. */
  #turnAt = 0
  /** Whether the model is no longer served, not even by another engine. */
  #isRemoved = false
  /** Resolves when no request uses or holds the engine; null while the engine is open to requests. */
  #unused: PromiseWithResolvers<void> | null = null
  #failures = 0
  /** Time of the next permitted load attempt, by `performance.now()`. */
  #retryAt = 0
  #turnFrom = 0

  constructor(model: PoolModel, pool: PoolSide) {
    this.model = model
    this.#info = model.info
    this.#pool = pool
  }

  /** Remains available after the engine is unloaded. */
  get info(): ModelInfo {
    if (this.#info === null) throw new Error(`${this.model.name} has never been loaded`)
    return this.#info
  }

  /** The numerics of the engine that was loaded last. */
  get numerics(): Numerics | null {
    return this.#engine?.numerics ?? this.#numerics
  }

  get state(): EngineState {
    if (this.#closing.signal.aborted) return 'closed'
    if (this.#engine !== null) return this.#engine.state
    return this.#loading === null ? 'unloaded' : 'starting'
  }

  /** Estimated bytes of memory when loaded. */
  get bytes(): number {
    return this.model.memoryBytes ?? 0
  }

  /** Whether it is loaded and not in use. */
  get isIdle(): boolean {
    return this.#engine !== null && this.#users.size === (this.#gate === null ? 0 : this.#waiting.size)
  }

  get isInUse(): boolean {
    return this.#users.size > 0
  }

  /** Number of requests that wait for the engine to load, or for its turn. */
  get waiting(): number {
    return this.#waiting.size
  }

  /**
   * Whether engines in use should give way to it. Background work only gets idle memory. So does, for a while, a model
   * that could not be loaded.
   */
  get wantsTurn(): boolean {
    const isPast = performance.now() >= this.#turnFrom
    return isPast && [...this.#waiting.values()].some((priority) => priority !== 'background')
  }

  /** When it may next want a turn, by `performance.now()`. */
  get turnFrom(): number {
    return this.#turnFrom
  }

  /** False after it has given way in vain, until the requests that kept it in use have ended. */
  get mayGiveWay(): boolean {
    return this.#kept.size === 0
  }

  /** When it may be asked to give way, by `performance.now()`; sooner if its clients have left. */
  get staysUntil(): number {
    return this.isIdle ? Math.min(this.#staysUntil, this.#usedAt + PAUSE_MS) : this.#staysUntil
  }

  stayFor(ms: number): void {
    this.#staysUntil = Math.max(this.#staysUntil, performance.now() + ms)
  }

  /** Whether it accepts no new requests, so that it can be unloaded. */
  get givesWay(): boolean {
    return this.#gate !== null
  }

  /** Makes new requests wait. */
  giveWay(): void {
    this.#gate ??= { ...Promise.withResolvers<void>(), since: performance.now() }
    this.expectTurn(true)
  }

  /** Accepts requests again, waiting ones first. */
  stay(): void {
    if (this.#gate === null) return
    this.stayFor(VAIN_FACTOR * (performance.now() - this.#gate.since))
    for (const user of this.#users) if (!this.#waiting.has(user)) this.#kept.add(user)
    if (this.#engine !== null) this.#waiting.clear()
    this.#openGate()
  }

  /** While its turn for memory is expected, requests wait for it without the time limit for loading. */
  expectTurn(isComing: boolean): void {
    if (isComing) this.#turnAt = Number.POSITIVE_INFINITY
    else if (this.#turnAt === Number.POSITIVE_INFINITY) this.#turnAt = performance.now()
  }

  /** Tokens generated per second, over the last few seconds. */
  get tokensPerSecond(): number {
    return this.#generated.perSecond(performance.now())
  }

  /** Loads the engine, without a time limit. @throws Error that says why it cannot be loaded. */
  async preload(): Promise<void> {
    const user = {}
    this.#users.add(user)
    this.hasClients = true
    try {
      while (this.#engine === null) await this.#load()
    } finally {
      this.#leave(user)
    }
  }

  generate({ hold, ...work }: Work, signal: AbortSignal): Promise<Generation> {
    const onTokens = (tokens: number, now: number) => this.#generated.add(tokens, now)
    const note = noteEvents(work, this.model.name, this.#pool.meter, onTokens)
    return this.#begin({ ...work, hold }, signal, async (engine, run) => {
      const generation = await engine.generate(work, signal)
      run.computedTokens = generation.computedTokens
      return { ...generation, events: this.#watch(generation.events, run, note) }
    })
  }

  read({ hold, ...work }: ReadWork, signal: AbortSignal): Promise<Reading> {
    return this.#begin({ ...work, hold }, signal, async (engine, run) => {
      if (engine.read === undefined) throw cannotRead()
      const reading = await engine.read(work, signal)
      return { ...reading, answers: this.#watch(reading.answers, run, noteAnswers(work)) }
    })
  }

  embed({ hold, ...work }: EmbedWork, signal: AbortSignal): Promise<Embedding> {
    return this.#begin({ ...work, hold }, signal, async (engine, run) => {
      if (engine.embed === undefined) throw cannotEmbed()
      const embedding = await engine.embed(work, signal)
      return { ...embedding, vectors: this.#watch(embedding.vectors, run, noteVectors(work)) }
    })
  }

  countTokens(parts: readonly PromptPart[], { hold, priority, ...options }: CountOptions): Promise<number> {
    return this.#use({ hold, priority }, options.signal, (engine) => engine.countTokens(parts, options))
  }

  measure({ hold, ...work }: Work, signal: AbortSignal): Promise<Measurement> {
    const { priority } = work
    return this.#use({ hold, priority }, signal, (engine) => engine.measure(work, signal))
  }

  async stats(): Promise<EngineStats> {
    const stats = await this.#engine?.stats?.()
    if (stats === undefined) throw modelOverloaded('The model is not running.', RETRY_SECONDS)
    return stats
  }

  /** Frees the engine's memory until the next work. */
  async unload(): Promise<void> {
    const engine = this.#engine
    this.#numerics = this.numerics
    this.#engine = null
    this.hasClients = false
    this.#openGate()
    this.#kept.clear()
    this.#staysUntil = 0
    await engine?.close()
  }

  hold(): Hold {
    const hold: Hold = {
      release: () => {
        if (this.#holds.delete(hold)) this.#leave(hold)
      },
    }
    this.#holds.add(hold)
    return hold
  }

  /**
   * Closes the engine once no request uses or holds it.
   * @param isReplaced whether another engine serves the model from now on.
   */
  async retire(isReplaced: boolean): Promise<void> {
    this.#isRemoved = !isReplaced
    this.#unused ??= Promise.withResolvers()
    this.#noteUse()
    await this.#unused.promise
    await this.close()
  }

  async close(): Promise<void> {
    this.#closing.abort(shuttingDown())
    await this.#loading?.catch(() => {})
    await this.unload()
  }

  /** Waits for the engine for as long as the pool allows. Every acquired engine must be released. */
  async #acquire(user: object, asker: Asker, signal: AbortSignal): Promise<Engine> {
    this.#users.add(user)
    try {
      if (!this.#isOpenTo(asker)) await this.#awaitTurn(user, asker, signal)
      this.#closing.signal.throwIfAborted()
      return this.#engine!
    } catch (error) {
      this.#leave(user)
      throw error
    }
  }

  #isOpenTo({ hold }: Asker): boolean {
    return this.#engine !== null && (this.#gate === null || (hold !== undefined && this.#users.has(hold)))
  }

  async #use<Result>(asker: Asker, signal: AbortSignal, ask: (engine: Engine) => Promise<Result>): Promise<Result> {
    const user = {}
    const engine = await this.#acquire(user, asker, signal)
    try {
      return await ask(engine)
    } finally {
      this.#leave(user)
    }
  }

  /** Submits a work to the engine. The work's events may never be read, so the signal releases the engine too. */
  async #begin<Begun>(
    { hold, priority, trace }: Asker & Pick<Work, 'trace'>,
    signal: AbortSignal,
    begin: (engine: Engine, run: Run) => Promise<Begun>,
  ): Promise<Begun> {
    signal.throwIfAborted()
    const user = {}
    const engine = await this.#acquire(user, { hold, priority }, signal)
    this.hasClients ||= priority !== 'background'
    if (hold !== undefined && this.#holds.has(hold)) this.#users.add(hold)
    const release = () => {
      signal.removeEventListener('abort', abandon)
      this.#leave(user)
    }
    const run: Run = { trace, signal, release, computedTokens: () => 0 }
    const abandon = () => {
      release()
      trace?.ended(run.computedTokens(), signal.reason)
    }
    signal.addEventListener('abort', abandon)
    try {
      // It may have been aborted just as the turn came.
      signal.throwIfAborted()
      return await begin(engine, run)
    } catch (error) {
      release()
      throw error
    }
  }

  async #awaitTurn(user: object, asker: Asker, signal: AbortSignal): Promise<void> {
    if (this.#waiting.size >= this.#pool.maxWaiting) throw tooManyWait()
    this.#setWaiting(() => this.#waiting.set(user, asker.priority))
    const stopped = AbortSignal.any([signal, this.#closing.signal])
    const late = Promise.withResolvers<never>()
    const leave = () => late.reject(stopped.reason)
    const cameAt = performance.now()
    let timer: NodeJS.Timeout | undefined
    const look = () => {
      const now = performance.now()
      const left = Math.max(cameAt, Math.min(this.#turnAt, now)) + this.#pool.loadWaitMs - now
      if (left > 0) timer = setTimeout(look, left)
      else late.reject(notLoadedYet())
    }
    look()
    stopped.addEventListener('abort', leave)
    try {
      stopped.throwIfAborted()
      while (this.#waiting.has(user)) {
        await Promise.race([this.#engine === null ? this.#tryLoad() : this.#gate!.promise, late.promise])
      }
    } finally {
      this.#setWaiting(() => this.#waiting.delete(user))
      clearTimeout(timer)
      stopped.removeEventListener('abort', leave)
    }
  }

  #setWaiting(change: () => void): void {
    const { wantsTurn } = this
    change()
    if (this.wantsTurn !== wantsTurn) this.#pool.changed()
  }

  /** Makes one attempt for all waiting requests. @throws ApiError 503 without the cause, which is only logged. */
  async #tryLoad(): Promise<void> {
    const pause = this.#retryAt - performance.now()
    if (this.#loading === null && pause > 0) throw cannotLoad(pause)
    try {
      await this.#load()
    } catch {
      this.#closing.signal.throwIfAborted()
      // Its files may be gone, and it will not be available again.
      if (this.#isRemoved) throw removed(this.model.name)
      throw cannotLoad(this.#retryAt - performance.now())
    }
  }

  #load(): Promise<void> {
    this.#loading ??= this.#loadOnce().finally(() => {
      this.#loading = null
    })
    return this.#loading
  }

  async #loadOnce(): Promise<void> {
    try {
      const engine = await this.#pool.load(this.#closing.signal)
      if (this.#closing.signal.aborted) await engine?.close()
      else if (engine !== null) {
        this.#failures = 0
        this.#turnFrom = 0
        this.#engine = engine
        this.#waiting.clear()
        this.#info = engine.info
        this.#numerics = null
      }
      if (!this.isInUse) this.#pool.changed()
    } catch (error) {
      const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.#failures++)
      const now = performance.now()
      this.#retryAt = now + pause
      this.#turnFrom = now + TURN_PAUSE_FACTOR * pause
      throw error
    }
  }

  /** Idempotent for each user. */
  #leave(user: object): void {
    if (this.#users.delete(user)) {
      this.#usedAt = performance.now()
      const wasLastKept = this.#kept.delete(user) && this.#kept.size === 0
      if (wasLastKept || this.isIdle || !this.isInUse) this.#pool.changed()
    }
    this.#noteUse()
  }

  #noteUse(): void {
    if (!this.isInUse && this.#holds.size === 0) this.#unused?.resolve()
  }

  #openGate(): void {
    this.#gate?.resolve()
    this.#gate = null
    this.expectTurn(false)
  }

  /**
   * Passes a work's events through and reports its end.
   * @param note returns how the work has ended; null for an event that does not end it.
   */
  async *#watch<Event>(
    events: AsyncIterable<Event>,
    { trace, signal, release, computedTokens }: Run,
    note: (event: Event) => Outcome | null,
  ): AsyncGenerator<Event, void, void> {
    let outcome: Outcome = 'aborted'
    try {
      for await (const event of events) {
        // Noted here because readers may stop at the last event, before the iteration ends.
        outcome = note(event) ?? outcome
        yield event
      }
    } catch (error) {
      if (!signal.aborted) outcome = 'failed'
      trace?.ended(computedTokens(), error)
      throw error
    } finally {
      this.#pool.meter.ended(this.model.name, outcome)
      trace?.ended(computedTokens())
      release()
    }
  }
}

function notLoadedYet(): Error {
  return modelOverloaded(`The model is not loaded yet. ${tryAgainIn(RETRY_SECONDS)}`, RETRY_SECONDS)
}

function tooManyWait(): Error {
  return modelOverloaded(`Too many requests wait for the model. ${tryAgainIn(RETRY_SECONDS)}`, RETRY_SECONDS)
}

function cannotLoad(pauseMs: number): Error {
  const seconds = wholeSeconds(pauseMs / 1000)
  return modelOverloaded(`The model cannot be loaded at the moment. ${tryAgainIn(seconds)}`, seconds)
}

function removed(name: string): Error {
  return invalidRequest(`Model '${name}' was removed`, null, { status: 404, code: 'model_not_found' })
}

function shuttingDown(): Error {
  return modelOverloaded('The service is shutting down.', 1)
}
