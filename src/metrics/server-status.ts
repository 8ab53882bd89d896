import { availableMemory, machineMemory } from '../models/machine-memory.ts'
import { type MeasuredEngine, statsOf } from './engine-stats.ts'

export interface StatusEngine extends MeasuredEngine {
  /** Tokens generated per second over the last few seconds. */
  readonly tokensPerSecond: number
}

export type EngineStatus = Readonly<Awaited<ReturnType<typeof statusOf>>>

export interface Status {
  /** By the engine itself. */
  readonly engines: ReadonlyMap<unknown, EngineStatus>
  /** Resident memory of this process; total and available memory of the machine. */
  readonly memory: { readonly processBytes: number; readonly totalBytes: number; readonly availableBytes: number }
}

/** The engines are queried at most once in this time, for any number of clients. */
const KEPT_MS = 1_000

/** The server's current load: sums over all organisations, and nothing about any single one. */
export class ServerStatus {
  readonly version: string
  readonly startedAt = new Date()
  readonly #begin = performance.now()
  readonly #engines: () => readonly StatusEngine[]
  #latest: Promise<Status> | null = null
  #readAt = Number.NEGATIVE_INFINITY

  /** @param engines returns the current engines. */
  constructor(version: string, engines: () => readonly StatusEngine[]) {
    this.version = version
    this.#engines = engines
  }

  /** By a monotonic clock. */
  get uptimeSeconds(): number {
    return Math.floor((performance.now() - this.#begin) / 1000)
  }

  read(): Promise<Status> {
    const now = performance.now()
    if (this.#latest === null || now - this.#readAt > KEPT_MS) {
      this.#readAt = now
      this.#latest = this.#read()
    }
    return this.#latest
  }

  async #read(): Promise<Status> {
    const engines = await Promise.all(this.#engines().map(async (engine) => [engine, await statusOf(engine)] as const))
    return {
      engines: new Map(engines),
      memory: {
        processBytes: process.memoryUsage.rss(),
        totalBytes: machineMemory(),
        availableBytes: availableMemory(),
      },
    }
  }
}

async function statusOf(engine: StatusEngine) {
  const stats = await statsOf(engine)
  return {
    state: engine.state,
    /** Completions in progress, and requests that wait for one or for the model to load. */
    running: stats?.running ?? 0,
    queued: engine.waiting + (stats?.waiting ?? 0),
    tokensPerSecond: engine.tokensPerSecond,
    /** Prompt tokens since the engine's start, and the number of them from a cache. */
    promptTokens: stats === null ? 0 : stats.prefilledTokens + stats.reusedTokens,
    reusedTokens: stats?.reusedTokens ?? 0,
    /** Resident memory of the engine's process; null if it has none, or does not report it. */
    memoryBytes: stats?.residentBytes || null,
  }
}
