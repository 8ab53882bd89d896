import type { Files, StoredFile } from '../files/files.ts'
import type { Draft } from '../storage/blob-store.ts'
import type { Database, Transaction } from '../storage/database.ts'
import { and, eq, gt, type SQL, sql } from '../storage/drizzle.ts'
import type { BatchEnding, BatchProblem, BatchStatus } from '../storage/schema.ts'
import * as tables from '../storage/schema.ts'
import { ENDED_AT } from './batches.ts'
import type { IndexedLine } from './input-index.ts'

const { batches } = tables
type Row = typeof batches.$inferSelect
const NO_LEASE = { lease: null, leasedUntil: null }

/** Batches of one organisation in one status. More of them are not begun at a time, on however many servers. */
const OPEN_AT_ONCE = 100
/** Lines that a statement deletes: it may take no longer than a client's request. */
const ROWS_AT_ONCE = 2_000
/** Results of which a statement reads no more. They may be large: one more may come to these bytes. */
const RESULTS_AT_ONCE = 500
const RESULT_BYTES_AT_ONCE = 4 * 2 ** 20
/** How often a line is begun. One that ends its server every time, or whose model is not there, must not do that for ever. */
const MOST_TRIES = 20
/** How long a line rests at most after a try. All its tries take about a quarter of an hour. */
const LONGEST_REST_SECONDS = 60

/** A batch that is not over, as far as running it needs. */
export type OpenBatch = Pick<
  Row,
  'id' | 'organisationId' | 'keyId' | 'endpoint' | 'inputFileId' | 'status' | 'ending' | 'outputSeconds'
> & {
  readonly isOver: boolean
  readonly hasRun: boolean
  /** Whether a server validates it or writes its output. */
  readonly isLeased: boolean
}

/** A line that this server has taken. */
export interface TakenLine {
  readonly position: number
  readonly customId: string
  /** The bytes of the input that are its request. */
  readonly start: number
  readonly length: number
  /** Whether it asks for a stream. */
  readonly streams: boolean
  /** How often it has been begun, this time included. */
  readonly tries: number
}

export interface LineResult {
  readonly batch: string
  readonly position: number
  /** The line of the output. */
  readonly result: string
  readonly failed: boolean
}

export interface KeptLine {
  readonly position: number
  readonly customId: string
  readonly result: string | null
  readonly failed: boolean
}

/**
 * What running batches reads and writes in the database, as one server among others. A server *leases* a batch while it
 * validates it or writes its output, and each line while it runs it. It must renew its leases; what a server that has died
 * held is free when they end. Every write names the lease that it relies on, and does nothing once that is lost. So each line
 * gets one result, even if servers die, hang or lose the database in between.
 */
export class BatchDesk {
  readonly #database: Database
  readonly #owner: string
  readonly #leaseSeconds: number

  /** @param owner names this server, for as long as it runs. */
  constructor(database: Database, owner: string, leaseMs: number) {
    this.#database = database
    this.#owner = owner
    this.#leaseSeconds = leaseMs / 1000
  }

  /**
   * The batches that are not over, oldest first. Of an organisation that has a great many of them, those that are next:
   * every server reads them all the time.
   */
  async open(): Promise<readonly OpenBatch[]> {
    return this.#database.execute<OpenBatch & Record<string, unknown>>(sql`
      select id, organisation_id as "organisationId", key_id as "keyId", endpoint, input_file_id as "inputFileId", status,
        ending, output_seconds as "outputSeconds", expires_at <= now() as "isOver",
        in_progress_at is not null as "hasRun", coalesce(leased_until > now(), false) as "isLeased"
      from (
        select *, row_number() over (partition by organisation_id, status order by id) as place
        from batches where not cleared
      ) as numbered
      where place <= ${OPEN_AT_ONCE} order by id`)
  }

  /** Renews leases of this server: those of lines that it runs, and of batches. */
  async renew(lines: readonly { readonly batch: string; readonly position: number }[], ids: readonly string[]) {
    if (lines.length > 0) {
      await this.#database.execute(sql`
        update batch_lines set leased_until = ${this.#until}
        where (batch_id, position) in (select * from unnest(
          ${sql.param(lines.map(({ batch }) => batch))}::text[], ${sql.param(lines.map(({ position }) => position))}::integer[]
        )) and lease = ${this.#owner} and result is null`)
    }
    if (ids.length > 0) {
      await this.#database.execute(
        sql`update batches set leased_until = ${this.#until} where id in ${ids} and lease = ${this.#owner}`,
      )
    }
  }

  /** Ends the leases of servers that run no longer, whose names begin with this. */
  async forget(prefix: string): Promise<void> {
    for (const table of [sql`batch_lines`, sql`batches`]) {
      await this.#database.execute(
        sql`update ${table} set lease = null, leased_until = null where starts_with(lease, ${prefix})`,
      )
    }
  }

  /** Leases a batch that still has the status, unless another server has it. */
  async take(id: string, status: BatchStatus): Promise<boolean> {
    const rows = await this.#database.execute(
      sql`update batches set lease = ${this.#owner}, leased_until = ${this.#until}
        where id = ${id} and status = ${status} and not cleared and (lease is null or lease = ${this.#owner} or leased_until <= now())
        returning id`,
    )
    return rows.length === 1
  }

  async leave(id: string): Promise<void> {
    await this.#database.execute(
      sql`update batches set lease = null, leased_until = null where id = ${id} and lease = ${this.#owner}`,
    )
  }

  /**
   * Starts a validated batch. Its lines arrive in parts, and none is taken before the last part is there.
   * @param parts each of which a statement can add in less time than a client's request may take.
   * @returns false when the batch was cancelled meanwhile, or the lease is lost.
   */
  async begin(id: string, parts: AsyncIterable<readonly IndexedLine[]>): Promise<boolean> {
    // Of an attempt that was cut off.
    await this.#deleteLines(id)
    let total = 0
    for await (const part of parts) {
      const column = (value: (line: IndexedLine, index: number) => unknown) => sql.param(part.map(value))
      const added = await this.#database.transaction(async (transaction) => {
        if (!(await this.#isLeaseKept(transaction, id, eq(batches.status, 'validating')))) return false
        await transaction.execute(sql`
          insert into batch_lines (batch_id, position, custom_id, start, length, streams)
          select ${id}, line.* from unnest(
            ${column((_, index) => total + index)}::integer[], ${column(({ customId }) => customId)}::text[],
            ${column(({ start }) => start)}::bigint[], ${column(({ length }) => length)}::integer[],
            ${column(({ streams }) => streams)}::boolean[]
          ) as line`)
        return true
      })
      if (!added) return false
      total += part.length
    }
    return this.#validated(id, { status: 'in_progress', inProgressAt: tables.now, total })
  }

  /** Ends a batch whose input cannot be run. */
  reject(id: string, problems: readonly BatchProblem[]): Promise<boolean> {
    return this.#validated(id, { status: 'failed', failedAt: tables.now, problems })
  }

  /** Lets no further lines be taken. Those that were not run get an error in the output. */
  async end(id: string, ending: BatchEnding, problems: readonly BatchProblem[] | null = null): Promise<void> {
    await this.#database.use((queries) =>
      queries
        .update(batches)
        .set({ status: 'finalizing', ending, finalizingAt: tables.now, ...(problems && { problems }) })
        .where(and(eq(batches.id, id), sql`${batches.status} in ('validating', 'in_progress')`)),
    )
  }

  /** Leases at most `count` lines that are ready to run. */
  async takeLines(id: string, count: number): Promise<readonly TakenLine[]> {
    return this.#database.transaction(async (transaction) => {
      // A transaction that ends the batch waits for this lock, and then sees all lines that are leased.
      const [runs] = await transaction
        .select({ id: batches.id })
        .from(batches)
        .where(and(eq(batches.id, id), eq(batches.status, 'in_progress'), gt(batches.expiresAt, tables.now)))
        .for('share')
      if (!runs) return []
      const { rows } = await transaction.execute<TakenLine & Record<string, unknown>>(sql`
        with free as (
          select position from batch_lines
          where batch_id = ${id} and result is null and (leased_until is null or leased_until <= now())
          order by position limit ${count} for update skip locked
        )
        update batch_lines set lease = ${this.#owner}, leased_until = ${this.#until}, tries = tries + 1
        from free where batch_id = ${id} and batch_lines.position = free.position
        returning batch_lines.position, custom_id as "customId", start, length, streams, tries`)
      return rows.map((row) => ({ ...row, start: Number(row.start) })).sort((a, b) => a.position - b.position)
    })
  }

  /** Whether a line has been begun so often that it is given up. */
  isHopeless({ tries }: TakenLine): boolean {
    return tries > MOST_TRIES
  }

  isLastTry({ tries }: TakenLine): boolean {
    return tries >= MOST_TRIES
  }

  /** Gives lines back that were not run. */
  async returnLines(id: string, lines: readonly TakenLine[]): Promise<void> {
    if (lines.length === 0) return
    await this.#database.execute(sql`
      update batch_lines set lease = null, leased_until = null, tries = tries - 1
      where batch_id = ${id} and position = any(${sql.param(lines.map(({ position }) => position))}::integer[])
        and lease = ${this.#owner} and result is null`)
  }

  /** Returns a line that must not run for a while. The delay doubles after each try. */
  async restLine(id: string, { position, tries }: TakenLine, firstMs: number): Promise<void> {
    const seconds = Math.min(LONGEST_REST_SECONDS, (firstMs / 1000) * 2 ** (tries - 1))
    await this.#database.execute(sql`
      update batch_lines set lease = null, leased_until = now() + make_interval(secs => ${seconds})
      where batch_id = ${id} and position = ${position} and lease = ${this.#owner} and result is null`)
  }

  /** Keeps results of one batch. When it resolves, they are durable. Those whose leases are lost are dropped. */
  async keepResults(id: string, results: readonly LineResult[]): Promise<void> {
    await this.#database.transaction(async (transaction) => {
      const values = results.map(
        ({ position, result, failed }) => sql`(${position}::integer, ${result}::text, ${failed}::boolean)`,
      )
      const { rows } = await transaction.execute<{ failed: boolean }>(sql`
        update batch_lines set result = kept.result, failed = kept.failed, lease = null, leased_until = null
        from (values ${sql.join(values, sql`, `)}) as kept (position, result, failed)
        where batch_id = ${id} and batch_lines.position = kept.position
          and batch_lines.lease = ${this.#owner} and batch_lines.result is null
        returning batch_lines.failed`)
      if (rows.length === 0) return
      const failed = rows.filter((row) => row.failed).length
      await transaction.execute(sql`
        update batches set completed = completed + ${rows.length - failed}, failed = failed + ${failed}
        where id = ${id}`)
      await transaction.execute(sql`
        update batches set status = 'finalizing', ending = 'completed', finalizing_at = now()
        where id = ${id} and status = 'in_progress' and completed + failed >= total`)
    })
  }

  /** Whether some line of a batch that ends is still being run, here or elsewhere. If not, no line gets a result any more. */
  async hasLiveLines(id: string): Promise<boolean> {
    await this.#database.execute(sql`
      update batch_lines set lease = null, leased_until = null
      where batch_id = ${id} and result is null and leased_until <= now()`)
    const [live] = await this.#database.execute(
      sql`select 1 from batch_lines where batch_id = ${id} and lease is not null limit 1`,
    )
    return live !== undefined
  }

  /** The lines of a batch, in pieces of about equal size in bytes. */
  async *lines(id: string): AsyncGenerator<readonly KeptLine[], void, void> {
    for (let after = -1; ; ) {
      const rows = await this.#database.execute<KeptLine & Record<string, unknown>>(sql`
        select position, custom_id as "customId", result, failed from (
          select *, sum(coalesce(octet_length(result), 0)) over (order by position) - coalesce(octet_length(result), 0)
            as bytes_before
          from (
            select position, custom_id, result, failed from batch_lines
            where batch_id = ${id} and position > ${after} order by position limit ${RESULTS_AT_ONCE}
          ) as next
        ) as piece where bytes_before < ${RESULT_BYTES_AT_ONCE} order by position`)
      if (rows.length === 0) return
      yield rows
      after = rows.at(-1)!.position
    }
  }

  /**
   * Ends a batch with its output, all or nothing.
   * @returns the files; null when the lease is lost.
   */
  async finish(
    { id, organisationId, ending, outputSeconds }: OpenBatch,
    outputs: readonly BatchOutput[],
    files: Pick<Files, 'keepOutputs'>,
  ): Promise<readonly StoredFile[] | null> {
    const expiresAt = outputSeconds === null ? null : new Date(Date.now() + outputSeconds * 1000)
    const made = outputs.map(({ draft, kind, bytes }) => {
      const filename = `${id}_${kind}.jsonl`
      return { draft, file: { purpose: 'batch_output', filename, contentType: 'application/jsonl', bytes } as const }
    })
    const status = ending ?? 'completed'
    return files.keepOutputs(organisationId, made, expiresAt, async (transaction, ids) => {
      if (!(await this.#isLeaseKept(transaction, id, sql`${batches.status} in ('finalizing', 'cancelling')`)))
        return false
      const idOf = (kind: BatchOutput['kind']) => ids[outputs.findIndex((output) => output.kind === kind)] ?? null
      await transaction
        .update(batches)
        .set({
          status,
          [ENDED_AT[status]]: tables.now,
          outputFileId: idOf('output'),
          errorFileId: idOf('error'),
          ...NO_LEASE,
        })
        .where(eq(batches.id, id))
      return true
    })
  }

  /** Deletes what an ended batch needs no longer. */
  async clear(id: string): Promise<void> {
    await this.#deleteLines(id)
    await this.#database.execute(sql`update batches set cleared = true where id = ${id}`)
  }

  async #deleteLines(id: string): Promise<void> {
    for (;;) {
      const rows = await this.#database.execute(sql`
        delete from batch_lines where batch_id = ${id} and position in (
          select position from batch_lines where batch_id = ${id} order by position limit ${ROWS_AT_ONCE}
        ) returning position`)
      if (rows.length === 0) return
    }
  }

  get #until(): SQL {
    return sql`now() + make_interval(secs => ${this.#leaseSeconds})`
  }

  /** Locks the batch until the transaction ends. */
  async #isLeaseKept(transaction: Transaction, id: string, condition: SQL): Promise<boolean> {
    const [row] = await transaction
      .select({ id: batches.id })
      .from(batches)
      .where(and(eq(batches.id, id), eq(batches.lease, this.#owner), condition))
      .for('update')
    return row !== undefined
  }

  /** Ends the validation of a batch and its lease. @returns false when the batch was cancelled, or the lease is lost. */
  async #validated(id: string, fields: Partial<Record<keyof Row, unknown>>): Promise<boolean> {
    const rows = await this.#database.use((queries) =>
      queries
        .update(batches)
        .set({ ...(fields as Partial<Row>), ...NO_LEASE })
        .where(and(eq(batches.id, id), eq(batches.lease, this.#owner), eq(batches.status, 'validating')))
        .returning({ id: batches.id }),
    )
    return rows.length === 1
  }
}

/** A file of results that has been written and not kept. */
export interface BatchOutput {
  readonly kind: 'output' | 'error'
  readonly draft: Draft
  readonly bytes: number
}
