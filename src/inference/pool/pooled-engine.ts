import { invalidRequest, modelOverloaded, tryAgainIn, wholeSeconds } from '../../lib/errors/errors.ts'
import { cannotEmbed, cannotRead } from '../contract/cannot-read.ts'
import type { CountOptions, Engine, EngineState, ModelInfo, Numerics } from '../contract/engine.ts'
import type { Embedding, Generation, Measurement, Reading } from '../contract/generation.ts'
import type { PromptPart } from '../contract/parts.ts'
import type { EngineStats } from '../contract/stats.ts'
import type { EmbedWork, ReadWork, Work } from '../contract/work.ts'
import type { WorkTrace } from '../contract/work-trace.ts'
import { noteAnswers, noteEvents, noteVectors, type Outcome, type PoolMeter } from './pool-meter.ts'
import { RateWindow } from './rate-window.ts'

/** A model that the pool can run. */
export interface PoolModel {
  /** Name in logs, metrics and error messages. */
  readonly name: string
  /** What the model's files say of it; null for a model that is loaded before the first request. */
  readonly info: ModelInfo | null
  /** Estimated memory of its engine, in bytes; null when there is no need to know. */
  readonly memoryBytes: number | null
  /** @param signal aborted when the engine is no longer wanted. */
  start(signal: AbortSignal): Promise<Engine>
}

/** The side of the pool that its engines use. */
export interface PoolSide {
  readonly loadWaitMs: number
  /** Maximum requests that wait for the engine to load. */
  readonly maxWaiting: number
  readonly meter: PoolMeter
  /** Resolves with null when the engine is no longer wanted. */
  load(signal: AbortSignal): Promise<Engine | null>
  /** Called when the engine is no longer in use and may be unloaded. */
  released(): void
}

/** A work that has the engine. */
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
 * An engine that is loaded on demand and may be unloaded when idle. It always accepts work, but may be slow to start.
 */
export class PooledEngine implements Engine {
  readonly model: PoolModel
  /** Order of last use: the larger, the later. */
  lastUse = 0
  /** Whether work other than that of the background has used it since it was loaded. */
  hasClients = false
  readonly #pool: PoolSide
  readonly #closing = new AbortController()
  readonly #generated = new RateWindow()
  #engine: Engine | null = null
  #info: ModelInfo | null
  #numerics: Numerics | null = null
  #loading: Promise<void> | null = null
  /** Works in progress, and works that wait for the engine. */
  #users = 0
  /** Requests that may still give it work. */
  #holds = 0
  /** Whether the model is served no more, under no other engine either. */
  #isRemoved = false
  /** Resolves when no request uses or holds the engine; null while the engine is open to requests. */
  #unused: PromiseWithResolvers<void> | null = null
  #waiting = 0
  #failures = 0
  /** Time of the next permitted load attempt, by `performance.now()`. */
  #retryAt = 0

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

  /** Those of the engine that was loaded last. */
  get numerics(): Numerics | null {
    return this.#engine?.numerics ?? this.#numerics
  }

  get state(): EngineState {
    if (this.#closing.signal.aborted) return 'closed'
    if (this.#engine !== null) return this.#engine.state
    return this.#loading === null ? 'unloaded' : 'starting'
  }

  /** Loaded, and not in use. */
  get isIdle(): boolean {
    return this.#engine !== null && this.#users === 0
  }

  get isInUse(): boolean {
    return this.#users > 0
  }

  /** Requests that wait for the engine to load. */
  get waiting(): number {
    return this.#waiting
  }

  /** Tokens generated per second, over the last few seconds. */
  get tokensPerSecond(): number {
    return this.#generated.perSecond(performance.now())
  }

  /** Loads the engine, without a time limit. @throws Error that says why it cannot be loaded. */
  async preload(): Promise<void> {
    this.#users++
    this.hasClients = true
    try {
      while (this.#engine === null) await this.#load()
    } finally {
      this.#release()
    }
  }

  generate(work: Work, signal: AbortSignal): Promise<Generation> {
    const onTokens = (tokens: number, now: number) => this.#generated.add(tokens, now)
    const note = noteEvents(work, this.model.name, this.#pool.meter, onTokens)
    return this.#begin(work, signal, async (engine, run) => {
      const generation = await engine.generate(work, signal)
      run.computedTokens = generation.computedTokens
      return { ...generation, events: this.#watch(generation.events, run, note) }
    })
  }

  read(work: ReadWork, signal: AbortSignal): Promise<Reading> {
    return this.#begin(work, signal, async (engine, run) => {
      if (engine.read === undefined) throw cannotRead()
      const reading = await engine.read(work, signal)
      return { ...reading, answers: this.#watch(reading.answers, run, noteAnswers(work)) }
    })
  }

  embed(work: EmbedWork, signal: AbortSignal): Promise<Embedding> {
    return this.#begin(work, signal, async (engine, run) => {
      if (engine.embed === undefined) throw cannotEmbed()
      const embedding = await engine.embed(work, signal)
      return { ...embedding, vectors: this.#watch(embedding.vectors, run, noteVectors(work)) }
    })
  }

  countTokens(parts: readonly PromptPart[], options: CountOptions): Promise<number> {
    return this.#use(options.signal, (engine) => engine.countTokens(parts, options))
  }

  measure(work: Work, signal: AbortSignal): Promise<Measurement> {
    return this.#use(signal, (engine) => engine.measure(work, signal))
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
    await engine?.close()
  }

  hold(): () => void {
    this.#holds++
    let held = true
    return () => {
      if (!held) return
      held = false
      this.#holds--
      this.#noteUse()
    }
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
  async #acquire(signal: AbortSignal): Promise<Engine> {
    this.#users++
    try {
      if (this.#engine === null) await this.#awaitLoad(signal)
      this.#closing.signal.throwIfAborted()
      return this.#engine!
    } catch (error) {
      this.#release()
      throw error
    }
  }

  async #use<Result>(signal: AbortSignal, ask: (engine: Engine) => Promise<Result>): Promise<Result> {
    const engine = await this.#acquire(signal)
    try {
      return await ask(engine)
    } finally {
      this.#release()
    }
  }

  /** Gives the engine a work. The work's events may never be read, so the signal releases the engine too. */
  async #begin<Begun>(
    { priority, trace }: Pick<Work, 'priority' | 'trace'>,
    signal: AbortSignal,
    begin: (engine: Engine, run: Run) => Promise<Begun>,
  ): Promise<Begun> {
    signal.throwIfAborted()
    this.hasClients ||= priority !== 'background'
    const engine = await this.#acquire(signal)
    let released = false
    const release = () => {
      if (released) return
      released = true
      signal.removeEventListener('abort', abandon)
      this.#release()
    }
    const run: Run = { trace, signal, release, computedTokens: () => 0 }
    const abandon = () => {
      release()
      trace?.ended(run.computedTokens(), signal.reason)
    }
    signal.addEventListener('abort', abandon)
    try {
      return await begin(engine, run)
    } catch (error) {
      release()
      throw error
    }
  }

  async #awaitLoad(signal: AbortSignal): Promise<void> {
    if (this.#waiting >= this.#pool.maxWaiting) throw notLoadedYet()
    this.#waiting++
    const stopped = AbortSignal.any([signal, this.#closing.signal])
    const late = Promise.withResolvers<never>()
    const leave = () => late.reject(stopped.reason)
    const timer = setTimeout(() => late.reject(notLoadedYet()), this.#pool.loadWaitMs)
    stopped.addEventListener('abort', leave)
    try {
      stopped.throwIfAborted()
      while (this.#engine === null) await Promise.race([this.#tryLoad(), late.promise])
    } finally {
      this.#waiting--
      clearTimeout(timer)
      stopped.removeEventListener('abort', leave)
    }
  }

  /** Makes one attempt for all waiting requests. @throws ApiError 503 without the cause, which is only logged. */
  async #tryLoad(): Promise<void> {
    const pause = this.#retryAt - performance.now()
    if (this.#loading === null && pause > 0) throw cannotLoad(pause)
    try {
      await this.#load()
    } catch {
      this.#closing.signal.throwIfAborted()
      // Its files may be gone, and it will not be there again.
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
      this.#failures = 0
      if (this.#closing.signal.aborted) await engine?.close()
      else if (engine !== null) {
        this.#engine = engine
        this.#info = engine.info
        this.#numerics = null
      }
      if (this.#users === 0) this.#pool.released()
    } catch (error) {
      this.#retryAt = performance.now() + Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.#failures++)
      throw error
    }
  }

  #release(): void {
    if (--this.#users === 0) this.#pool.released()
    this.#noteUse()
  }

  #noteUse(): void {
    if (this.#users === 0 && this.#holds === 0) this.#unused?.resolve()
  }

  /**
   * Passes a work's events through, and reports its end.
   * @param note says how the work has ended, once it knows; null for an event that does not decide that.
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
