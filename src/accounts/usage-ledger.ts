import { closeSync, openSync, writeSync } from 'node:fs'
import { readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { isAlive } from '../lib/is-alive.ts'
import { parseJsonOr } from '../lib/json/parse-json.ts'
import { makeFolder } from '../lib/make-folder.ts'
import { type Database, isDataError } from '../storage/database.ts'
import { sql } from '../storage/drizzle.ts'

/** The usage of one request that was admitted to a model. */
export interface UsageRecord {
  readonly traceId: string
  /** ISO 8601. */
  readonly at: string
  readonly organisation: string
  readonly key: string
  readonly model: string
  readonly endpoint: string
  /** HTTP status of the response. */
  readonly status: number
  /** Finish reason of the first completion; `error` or `aborted` when the response was not completed. */
  readonly finish: string
  readonly promptTokens: number
  readonly completionTokens: number
  /** Part of the prompt tokens. */
  readonly cachedTokens: number
  /** Part of the prompt tokens. */
  readonly audioTokens: number
  /** Pages of the document that a reply of `/v1/ocr` has read. */
  readonly pages: number
  readonly latencyMs: number
  readonly credits: number
}

const JOURNAL = /\.jsonl(\.refused)?$/
/** Suffix of a journal that the database has rejected. The next start tries it again. */
const REFUSED = '.refused'
const FLUSH_MS = 1_000
const ROWS_AT_ONCE = 2_000
/** Most records to keep in memory while the journal cannot be written. */
const MAX_UNWRITTEN = 10_000

/**
 * The usage ledger. One system call appends a record to a journal on this machine, where it survives a crash. The
 * journal is written to the database every second. A journal that a crash has left is written by the next server that
 * starts in the directory, unless it may belong to another server that runs there. A record that is written twice
 * counts once.
 */
export class UsageLedger {
  readonly #database: Database
  readonly #directory: string
  readonly #logger: Pick<Logger, 'error' | 'warn'>
  readonly #timer: NodeJS.Timeout
  #file: { readonly path: string; readonly descriptor: number } | null = null
  #opened = 0
  /** Closed journals that are not in the database yet, oldest first. */
  #closed: string[]
  #unwritten: string[] = []
  #flushing: Promise<void> = Promise.resolve()
  #busy = false
  #complained = false

  private constructor(database: Database, directory: string, logger: Pick<Logger, 'error' | 'warn'>, left: string[]) {
    this.#database = database
    this.#directory = directory
    this.#logger = logger
    this.#closed = left
    this.#timer = setInterval(() => {
      // While the database hangs, a flush takes seconds, and later ones would queue up behind it.
      if (!this.#busy) void this.flush()
    }, FLUSH_MS)
    this.#timer.unref()
  }

  /** @param alone Unix milliseconds at which no other server used the directory; null if one may do so. */
  static async open(
    database: Database,
    directory: string,
    logger: Pick<Logger, 'error' | 'warn'>,
    alone: number | null = null,
  ): Promise<UsageLedger> {
    await makeFolder(directory)
    const names = (await readdir(directory)).filter((name) => JOURNAL.test(name)).sort()
    const left = names.filter((name) => isLeft(name, alone)).map((name) => join(directory, name))
    return new UsageLedger(database, directory, logger, left)
  }

  record(record: UsageRecord): void {
    const line = `${JSON.stringify(record)}\n`
    try {
      this.#file ??= this.#openJournal()
      const bytes = Buffer.from(line)
      if (writeSync(this.#file.descriptor, bytes) < bytes.length) throw new Error('The disk is full')
    } catch (error) {
      this.#closeJournal()
      if (this.#unwritten.length < MAX_UNWRITTEN) this.#unwritten.push(line)
      this.#complain(error, 'The usage journal cannot be written')
    }
  }

  /** Resolves when all earlier records are in the database, or when the database is unavailable. */
  flush(): Promise<void> {
    this.#flushing = this.#flushing
      .then(() => this.#flush())
      .catch((error) => this.#complain(error, 'Usage records cannot be written to the database yet'))
    return this.#flushing
  }

  async #flush(): Promise<void> {
    this.#busy = true
    try {
      await this.#flushAll()
      this.#complained = false
    } finally {
      this.#busy = false
    }
  }

  async #flushAll(): Promise<void> {
    this.#closeJournal()
    while (this.#closed.length > 0) {
      await this.#writeJournal(this.#closed[0]!)
      this.#closed.shift()
    }
    // Records may be added while these are written.
    const unwritten = [...this.#unwritten]
    if (unwritten.length > 0) {
      await this.#insert(unwritten)
      this.#unwritten = this.#unwritten.slice(unwritten.length)
    }
  }

  /** If the journal is gone, another server that also found it has written it. */
  async #writeJournal(path: string): Promise<void> {
    try {
      const lines = (await readFile(path, 'utf8')).split('\n')
      if (await this.#insert(lines)) await rm(path, { force: true })
      else if (!path.endsWith(REFUSED)) await rename(path, path + REFUSED)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
  }

  /** @returns false when the database rejects the rows for good. @throws Error when it cannot store them now. */
  async #insert(lines: readonly string[]): Promise<boolean> {
    const records = lines.flatMap(parseLine)
    for (let from = 0; from < records.length; from += ROWS_AT_ONCE) {
      try {
        await this.#database.execute(insertion(records.slice(from, from + ROWS_AT_ONCE)))
      } catch (error) {
        if (!isDataError(error)) throw error
        this.#logger.error({ err: error }, 'The database rejected usage records; their journal is set aside')
        return false
      }
    }
    return true
  }

  #openJournal() {
    const name = `${process.pid}-${Date.now().toString().padStart(15, '0')}-${(this.#opened++).toString().padStart(9, '0')}`
    const path = join(this.#directory, `${name}.jsonl`)
    return { path, descriptor: openSync(path, 'ax', 0o600) }
  }

  #closeJournal(): void {
    if (this.#file === null) return
    closeSync(this.#file.descriptor)
    this.#closed.push(this.#file.path)
    this.#file = null
  }

  #complain(error: unknown, message: string): void {
    if (this.#complained) return
    this.#complained = true
    this.#logger.error({ err: error }, message)
  }

  /** Writes what it can. Records that the database cannot store now stay in the journal for the next start. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#flushing
    // A database that just failed is not tried again, unless there are records that only memory holds.
    if (!this.#complained || this.#unwritten.length > 0) await this.flush()
  }
}

/** Whether a journal belongs to no running server. Process ids are reused, and mean nothing across containers. */
function isLeft(name: string, alone: number | null): boolean {
  const [pid, openedAt] = name.split('-').map(Number)
  return (alone !== null && (openedAt! < alone || pid === process.pid)) || !isAlive(pid!)
}

/** A crash may cut off the last line of a journal. Its request had no response yet, so the line is skipped. */
function parseLine(line: string): UsageRecord[] {
  const record = parseJsonOr(line, null)
  return record === null ? [] : [record as UsageRecord]
}

/** Inserts the rows and adds their cost, in one statement: both or neither, and once for each request. */
function insertion(records: readonly UsageRecord[]) {
  return sql`
    with added as (
      insert into usage (trace_id, at, organisation_id, key_id, model, endpoint, status, finish, prompt_tokens,
        completion_tokens, cached_tokens, audio_tokens, pages, latency_ms, credits)
      select "traceId", at, organisation, key, model, endpoint, status, finish, "promptTokens", "completionTokens",
        "cachedTokens", "audioTokens", coalesce(pages, 0), "latencyMs", credits
      from json_to_recordset(${JSON.stringify(records)}::json) as r("traceId" text, at timestamptz, organisation text,
        key text, model text, endpoint text, status integer, finish text, "promptTokens" bigint,
        "completionTokens" bigint, "cachedTokens" bigint, "audioTokens" bigint, pages integer,
        "latencyMs" integer, credits numeric)
      on conflict (trace_id) do nothing
      returning organisation_id, at, credits)
    insert into spending (organisation_id, month, credits)
    select organisation_id, date_trunc('month', at at time zone 'utc')::date, sum(credits)
    from added where credits > 0 group by 1, 2
    on conflict (organisation_id, month) do update set credits = spending.credits + excluded.credits`
}
