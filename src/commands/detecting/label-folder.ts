import { lstat, realpath, rm, symlink } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'
import { ConfigError } from '../../config/config.ts'
import type { Origin } from '../../exports/detected-picture.ts'
import { labelMeName, toLabelMe } from '../../exports/label-me.ts'
import { toYolo, YOLO_FILES, yoloName } from '../../exports/yolo.ts'
import { makeFolder } from '../../lib/make-folder.ts'
import { writeWhole } from '../asking/targets.ts'
import { warn } from '../warn.ts'
import { placePictures, toSlashes } from './placed.ts'
import { type SearchedPicture, toDetected } from './results.ts'

const FOLDER_FORMATS = ['yolo', 'labelme'] as const
export type FolderFormat = (typeof FOLDER_FORMATS)[number]

export function isFolderFormat(format: string): format is FolderFormat {
  return (FOLDER_FORMATS as readonly string[]).includes(format)
}

/** The folder, or link to the pictures, where Ultralytics looks for the pictures whose labels are in `labels`. */
const IMAGES = 'images'

/**
 * Plans a folder with one file of labels for each picture, in the same subfolders as the pictures.
 * @param pictures all of them, including those that will turn out to be damaged, so that names do not depend on these.
 * @returns functions that write the labels.
 * @throws ConfigError if tools would not find the labels of a picture, or would find those of another.
 */
export function planLabels(format: FolderFormat, folder: string, pictures: readonly string[]) {
  const { base, paths } = placePictures(pictures, folder)
  // The pictures may be in the folder of the labels.
  const isAround = base === resolve(folder)
  const yoloPath = (name: string) => (isAround ? paths.get(name)! : `${IMAGES}/${paths.get(name)!}`)
  if (format === 'yolo') {
    checkFolders(folder, base, paths)
    for (const name of paths.keys()) checkListed(name, yoloPath(name))
  }
  checkNames(format, pictures, (name) => (format === 'yolo' ? yoloName(yoloPath(name)) : labelMeName(paths.get(name)!)))

  return async (results: readonly SearchedPicture[], origin: Origin): Promise<void> => {
    if (format === 'yolo') {
      if (!isAround) await link(folder, base)
      const pictures = results.map((result) => toDetected(result, yoloPath(result.name)))
      for (const [name, text] of toYolo(pictures, origin)) await writeWhole(join(folder, name), text)
      return
    }
    await makeFolder(folder, 0o777)
    const [realFolder, realBase] = [await realpath(folder), await realpath(base)]
    for (const result of results) {
      const path = paths.get(result.name)!
      const file = join(realFolder, labelMeName(path))
      const picture = toSlashes(relative(dirname(file), join(realBase, path)))
      await writeWhole(file, `${JSON.stringify(toLabelMe(toDetected(result, path), picture), null, 2)}\n`)
    }
  }
}

/** Characters at which Python's `splitlines` ends a line. */
const LINE_ENDS = '\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029'

/** Ultralytics replaces every `./`, not only the first, by the folder of its list, and splits lines like Python. */
function checkListed(name: string, path: string): void {
  const isOneLine = ![...path].some((character) => LINE_ENDS.includes(character))
  if (isOneLine && !/\.\/|\s$/.test(path)) return
  const reason = 'files whose path has a folder ending with a dot, a line break, or a space at the end'
  throw new ConfigError(`--format yolo: ${name}: Ultralytics cannot find ${reason}`)
}

function checkFolders(folder: string, base: string, paths: ReadonlyMap<string, string>): void {
  const isAround = base === resolve(folder)
  const hasImages = (path: string) => path.split('/').slice(0, -1).includes(IMAGES)
  const inside = [...paths].find(([, path]) => hasImages(path) !== isAround)
  if (inside === undefined) return
  const [name] = inside
  const reason = `tools look for the labels of ${name} where a folder 'labels' takes the place of '${IMAGES}'`
  if (!isAround) throw new ConfigError(`-o ${folder}: ${reason}: write into ${base} instead`)
  const outer = `${toSlashes(resolve(folder))}/`
  if (!outer.includes(`/${IMAGES}/`)) return
  const parent = outer.slice(0, outer.lastIndexOf(`/${IMAGES}/`))
  throw new ConfigError(`-o ${folder}: ${reason}: write into ${parent} instead`)
}

function checkNames(format: FolderFormat, pictures: Iterable<string>, fileOf: (name: string) => string): void {
  const taken = new Map<string, string>()
  for (const name of new Set(pictures)) {
    const file = fileOf(name)
    const other = taken.get(file)
    if (other !== undefined) {
      throw new ConfigError(`--format ${format}: ${other} and ${name} would both have their labels in ${file}`)
    }
    taken.set(file, name)
  }
  const own = format === 'yolo' ? YOLO_FILES.find((file) => taken.has(file)) : undefined
  if (own !== undefined) {
    throw new ConfigError(`--format yolo: the labels of ${taken.get(own)} would be in ${own}, which is another file`)
  }
}

/** Links the pictures into the data set, where tools look for them. */
async function link(folder: string, base: string): Promise<void> {
  const path = join(folder, IMAGES)
  try {
    await makeFolder(folder, 0o777)
    const real = await realpath(base)
    if ((await realpath(path).catch(() => null)) === real) return
    const entry = await lstat(path).catch(() => null)
    if (entry?.isSymbolicLink()) await rm(path)
    // On Windows a junction, which needs no privileges.
    await symlink(relative(await realpath(folder), real), path, 'junction')
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code
    warn(`${path} cannot be a link to ${base} (${reason}): put the pictures there before you open the labels`)
  }
}
