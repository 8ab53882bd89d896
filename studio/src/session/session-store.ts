import type { Attachment } from '../media/attachment.ts'
import { BrowserDatabase, resultOf } from './database.ts'

/** What the list of sessions shows. */
export interface SessionEntry {
  readonly id: string
  readonly title: string
  /** Whether the user gave the title; others follow the first question. */
  readonly isNamed: boolean
  /** In milliseconds since 1970. */
  readonly savedAt: number
  /** Size of its media and its texts. */
  readonly bytes: number
}

/** An attachment without what is valid only while the page is open. */
export type SavedMedia = Omit<Attachment, 'url'>

/** The content of a session: what each part saved, by its name. */
export interface SessionContent {
  readonly parts: Readonly<Record<string, unknown>>
  readonly media: readonly SavedMedia[]
}

interface MediaRecord {
  readonly session: string
  readonly id: string
  readonly media: SavedMedia
}

/** Apart, so that the list is read without the contents, and a text is saved without the media. */
const ENTRIES = 'entries'
const PARTS = 'parts'
const MEDIA = 'media'
const ALL = [ENTRIES, PARTS, MEDIA]

const database = new BrowserDatabase('lookout-studio', 1, (made) => {
  made.createObjectStore(ENTRIES, { keyPath: 'id' })
  made.createObjectStore(PARTS)
  made.createObjectStore(MEDIA, { keyPath: ['session', 'id'] })
})

/** Latest first. */
export async function listSessions(): Promise<SessionEntry[]> {
  const entries = await database.run([ENTRIES], 'readonly', (store) =>
    resultOf<SessionEntry[]>(store(ENTRIES).getAll()),
  )
  return entries.sort((one, other) => other.savedAt - one.savedAt)
}

/** @returns null when there is none of this id. */
export async function readSession(id: string): Promise<SessionContent | null> {
  return database.run([PARTS, MEDIA], 'readonly', async (store) => {
    const [parts, records] = await Promise.all([
      resultOf<SessionContent['parts'] | undefined>(store(PARTS).get(id)),
      resultOf<MediaRecord[]>(store(MEDIA).getAll(mediaRange(id))),
    ])
    return parts === undefined ? null : { parts, media: records.map(({ media }) => media) }
  })
}

/**
 * Saves a session as a whole. Media does not change: what is there already is not written again. A title that the user
 * gave it stays: another tab may have.
 * @returns its entry. @throws DOMException `QuotaExceededError`
 */
export async function writeSession(given: SessionEntry, { parts, media }: SessionContent): Promise<SessionEntry> {
  return database.run(ALL, 'readwrite', async (store) => {
    const known = await resultOf<SessionEntry | undefined>(store(ENTRIES).get(given.id))
    const entry = known?.isNamed ? { ...given, title: known.title, isNamed: true } : given
    store(ENTRIES).put(entry)
    store(PARTS).put(parts, entry.id)
    const kept = await resultOf(store(MEDIA).getAllKeys(mediaRange(entry.id)))
    const before = new Set(kept.map((key) => (key as [string, string])[1]))
    for (const one of media) {
      if (!before.delete(one.id)) store(MEDIA).put({ session: entry.id, id: one.id, media: one } satisfies MediaRecord)
    }
    for (const gone of before) store(MEDIA).delete([entry.id, gone])
    return entry
  })
}

export async function renameSession(id: string, title: string): Promise<void> {
  await database.run([ENTRIES], 'readwrite', async (store) => {
    const entry = await resultOf<SessionEntry | undefined>(store(ENTRIES).get(id))
    if (entry) store(ENTRIES).put({ ...entry, title, isNamed: true })
  })
}

export async function deleteSession(id: string): Promise<void> {
  await database.run(ALL, 'readwrite', (store) => {
    store(ENTRIES).delete(id)
    store(PARTS).delete(id)
    store(MEDIA).delete(mediaRange(id))
  })
}

function mediaRange(session: string): IDBKeyRange {
  return IDBKeyRange.bound([session], [session, []])
}
