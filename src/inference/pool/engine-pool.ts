import { sumOf } from '../../lib/sum.ts'
import { availableMemory } from '../../models/machine-memory.ts'
import type { Engine } from '../contract/engine.ts'
import { MemoryLine } from './memory-line.ts'
import type { PoolMeter } from './pool-meter.ts'
import { PooledEngine, type PoolModel } from './pooled-engine.ts'

export interface EnginePoolOptions {
  /** Maximum bytes of all engines together, by their estimates; null for no limit. */
  readonly memoryLimitBytes: number | null
  /** Maximum time that a request waits for its model to load, in ms, from when its turn for memory has come. */
  readonly loadWaitMs?: number | undefined
  /**
   * Minimum time that a model stays in use before it gives way to another one, in ms; longer if it took longer to load.
   */
  readonly leastStayMs?: number | undefined
  /** How long a model that gives way waits for its running requests, in ms. */
  readonly drainMs?: number | undefined
  /** Maximum number of requests that wait for a model to load. */
  readonly maxWaiting?: number | undefined
  readonly logger: PoolLogger
  readonly meter?: PoolMeter | undefined
  /** Called when the result of `hasRoomFor` may have changed. */
  readonly onChange?: (() => void) | undefined
}

/** Options with defaults for absent ones. */
type Settled<Options> = { readonly [Name in keyof Options]-?: Exclude<Options[Name], undefined> }

interface PoolLogger {
  info(message: string): void
  error(message: string): void
}

const LOAD_WAIT_MS = 30_000
/**
 * A model stays for at least as long as it took to load, so that of two models in constant use, one answers for at
 * least half of the time. With a longer stay, the requests that wait for the other model would lose more than this one
 * gains. A model that loads at once stays for this long, because leaving costs its caches and the time to finish
 * running requests.
 */
const LEAST_STAY_MS = 5_000
/** Half the default time limit of a chat: a request that waits in vain can still be answered. */
const DRAIN_MS = 60_000
const MAX_WAITING = 128
const UNMETERED: PoolMeter = {
  loaded() {},
  loadFailed() {},
  unloaded() {},
  firstText() {},
  nextText() {},
  ended() {},
}

/**
 * Owns the engines of all models. It loads each on first use, one at a time. When a load would exceed the memory limit,
 * other engines leave first.
 */
export class EnginePool {
  readonly #options: Settled<EnginePoolOptions>
  readonly #engines: PooledEngine[] = []
  /** Engines that take memory, including those that are loading. */
  readonly #resident = new Set<PooledEngine>()
  readonly #line: MemoryLine
  /**
   * The latest load. Loads run one after the other: two warm-ups at once would slow down and distort each other's
   * timing.
   */
  #lastLoad: Promise<unknown> = Promise.resolve()
  /** Resolves when memory may have become available. */
  #changed = Promise.withResolvers<void>()
  #uses = 0

  constructor({
    loadWaitMs = LOAD_WAIT_MS,
    leastStayMs = LEAST_STAY_MS,
    drainMs = DRAIN_MS,
    maxWaiting = MAX_WAITING,
    meter = UNMETERED,
    onChange = () => {},
    ...needed
  }: EnginePoolOptions) {
    this.#options = { loadWaitMs, leastStayMs, drainMs, maxWaiting, meter, onChange, ...needed }
    this.#line = new MemoryLine({ ...this.#options, onTurn: () => this.#wake() })
  }

  get engines(): readonly PooledEngine[] {
    return this.#engines
  }

  /** Adds a model without loading it. @throws Error when it is too large for the memory limit. */
  add(model: PoolModel): PooledEngine {
    this.#checkFit(model.name, model.memoryBytes ?? 0)
    const engine: PooledEngine = new PooledEngine(model, {
      ...this.#options,
      load: (signal) => this.#load(engine, signal),
      changed: () => this.#noteChange(engine),
    })
    this.#engines.push(engine)
    return engine
  }

  /**
   * Removes a model. Requests that use it finish before its engine is closed.
   * @param isReplaced whether another engine serves the model from now on.
   */
  async remove(engine: PooledEngine, { isReplaced }: { readonly isReplaced: boolean }): Promise<void> {
    await engine.retire(isReplaced)
    const index = this.#engines.indexOf(engine)
    if (index >= 0) this.#engines.splice(index, 1)
    if (!this.#resident.delete(engine)) return
    this.#options.meter.unloaded(engine.model.name)
    this.#options.logger.info(`Unloaded ${engine.model.name}, which is no longer served`)
    this.#wake()
  }

  /** Whether the model is in memory or would fit beside the loaded models, and no other model waits for memory. */
  hasRoomFor(engine: Engine): boolean {
    const own = this.#engines.find((one) => one === engine)
    if (own === undefined || this.#line.isAheadOf(own)) return false
    if (this.#resident.has(own)) return true
    const free =
      this.#options.memoryLimitBytes === null ? availableMemory() : this.#options.memoryLimitBytes - this.#usedBytes()
    return own.bytes <= free
  }

  /** Unloads an idle model, if only background work has used it since it was loaded. */
  async unloadUnused(engine: Engine): Promise<void> {
    const own = this.#engines.find((one) => one === engine)
    if (own === undefined) return
    const turn = this.#lastLoad.then(async () => {
      if (!own.isIdle || own.hasClients) return
      await this.#unload(own)
      this.#options.logger.info(`Unloaded ${own.model.name}, which no request has used`)
      this.#wake()
    })
    this.#lastLoad = turn.catch(() => {})
    await turn
  }

  /** Loads engines one after the other. @throws Error when they do not fit together, or one cannot be loaded. */
  async preload(engines: readonly PooledEngine[]): Promise<void> {
    const bytes = sumOf(engines, ({ bytes }) => bytes)
    this.#checkFit(`the models loaded at start (${engines.map(({ model }) => model.name).join(', ')})`, bytes)
    for (const engine of engines) await engine.preload()
  }

  /** Closes all engines and cancels loads in progress. */
  async close(): Promise<void> {
    await Promise.all(this.#engines.map((engine) => engine.close()))
  }

  #checkFit(what: string, bytes: number): void {
    const limit = this.#options.memoryLimitBytes
    if (limit === null || bytes <= limit) return
    throw new Error(
      `LOOKOUT_MODEL_MEMORY is too low for ${what}: about ${gib(bytes)} is needed, but the limit is ${gib(limit)}`,
    )
  }

  /** @returns null when the engine is no longer wanted. */
  async #load(engine: PooledEngine, signal: AbortSignal): Promise<Engine | null> {
    try {
      while (engine.isInUse) {
        signal.throwIfAborted()
        const changed = this.#changed.promise
        const turn = this.#lastLoad.then(() => this.#tryLoad(engine, signal))
        this.#lastLoad = turn.catch(() => {})
        const loaded = await turn
        if (loaded !== null) return loaded
        this.#options.onChange()
        await this.#rest(engine, changed, signal)
      }
      return null
    } finally {
      if (this.#line.leave(engine)) this.#wake()
    }
  }

  /** Waits until memory may have become available. */
  async #rest(engine: PooledEngine, changed: Promise<void>, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return
    const due = Promise.withResolvers<unknown>()
    const ms = Math.max(0, this.#line.dueAt(engine) - performance.now())
    const timer = ms < Number.POSITIVE_INFINITY ? setTimeout(due.resolve, ms) : undefined
    // The signal lives as long as the engine, so the listener is removed.
    signal.addEventListener('abort', due.resolve)
    try {
      await Promise.race([changed, due.promise])
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', due.resolve)
    }
  }

  /** @returns null if there is not enough memory yet, or the engine is no longer wanted. */
  async #tryLoad(engine: PooledEngine, signal: AbortSignal): Promise<Engine | null> {
    const { name } = engine.model
    if (!engine.isInUse || !(await this.#makeRoom(engine))) return null
    this.#resident.add(engine)
    // Waiting engines may now ask it to leave.
    this.#wake()
    const started = performance.now()
    try {
      const loaded = await engine.model.start(signal)
      const ms = performance.now() - started
      engine.stayFor(Math.max(ms, this.#options.leastStayMs))
      this.#options.meter.loaded(name, ms)
      this.#options.logger.info(`Loaded ${name} in ${Math.round(ms)} ms`)
      return loaded
    } catch (error) {
      this.#resident.delete(engine)
      if (!signal.aborted) {
        this.#options.meter.loadFailed(name)
        this.#options.logger.error(`Cannot load ${name}: ${(error as Error).message}`)
      }
      throw error
    }
  }

  /**
   * Unloads idle engines until another one fits.
   * @returns false if it must wait; nothing has then been unloaded.
   */
  async #makeRoom(engine: PooledEngine): Promise<boolean> {
    const leaving = this.#line.ask(engine, this.#resident)
    if (leaving === null) return false
    await Promise.all(
      leaving.map(async (engine) => {
        await this.#unload(engine)
        this.#options.logger.info(`Unloaded ${engine.model.name} to make room for another model`)
      }),
    )
    return true
  }

  async #unload(engine: PooledEngine): Promise<void> {
    await engine.unload()
    this.#resident.delete(engine)
    this.#options.meter.unloaded(engine.model.name)
  }

  #usedBytes(): number {
    return sumOf([...this.#resident], ({ bytes }) => bytes)
  }

  #noteChange(engine: PooledEngine): void {
    engine.lastUse = ++this.#uses
    if (!engine.isInUse) this.#line.leave(engine)
    this.#wake()
  }

  /** Makes loads that wait for memory look again. */
  #wake(): void {
    this.#changed.resolve()
    this.#changed = Promise.withResolvers()
    this.#options.onChange()
  }
}

export function gib(bytes: number): string {
  return `${(bytes / 2 ** 30).toFixed(2)} GiB`
}
