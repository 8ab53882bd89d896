import { lstat, realpath, stat } from 'node:fs/promises'
import { dirname, isAbsolute, join, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { MediaKind } from '../../media/media-type.ts'
import { firstOf, isNoUtf8, kindOfName, MediaError, type Medium, readMedium } from '../asking/media.ts'
import { Glob } from './glob.ts'
import { entriesOf, type HeldFile, openHeld } from './held-file.ts'
import { describe, inOrder, isWanted, type MediaPage, type Named, pageOf, type Wanted } from './media-list.ts'

/** The most bytes of one file: the server's limit. */
const MOST_BYTES = 128 * 2 ** 20
/** The most files and folders that a list reads. */
const MOST_ENTRIES = 100_000
/** Pictures are read into memory. */
const MOST_PICTURE_BYTES = 50 * 2 ** 20

/** A medium that an agent names: a file of this machine, or an address that the server fetches. */
export type Source =
  | { readonly type: 'medium'; readonly medium: Medium }
  | { readonly type: 'address'; readonly url: string; readonly kind: MediaKind; readonly pages?: string }

/** The context in which files are opened. */
export interface Holder {
  /** Open files, which are closed when it ends. */
  readonly held: AsyncDisposableStack
  /** The page of its picture, from 1; null for the first, with a note if there are more. */
  readonly page: number | null
  /** Notes for the client beside the result. */
  readonly notes: string[]
}

/** A file that does not exist, or is not for agents. */
export class NoSuchFile extends MediaError {}

/** A folder that a list searches. */
interface Search {
  readonly folder: string
  /** Matches paths relative to the folder; null for all. */
  readonly glob: Glob | null
  /** How many folders deep. */
  readonly depth: number
}

/** The files that agents may use: those below the given folders, after links are resolved. */
export class AllowedMedia {
  readonly #roots: readonly string[]
  /** Advice if there is no folder. */
  readonly #advice: string

  private constructor(roots: readonly string[], advice = 'start lookout mcp with --root FOLDER') {
    this.#roots = roots
    this.#advice = advice
  }

  /** @throws MediaError for a path that is no folder. */
  static async of(roots: readonly string[]): Promise<AllowedMedia> {
    const folders = roots.map(async (root) => {
      const real = await realpath(root).catch(() => null)
      if (real === null || !(await stat(real)).isDirectory()) throw new MediaError(`--root ${root} is not a folder`)
      return real
    })
    return new AllowedMedia(await Promise.all(folders))
  }

  /** The folders that a client offers, as `file://` addresses. Other addresses are left out. */
  static async offered(addresses: readonly string[]): Promise<AllowedMedia> {
    const folders = addresses.map(async (address) => {
      try {
        const real = await realpath(pathOf(address))
        return (await stat(real)).isDirectory() ? [real] : []
      } catch {
        return []
      }
    })
    const advice = 'start lookout mcp with --root FOLDER, or have the client offer its folders (roots)'
    return new AllowedMedia((await Promise.all(folders)).flat(), advice)
  }

  /** Whether any folder is allowed. */
  get isOpen(): boolean {
    return this.#roots.length > 0
  }

  /**
   * @param named a path, absolute or relative to the first folder, a file: address or an http(s) address.
   * @param held keeps the file open until it is disposed of.
   * @param page of a picture.
   * @param notes gets notes on what is left out.
   * @throws MediaError for a medium that is not allowed, does not exist, is too large or of another type.
   */
  async open(named: string, { held, page, notes }: Holder): Promise<Source> {
    if (isAddress(named)) {
      if (!URL.canParse(named)) throw new MediaError(`${named} is not an address`)
      const kind = kindOfAddress(new URL(named))
      if (page === null) return { type: 'address', url: named, kind }
      if (kind === 'document') return { type: 'address', url: named, kind, pages: String(page) }
      throw new MediaError('page needs a file or a document: a picture at an address is not fetched here')
    }
    const file = held.use(await this.#file(named))
    if (file.byteLength > MOST_BYTES) throw new MediaError(`${named} has more than ${MOST_BYTES / 2 ** 20} MiB`)
    const takesPictures = file.byteLength <= MOST_PICTURE_BYTES
    const onPages = (pages: number) => notes.push(firstOf(named, pages))
    return { type: 'medium', medium: await readMedium(file, { takesPictures, page, onPages }) }
  }

  /**
   * Lists files with names of media. Hidden files, and folders behind links, are left out.
   * @throws MediaError for a folder that is not allowed or does not exist.
   */
  async list(wanted: Wanted, signal: AbortSignal): Promise<MediaPage> {
    const found = new Map<string, Named>()
    const entries = { left: MOST_ENTRIES }
    for (const search of await this.#searches(wanted.path, wanted.recursive)) {
      for await (const path of this.#below(search, entries, signal)) {
        const file = { path, name: this.#nameOf(path) }
        if (isWanted(file, wanted)) found.set(path, file)
      }
    }
    const { page, cursor } = pageOf(await inOrder([...found.values()], wanted.sort), wanted)
    const files = []
    for (const { path, name } of page) {
      signal.throwIfAborted()
      // A file that cannot be read, or is gone, is left out.
      await using file = await this.#file(path).catch(() => null)
      if (file !== null) files.push(await describe(file, { path, name }))
    }
    return { files, total: found.size, cursor, isComplete: entries.left >= 0 }
  }

  /** A pattern is matched below each folder; a path is relative to the first. */
  async #searches(named: string | null, recursive: boolean): Promise<Search[]> {
    if (named !== null && isAddress(named)) throw new MediaError('path: expected a folder or a pattern, not an address')
    const depth = recursive ? Number.POSITIVE_INFINITY : 1
    this.#first()
    if (named === null) return this.#roots.map((folder) => ({ folder, glob: null, depth }))
    const given = /^file:/i.test(named) ? pathOf(named) : named
    const names = given.split('/')
    const from = names.findIndex((name) => Glob.isPattern(name))
    const real = await this.#real(given).catch((error: Error) => {
      if (from === -1) throw error
      return null
    })
    if (real !== null) {
      if (!(await stat(real)).isDirectory()) throw new MediaError(`${named} is not a folder`)
      return [{ folder: real, glob: null, depth }]
    }
    const glob = new Glob(names.slice(from).join('/'))
    const before = from === 1 && names[0] === '' ? '/' : names.slice(0, from).join('/')
    const bases = isAbsolute(given) ? [before] : this.#roots.map((root) => resolve(root, before))
    const folders = await Promise.all(bases.map((base) => this.#real(base).catch((error: Error) => error)))
    const there = folders.filter((folder) => typeof folder === 'string')
    if (there.length === 0) throw folders[0]
    return there.map((folder) => ({ folder, glob, depth: glob.depth }))
  }

  /** @param entries how many more may be read; below 0 if there were more. */
  async *#below(search: Search, entries: { left: number }, signal: AbortSignal): AsyncGenerator<string> {
    const folders = [{ path: search.folder, within: '', depth: search.depth }]
    for (const { path: folder, within, depth } of folders) {
      signal.throwIfAborted()
      try {
        for await (const entry of entriesOf(folder, (real) => this.#isBelow(real))) {
          if (entries.left-- <= 0) return
          const path = join(folder, entry.name)
          const relative = within + entry.name
          if (entry.name.startsWith('.')) continue
          // A name that is not UTF-8 cannot be opened.
          if (isNoUtf8(path) && (await lstat(path).catch(() => null)) === null) continue
          if (entry.isDirectory() && depth > 1) folders.push({ path, within: `${relative}/`, depth: depth - 1 })
          if (kindOfName(entry.name) === null || search.glob?.matches(relative) === false) continue
          const leadsToFile = entry.isSymbolicLink() && (await this.#allowed(path).catch(() => null)) !== null
          if (entry.isFile() || leadsToFile) yield path
        }
      } catch (error) {
        // The others can still be listed.
        if (folder === search.folder && !signal.aborted)
          throw new MediaError(`${folder} cannot be read: ${(error as NodeJS.ErrnoException).code}`)
      }
    }
  }

  /** The name of a file for agents. */
  #nameOf(path: string): string {
    const first = withSeparator(this.#first())
    return path.startsWith(first) ? path.slice(first.length) : path
  }

  async #file(named: string): Promise<HeldFile> {
    const path = await this.#allowed(named)
    await using opening = new AsyncDisposableStack()
    const file = opening.use(
      await openHeld(path, named).catch((error: NodeJS.ErrnoException) => {
        // A link has replaced the path.
        if (error.code === 'ELOOP') throw this.#outside(named)
        if (error.code === 'ENOENT') throw new NoSuchFile(`${named} is not there`)
        throw new MediaError(`${named} cannot be read: ${error.code}`)
      }),
    )
    // The path may lead elsewhere now, or may have when it was checked. The descriptor cannot.
    if (!this.#isBelow(file.path)) throw this.#outside(named)
    if (!file.isFile) throw new MediaError(`${named} is not a file`)
    opening.move()
    return file
  }

  /** @returns the path without links. */
  async #allowed(named: string): Promise<string> {
    const real = await this.#real(named)
    // Opening a device can have an effect.
    if (!(await stat(real).catch(() => null))?.isFile()) throw new MediaError(`${named} is not a file`)
    return real
  }

  /** @returns the path of a file or folder, without links. */
  async #real(named: string): Promise<string> {
    const first = this.#first()
    const given = /^file:/i.test(named) ? pathOf(named) : named
    if (given.includes('\0')) throw new MediaError('a path must not contain a null byte')
    const whole = isAbsolute(given) ? given : resolve(first, given)
    const real = await realpath(whole).catch(() => null)
    // The error must not reveal whether a file outside the folders exists.
    if (real === null && (await this.#isMissing(resolve(whole)))) throw new NoSuchFile(`${named} is not there`)
    if (real === null || !this.#isBelow(real)) throw this.#outside(named)
    return real
  }

  #first(): string {
    const [first] = this.#roots
    if (first !== undefined) return first
    throw new NoSuchFile(`no folder is allowed: ${this.#advice}, or give an http(s) address`)
  }

  #isBelow(path: string): boolean {
    return this.#roots.some((root) => path === root || path.startsWith(withSeparator(root)))
  }

  /** Whether a missing file would be below an allowed folder. Targets of links are not checked. */
  async #isMissing(path: string): Promise<boolean> {
    const folder = dirname(path)
    const real = await realpath(folder).catch(() => null)
    if (real === null) return folder !== path && (await this.#isMissing(folder))
    return this.#isBelow(real) && (await lstat(path).catch(() => null)) === null
  }

  #outside(named: string): MediaError {
    return new NoSuchFile(`${named} is not in an allowed folder: ${this.#roots.join(', ')}`)
  }
}

/** Whether it is an address that the server fetches, for which no folder is needed. */
export function isAddress(named: string): boolean {
  return /^https?:\/\//i.test(named)
}

/** The kind by the extension alone. The server treats TIFFs as documents. */
function kindOfAddress({ pathname }: URL): MediaKind {
  return /\.tiff?$/i.test(pathname) ? 'document' : (kindOfName(pathname) ?? 'image')
}

function withSeparator(folder: string): string {
  return folder.endsWith(sep) ? folder : folder + sep
}

function pathOf(address: string): string {
  try {
    return fileURLToPath(address)
  } catch {
    throw new MediaError(`${address} is not the address of a file on this machine`)
  }
}
