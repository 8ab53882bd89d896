import { availableMemory } from '../../models/machine-memory.ts'
import type { Engine } from '../contract/engine.ts'
import type { PoolMeter } from './pool-meter.ts'
import { PooledEngine, type PoolModel } from './pooled-engine.ts'

export interface EnginePoolOptions {
  /** Maximum bytes of all engines together, by their estimates; null for no limit. */
  readonly memoryLimitBytes: number | null
  /** How long a request waits for its model to load, in ms. */
  readonly loadWaitMs?: number | undefined
  /** Maximum requests that wait for one model to load. */
  readonly maxWaiting?: number | undefined
  readonly logger: PoolLogger
  readonly meter?: PoolMeter | undefined
  /** Called when the answers of `hasRoomFor` may have changed. */
  readonly onChange?: (() => void) | undefined
}

/** With the defaults in place of what is left out. */
type Settled<Options> = { readonly [Name in keyof Options]-?: Exclude<Options[Name], undefined> }

interface PoolLogger {
  info(message: string): void
  error(message: string): void
}

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
 * Owns the engines of all models. It loads each on first use, one at a time. When a load would exceed the memory limit,
 * it first unloads idle engines, the least recently used first.
 */
export class EnginePool {
  readonly #options: Settled<EnginePoolOptions>
  readonly #engines: PooledEngine[] = []
  /** Engines that take memory, including those that are loading. */
  readonly #resident = new Set<PooledEngine>()
  /** Engines that models in use leave too little memory for. */
  readonly #crowded = new Set<PooledEngine>()
  /**
   * The latest load. Loads run one after the other: two warm-ups at once would slow down and distort each other's
   * timing.
   */
  #lastLoad: Promise<unknown> = Promise.resolve()
  /** Resolves when an engine becomes idle, or has left. */
  #released = Promise.withResolvers<void>()
  #uses = 0

  constructor({
    loadWaitMs = LOAD_WAIT_MS,
    maxWaiting = MAX_WAITING,
    meter = UNMETERED,
    onChange = () => {},
    ...needed
  }: EnginePoolOptions) {
    this.#options = { loadWaitMs, maxWaiting, meter, onChange, ...needed }
  }

  get engines(): readonly PooledEngine[] {
    return this.#engines
  }

  /** Adds a model without loading it. @throws Error when it is too large for the memory limit. */
  add(model: PoolModel): PooledEngine {
    this.#checkFit(model.name, bytesOf(model))
    const engine: PooledEngine = new PooledEngine(model, {
      ...this.#options,
      load: (signal) => this.#load(engine, signal),
      released: () => this.#release(engine),
    })
    this.#engines.push(engine)
    return engine
  }

  /**
   * Removes a model. Requests that use it finish; then its engine is closed.
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

  /** Whether the model is in memory or has room there beside all that is, while no other one waits for memory. */
  hasRoomFor(engine: Engine): boolean {
    const own = this.#engines.find((one) => one === engine)
    if (own === undefined || (this.#crowded.size > 0 && !this.#crowded.has(own))) return false
    if (this.#resident.has(own)) return true
    const free =
      this.#options.memoryLimitBytes === null ? availableMemory() : this.#options.memoryLimitBytes - this.#usedBytes()
    return bytesOf(own.model) <= free
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
    const bytes = engines.reduce((sum, { model }) => sum + bytesOf(model), 0)
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
        const released = this.#released.promise
        const turn = this.#lastLoad.then(() => this.#tryLoad(engine, signal))
        this.#lastLoad = turn.catch(() => {})
        const loaded = await turn
        if (loaded !== null) return loaded
        this.#crowded.add(engine)
        this.#options.onChange()
        await Promise.race([released, aborted(signal)])
      }
      return null
    } finally {
      if (this.#crowded.delete(engine)) this.#options.onChange()
    }
  }

  /** @returns null when models in use leave too little memory. */
  async #tryLoad(engine: PooledEngine, signal: AbortSignal): Promise<Engine | null> {
    const { name } = engine.model
    if (!(await this.#makeRoom(bytesOf(engine.model)))) return null
    this.#resident.add(engine)
    const started = performance.now()
    try {
      const loaded = await engine.model.start(signal)
      const ms = performance.now() - started
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

  /** Unloads idle engines until `bytes` fit. @returns false, having unloaded nothing, when that would not be enough. */
  async #makeRoom(bytes: number): Promise<boolean> {
    if (this.#options.memoryLimitBytes === null) return true
    const resident = [...this.#resident]
    let free = this.#options.memoryLimitBytes - this.#usedBytes()
    const leaving: PooledEngine[] = []
    for (const engine of resident.filter(({ isIdle }) => isIdle).sort((a, b) => a.lastUse - b.lastUse)) {
      if (free >= bytes) break
      leaving.push(engine)
      free += bytesOf(engine.model)
    }
    if (free < bytes) return false
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
    return [...this.#resident].reduce((sum, { model }) => sum + bytesOf(model), 0)
  }

  #release(engine: PooledEngine): void {
    engine.lastUse = ++this.#uses
    this.#wake()
  }

  /** Has loads that wait for room look for it again. */
  #wake(): void {
    this.#released.resolve()
    this.#released = Promise.withResolvers()
    this.#options.onChange()
  }
}

function bytesOf(model: PoolModel): number {
  return model.memoryBytes ?? 0
}

export function gib(bytes: number): string {
  return `${(bytes / 2 ** 30).toFixed(2)} GiB`
}

/** Rejects when the signal fires. */
function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))
}
