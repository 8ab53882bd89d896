import { stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { isBitmap, readBitmapHeader } from '../../media/decoding/bitmap.ts'
import { openForm } from '../../media/decoding/open-picture.ts'
import { type MediaKind, typeName } from '../../media/media-type.ts'
import { kindOfName, MediaError } from '../asking/media.ts'
import type { HeldFile } from './held-file.ts'

/** Enough for the header of most pictures. Of others, a list reads the whole file, up to this limit. */
const HEADER_BYTES = 2 ** 18
const MOST_WHOLE_BYTES = 2 ** 24

export interface Wanted {
  /** A folder or a pattern; null for all allowed folders. */
  readonly path: string | null
  /** Whether subfolders are included. A pattern says so itself. */
  readonly recursive: boolean
  /** Text in the names of the files, ignoring case; null for any. */
  readonly text: string | null
  readonly kind: MediaKind | null
  readonly sort: 'name' | 'newest'
  readonly limit: number
  /** Cursor of the page before; null for the first page. */
  readonly cursor: string | null
}

export interface Named {
  readonly path: string
  /** Its name for agents. */
  readonly name: string
}

export interface ListedMedium extends Named {
  readonly kind: MediaKind
  /** Detected from its bytes. */
  readonly type: string
  /** Size of the upright picture; null if its header does not say so. */
  readonly size: { readonly width: number; readonly height: number } | null
  readonly byteLength: number
  readonly modified: Date
}

export interface MediaPage {
  readonly files: readonly ListedMedium[]
  /** Number of entries on all pages. */
  readonly total: number
  /** Cursor of the next page; null on the last page. */
  readonly cursor: string | null
  /** False if there were too many entries to read. */
  readonly isComplete: boolean
}

/** The time of the last change is 0 unless the newest come first. */
interface Placed extends Named {
  readonly modifiedMs: number
}

export function isWanted({ path }: Named, { text, kind }: Wanted): boolean {
  const name = basename(path)
  if (kind !== null && kindOfName(name) !== kind) return false
  return text === null || name.toLowerCase().includes(text.toLowerCase())
}

export async function inOrder(files: readonly Named[], sort: Wanted['sort']): Promise<Placed[]> {
  const placed: Placed[] = []
  for (const file of files) {
    const modifiedMs = sort === 'name' ? 0 : ((await stat(file.path).catch(() => null))?.mtimeMs ?? 0)
    placed.push({ ...file, modifiedMs })
  }
  return placed.sort(compare)
}

const byName = new Intl.Collator('en', { numeric: true }).compare

function compare(a: Pick<Placed, 'name' | 'modifiedMs'>, b: Pick<Placed, 'name' | 'modifiedMs'>): number {
  return b.modifiedMs - a.modifiedMs || byName(a.name, b.name) || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)
}

/** The files after the last one of the previous page, so that none is repeated when others are added. */
export function pageOf(
  files: readonly Placed[],
  { cursor, limit }: Pick<Wanted, 'cursor' | 'limit'>,
): { readonly page: readonly Placed[]; readonly cursor: string | null } {
  const last = cursor === null ? null : readCursor(cursor)
  const begin = last === null ? 0 : files.findIndex((file) => compare(last, file) < 0)
  const page = begin === -1 ? [] : files.slice(begin, begin + limit)
  const end = page.at(-1)
  const isLast = end === undefined || end === files.at(-1)
  return { page, cursor: isLast ? null : writeCursor(end) }
}

function writeCursor({ modifiedMs, name }: Placed): string {
  return Buffer.from(JSON.stringify([modifiedMs, name])).toString('base64url')
}

function readCursor(cursor: string): Pick<Placed, 'name' | 'modifiedMs'> {
  try {
    const [modifiedMs, name] = JSON.parse(Buffer.from(cursor, 'base64url').toString()) as unknown[]
    if (typeof modifiedMs === 'number' && typeof name === 'string') return { modifiedMs, name }
  } catch {}
  throw new MediaError('cursor: expected the cursor of a previous page')
}

export async function describe(file: HeldFile, named: Named): Promise<ListedMedium> {
  const kind = kindOfName(named.path)!
  const type = typeName(await file.head())
  const { byteLength, modified } = file
  // An SVG has no pixels until it is drawn.
  const hasSize = type.startsWith('image/') && type !== 'image/svg+xml'
  const isSmall = byteLength > HEADER_BYTES && byteLength <= MOST_WHOLE_BYTES
  const size = hasSize
    ? ((await sizeOf(await file.start(HEADER_BYTES))) ?? (isSmall ? await sizeOf(await file.whole()) : null))
    : null
  return { ...named, kind, type, size, byteLength, modified }
}

async function sizeOf(start: Buffer): Promise<ListedMedium['size']> {
  try {
    if (!isBitmap(start)) return (await openForm(start, 1).input.metadata()).autoOrient
    const { width, height } = readBitmapHeader(start)
    return { width, height }
  } catch {
    return null
  }
}
