import { readdir, readFile } from 'node:fs/promises'
import { extname, join, relative } from 'node:path'

/** A file of a built page, held in memory. */
export interface PageFile {
  readonly type: string
  /** Whether its name contains a hash of its content, so that browsers may cache it forever. */
  readonly immutable: boolean
  /** The content by encoding; `identity` is always present. */
  readonly encodings: ReadonlyMap<Encoding, Buffer>
}

export type Encoding = 'br' | 'gzip' | 'identity'

/** The files of a page by their path below it; `index.html` is the page itself. */
export type PageFiles = ReadonlyMap<string, PageFile>

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.mp4': 'video/mp4',
  '.jpg': 'image/jpeg',
  '.webm': 'video/webm',
  '.wav': 'audio/wav',
  '.mp3': 'audio/mpeg',
  '.json': 'application/json',
  '.txt': 'text/plain; charset=utf-8',
}
const COMPRESSED: readonly (readonly [Encoding, string])[] = [
  ['br', '.br'],
  ['gzip', '.gz'],
]

/**
 * Reads the built page. Only files found here are ever served, so no request can name another path.
 * @returns null when the page was not built.
 */
export async function readPage(directory: string): Promise<PageFiles | null> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true }).catch(() => null)
  if (!entries?.some(({ name }) => name === 'index.html')) return null
  const paths = new Set(entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name)))
  const files = new Map<string, PageFile>()
  for (const path of paths) {
    const type = TYPES[extname(path)]
    if (type === undefined) continue
    const encodings = new Map<Encoding, Buffer>([['identity', await readFile(path)]])
    for (const [encoding, ending] of COMPRESSED) {
      if (paths.has(path + ending)) encodings.set(encoding, await readFile(path + ending))
    }
    const name = relative(directory, path).replaceAll('\\', '/')
    files.set(name, { type, immutable: name.startsWith('assets/'), encodings })
  }
  return files
}
