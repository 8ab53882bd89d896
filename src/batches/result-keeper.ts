import { setTimeout as delay } from 'node:timers/promises'
import { ApiError } from '../lib/errors/errors.ts'
import type { LineDesk, LineResult } from './line-desk.ts'

const PAUSE_MS = 1_000
/** How long a result waits for others that come soon after it. Its line has made place for the next one by then. */
const GATHER_MS = 50
/** Results in one statement, unless one result alone has more bytes. */
const ROWS_AT_ONCE = 500
const BYTES_AT_ONCE = 4 * 2 ** 20
/** What may wait to be written: while there is more, no further lines should begin. */
const MOST_WAITING = 2 * ROWS_AT_ONCE
const MOST_WAITING_BYTES = 4 * BYTES_AT_ONCE

/** Writes results to the database: those together that come within a moment, or while others are being written. */
export class ResultKeeper {
  readonly #lines: Pick<LineDesk, 'keepResults'>
  readonly #stopping: AbortSignal
  #waiting: LineResult[] = []
  /** Rows of all results that are not written yet. */
  #rows = 0
  #bytes = 0
  /** The write that is under way, and the one after it, which the waiting results will be part of. */
  #writing: Promise<void> = Promise.resolve()
  #next: Promise<void> | null = null
  /** Ends the time in which results gather. */
  #hurry = new AbortController()

  /** @param stopping ends waiting for a database that is away. */
  constructor(lines: Pick<LineDesk, 'keepResults'>, stopping: AbortSignal) {
    this.#lines = lines
    this.#stopping = stopping
  }

  get isFull(): boolean {
    return this.#rows >= MOST_WAITING || this.#bytes >= MOST_WAITING_BYTES
  }

  /** When it resolves, the result is durable, or the lease of its line is lost. */
  keep(result: LineResult): Promise<void> {
    this.#waiting.push(result)
    this.#rows++
    this.#bytes += result.result.length
    this.#next ??= this.#writeNext(this.#writing)
    if (this.isFull) this.#hurry.abort()
    return this.#next
  }

  /** Resolves when all results that were given before are written, and there is no need to wait for more. */
  async flush(): Promise<void> {
    this.#hurry.abort()
    await (this.#next ?? this.#writing)
  }

  async #writeNext(before: Promise<void>): Promise<void> {
    const { signal } = this.#hurry
    const gathered = delay(GATHER_MS, undefined, { signal, ref: false }).catch(() => {})
    await Promise.all([before.catch(() => {}), gathered])
    this.#hurry = new AbortController()
    const results = this.#waiting
    this.#waiting = []
    this.#writing = this.#write(results)
    this.#next = null
    await this.#writing
  }

  async #write(results: readonly LineResult[]): Promise<void> {
    try {
      for (const [id, own] of Map.groupBy(results, ({ batch }) => batch)) {
        for (const part of partsOf(own)) await this.#persist(id, part)
      }
    } finally {
      this.#rows -= results.length
      for (const { result } of results) this.#bytes -= result.length
    }
  }

  /** Until they are kept: they are dropped only when their leases are lost, or when this server stops first. */
  async #persist(id: string, results: readonly LineResult[]): Promise<void> {
    for (;;) {
      try {
        return await this.#lines.keepResults(id, results)
      } catch (error) {
        if (!(error instanceof ApiError) || this.#stopping.aborted) throw error
        await delay(PAUSE_MS, undefined, { signal: this.#stopping, ref: false })
      }
    }
  }
}

function* partsOf(results: readonly LineResult[]): Generator<readonly LineResult[], void, void> {
  let part: LineResult[] = []
  let bytes = 0
  for (const result of results) {
    if (part.length > 0 && (part.length === ROWS_AT_ONCE || bytes + result.result.length > BYTES_AT_ONCE)) {
      yield part
      part = []
      bytes = 0
    }
    part.push(result)
    bytes += result.result.length
  }
  if (part.length > 0) yield part
}
