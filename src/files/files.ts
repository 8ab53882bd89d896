import type { Logger } from 'pino'
import type { Principal } from '../accounts/principal.ts'
import { ApiError, serviceUnavailable } from '../lib/errors.ts'
import type { StoredFiles } from '../media/fetching/stored-files.ts'
import { HEAD_BYTES, type MediaType, mediaType } from '../media/media-type.ts'
import type { BlobStore, ByteRange, Draft } from '../storage/blob-store.ts'
import type { Database, Queries, Transaction } from '../storage/database.ts'
import { and, asc, desc, eq, gt, inArray, isNull, lt, or, type SQL, sql } from '../storage/drizzle.ts'
import * as tables from '../storage/schema.ts'
import type { JSON_LINES } from './content-type.ts'
import { isFileId, SortedIds } from './file-id.ts'
import { addStored, checkQuota, checkStored, countUpload, lockStored } from './storage-quota.ts'

const { files, organisations } = tables

/** What clients may upload files for. */
export const UPLOAD_PURPOSES = ['vision', 'user_data', 'batch'] as const
export const PURPOSES = [...UPLOAD_PURPOSES, 'batch_output'] as const
export type Purpose = (typeof PURPOSES)[number]

/** The contract's limits. */
export const MAX_FILE_BYTES = 128 * 2 ** 20
/** Of the input of a batch; at least as much as OpenAI allows. */
export const MAX_BATCH_FILE_BYTES = 200 * 2 ** 20
const RETRY_AFTER_S = 1
const EXPIRED_AT_ONCE = 100

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

/** Bytes that are stored, and become a file with what they are part of. They must be attached or released. */
export interface HeldFile {
  /** SHA-256 of the bytes, in hexadecimal. */
  readonly hash: string
  readonly bytes: number
  readonly contentType: MediaType
  /** Null when a file with these bytes exists already. */
  readonly id: string | null
}

type Addition = (transaction: Transaction, ids: ReadonlyMap<string, string>) => Promise<number>

export interface FileQuery {
  /** The page starts after this id. */
  readonly after: string | null
  readonly limit: number
  readonly order: 'asc' | 'desc'
  readonly purpose: Purpose | null
}

export interface FilesOptions {
  readonly database: Database
  readonly blobs: BlobStore
  readonly logger: Pick<Logger, 'warn' | 'info'>
}

/**
 * Uploaded files: rows in the database, bytes in the blob store. The bytes are stored before the row and removed after
 * it, so every listed file can be read. A crash in between leaves bytes without a row, which the next start removes.
 */
export class Files implements StoredFiles {
  readonly #database: Database
  readonly #blobs: BlobStore
  readonly #logger: Pick<Logger, 'warn' | 'info'>
  readonly #ids = new SortedIds('file-')

  constructor({ database, blobs, logger }: FilesOptions) {
    this.#database = database
    this.#blobs = blobs
    this.#logger = logger
  }

  /** Starts storing the bytes of an upload. @throws ApiError 503 when there is no space. */
  draft(): Promise<Draft> {
    return this.#blobs.draft()
  }

  /**
   * Rejects an upload that cannot fit the quota, before it is received.
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
   * Rejects what cannot fit the quota, before work is spent on it.
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

  /**
   * Stores the bytes of files that are to become part of something. The same bytes are stored once for each organisation.
   * @returns what each of the contents becomes; null for bytes of a type that no file may have.
   * @throws ApiError 503 when there is no space.
   */
  async hold(organisation: string, contents: readonly Uint8Array[]): Promise<(HeldFile | null)[]> {
    const about = await Promise.all(contents.map(describe))
    const hashes = about.flatMap((file) => (file === null ? [] : [file.hash]))
    if (hashes.length === 0) return contents.map(() => null)
    const known = await this.#database.use((queries) => idsByHash(queries, organisation, hashes))
    const held = new Map<string, HeldFile>()
    try {
      for (const [index, file] of about.entries()) {
        if (file === null || held.has(file.hash)) continue
        const id = known.has(file.hash) ? null : await this.#store(organisation, contents[index]!)
        held.set(file.hash, { ...file, id })
      }
    } catch (error) {
      await this.release(organisation, [...held.values()])
      throw error
    }
    return about.map((file) => file && held.get(file.hash)!)
  }

  /** @returns the id under which the bytes are stored. */
  async #store(organisation: string, bytes: Uint8Array): Promise<string> {
    const { id } = this.#ids.next()
    const draft = await this.#blobs.draft()
    try {
      await draft.write(bytes)
      await draft.keep(blobName(organisation, id))
      return id
    } catch (error) {
      await draft.discard()
      throw error
    }
  }

  /**
   * Makes files of what is held, together with what they are part of: all or nothing. If it rejects that, it releases them.
   * @param held each with a hash of its own.
   * @param add adds what they are part of, given the files' ids by their hashes, and returns how many bytes that takes.
   * @throws ApiError 413 `insufficient_quota`; 503 when the database is unavailable.
   */
  async attach(principal: Principal, held: readonly HeldFile[], add: Addition): Promise<void> {
    const { organisation, limits } = principal
    const work = async (transaction: Transaction) => {
      const stored = await lockStored(transaction, organisation)
      const hashes = held.map(({ hash }) => hash)
      const known = hashes.length === 0 ? new Map() : await idsByHash(transaction, organisation, hashes)
      const added = held.filter(({ hash }) => !known.has(hash))
      if (added.some(({ id }) => id === null)) {
        // What had the same bytes was deleted in the meantime.
        throw serviceUnavailable('Media of the request could not be stored; try again', RETRY_AFTER_S)
      }
      const ids = new Map([...known, ...added.map(({ hash, id }) => [hash, id!] as const)])
      const createdAt = new Date()
      const rows = added.map(({ hash, bytes, contentType, id }) => ({
        ...{ organisationId: organisation, id: id!, hash, bytes, contentType, createdAt },
        ...{ filename: id!, purpose: 'user_data' as const },
      }))
      if (rows.length > 0) await transaction.insert(files).values(rows)
      const bytes = (await add(transaction, ids)) + added.reduce((sum, file) => sum + file.bytes, 0)
      checkStored(stored, limits, bytes)
      await addStored(transaction, organisation, bytes)
      return added
    }
    try {
      const used = new Set(await this.#database.transaction(work))
      await this.release(
        organisation,
        held.filter((file) => !used.has(file)),
      )
    } catch (error) {
      // When the database is unavailable, the rows may or may not exist. The next sweep finds out.
      if (error instanceof ApiError && error.status < 500) await this.release(organisation, held)
      throw error
    }
  }

  /** Removes the bytes of what is held and became no file. */
  async release(organisation: string, held: readonly HeldFile[]): Promise<void> {
    for (const { id } of held) if (id !== null) await this.#removeBlob(blobName(organisation, id))
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
   * Turns drafts into files that the server itself has made, all or none, together with what `settle` changes in the
   * database. They count towards what the organisation stores, but no quota stops them: what they hold has been paid for.
   * @param expiresAt null for files that are kept until they are deleted.
   * @returns the files, or null where `settle` returns false. The drafts have been kept or discarded.
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
    if (query.purpose !== null) conditions.push(eq(files.purpose, query.purpose))
    if (query.after !== null) conditions.push((ascending ? gt : lt)(files.id, query.after))
    const rows = await this.#database.use((queries) =>
      queries
        .select()
        .from(files)
        .where(and(...conditions))
        .orderBy(ascending ? asc(files.id) : desc(files.id))
        .limit(query.limit + 1),
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

  /** Deletes files whose time is over. @returns the number of deleted files. */
  async deleteExpired(): Promise<number> {
    const over = await this.#database.use((queries) =>
      queries
        .select({ organisation: files.organisationId, id: files.id })
        .from(files)
        .where(lt(files.expiresAt, tables.now))
        .limit(EXPIRED_AT_ONCE),
    )
    for (const { organisation, id } of over) await this.delete(organisation, id)
    return over.length
  }

  /** Removes blobs that belong to no file. @returns the number of removed blobs. */
  async sweep(): Promise<number> {
    const removed = await this.#blobs.sweep(async (names) => {
      const parts = names.map((name) => name.split('/') as [organisation: string, id: string])
      const ids = new Map<string, string[]>()
      for (const [organisation, id] of parts) ids.set(organisation, [...(ids.get(organisation) ?? []), id])
      const rows = await this.#database.use((queries) =>
        queries
          .select({ organisation: files.organisationId, id: files.id })
          .from(files)
          .where(or(...[...ids].map(([owner, of]) => and(eq(files.organisationId, owner), inArray(files.id, of))))),
      )
      return new Set(rows.map(({ organisation, id }) => blobName(organisation, id)))
    })
    if (removed > 0) this.#logger.info({ removed }, 'Removed the bytes of unfinished uploads')
    return removed
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

/** Whether a file is not over yet. */
const isCurrent = sql`(${files.expiresAt} is null or ${files.expiresAt} > now())`

function unixSeconds(time: Date): number {
  return Math.floor(time.getTime() / 1000)
}

function blobName(organisation: string, id: string): string {
  return `${organisation}/${id}`
}

async function describe(bytes: Uint8Array): Promise<Omit<HeldFile, 'id'> | null> {
  const contentType = mediaType(bytes.subarray(0, HEAD_BYTES))
  if (contentType === null) return null
  const hash = await crypto.subtle.digest('SHA-256', bytes as Uint8Array<ArrayBuffer>)
  return { hash: Buffer.from(hash).toString('hex'), contentType, bytes: bytes.byteLength }
}

async function idsByHash(
  queries: Queries,
  organisation: string,
  hashes: readonly string[],
): Promise<Map<string, string>> {
  const rows = await queries
    .select({ hash: files.hash, id: files.id })
    .from(files)
    .where(and(eq(files.organisationId, organisation), inArray(files.hash, [...hashes])))
  return new Map(rows.map(({ hash, id }) => [hash!, id]))
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
