import { lstat, mkdir, realpath, rm, symlink } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'
import { ConfigError } from '../../config/config.ts'
import type { Origin } from '../../exports/detected-picture.ts'
import { labelMeName, toLabelMe } from '../../exports/label-me.ts'
import { toYolo, YOLO_FILES, yoloName } from '../../exports/yolo.ts'
import { writeWhole } from '../asking/targets.ts'
import { warn } from '../warn.ts'
import { placePictures, toSlashes } from './placed.ts'
import { type SearchedPicture, toDetected } from './results.ts'

const FOLDER_FORMATS = ['yolo', 'labelme'] as const
export type FolderFormat = (typeof FOLDER_FORMATS)[number]

export function isFolderFormat(format: string): format is FolderFormat {
  return (FOLDER_FORMATS as readonly string[]).includes(format)
}

/** The folder, or link to the pictures, in which Ultralytics looks for pictures of which the labels are in `labels`. */
const IMAGES = 'images'

/** A folder with one file of labels for each picture, in folders as the pictures are. */
export class LabelFolder {
  readonly #format: FolderFormat
  readonly #folder: string
  /** The folder that the pictures have in common. */
  readonly #base: string
  /** From `base`, by the name that the user gave. */
  readonly #paths: ReadonlyMap<string, string>
  /** Whether the pictures are in the folder of the labels. */
  readonly #isAround: boolean

  /**
   * @param pictures all of them, also those that will turn out to be damaged, so that names do not depend on these.
   * @throws ConfigError where tools would not find the labels of a picture, or would find those of another.
   */
  constructor(format: FolderFormat, folder: string, pictures: readonly string[]) {
    const { base, paths } = placePictures(pictures, folder)
    this.#format = format
    this.#folder = folder
    this.#base = base
    this.#isAround = base === resolve(folder)
    this.#paths = paths
    if (format === 'yolo') this.#checkFolders()
    this.#checkNames()
  }

  async write(results: readonly SearchedPicture[], origin: Origin): Promise<void> {
    if (this.#format === 'yolo') {
      if (!this.#isAround) await this.#link()
      const pictures = results.map((result) => toDetected(result, this.#yoloPath(result.name)))
      for (const [name, text] of toYolo(pictures, origin)) await writeWhole(join(this.#folder, name), text)
      return
    }
    await mkdir(this.#folder, { recursive: true })
    const folder = await realpath(this.#folder)
    const base = await realpath(this.#base)
    for (const result of results) {
      const path = this.#paths.get(result.name)!
      const file = join(folder, labelMeName(path))
      const picture = toSlashes(relative(dirname(file), join(base, path)))
      await writeWhole(file, `${JSON.stringify(toLabelMe(toDetected(result, path), picture), null, 2)}\n`)
    }
  }

  #yoloPath(name: string): string {
    const path = this.#paths.get(name)!
    return this.#isAround ? path : `${IMAGES}/${path}`
  }

  #checkFolders(): void {
    const hasImages = (path: string) => path.split('/').slice(0, -1).includes(IMAGES)
    const inside = [...this.#paths].find(([, path]) => hasImages(path) !== this.#isAround)
    if (inside === undefined) return
    const [name] = inside
    const reason = `tools look for the labels of ${name} where a folder 'labels' takes the place of '${IMAGES}'`
    if (!this.#isAround) throw new ConfigError(`-o ${this.#folder}: ${reason}: write into ${this.#base} instead`)
    const outer = `${toSlashes(resolve(this.#folder))}/`
    if (!outer.includes(`/${IMAGES}/`)) return
    const parent = outer.slice(0, outer.lastIndexOf(`/${IMAGES}/`))
    throw new ConfigError(`-o ${this.#folder}: ${reason}: write into ${parent} instead`)
  }

  #checkNames(): void {
    const nameOf = (name: string) =>
      this.#format === 'yolo' ? yoloName(this.#yoloPath(name)) : labelMeName(this.#paths.get(name)!)
    const taken = new Map<string, string>()
    for (const name of this.#paths.keys()) {
      const file = nameOf(name)
      const other = taken.get(file)
      if (other !== undefined) {
        throw new ConfigError(`--format ${this.#format}: ${other} and ${name} would both have their labels in ${file}`)
      }
      taken.set(file, name)
    }
    const own = this.#format === 'yolo' ? YOLO_FILES.find((file) => taken.has(file)) : undefined
    if (own !== undefined) {
      throw new ConfigError(`--format yolo: the labels of ${taken.get(own)} would be in ${own}, which is another file`)
    }
  }

  /** Makes the pictures appear in the data set, where tools look for them. */
  async #link(): Promise<void> {
    const link = join(this.#folder, IMAGES)
    try {
      await mkdir(this.#folder, { recursive: true })
      const base = await realpath(this.#base)
      if ((await realpath(link).catch(() => null)) === base) return
      const entry = await lstat(link).catch(() => null)
      if (entry?.isSymbolicLink()) await rm(link)
      // On Windows a junction, which needs no privileges.
      await symlink(relative(await realpath(this.#folder), base), link, 'junction')
    } catch (error) {
      const reason = (error as NodeJS.ErrnoException).code
      warn(`${link} cannot be a link to ${this.#base} (${reason}): put the pictures there before you open the labels`)
    }
  }
}
