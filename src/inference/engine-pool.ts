import type { Engine, ModelInfo } from './engine.ts'
import { PooledEngine } from './pooled-engine.ts'

/** A model that the pool can run. */
export interface PoolModel {
  /** For logs, metrics and messages. */
  readonly name: string
  /** What is known before the engine runs; null for one that is loaded before anybody asks. */
  readonly info: ModelInfo | null
  /** Bytes that its engine takes, as far as can be told before; null when nobody needs to know. */
  readonly memoryBytes: number | null
  /** @param signal aborted when nobody waits for the engine any more. */
  start(signal: AbortSignal): Promise<Engine>
}

export interface EnginePoolOptions {
  /** Most bytes of all engines together, by their estimates; null for no limit. */
  readonly memoryLimitBytes: number | null
  /** Time that a request waits for its model to be loaded. */
  readonly loadWaitMs?: number | undefined
  /** Requests that may wait for each model to be loaded. */
  readonly maxWaiting?: number | undefined
  readonly logger: PoolLogger
  readonly meter?: PoolMeter | undefined
}

export interface PoolLogger {
  info(message: string): void
  error(message: string): void
}

/** What is measured of the engines, by the names of their models. Times in ms. */
export interface PoolMeter {
  loaded(model: string, ms: number): void
  loadFailed(model: string): void
  unloaded(model: string): void
  firstText(model: string, ms: number): void
  /** Between two texts of one completion. */
  nextText(model: string, ms: number): void
  ended(model: string, outcome: Outcome): void
}

/** How a work ended: `aborted` when nobody waited for the rest. */
export type Outcome = 'finished' | 'failed' | 'aborted'

const LOAD_WAIT_MS = 30_000
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
 * Owns the engines of all models: loads them when they are first asked, one at a time, and unloads those that have not
 * been used for longest, and are not in use, when the memory limit would be passed.
 */
export class EnginePool {
  readonly #memoryLimitBytes: number | null
  readonly #loadWaitMs: number
  readonly #maxWaiting: number
  readonly #logger: PoolLogger
  readonly #meter: PoolMeter
  readonly #engines: PooledEngine[] = []
  /** Engines that take memory, those that are being loaded included. */
  readonly #resident = new Set<PooledEngine>()
  /** The load that began last: two engines that warm up at once would slow each other, and measure wrongly. */
  #lastLoad: Promise<unknown> = Promise.resolve()
  /** Resolves when an engine is not in use any more. */
  #released = Promise.withResolvers<void>()
  #uses = 0

  constructor({
    memoryLimitBytes,
    loadWaitMs = LOAD_WAIT_MS,
    maxWaiting = MAX_WAITING,
    logger,
    meter = UNMETERED,
  }: EnginePoolOptions) {
    this.#memoryLimitBytes = memoryLimitBytes
    this.#loadWaitMs = loadWaitMs
    this.#maxWaiting = maxWaiting
    this.#logger = logger
    this.#meter = meter
  }

  get engines(): readonly PooledEngine[] {
    return this.#engines
  }

  /** Takes a model, which is not loaded yet. @throws Error when it is too large for the memory limit. */
  add(model: PoolModel): PooledEngine {
    this.#checkFit(model.name, bytesOf(model))
    const engine: PooledEngine = new PooledEngine(model, {
      loadWaitMs: this.#loadWaitMs,
      maxWaiting: this.#maxWaiting,
      meter: this.#meter,
      load: (signal) => this.#load(engine, signal),
      released: () => this.#release(engine),
    })
    this.#engines.push(engine)
    return engine
  }

  /** Loads engines one after the other. @throws Error when they do not fit beside each other, or one does not load. */
  async preload(engines: readonly PooledEngine[]): Promise<void> {
    const bytes = engines.reduce((sum, { model }) => sum + bytesOf(model), 0)
    this.#checkFit(`The models that are loaded at start (${engines.map(({ model }) => model.name).join(', ')})`, bytes)
    for (const engine of engines) await engine.preload()
  }

  /** Ends all engines, and loads under way. */
  async close(): Promise<void> {
    await Promise.all(this.#engines.map((engine) => engine.close()))
  }

  #checkFit(what: string, bytes: number): void {
    const limit = this.#memoryLimitBytes
    if (limit === null || bytes <= limit) return
    throw new Error(
      `LOOKOUT_MODEL_MEMORY: ${what}: about ${gib(bytes)} of memory needed, and the limit is ${gib(limit)}`,
    )
  }

  /** @returns null when nobody waits for the engine any more. */
  async #load(engine: PooledEngine, signal: AbortSignal): Promise<Engine | null> {
    while (engine.isInUse) {
      signal.throwIfAborted()
      const released = this.#released.promise
      const turn = this.#lastLoad.then(() => this.#tryLoad(engine, signal))
      this.#lastLoad = turn.catch(() => {})
      const loaded = await turn
      if (loaded !== null) return loaded
      await Promise.race([released, aborted(signal)])
    }
    return null
  }

  /** @returns null when other models, all in use, take too much of the memory. */
  async #tryLoad(engine: PooledEngine, signal: AbortSignal): Promise<Engine | null> {
    const { name } = engine.model
    if (!(await this.#makeRoom(bytesOf(engine.model)))) return null
    this.#resident.add(engine)
    const started = performance.now()
    try {
      const loaded = await engine.model.start(signal)
      const ms = performance.now() - started
      this.#meter.loaded(name, ms)
      this.#logger.info(`${name} is loaded (${Math.round(ms)} ms)`)
      return loaded
    } catch (error) {
      this.#resident.delete(engine)
      if (!signal.aborted) {
        this.#meter.loadFailed(name)
        this.#logger.error(`${name} cannot be loaded: ${(error as Error).message}`)
      }
      throw error
    }
  }

  /** Unloads nothing when that would not be enough. */
  async #makeRoom(bytes: number): Promise<boolean> {
    if (this.#memoryLimitBytes === null) return true
    const resident = [...this.#resident]
    let free = this.#memoryLimitBytes - resident.reduce((sum, { model }) => sum + bytesOf(model), 0)
    const leaving: PooledEngine[] = []
    for (const engine of resident.filter(({ isIdle }) => isIdle).sort((a, b) => a.lastUse - b.lastUse)) {
      if (free >= bytes) break
      leaving.push(engine)
      free += bytesOf(engine.model)
    }
    if (free < bytes) return false
    await Promise.all(
      leaving.map(async (engine) => {
        await engine.unload()
        this.#resident.delete(engine)
        this.#meter.unloaded(engine.model.name)
        this.#logger.info(`${engine.model.name} is unloaded, to make room for another model`)
      }),
    )
    return true
  }

  #release(engine: PooledEngine): void {
    engine.lastUse = ++this.#uses
    this.#released.resolve()
    this.#released = Promise.withResolvers()
  }
}

function bytesOf(model: PoolModel): number {
  return model.memoryBytes ?? 0
}

function gib(bytes: number): string {
  return `${(bytes / 2 ** 30).toFixed(2)} GiB`
}

/** Rejects when the signal fires. */
function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))
}
