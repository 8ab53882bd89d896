import type { Logger } from 'pino'
import type { Principal } from '../accounts/principal.ts'
import { ApiError } from '../lib/errors/errors.ts'
import type { StoredFiles } from '../media/fetching/stored-files.ts'
import type { MediaType } from '../media/media-type.ts'
import type { BlobStore, ByteRange, Draft } from '../storage/blob-store.ts'
import type { Database, Transaction } from '../storage/database.ts'
import { and, asc, desc, eq, gt, inArray, isNull, lt, ne, type SQL, sql } from '../storage/drizzle.ts'
import * as tables from '../storage/schema.ts'
import type { JSON_LINES } from './content-type.ts'
import { blobName, isFileId, SortedIds } from './file-id.ts'
import { HeldFiles } from './held-files.ts'
import { addStored, checkQuota, checkStored, countUpload } from './storage-quota.ts'
import { sweepBlobs } from './sweep.ts'

const { files, organisations } = tables

/** What clients may upload files for. */
export const UPLOAD_PURPOSES = ['vision', 'user_data', 'batch', 'ocr', 'audio'] as const
export const PURPOSES = [...UPLOAD_PURPOSES, 'batch_output', 'watch'] as const
export type Purpose = (typeof PURPOSES)[number]

/** The contract's limits. */
export const MAX_FILE_BYTES = 128 * 2 ** 20
/** Maximum size of the input of a batch; at least as much as OpenAI allows. */
export const MAX_BATCH_FILE_BYTES = 200 * 2 ** 20
const EXPIRED_AT_ONCE = 100
const EXPIRY_SWEEP_MS = 60_000

export interface StoredFile {
  readonly id: string
  readonly bytes: number
  /** Unix seconds. */
  readonly createdAt: number
  readonly filename: string
  readonly purpose: Purpose
  readonly contentType: string
  /** Unix seconds; null for a file that is kept until it is deleted. */
  readonly expiresAt: number | null
}

export interface NewFile {
  readonly purpose: Purpose
  /** Null when the client gave none; the id is then the name. */
  readonly filename: string | null
  readonly contentType: MediaType | typeof JSON_LINES
  readonly bytes: number
}

export interface FileQuery {
  /** The page starts after this id. */
  readonly after: string | null
  /** How many files are skipped before the page. */
  readonly skipped: number
  readonly limit: number
  readonly order: 'asc' | 'desc'
  readonly purpose: Purpose | null
}

export interface FilesOptions {
  readonly database: Database
  readonly blobs: BlobStore
  readonly logger: Pick<Logger, 'warn'>
}

/**
 * Uploaded files: rows in the database, bytes in the blob store. The bytes are stored before the row and removed after
 * it, so every listed file can be read. A crash in between leaves bytes without a row, which the next start removes.
 */
export class Files implements StoredFiles {
  readonly #database: Database
  readonly #blobs: BlobStore
  readonly #logger: Pick<Logger, 'warn'>
  readonly #ids = new SortedIds('file-')
  readonly held: HeldFiles
  #timer: NodeJS.Timeout | null = null
  #expiring: Promise<void> = Promise.resolve()
  #sweeping: Promise<void> | null = null
  /** Whether the log has reported that the sweep fails: a store may refuse it for ever. */
  #complained = false

  constructor({ database, blobs, logger }: FilesOptions) {
    this.#database = database
    this.#blobs = blobs
    this.#logger = logger
    const removeBytes = (organisation: string, ids: readonly string[]) => this.removeBytes(organisation, ids)
    this.held = new HeldFiles({ database, blobs, ids: this.#ids, removeBytes })
  }

  /** Starts storing the bytes of an upload. @throws ApiError 503 when there is no space. */
  draft(): Promise<Draft> {
    return this.#blobs.draft()
  }

  /**
   * Rejects an upload that cannot fit in the quota, before it is received.
   * @param bytes the least that the file can have.
   * @throws ApiError 413 or 429 `insufficient_quota`.
   */
  async checkQuota(principal: Principal, bytes: number): Promise<void> {
    await this.#database.transaction((transaction) => checkQuota(transaction, principal, bytes))
  }

  /**
   * Turns a written draft into a file. When it resolves, the file is durable.
   * @throws ApiError 413 or 429 `insufficient_quota`; 503 when the blob store or the database is unavailable.
   */
  async keep(principal: Principal, draft: Draft, file: NewFile): Promise<StoredFile> {
    const { id, createdAt } = this.#ids.next()
    const name = blobName(principal.organisation, id)
    await draft.keep(name)
    try {
      return await this.#database.transaction(async (transaction) => {
        await checkQuota(transaction, principal, file.bytes)
        await countUpload(transaction, principal.organisation, file.bytes)
        return insertFile(transaction, principal.organisation, { ...file, id, createdAt })
      })
    } catch (error) {
      // When the database is unavailable, the row may or may not exist. The next sweep finds out.
      if (error instanceof ApiError && error.status < 500) await this.#removeBlob(name)
      throw error
    }
  }

  /**
   * Rejects bytes that cannot fit in the quota, before work is spent on them.
   * @throws ApiError 413 `insufficient_quota`.
   */
  async checkStorage({ organisation, limits }: Principal, bytes: number): Promise<void> {
    const [known] = await this.#database.use((queries) =>
      queries
        .select({ stored: organisations.storedBytes })
        .from(organisations)
        .where(eq(organisations.id, organisation)),
    )
    checkStored(known?.stored ?? 0, limits, bytes)
  }

  /** The content types of files, by their ids. Files that the organisation does not have are left out. */
  async contentTypes(organisation: string, ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const known = ids.filter(isFileId)
    if (known.length === 0) return new Map()
    const rows = await this.#database.use((queries) =>
      queries
        .select({ id: files.id, contentType: files.contentType })
        .from(files)
        .where(and(eq(files.organisationId, organisation), inArray(files.id, known))),
    )
    return new Map(rows.map(({ id, contentType }) => [id, contentType]))
  }

  /** Removes the bytes of files whose rows are deleted. */
  async removeBytes(organisation: string, ids: readonly string[]): Promise<void> {
    for (const id of ids) await this.#removeBlob(blobName(organisation, id))
  }

  /**
   * Turns drafts into files that the server itself has made, all or none, in one transaction with the changes of
   * `settle`. They count towards the organisation's stored bytes, but no quota stops them: their content has been paid
   * for.
   * @param expiresAt null for files that are kept until they are deleted.
   * @returns the files, or null if `settle` returns false. The drafts have been kept or discarded.
   */
  async keepOutputs(
    organisation: string,
    outputs: readonly { readonly draft: Draft; readonly file: NewFile }[],
    expiresAt: Date | null,
    settle: (transaction: Transaction, ids: readonly string[]) => Promise<boolean>,
  ): Promise<readonly StoredFile[] | null> {
    const made = outputs.map((output) => ({ ...output, ...this.#ids.next() }))
    const names = made.map(({ id }) => blobName(organisation, id))
    let kept: readonly StoredFile[] | null = null
    try {
      for (const [index, { draft }] of made.entries()) await draft.keep(names[index]!)
      kept = await this.#database.transaction(async (transaction) => {
        const ids = made.map(({ id }) => id)
        if (!(await settle(transaction, ids))) return null
        const rows: StoredFile[] = []
        for (const { id, createdAt, file } of made) {
          await addStored(transaction, organisation, file.bytes)
          rows.push(await insertFile(transaction, organisation, { ...file, id, createdAt, expiresAt }))
        }
        return rows
      })
      if (kept === null) for (const name of names) await this.#removeBlob(name)
    } catch (error) {
      // The rows may exist or not, as in `keep`.
      for (const { draft } of made) await draft.discard().catch(() => {})
      throw error
    }
    return kept
  }

  /** Finds a file; null when the organisation has no file with this id. */
  async find(organisation: string, id: string): Promise<StoredFile | null> {
    if (!isFileId(id)) return null
    const [row] = await this.#database.use((queries) =>
      queries
        .select()
        .from(files)
        .where(and(isFile(organisation, id), isCurrent)),
    )
    return row ? toStoredFile(row) : null
  }

  /** Lists up to `limit` files, and says whether there are more. */
  async list(organisation: string, query: FileQuery): Promise<{ files: StoredFile[]; hasMore: boolean }> {
    const ascending = query.order === 'asc'
    const conditions: SQL[] = [eq(files.organisationId, organisation), isNull(files.hash), isCurrent]
    // There are many frames of watches, and no client has uploaded them.
    conditions.push(query.purpose === null ? ne(files.purpose, 'watch') : eq(files.purpose, query.purpose))
    if (query.after !== null) conditions.push((ascending ? gt : lt)(files.id, query.after))
    const rows = await this.#database.use((queries) =>
      queries
        .select()
        .from(files)
        .where(and(...conditions))
        .orderBy(ascending ? asc(files.id) : desc(files.id))
        .limit(query.limit + 1)
        .offset(query.skipped),
    )
    return { files: rows.slice(0, query.limit).map(toStoredFile), hasMore: rows.length > query.limit }
  }

  /** Reads the bytes of a file, or a part of them; null when they are missing. */
  async read(
    organisation: string,
    id: string,
    range: ByteRange | null,
    signal: AbortSignal,
  ): ReturnType<BlobStore['read']> {
    const stream = await this.#blobs.read(blobName(organisation, id), range, signal)
    if (stream === null) this.#logger.warn({ organisation, file: id }, 'The blob store lacks the bytes of a file')
    return stream
  }

  async resolveFile(id: string, organisation: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array> | null> {
    const file = await this.find(organisation, id)
    return file && this.read(organisation, id, null, signal)
  }

  /** Deletes a file. @returns false when the organisation has no file with this id. */
  async delete(organisation: string, id: string): Promise<boolean> {
    if (!isFileId(id)) return false
    const deleted = await this.#database.transaction(async (transaction) => {
      const [row] = await transaction
        .delete(files)
        .where(and(isFile(organisation, id), isNull(files.hash)))
        .returning({ bytes: files.bytes })
      if (!row) return false
      await addStored(transaction, organisation, -row.bytes)
      return true
    })
    if (deleted) await this.#removeBlob(blobName(organisation, id))
    return deleted
  }

  /** Deletes expired files, now and every `EXPIRY_SWEEP_MS`, and once the bytes of unfinished uploads. */
  start(): void {
    const clear = () => {
      this.#expire()
      this.#sweeping ??= this.#sweep()
    }
    clear()
    this.#timer = setInterval(clear, EXPIRY_SWEEP_MS)
    this.#timer.unref()
  }

  #expire(): void {
    this.#expiring = this.#expiring
      .then(() => this.#deleteExpired())
      .catch((error: unknown) => {
        this.#logger.warn({ err: error }, 'Files that have expired could not be deleted yet')
      })
  }

  async #deleteExpired(): Promise<void> {
    for (;;) {
      const over = await this.#database.use((queries) =>
        queries
          .select({ organisation: files.organisationId, id: files.id })
          .from(files)
          .where(and(lt(files.expiresAt, tables.now), isNull(files.hash)))
          .limit(EXPIRED_AT_ONCE),
      )
      for (const { organisation, id } of over) await this.delete(organisation, id)
      if (over.length < EXPIRED_AT_ONCE || this.#timer === null) return
    }
  }

  /** Removes the bytes of unfinished uploads. It is retried until it has succeeded once. */
  async #sweep(): Promise<void> {
    try {
      await sweepBlobs(this.#database, this.#blobs, this.#logger)
    } catch (error) {
      if (!this.#complained) {
        this.#logger.warn({ err: error }, 'The bytes of unfinished uploads could not be removed yet')
      }
      this.#complained = true
      this.#sweeping = null
    }
  }

  async close(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
    await this.#expiring
    await this.#sweeping
  }

  /** The row of the file is already deleted. If its bytes cannot be removed now, the next sweep removes them. */
  async #removeBlob(name: string): Promise<void> {
    await this.#blobs.remove(name).catch((error: unknown) => {
      this.#logger.warn({ err: error }, 'The bytes of a deleted file could not be removed yet')
    })
  }
}

function isFile(organisation: string, id: string): SQL {
  return and(eq(files.organisationId, organisation), eq(files.id, id))!
}

/** Whether a file has not expired. */
const isCurrent = sql`(${files.expiresAt} is null or ${files.expiresAt} > now())`

function unixSeconds(time: Date): number {
  return Math.floor(time.getTime() / 1000)
}

type FileRow = NewFile & { readonly id: string; readonly createdAt: Date; readonly expiresAt?: Date | null }

async function insertFile(transaction: Transaction, organisationId: string, file: FileRow): Promise<StoredFile> {
  const { id, bytes, createdAt, filename, purpose, contentType, expiresAt = null } = file
  const [row] = await transaction
    .insert(files)
    .values({ organisationId, id, bytes, createdAt, filename: filename ?? id, purpose, contentType, expiresAt })
    .returning()
  return toStoredFile(row!)
}

function toStoredFile(row: typeof files.$inferSelect): StoredFile {
  const { id, bytes, filename, purpose, contentType } = row
  const expiresAt = row.expiresAt === null ? null : unixSeconds(row.expiresAt)
  return { id, bytes, createdAt: unixSeconds(row.createdAt), filename, purpose, contentType, expiresAt }
}
