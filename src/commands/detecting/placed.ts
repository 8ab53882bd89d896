import { dirname, isAbsolute, relative, resolve, sep } from 'node:path'
import { STDIN_NAME } from '../asking/media.ts'

/** The common folder and relative paths of pictures. Relative paths have slashes on every system. */
export interface Placed {
  /** The deepest folder that contains all of them. */
  readonly base: string
  /** Paths relative to it, by the name that the user gave. */
  readonly paths: ReadonlyMap<string, string>
}

/** @param outer is used as the common folder if all of them are in it. */
export function placePictures(names: readonly string[], outer?: string): Placed {
  const files = names.filter((name) => name !== STDIN_NAME)
  const folders = files.map((name) => dirname(resolve(name)))
  let base = outer === undefined || folders.length === 0 ? undefined : resolve(outer)
  if (base === undefined || !folders.every((folder) => isWithin(base!, folder))) {
    base = folders[0] ?? resolve('.')
    for (const folder of folders) while (!isWithin(base, folder)) base = dirname(base)
  }
  const paths = names.map((name) => {
    return [name, name === STDIN_NAME ? name : toSlashes(relative(base, resolve(name)))] as const
  })
  return { base, paths: new Map(paths) }
}

export function toSlashes(path: string): string {
  return path.split(sep).join('/')
}

function isWithin(outer: string, folder: string): boolean {
  const path = relative(outer, folder)
  return !isAbsolute(path) && path.split(sep)[0] !== '..'
}
