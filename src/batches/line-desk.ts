import { sumOf } from '../lib/sum.ts'
import type { Database, Transaction } from '../storage/database.ts'
import { and, eq, gt, type SQL, sql } from '../storage/drizzle.ts'
import * as tables from '../storage/schema.ts'
import type { IndexedLine } from './input-index.ts'

const { batches } = tables

/** The most lines that one statement deletes: it has the time limit of a client's request. */
const ROWS_AT_ONCE = 2_000
/**
 * The most results that one statement reads. They may be large: it also stops after this number of bytes and one
 * result.
 */
const RESULTS_AT_ONCE = 500
const RESULT_BYTES_AT_ONCE = 4 * 2 ** 20
/**
 * How often a line is begun: one that crashes its server each time, or whose model is missing, must not run for ever.
 */
const MOST_TRIES = 20
/** The longest rest of a line after a try. All its tries take about a quarter of an hour. */
const LONGEST_REST_SECONDS = 60

/** A line that this server has taken. */
export interface TakenLine extends IndexedLine {
  readonly position: number
  /** How often it has been begun, this time included. */
  readonly tries: number
}

/** A line that this server runs. */
export interface HeldLine {
  readonly batch: string
  readonly position: number
}

export interface LineResult extends HeldLine {
  readonly customId: string
  /** The line of the output. */
  readonly result: string
  readonly failed: boolean
}

export const bytesOf = ({ result }: Pick<LineResult, 'result'>) => Buffer.byteLength(result)

export interface KeptLine extends Pick<TakenLine, 'position' | 'customId'> {
  readonly result: string | null
  readonly failed: boolean
}

/** The lines of batches, for a `BatchDesk`: which of them this server runs, and their results. */
export class LineDesk {
  readonly #database: Database
  readonly #owner: string
  readonly #leaseSeconds: number

  constructor(database: Database, owner: string, leaseSeconds: number) {
    this.#database = database
    this.#owner = owner
    this.#leaseSeconds = leaseSeconds
  }

  /** Renews the leases of lines that this server runs. @returns those whose leases are lost. */
  async renew<Line extends HeldLine>(lines: readonly Line[]): Promise<readonly Line[]> {
    if (lines.length === 0) return []
    const renewed = await this.#database.execute<HeldLine & Record<string, unknown>>(sql`
      update batch_lines set leased_until = ${leaseEnd(this.#leaseSeconds)}
      where (batch_id, position) in (select * from unnest(
        ${sql.param(lines.map(({ batch }) => batch))}::text[], ${sql.param(lines.map(({ position }) => position))}::integer[]
      )) and lease = ${this.#owner} and result is null
      returning batch_id as batch, position`)
    const nameOf = ({ batch, position }: HeldLine) => `${batch} ${position}`
    const kept = new Set(renewed.map(nameOf))
    return lines.filter((line) => !kept.has(nameOf(line)))
  }

  /** Leases at most `count` lines that are ready to run. */
  async take(id: string, count: number): Promise<readonly TakenLine[]> {
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
        update batch_lines set lease = ${this.#owner}, leased_until = ${leaseEnd(this.#leaseSeconds)}, tries = tries + 1
        from free where batch_id = ${id} and batch_lines.position = free.position
        returning batch_lines.position, custom_id as "customId", start, length, streams, tries`)
      return rows.map((row) => ({ ...row, start: Number(row.start) })).sort((a, b) => a.position - b.position)
    })
  }

  /** Whether a line has been begun too often, and is given up. */
  isHopeless({ tries }: TakenLine): boolean {
    return tries > MOST_TRIES
  }

  isLastTry({ tries }: TakenLine): boolean {
    return tries >= MOST_TRIES
  }

  /** Gives lines back that were not run. */
  async giveBack(id: string, lines: readonly TakenLine[]): Promise<void> {
    if (lines.length === 0) return
    await this.#database.execute(sql`
      update batch_lines set lease = null, leased_until = null, tries = tries - 1
      where batch_id = ${id} and position = any(${sql.param(lines.map(({ position }) => position))}::integer[])
        and lease = ${this.#owner} and result is null`)
  }

  /** Returns a line that must not run for a while. The delay doubles after each try. */
  async rest(id: string, { position, tries }: TakenLine, firstMs: number): Promise<void> {
    const seconds = Math.min(LONGEST_REST_SECONDS, (firstMs / 1000) * 2 ** (tries - 1))
    await this.#database.execute(sql`
      update batch_lines set lease = null, leased_until = now() + make_interval(secs => ${seconds})
      where batch_id = ${id} and position = ${position} and lease = ${this.#owner} and result is null`)
  }

  /** Stores results of one batch. When it resolves, they are durable. Results whose leases are lost are dropped. */
  async keepResults(id: string, results: readonly LineResult[]): Promise<void> {
    await this.#database.transaction(
      async (transaction) => {
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
      },
      sumOf(results, bytesOf),
    )
  }

  /**
   * Whether any line of a batch that ends is still being run, here or elsewhere. If not, no line gets a result after
   * this.
   */
  async hasLive(id: string): Promise<boolean> {
    await this.#database.execute(sql`
      update batch_lines set lease = null, leased_until = null
      where batch_id = ${id} and result is null and leased_until <= now()`)
    const [live] = await this.#database.execute(
      sql`select 1 from batch_lines where batch_id = ${id} and lease is not null limit 1`,
    )
    return live !== undefined
  }

  /** The lines of a batch, in pieces of about equal size in bytes. */
  async *kept(id: string): AsyncGenerator<readonly KeptLine[], void, void> {
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

  async delete(id: string): Promise<void> {
    for (;;) {
      const rows = await this.#database.execute(sql`
        delete from batch_lines where batch_id = ${id} and position in (
          select position from batch_lines where batch_id = ${id} order by position limit ${ROWS_AT_ONCE}
        ) returning position`)
      if (rows.length === 0) return
    }
  }
}

/** @param position of the first of the lines in the batch. */
export async function addLines(
  transaction: Transaction,
  id: string,
  lines: readonly IndexedLine[],
  position: number,
): Promise<void> {
  const column = (value: (line: IndexedLine, index: number) => unknown) => sql.param(lines.map(value))
  await transaction.execute(sql`
    insert into batch_lines (batch_id, position, custom_id, start, length, streams)
    select ${id}, line.* from unnest(
      ${column((_, index) => position + index)}::integer[], ${column(({ customId }) => customId)}::text[],
      ${column(({ start }) => start)}::bigint[], ${column(({ length }) => length)}::integer[],
      ${column(({ streams }) => streams)}::boolean[]
    ) as line`)
}

/** When a lease ends that begins now. */
export function leaseEnd(seconds: number): SQL {
  return sql`now() + make_interval(secs => ${seconds})`
}
