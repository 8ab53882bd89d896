import { modelOverloaded, tryAgainIn, wholeSeconds } from '../lib/errors.ts'
import type {
  CountOptions,
  Engine,
  EngineEvent,
  EngineState,
  EngineStats,
  Generation,
  ModelInfo,
  PromptPart,
  Work,
} from './engine.ts'
import type { Outcome, PoolMeter, PoolModel } from './engine-pool.ts'

/** What an engine needs of the pool that it belongs to. */
export interface PoolSide {
  readonly loadWaitMs: number
  /** Requests that may wait for the engine to be loaded. */
  readonly maxWaiting: number
  readonly meter: PoolMeter
  /** Resolves with null when nobody wanted the engine any more. */
  load(signal: AbortSignal): Promise<Engine | null>
  /** The engine, which is not in use any more, may be unloaded. */
  released(): void
}

const RETRY_SECONDS = 5
/** Pause after a load that failed, in ms; doubled with every further one. */
const FIRST_PAUSE_MS = 1_000
const LONGEST_PAUSE_MS = 60_000

/** An engine that runs only while it is wanted. To whoever gives it work it is always there, if sometimes slow to start. */
export class PooledEngine implements Engine {
  readonly model: PoolModel
  /** A larger number is a later use. */
  lastUse = 0
  readonly #pool: PoolSide
  readonly #closing = new AbortController()
  #engine: Engine | null = null
  #info: ModelInfo | null
  #loading: Promise<void> | null = null
  /** Works under way, and those that wait for the engine. */
  #users = 0
  #waiting = 0
  #failures = 0
  /** No load is tried before; by `performance.now()`. */
  #retryAt = 0

  constructor(model: PoolModel, pool: PoolSide) {
    this.model = model
    this.#info = model.info
    this.#pool = pool
  }

  /** Of an engine that was unloaded as it was before. */
  get info(): ModelInfo {
    if (this.#info === null) throw new Error(`${this.model.name} was never loaded`)
    return this.#info
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

  /** Requests that wait for the engine to be loaded. */
  get waiting(): number {
    return this.#waiting
  }

  /** Loads it however long that takes. @throws Error that says why it cannot be loaded. */
  async preload(): Promise<void> {
    this.#users++
    try {
      while (this.#engine === null) await this.#load()
    } finally {
      this.#release()
    }
  }

  async generate(work: Work, signal: AbortSignal): Promise<Generation> {
    signal.throwIfAborted()
    const asked = performance.now()
    const engine = await this.#acquire(signal)
    let released = false
    const release = () => {
      if (released) return
      released = true
      signal.removeEventListener('abort', release)
      this.#release()
    }
    // A generation whose events nobody reads ends with its signal.
    signal.addEventListener('abort', release)
    try {
      const generation = await engine.generate(work, signal)
      return { ...generation, events: this.#watch(generation.events, work, { asked, signal, release }) }
    } catch (error) {
      release()
      throw error
    }
  }

  async countTokens(parts: readonly PromptPart[], options: CountOptions): Promise<number> {
    const engine = await this.#acquire(options.signal)
    try {
      return await engine.countTokens(parts, options)
    } finally {
      this.#release()
    }
  }

  async stats(): Promise<EngineStats> {
    const stats = await this.#engine?.stats?.()
    if (stats === undefined) throw modelOverloaded('The model does not run.', RETRY_SECONDS)
    return stats
  }

  /** Gives the memory back until the next work. */
  async unload(): Promise<void> {
    const engine = this.#engine
    this.#engine = null
    await engine?.close()
  }

  async close(): Promise<void> {
    this.#closing.abort(shuttingDown())
    await this.#loading?.catch(() => {})
    await this.unload()
  }

  /** Waits for the engine, and for no longer than the pool allows. What is acquired must be released. */
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

  async #awaitLoad(signal: AbortSignal): Promise<void> {
    if (this.#waiting >= this.#pool.maxWaiting) throw notLoadedYet()
    this.#waiting++
    const patience = AbortSignal.any([signal, this.#closing.signal])
    const late = Promise.withResolvers<never>()
    const leave = () => late.reject(patience.reason)
    const timer = setTimeout(() => late.reject(notLoadedYet()), this.#pool.loadWaitMs)
    patience.addEventListener('abort', leave)
    try {
      patience.throwIfAborted()
      while (this.#engine === null) await Promise.race([this.#tryLoad(), late.promise])
    } finally {
      this.#waiting--
      clearTimeout(timer)
      patience.removeEventListener('abort', leave)
    }
  }

  /** One attempt for all who wait. @throws ApiError 503: what went wrong is for the log. */
  async #tryLoad(): Promise<void> {
    const pause = this.#retryAt - performance.now()
    if (this.#loading === null && pause > 0) throw cannotLoad(pause)
    try {
      await this.#load()
    } catch {
      this.#closing.signal.throwIfAborted()
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
      }
      if (this.#users === 0) this.#pool.released()
    } catch (error) {
      this.#retryAt = performance.now() + Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.#failures++)
      throw error
    }
  }

  #release(): void {
    if (--this.#users === 0) this.#pool.released()
  }

  async *#watch(
    events: AsyncIterable<EngineEvent>,
    { branches }: Work,
    { asked, signal, release }: { asked: number; signal: AbortSignal; release: () => void },
  ): AsyncGenerator<EngineEvent, void, void> {
    const { meter } = this.#pool
    const { name } = this.model
    const lastTexts = new Map<number, number>()
    // Readers need not wait for the end of the events behind the last one.
    const unfinished = branches.map(({ n }) => n)
    const failed = new Set<number>()
    let outcome: Outcome = 'aborted'
    try {
      for await (const event of events) {
        if (event.type === 'text') {
          const now = performance.now()
          const completion = event.branch * COMPLETIONS_PER_BRANCH + event.completion
          const last = lastTexts.get(completion)
          if (last !== undefined) meter.nextText(name, now - last)
          else if (lastTexts.size === 0) meter.firstText(name, now - asked)
          lastTexts.set(completion, now)
        } else {
          unfinished[event.branch]!--
          if (event.type === 'error') failed.add(event.branch)
          // Completions of a failed branch may go on; nobody waits for them.
          const isOver = unfinished.every((left, branch) => left <= 0 || failed.has(branch))
          if (isOver) outcome = failed.size === branches.length ? 'failed' : 'finished'
        }
        yield event
      }
    } catch (error) {
      if (!signal.aborted) outcome = 'failed'
      throw error
    } finally {
      meter.ended(name, outcome)
      release()
    }
  }
}

/** More than any branch has, so that branch and completion make one key. */
const COMPLETIONS_PER_BRANCH = 1024

function notLoadedYet(): Error {
  return modelOverloaded(`The model is not loaded yet. ${tryAgainIn(RETRY_SECONDS)}`, RETRY_SECONDS)
}

function cannotLoad(pauseMs: number): Error {
  const seconds = wholeSeconds(pauseMs / 1000)
  return modelOverloaded(`The model cannot be loaded at the moment. ${tryAgainIn(seconds)}`, seconds)
}

function shuttingDown(): Error {
  return modelOverloaded('The service is shutting down.', 1)
}
