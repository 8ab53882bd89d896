import type { Principal } from '../accounts/principal.ts'
import { SortedIds } from '../files/file-id.ts'
import type { Files } from '../files/files.ts'
import { invalidRequest } from '../lib/errors/errors.ts'
import type { Database } from '../storage/database.ts'
import { and, desc, eq, lt, sql } from '../storage/drizzle.ts'
import type { BatchEnding } from '../storage/schema.ts'
import * as tables from '../storage/schema.ts'

const { batches } = tables

export type Batch = Readonly<typeof batches.$inferSelect>

export interface NewBatch
  extends Pick<Batch, 'endpoint' | 'inputFileId' | 'completionWindow' | 'metadata' | 'outputSeconds'> {
  /** The completion window in seconds. */
  readonly windowSeconds: number
}

const BATCH_ID = /^batch_[0-9A-Za-z]{22}$/

export function isBatchId(text: string): boolean {
  return BATCH_ID.test(text)
}

/** Creates, reads and cancels batches for clients. `BatchRunner` runs them. */
export class Batches {
  readonly #database: Database
  readonly #files: Pick<Files, 'find'>
  readonly #ids = new SortedIds('batch_')

  constructor(database: Database, files: Pick<Files, 'find'>) {
    this.#database = database
    this.#files = files
  }

  /** @throws ApiError 400 if the input is not one of the organisation's files with the purpose `batch`. */
  async create({ organisation, key }: Principal, { windowSeconds, ...fields }: NewBatch): Promise<Batch> {
    const { inputFileId } = fields
    const input = await this.#files.find(organisation, inputFileId)
    if (input === null) {
      throw invalidRequest(`Invalid 'input_file_id': no such file: ${inputFileId.slice(0, 200)}`, 'input_file_id')
    }
    if (input.purpose !== 'batch') {
      throw invalidRequest(
        `Invalid 'input_file_id': the purpose of the file is '${input.purpose}'; expected 'batch'`,
        'input_file_id',
      )
    }
    const { id, createdAt } = this.#ids.next()
    const [row] = await this.#database.use((queries) =>
      queries
        .insert(batches)
        .values({
          ...fields,
          organisationId: organisation,
          id,
          keyId: key,
          status: 'validating',
          createdAt,
          expiresAt: sql`now() + make_interval(secs => ${windowSeconds})`,
        })
        .returning(),
    )
    return row!
  }

  /** Null when the organisation has no batch with this id. */
  async find(organisation: string, id: string): Promise<Batch | null> {
    if (!isBatchId(id)) return null
    const [row] = await this.#database.use((queries) =>
      queries
        .select()
        .from(batches)
        .where(and(eq(batches.id, id), eq(batches.organisationId, organisation))),
    )
    return row ?? null
  }

  /** Lists up to `limit` batches, newest first, that come after the one with the id `after`. */
  async list(
    organisation: string,
    { after, limit }: { readonly after: string | null; readonly limit: number },
  ): Promise<{ batches: Batch[]; hasMore: boolean }> {
    const owned = eq(batches.organisationId, organisation)
    const rows = await this.#database.use((queries) =>
      queries
        .select()
        .from(batches)
        .where(after === null ? owned : and(owned, lt(batches.id, after)))
        .orderBy(desc(batches.id))
        .limit(limit + 1),
    )
    return { batches: rows.slice(0, limit), hasMore: rows.length > limit }
  }

  /**
   * Cancels a batch. Running lines are aborted.
   * @returns the batch, even if it had been cancelled before; null when there is none.
   * @throws ApiError 400 for a batch that has ended, or whose lines have all been run.
   */
  async cancel(organisation: string, id: string): Promise<Batch | null> {
    if (!isBatchId(id)) return null
    const [row] = await this.#database.use((queries) =>
      queries
        .update(batches)
        .set({ status: 'cancelling', ending: 'cancelled', cancellingAt: tables.now })
        .where(
          and(
            eq(batches.id, id),
            eq(batches.organisationId, organisation),
            sql`${batches.status} in ('validating', 'in_progress')`,
          ),
        )
        .returning(),
    )
    if (row) return row
    const batch = await this.find(organisation, id)
    if (batch === null || batch.status === 'cancelling' || batch.status === 'cancelled') return batch
    throw invalidRequest(`Batch ${id} cannot be cancelled: its status is '${batch.status}'`, null)
  }
}

/** The column that says when a batch ended. */
export const ENDED_AT = {
  completed: 'completedAt',
  failed: 'failedAt',
  expired: 'expiredAt',
  cancelled: 'cancelledAt',
} as const satisfies Record<BatchEnding, keyof typeof batches.$inferSelect>
