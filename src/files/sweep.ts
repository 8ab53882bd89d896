import type { Logger } from 'pino'
import { getOrMake } from '../lib/get-or-make.ts'
import type { BlobStore, ListedBlob } from '../storage/blob-store.ts'
import type { Database } from '../storage/database.ts'
import { and, eq, inArray, or } from '../storage/drizzle.ts'
import { files } from '../storage/schema.ts'
import { sharedSecret } from '../storage/secrets.ts'
import { blobName, isBlobName } from './file-id.ts'

/** The mark for files of a database that has left none: one of an earlier version, or one that is lost. */
const UNKNOWN = 'unknown'
/** The form of secrets from `sharedSecret`. Other names beside the marks (`.nfs0001`) belong to no database. */
const MARK = /^[\w-]{43}$/
const NAMES_SHOWN = 10

/**
 * Removes blobs that belong to no file, which a crash between storing bytes and row leaves. Only a store that no other
 * database has used is swept, because that database's files look the same. It is not swept at once, because servers of
 * another database leave their mark only when they start with this version.
 */
export async function sweepBlobs(database: Database, blobs: BlobStore, logger: Pick<Logger, 'warn'>): Promise<void> {
  const own = await sharedSecret(database, 'blobs')()
  const isMarked = await isMarkedLongAgo(own, blobs)
  if (isMarked === null) await mark(own, database, blobs)
  // Servers of two databases may start on one store at the same time.
  const others = (await marksOf(blobs)).map(({ name }) => name).filter((name) => name !== own)
  if (others.length > 0) {
    const message = 'Another database has used this blob store, so unfinished uploads are not removed from it'
    logger.warn({ marks: others }, message)
  }
  if (others.length > 0 || !isMarked) return
  const removed: string[] = []
  for await (const listed of blobs.list()) {
    const known = await knownOf(database, listed)
    for (const { name, isSettled } of listed) {
      if (!isBlobName(name) || known.has(name) || !(await isSettled())) continue
      await blobs.remove(name)
      removed.push(name)
    }
  }
  if (removed.length === 0) return
  const names = removed.slice(0, NAMES_SHOWN)
  logger.warn({ removed: removed.length, names }, 'Removed the bytes of unfinished uploads')
}

/** Whether the mark is older than this start, or that of another server of the same database; null without a mark. */
async function isMarkedLongAgo(own: string, blobs: BlobStore): Promise<boolean | null> {
  const mark = (await marksOf(blobs)).find(({ name }) => name === own)
  return mark === undefined ? null : mark.isSettled()
}

/** Marks the store as used by the database. */
async function mark(own: string, database: Database, blobs: BlobStore): Promise<void> {
  if ((await marksOf(blobs)).length === 0 && (await isOfUnknown(database, blobs))) await blobs.mark(UNKNOWN)
  await blobs.mark(own)
}

async function marksOf(blobs: BlobStore): Promise<readonly ListedBlob[]> {
  return (await blobs.marks()).filter(({ name }) => name === UNKNOWN || MARK.test(name))
}

/** Whether a store without marks has files, and the database knows none of them. Earlier versions left no marks. */
async function isOfUnknown(database: Database, blobs: BlobStore): Promise<boolean> {
  let hasFiles = false
  for await (const listed of blobs.list()) {
    if ((await knownOf(database, listed)).size > 0) return false
    hasFiles ||= listed.some(({ name }) => isBlobName(name))
  }
  return hasFiles
}

/** The names of those that belong to files. */
async function knownOf(database: Database, listed: readonly ListedBlob[]): Promise<ReadonlySet<string>> {
  const ids = new Map<string, string[]>()
  for (const { name } of listed) {
    if (!isBlobName(name)) continue
    const [organisation, id] = name.split('/') as [string, string]
    getOrMake(ids, organisation, () => []).push(id)
  }
  if (ids.size === 0) return new Set()
  const rows = await database.use((queries) =>
    queries
      .select({ organisation: files.organisationId, id: files.id })
      .from(files)
      .where(or(...[...ids].map(([owner, of]) => and(eq(files.organisationId, owner), inArray(files.id, of))))),
  )
  return new Set(rows.map(({ organisation, id }) => blobName(organisation, id)))
}
