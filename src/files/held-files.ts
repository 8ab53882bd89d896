import type { Principal } from '../accounts/principal.ts'
import { ApiError, serviceUnavailable } from '../lib/errors/errors.ts'
import { HEAD_BYTES, type MediaType, mediaType } from '../media/media-type.ts'
import type { BlobStore } from '../storage/blob-store.ts'
import type { Database, Queries, Transaction } from '../storage/database.ts'
import { and, eq, inArray } from '../storage/drizzle.ts'
import { files } from '../storage/schema.ts'
import { blobName, type SortedIds } from './file-id.ts'
import { addStored, checkStored, lockStored } from './storage-quota.ts'

const RETRY_AFTER_S = 1

/** Stored bytes that become a file once the object that needs them is stored. They must be attached or released. */
export interface HeldFile {
  /** SHA-256 of the bytes, in hexadecimal. */
  readonly hash: string
  readonly bytes: number
  readonly contentType: MediaType
  /** Null when a file with these bytes exists already. */
  readonly id: string | null
}

type Addition = (transaction: Transaction, ids: ReadonlyMap<string, string>) => Promise<number>

export interface HeldFilesOptions {
  readonly database: Database
  readonly blobs: Pick<BlobStore, 'draft'>
  readonly ids: SortedIds
  /** Removes the bytes that are stored under these ids. */
  readonly removeBytes: (organisation: string, ids: readonly string[]) => Promise<void>
}

/** Stores the media of a request before it is known whether the request is stored, and makes files of it if it is. */
export class HeldFiles {
  readonly #options: HeldFilesOptions

  constructor(options: HeldFilesOptions) {
    this.#options = options
  }

  /**
   * Stores bytes that will become files of one object. The same bytes are stored once for each organisation.
   * @returns the held file for each of the contents; null for bytes of a type that no file may have.
   * @throws ApiError 503 when there is no space.
   */
  async hold(organisation: string, contents: readonly Uint8Array[]): Promise<(HeldFile | null)[]> {
    const about = await Promise.all(contents.map(describe))
    const hashes = about.flatMap((file) => (file === null ? [] : [file.hash]))
    if (hashes.length === 0) return contents.map(() => null)
    const known = await this.#options.database.use((queries) => idsByHash(queries, organisation, hashes))
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
    const { ids, blobs } = this.#options
    const { id } = ids.next()
    const draft = await blobs.draft()
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
   * Makes files of held bytes in one transaction with the object that needs them. If that is rejected, they are
   * released.
   * @param held with different hashes.
   * @param add stores the object, given the ids of the files by their hashes, and returns how many bytes it takes.
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
        // The file with the same bytes was deleted in the meantime.
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
      const used = new Set(await this.#options.database.transaction(work))
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

  /** Removes held bytes that did not become a file. */
  async release(organisation: string, held: readonly HeldFile[]): Promise<void> {
    await this.#options.removeBytes(
      organisation,
      held.flatMap(({ id }) => id ?? []),
    )
  }
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
