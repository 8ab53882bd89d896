import { lstat, realpath, stat } from 'node:fs/promises'
import { dirname, isAbsolute, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { firstOf, MediaError, type Medium, readMedium } from '../asking/media.ts'
import type { Call } from './call.ts'
import { HeldFile } from './held-file.ts'

/** The most bytes of one file: what the server stores. */
const MOST_BYTES = 128 * 2 ** 20
/** Pictures are read into memory. */
const MOST_PICTURE_BYTES = 50 * 2 ** 20

/** What an agent names: a file of this machine, or an address that the server fetches. */
export type Source =
  | { readonly type: 'medium'; readonly medium: Medium }
  | { readonly type: 'address'; readonly url: string; readonly kind: 'image' | 'video' }

/** The files that agents may have looked at: those below some folders, wherever links lead. */
export class AllowedMedia {
  readonly #roots: readonly string[]
  /** What to do where there is no folder. */
  readonly #advice: string

  private constructor(roots: readonly string[], advice = 'start lookout mcp with --root FOLDER') {
    this.#roots = roots
    this.#advice = advice
  }

  /** @throws MediaError for what is no folder. */
  static async of(roots: readonly string[]): Promise<AllowedMedia> {
    const folders = roots.map(async (root) => {
      const real = await realpath(root).catch(() => null)
      if (real === null || !(await stat(real)).isDirectory()) throw new MediaError(`--root ${root} is not a folder`)
      return real
    })
    return new AllowedMedia(await Promise.all(folders))
  }

  /** The folders that a client offers, as `file://` addresses. What is no folder of this machine is left out. */
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

  /**
   * @param named a path, absolute or relative to the first folder, a file: address or an http(s) address.
   * @param held keeps the file open until it is disposed of.
   * @param page which one to take of a picture.
   * @param notes gets what is left out of it.
   * @throws MediaError for what is not allowed, not there, too large or of another type.
   */
  async open(named: string, { held, page, notes }: Pick<Call, 'held' | 'page' | 'notes'>): Promise<Source> {
    if (isAddress(named)) {
      if (!URL.canParse(named)) throw new MediaError(`${named} is not an address`)
      if (page !== null) throw new MediaError('page needs a file: a picture at an address is not fetched here')
      const { pathname } = new URL(named)
      return { type: 'address', url: named, kind: /\.(mp4|webm|mov)$/i.test(pathname) ? 'video' : 'image' }
    }
    const file = held.use(await this.#file(named))
    if (file.byteLength > MOST_BYTES) throw new MediaError(`${named} has more than ${MOST_BYTES / 2 ** 20} MiB`)
    const takesPictures = file.byteLength <= MOST_PICTURE_BYTES
    const onPages = (pages: number) => notes.push(firstOf(named, pages))
    return { type: 'medium', medium: await readMedium(file, { takesPictures, page, onPages }) }
  }

  async #file(named: string): Promise<HeldFile> {
    const path = await this.#allowed(named)
    await using opening = new AsyncDisposableStack()
    const file = opening.use(
      await HeldFile.open(path, named).catch((error: NodeJS.ErrnoException) => {
        // A link has come between.
        if (error.code === 'ELOOP') throw this.#outside(named)
        throw new MediaError(`${named} ${error.code === 'ENOENT' ? 'is not there' : `cannot be read: ${error.code}`}`)
      }),
    )
    // The path may lead elsewhere by now, and may have when it was checked. The descriptor does not.
    if (!this.#isBelow(file.path)) throw this.#outside(named)
    if (!file.isFile) throw new MediaError(`${named} is not a file`)
    opening.move()
    return file
  }

  /** @returns the path without links. */
  async #allowed(named: string): Promise<string> {
    const [first] = this.#roots
    if (first === undefined) {
      throw new MediaError(`no folder is allowed: ${this.#advice}, or give an http(s) address`)
    }
    const given = /^file:/i.test(named) ? pathOf(named) : named
    if (given.includes('\0')) throw new MediaError('a path may not hold a zero byte')
    const whole = isAbsolute(given) ? given : resolve(first, given)
    const real = await realpath(whole).catch(() => null)
    // What lies elsewhere is not told from what is not there.
    if (real === null && (await this.#isMissing(resolve(whole)))) throw new MediaError(`${named} is not there`)
    if (real === null || !this.#isBelow(real)) throw this.#outside(named)
    // Opening a device can have an effect.
    if (!(await stat(real).catch(() => null))?.isFile()) throw new MediaError(`${named} is not a file`)
    return real
  }

  #isBelow(path: string): boolean {
    return this.#roots.some((root) => path === root || path.startsWith(withSeparator(root)))
  }

  /** Whether what is missing would be below a folder. What a link leads to is not looked for. */
  async #isMissing(path: string): Promise<boolean> {
    const folder = dirname(path)
    const real = await realpath(folder).catch(() => null)
    if (real === null) return folder !== path && (await this.#isMissing(folder))
    return this.#isBelow(real) && (await lstat(path).catch(() => null)) === null
  }

  #outside(named: string): MediaError {
    return new MediaError(`${named} is not in an allowed folder: ${this.#roots.join(', ')}`)
  }
}

/** Whether the server fetches what is named, which needs no folder. */
export function isAddress(named: string): boolean {
  return /^https?:\/\//i.test(named)
}

function withSeparator(folder: string): string {
  return folder.endsWith(sep) ? folder : folder + sep
}

function pathOf(address: string): string {
  try {
    return fileURLToPath(address)
  } catch {
    throw new MediaError(`${address} is not the address of a file of this machine`)
  }
}
