import { availableMemory, machineMemory } from '../models/machine-memory.ts'
import { type MeasuredEngine, statsOf } from './engine-stats.ts'

export interface StatusEngine extends MeasuredEngine {
  /** Tokens generated per second, lately. */
  readonly tokensPerSecond: number
}

export type EngineStatus = Readonly<Awaited<ReturnType<typeof statusOf>>>

export interface Status {
  /** By the engine itself. */
  readonly engines: ReadonlyMap<unknown, EngineStatus>
  /** Resident memory of this process, and the memory that the machine has in all and available. */
  readonly memory: { readonly processBytes: number; readonly totalBytes: number; readonly availableBytes: number }
}

/** However many clients look, the engines are asked once in this time. */
const KEPT_MS = 1_000

/** How busy the server is at the moment: sums over all organisations, and nothing of any one of them. */
export class ServerStatus {
  readonly version: string
  readonly startedAt = new Date()
  readonly #begin = performance.now()
  readonly #engines: () => readonly StatusEngine[]
  #latest: Promise<Status> | null = null
  #readAt = Number.NEGATIVE_INFINITY

  /** @param engines those that there are at the time. */
  constructor(version: string, engines: () => readonly StatusEngine[]) {
    this.version = version
    this.#engines = engines
  }

  /** By the clock that never jumps. */
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
    /** Completions being generated, and requests that wait for one or for the model to load. */
    running: stats?.running ?? 0,
    queued: engine.waiting + (stats?.waiting ?? 0),
    tokensPerSecond: engine.tokensPerSecond,
    /** Prompt tokens since the engine's start, and those among them that a cache had. */
    promptTokens: stats === null ? 0 : stats.prefilledTokens + stats.reusedTokens,
    reusedTokens: stats?.reusedTokens ?? 0,
    /** Resident memory of a process of its own; null where it has none, or does not say. */
    memoryBytes: stats?.residentBytes || null,
  }
}
