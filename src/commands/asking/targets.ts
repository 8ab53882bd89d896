import { constants } from 'node:fs'
import { access, realpath, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, extname, join, resolve } from 'node:path'
import { ConfigError } from '../../config/config.ts'
import { PICTURE_FORMATS, type PictureFormat } from '../../drawing/picture-format.ts'
import { makeFolder } from '../../lib/make-folder.ts'
import { replaceFile } from '../../lib/replace-file.ts'

/** The target of `-o`. */
export type Target =
  | { readonly kind: 'folder'; readonly path: string }
  | { readonly kind: 'picture'; readonly path: string; readonly format: PictureFormat }
  | { readonly kind: 'data'; readonly path: string; readonly ending: 'json' | 'csv' }

/** @throws ConfigError before any work is done, if nothing could be written. */
export async function readTarget(given: string): Promise<Target> {
  if (given === '') throw new ConfigError('-o: expected a file or a folder')
  const entry = await stat(given).catch(() => null)
  const ending = extname(given).toLowerCase()
  const isFolder = entry?.isDirectory() || /[/\\]$/.test(given) || (ending === '' && entry === null)
  await checkWritable(given, isFolder ? given : dirname(resolve(given)))
  if (isFolder) return { kind: 'folder', path: given }
  if (Object.hasOwn(PICTURE_FORMATS, ending)) {
    return { kind: 'picture', path: given, format: PICTURE_FORMATS[ending as keyof typeof PICTURE_FORMATS] }
  }
  if (ending === '.json' || ending === '.csv') {
    return { kind: 'data', path: given, ending: ending === '.json' ? 'json' : 'csv' }
  }
  throw new ConfigError(`-o ${given}: expected a file that ends with .png, .jpg, .webp, .json or .csv, or a folder`)
}

/**
 * Missing folders will be created, so the nearest existing one must be writable.
 * @throws ConfigError
 */
export async function checkWritable(given: string, folder: string): Promise<void> {
  for (let place = resolve(folder); ; place = dirname(place)) {
    const entry = await stat(place).catch(() => null)
    if (entry === null) {
      if (dirname(place) === place) return
      continue
    }
    if (!entry.isDirectory()) throw new ConfigError(`-o ${given}: ${place} is not a folder`)
    await access(place, constants.W_OK).catch(() => {
      throw new ConfigError(`-o ${given}: the folder ${place} cannot be written to`)
    })
    return
  }
}

/**
 * @param what an original is, for the error.
 * @throws ConfigError if an original would be replaced, such as a picture by its drawing.
 */
export async function keepOriginals(
  targets: readonly string[],
  originals: readonly string[],
  what = 'a picture that is asked about',
): Promise<void> {
  const real = async (path: string) => realpath(path).catch(() => resolve(path))
  const kept = new Set(await Promise.all(originals.map(real)))
  for (const target of targets) {
    if (kept.has(await real(target))) throw new ConfigError(`-o: ${target} is ${what}`)
  }
}

/**
 * Writes a file completely or not at all. Missing folders are created.
 * @param data all of it, or its pieces one after the other.
 */
export async function writeWhole(path: string, data: string | Uint8Array | AsyncIterable<string>): Promise<void> {
  try {
    await makeFolder(dirname(path), 0o777)
    await replaceFile(path, (draft) => writeFile(draft, data))
  } catch (error) {
    throw new ConfigError(`${path} cannot be written: ${(error as NodeJS.ErrnoException).code ?? error}`)
  }
}

export interface Drawing {
  readonly path: string
  readonly format: PictureFormat
}

/**
 * Where the drawing of each picture goes.
 * @param areSeveral whether they need a folder.
 * @throws ConfigError if there is none.
 */
export function planDrawings(
  target: Exclude<Target, { kind: 'data' }>,
  pictures: readonly string[],
  areSeveral = pictures.length > 1,
): readonly Drawing[] {
  if (target.kind === 'folder') {
    return drawingNames(pictures).map((name) => ({ path: join(target.path, name), format: 'png' }))
  }
  if (areSeveral) throw new ConfigError(`-o ${target.path}: several pictures need a folder, such as -o out/`)
  return [target]
}

/**
 * Names of drawings: that of each picture with the extension `.png`, which is appended if two names would be the same.
 */
function drawingNames(pictures: readonly string[]): string[] {
  const stems = pictures.map((path) => basename(path).replace(/\.[^.]+$/, ''))
  const names = pictures.map((path, i) =>
    stems.filter((stem) => stem === stems[i]).length > 1 ? `${basename(path)}.png` : `${stems[i]}.png`,
  )
  const seen = new Map<string, number>()
  return names.map((name) => {
    const times = (seen.get(name) ?? 0) + 1
    seen.set(name, times)
    return times === 1 ? name : name.replace(/\.png$/, `-${times}.png`)
  })
}
