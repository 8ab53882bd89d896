import { setTimeout as delay } from 'node:timers/promises'
import { ApiError } from '../lib/errors/errors.ts'
import { sumOf } from '../lib/sum.ts'
import { StorageFullError } from '../storage/storage-full.ts'
import { bytesOf, type LineDesk, type LineResult } from './line-desk.ts'
import { errorLine } from './output-writer.ts'

const PAUSE_MS = 1_000
/** How often writing a result is retried if the database rejects it but does other work. */
const MOST_TRIES = 3
/** How long a result waits for others. Its line has freed its place by then. */
const GATHER_MS = 50
/** Results in one statement, unless one result alone has more bytes. */
const ROWS_AT_ONCE = 500
const BYTES_AT_ONCE = 4 * 2 ** 20
/** The most results that may wait to be written: while there are more, no further lines should begin. */
const MOST_WAITING = 2 * ROWS_AT_ONCE
const MOST_WAITING_BYTES = 4 * BYTES_AT_ONCE

/**
 * Writes results to the database. Results that arrive shortly after each other, or during a write, are written
 * together.
 */
export class ResultKeeper {
  readonly #lines: Pick<LineDesk, 'keepResults' | 'renew'>
  readonly #stopping: AbortSignal
  #waiting: LineResult[] = []
  /** Rows of all results that are not written yet. */
  #rows = 0
  #bytes = 0
  /** The current write, and the next one, which will include the waiting results. */
  #writing: Promise<void> = Promise.resolve()
  #next: Promise<void> | null = null
  /** Ends the time in which results gather. */
  #hurry = new AbortController()

  /** @param stopping ends waiting for a database that is away. */
  constructor(lines: Pick<LineDesk, 'keepResults' | 'renew'>, stopping: AbortSignal) {
    this.#lines = lines
    this.#stopping = stopping
  }

  get isFull(): boolean {
    return this.#rows >= MOST_WAITING || this.#bytes >= MOST_WAITING_BYTES
  }

  /** Stores a result. When it resolves, the result is durable, or the lease of its line is lost. */
  keep(result: LineResult): Promise<void> {
    this.#waiting.push(result)
    this.#rows++
    this.#bytes += bytesOf(result)
    this.#next ??= this.#writeNext(this.#writing)
    if (this.isFull) this.#hurry.abort()
    return this.#next
  }

  /** Writes all results without waiting for more, and resolves when they are written. */
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
      this.#bytes -= sumOf(results, bytesOf)
    }
  }

  /**
   * Retries until the results are stored: they are dropped only when their leases are lost, or when this server stops
   * first. A result that the database rejects repeatedly, although it is available and has room, becomes an error.
   */
  async #persist(id: string, results: readonly LineResult[]): Promise<void> {
    for (let tries = 0; ; ) {
      try {
        return await this.#lines.keepResults(id, results)
      } catch (error) {
        if (!(error instanceof ApiError) || this.#stopping.aborted) throw error
        if (!(error instanceof StorageFullError)) tries++
        if (tries > MOST_TRIES) break
        await this.#databaseBack(results)
      }
    }
    for (const one of results) await this.#persist(id, [results.length > 1 ? one : withoutResult(one)])
  }

  /** Waits until the database does other work, even if an abandoned statement still keeps it busy. */
  async #databaseBack(results: readonly LineResult[]): Promise<void> {
    for (let isBack = false; !isBack; ) {
      await delay(PAUSE_MS, undefined, { signal: this.#stopping, ref: false })
      isBack = await this.#lines.renew(results).then(
        () => true,
        () => false,
      )
    }
  }
}

function withoutResult({ result: _, ...line }: LineResult): LineResult {
  return { ...line, result: errorLine(line.customId, 'server_error', 'The response could not be stored'), failed: true }
}

function* partsOf(results: readonly LineResult[]): Generator<readonly LineResult[], void, void> {
  let part: LineResult[] = []
  let bytes = 0
  for (const result of results) {
    const own = bytesOf(result)
    if (part.length > 0 && (part.length === ROWS_AT_ONCE || bytes + own > BYTES_AT_ONCE)) {
      yield part
      part = []
      bytes = 0
    }
    part.push(result)
    bytes += own
  }
  if (part.length > 0) yield part
}
