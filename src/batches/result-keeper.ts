import { setTimeout as delay } from 'node:timers/promises'
import { ApiError } from '../lib/errors.ts'
import type { BatchDesk, LineResult } from './batch-desk.ts'

const PAUSE_MS = 1_000

/** Writes results to the database. Those that come while others are being written are written together. */
export class ResultKeeper {
  readonly #desk: Pick<BatchDesk, 'keepResults'>
  readonly #stopping: AbortSignal
  readonly #results: LineResult[] = []
  #writing: Promise<void> | null = null

  /** @param stopping ends waiting for a database that is away. */
  constructor(desk: Pick<BatchDesk, 'keepResults'>, stopping: AbortSignal) {
    this.#desk = desk
    this.#stopping = stopping
  }

  /** When it resolves, the result is durable, or the lease of its line is lost. */
  async keep(result: LineResult): Promise<void> {
    this.#results.push(result)
    const before = this.#writing
    if (before !== null) await before.catch(() => {})
    if (!this.#results.includes(result)) return this.#writing ?? undefined
    await this.flush()
  }

  flush(): Promise<void> {
    this.#writing ??= this.#write().finally(() => {
      this.#writing = null
    })
    return this.#writing
  }

  async #write(): Promise<void> {
    const byBatch = Map.groupBy(this.#results.splice(0), ({ batch }) => batch)
    for (const [id, results] of byBatch) await this.#persist(id, results)
  }

  /** Until they are kept: they are dropped only when their leases are lost, or when this server stops first. */
  async #persist(id: string, results: readonly LineResult[]): Promise<void> {
    for (;;) {
      try {
        return await this.#desk.keepResults(id, results)
      } catch (error) {
        if (!(error instanceof ApiError) || this.#stopping.aborted) throw error
        await delay(PAUSE_MS, undefined, { signal: this.#stopping, ref: false })
      }
    }
  }
}
