import { rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { ProcessEnded } from '../lib/guarded/guarded-process.ts'
import { CardError } from './card-error.ts'
import { areSame, filesOf, readJson, readWritten } from './card-files.ts'
import { isObject } from './card-values.ts'

/** Beside a card whose reading ended a process: the reason, and the versions of its files. */
const NOTE_FILE = 'unread.json'

interface Note {
  readonly reason: string
  /** ISO 8601. */
  readonly at: string
  /** Versions of the files, by path. */
  readonly files: Readonly<Record<string, string>>
}

/**
 * Reads a card of the model store, unless reading it ended a process before and none of its files has changed since. A
 * card that ends the process now is not read again.
 * @throws CardError that says why it is not read; what `read` throws.
 */
export async function readUnlessFatal<Result>(file: string, read: () => Promise<Result>): Promise<Result> {
  const files = await filesOf(file)
  const note = await readNote(file)
  if (note !== null && areSame(note.files, files)) {
    const told = `reading its files ended a process at ${note.at}: ${note.reason}`
    const retry = `It is read again when one of its files changes, or when ${noteOf(file)} is deleted`
    throw new CardError(file, '', `${told}. ${retry}`, { told })
  }
  try {
    return await read()
  } catch (error) {
    const ended = endOf(error)
    if (ended === null) throw error
    const note: Note = { reason: ended.message, at: new Date().toISOString(), files }
    // If the store is read-only, the card is read again at the next start.
    await writeFile(noteOf(file), `${JSON.stringify(note, null, 2)}\n`).catch(() => {})
    throw error
  }
}

/** Removes the note of `readUnlessFatal`. */
export async function forgetUnread(file: string): Promise<void> {
  await rm(noteOf(file), { force: true })
}

/** The ids in a card, as far as it can be read. */
export async function idsOf(file: string): Promise<string[]> {
  return (await servesIn(file)).map(({ id }) => id).filter((id) => typeof id === 'string')
}

/** The ids and aliases in a card, as far as it can be read. */
export async function namesIn(file: string): Promise<string[]> {
  const names = (await servesIn(file)).flatMap(({ id, aliases }) => [id, ...(Array.isArray(aliases) ? aliases : [])])
  return names.filter((name) => typeof name === 'string')
}

async function servesIn(file: string): Promise<Readonly<Record<string, unknown>>[]> {
  const serves = (await readWritten(file))?.serves
  return Array.isArray(serves) ? serves.filter(isObject) : []
}

function noteOf(file: string): string {
  return join(dirname(file), NOTE_FILE)
}

function endOf(error: unknown): ProcessEnded | null {
  if (error instanceof ProcessEnded) return error
  return error instanceof Error && error.cause !== undefined ? endOf(error.cause) : null
}

async function readNote(file: string): Promise<Note | null> {
  const note = await readJson(noteOf(file))
  return isObject(note) && isObject(note.files) ? (note as unknown as Note) : null
}
