import type { Files, StoredFile } from '../files/files.ts'
import type { Draft } from '../storage/blob-store.ts'
import type { Database, Transaction } from '../storage/database.ts'
import { and, eq, type SQL, sql } from '../storage/drizzle.ts'
import type { BatchEnding, BatchProblem, BatchStatus } from '../storage/schema.ts'
import * as tables from '../storage/schema.ts'
import { ENDED_AT } from './batches.ts'
import type { IndexedLine } from './input-index.ts'
import { addLines, LineDesk, leaseEnd } from './line-desk.ts'

const { batches } = tables
type Row = typeof batches.$inferSelect
const NO_LEASE = { lease: null, leasedUntil: null }

/** The most batches of one organisation in one status that are in progress at a time, on all servers together. */
const OPEN_AT_ONCE = 100

/** A batch that has not ended, with the fields that running it needs. */
export type OpenBatch = Pick<
  Row,
  'id' | 'organisationId' | 'keyId' | 'endpoint' | 'inputFileId' | 'status' | 'ending' | 'outputSeconds'
> & {
  readonly isOver: boolean
  readonly hasRun: boolean
  /** Whether a server validates it or writes its output. */
  readonly isLeased: boolean
}

/**
 * Reads and writes running batches in a database that other servers may share. A server *leases* a batch while it
 * validates it or writes its output, and each line while it runs it. It must renew its leases: those of a server that
 * died run out. Every write requires its lease, and does nothing once that is lost. So each line gets one result, even
 * if servers die, hang or lose the database in between.
 */
export class BatchDesk {
  readonly #database: Database
  readonly #owner: string
  readonly #leaseSeconds: number
  readonly lines: LineDesk

  /** @param owner name of this server, which changes with each start. */
  constructor(database: Database, owner: string, leaseMs: number) {
    this.#database = database
    this.#owner = owner
    this.#leaseSeconds = leaseMs / 1000
    this.lines = new LineDesk(database, owner, this.#leaseSeconds)
  }

  /**
   * The batches that have not ended, oldest first. Only the next ones of an organisation with very many are included,
   * because every server reads them all the time.
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

  /** Renews leases of this server on batches. */
  async renew(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return
    await this.#database.execute(
      sql`update batches set leased_until = ${leaseEnd(this.#leaseSeconds)} where id in ${ids} and lease = ${this.#owner}`,
    )
  }

  /** Frees the leases of servers that have stopped: those whose names begin with the prefix. */
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
      sql`update batches set lease = ${this.#owner}, leased_until = ${leaseEnd(this.#leaseSeconds)}
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
   * Starts a validated batch. Its lines arrive in parts, and none is taken before the last part is stored.
   * @param parts small enough for a statement to add within the time limit of a client's request.
   * @returns false when the batch was cancelled meanwhile, or the lease is lost.
   */
  async begin(id: string, parts: AsyncIterable<readonly IndexedLine[]>): Promise<boolean> {
    // Lines of an interrupted attempt.
    await this.lines.delete(id)
    let total = 0
    for await (const part of parts) {
      const added = await this.#database.transaction(async (transaction) => {
        if (!(await this.#isLeaseKept(transaction, id, eq(batches.status, 'validating')))) return false
        await addLines(transaction, id, part, total)
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

  /** Stops further lines from being taken. Those that were not run get an error in the output. */
  async end(id: string, ending: BatchEnding, problems: readonly BatchProblem[] | null = null): Promise<void> {
    await this.#database.use((queries) =>
      queries
        .update(batches)
        .set({ status: 'finalizing', ending, finalizingAt: tables.now, ...(problems && { problems }) })
        .where(and(eq(batches.id, id), sql`${batches.status} in ('validating', 'in_progress')`)),
    )
  }

  /**
   * Ends a batch and stores its output, in one transaction.
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

  /** Deletes the lines of an ended batch, which it no longer needs. */
  async clear(id: string): Promise<void> {
    await this.lines.delete(id)
    await this.#database.execute(sql`update batches set cleared = true where id = ${id}`)
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

/** A file of results that has been written but not kept yet. */
export interface BatchOutput {
  readonly kind: 'output' | 'error'
  readonly draft: Draft
  readonly bytes: number
}
