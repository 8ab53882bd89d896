import { existsSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { dirname, isAbsolute, join, relative, resolve } from 'node:path'
import { parse } from 'yaml'
import { z } from 'zod'
import { ConfigError } from '../../config/config.ts'
import { pictureOrientation } from '../../drawing/draw.ts'
import type { Size } from '../../drawing/label-places.ts'
import type { DetectedBox } from '../../exports/detected-picture.ts'
import { yoloName } from '../../exports/yolo.ts'
import { openPicture, picturesIn } from '../asking/media.ts'
import { readText } from '../options.ts'
import type { ExampleLine } from './examples.ts'

/** A picture with all boxes of some categories. */
export interface BoxExample {
  /** Its position for errors, as `examples.jsonl:12`. */
  readonly place: string
  /** Path of the picture. */
  readonly file: string
  readonly categories: readonly string[]
  /** In pixels of the upright picture. */
  readonly known: readonly DetectedBox[]
}

/** If a data set has more categories, those on a picture are asked for, and others in turn. */
const MOST_CATEGORIES = 16

const lineSchema = z
  .strictObject({
    file: z.string().min(1),
    categories: z.array(z.string().min(1)).min(1),
    boxes: z.array(
      z.strictObject({ mention: z.string().min(1), box: z.tuple([z.number(), z.number(), z.number(), z.number()]) }),
    ),
  })
  .superRefine(({ categories, boxes }, context) => {
    for (const [i, { mention, box }] of boxes.entries()) {
      const [left, top, right, bottom] = box
      const fail = (message: string, ...path: (string | number)[]) =>
        context.addIssue({ code: 'custom', path: ['boxes', i, ...path], message })
      if (!categories.includes(mention)) fail(`'${mention}' is not one of the categories`, 'mention')
      if (right <= left || bottom <= top) fail('expected [left, top, right, bottom]', 'box')
    }
  })

/** Whether a line of a list is a picture with boxes rather than a question. */
export function hasBoxes({ fields }: ExampleLine): boolean {
  return 'boxes' in fields
}

/** @throws ConfigError naming the line. */
export function toBoxExample({ place, folder, fields }: ExampleLine): BoxExample {
  const { file, categories, boxes } = parsed(lineSchema, fields, place)
  const known = boxes.map(({ mention, box: [left, top, right, bottom] }) => ({
    label: mention,
    left,
    top,
    right,
    bottom,
  }))
  return { place, file: resolve(folder, file), categories: [...new Set(categories)], known }
}

const cocoSchema = z.looseObject({
  images: z
    .array(
      z.looseObject({
        id: z.union([z.number(), z.string()]),
        file_name: z.string().min(1),
        width: z.number().positive().nullish().catch(null),
        height: z.number().positive().nullish().catch(null),
      }),
    )
    .min(1),
  annotations: z.array(
    z.looseObject({
      image_id: z.union([z.number(), z.string()]),
      category_id: z.number(),
      bbox: z.tuple([z.number(), z.number(), z.number(), z.number()]),
      iscrowd: z.union([z.number(), z.boolean()]).default(0),
    }),
  ),
  categories: z.array(z.looseObject({ id: z.number(), name: z.string().min(1) })).min(1),
})

/**
 * Reads object-detection annotations in COCO's format. A category with a crowd in a picture is not asked for in that
 * picture.
 * @param folder of the pictures; null for the folder of the file.
 * @throws ConfigError
 */
export async function readCoco(path: string, folder: string | null): Promise<readonly BoxExample[]> {
  const { images, annotations, categories } = parsed(cocoSchema, toJson(await readText(path), path), path)
  const names = new Map(categories.map(({ id, name }) => [id, name]))
  const byImage = Map.groupBy(annotations, ({ image_id }) => image_id)
  const turn = inTurn([...new Set(names.values())])
  const examples: BoxExample[] = []
  for (const { id, file_name, width, height } of images) {
    const own = byImage.get(id) ?? []
    const nameOf = (category: number) => {
      const name = names.get(category)
      if (name !== undefined) return name
      throw new ConfigError(`${path}: there is no category ${category}, which image ${id} has`)
    }
    const crowds = new Set(own.flatMap(({ iscrowd, category_id }) => (iscrowd ? [nameOf(category_id)] : [])))
    const known = own.flatMap(({ category_id, bbox: [left, top, width, height] }) => {
      const label = nameOf(category_id)
      return crowds.has(label) ? [] : [{ label, left, top, right: left + width, bottom: top + height }]
    })
    const file = resolve(folder ?? dirname(path), file_name)
    const example = { place: `${path}: image ${id}`, file, known, categories: turn(known, crowds) }
    examples.push(width && height ? await onUpright(example, { width, height }) : example)
  }
  return examples
}

/**
 * Converts an example whose boxes refer to a picture of another size: a scaled copy, or the picture before its EXIF
 * orientation is applied.
 * @throws ConfigError for any other picture.
 */
async function onUpright(example: BoxExample, from: Size): Promise<BoxExample> {
  const { place, file } = example
  const picture = await openPicture(file).catch((error: Error) => {
    throw new ConfigError(`${place}: ${error.message}`)
  })
  const { width, height } = picture.size
  if (from.width === width && from.height === height) return example
  const isSameShape = hasShape(from, picture.size)
  const orientation = isSameShape ? 1 : await pictureOrientation(await picture.bytes())
  if (!isSameShape && !(orientation >= 5 && hasShape(from, { width: height, height: width }))) {
    const [stated, found] = [from, picture.size].map((size) => `${size.width} x ${size.height}`)
    throw new ConfigError(`${place}: its boxes are for a picture of ${stated} pixels, but ${file} has ${found}`)
  }
  const known = example.known.map(({ label, left, top, right, bottom }) => {
    const [one, other] = [
      { x: left, y: top },
      { x: right, y: bottom },
    ].map((point) => upright(point.x / from.width, point.y / from.height, orientation)) as [Point, Point]
    const [xs, ys] = [[one.x, other.x].map((x) => x * width), [one.y, other.y].map((y) => y * height)]
    return { label, left: Math.min(...xs), top: Math.min(...ys), right: Math.max(...xs), bottom: Math.max(...ys) }
  })
  return { ...example, known }
}

interface Point {
  readonly x: number
  readonly y: number
}

/**
 * Converts a point of a stored picture to the upright one, as shares of the sides, for orientations that swap the
 * sides.
 */
function upright(x: number, y: number, orientation: number): Point {
  if (orientation < 5) return { x, y }
  return { x: orientation === 6 || orientation === 7 ? 1 - y : y, y: orientation >= 7 ? 1 - x : x }
}

/** Whether two sizes have the same aspect ratio, up to the rounding of the smaller one's shorter side. */
function hasShape(one: Size, other: Size): boolean {
  const longest = Math.max(one.width, one.height, other.width, other.height)
  return Math.abs(one.width * other.height - one.height * other.width) <= longest
}

const YOLO_FILE = 'data.yaml'
const yoloSchema = z.looseObject({
  path: z.string().optional(),
  val: z.union([z.string(), z.array(z.string()).min(1)]).nullish(),
  train: z.union([z.string(), z.array(z.string()).min(1)]).nullish(),
  names: z.union([z.array(z.coerce.string()), z.record(z.string(), z.coerce.string())]),
})

export async function isYolo(folder: string): Promise<boolean> {
  return (await stat(join(folder, YOLO_FILE)).catch(() => null)) !== null
}

/**
 * Reads a data set in YOLO's format: the pictures that `val` of data.yaml names, or `train`, as folders or lists.
 * @throws ConfigError
 */
export async function readYolo(folder: string): Promise<readonly BoxExample[]> {
  const description = join(folder, YOLO_FILE)
  const text = await readText(description)
  const {
    path = '.',
    val,
    train,
    names,
  } = parsed(
    yoloSchema,
    safely(() => parse(text)),
    description,
  )
  const pictures = val ?? train
  if (pictures == null) throw new ConfigError(`${description}: expected 'val' or 'train'`)
  const root = resolve(folder, path)
  const files = (await Promise.all([pictures].flat().map((listed) => yoloPictures(root, listed)))).flat()
  if (files.length === 0) throw new ConfigError(`${description}: its list names no picture`)
  const classes = new Map(Object.entries(names).map(([index, name]) => [Number(index), name]))
  const turn = inTurn([...new Set(classes.values())])
  const examples: BoxExample[] = []
  const unlabelled: string[] = []
  for (const file of files) {
    // Names are relative to the data set: a folder 'images' above it means nothing.
    const name = relative(root, file)
    const labels = name.startsWith('..') || isAbsolute(name) ? yoloName(file) : join(root, yoloName(name))
    const isLabelled = existsSync(labels)
    if (!isLabelled) unlabelled.push(labels)
    const lines = isLabelled ? (await readText(labels)).split('\n') : []
    const { width, height } = (await openPicture(file)).size
    const known = lines.flatMap((line, index) => {
      if (line.trim() === '') return []
      const [category, x, y, w, h, ...others] = line.trim().split(/\s+/).map(Number)
      const label = classes.get(category!)
      const isBox = [x, y, w, h].every((part) => part! >= 0 && part! <= 1) && others.length === 0
      if (label === undefined || !isBox) {
        throw new ConfigError(
          `${labels}:${index + 1}: expected 'class x y width height' as parts of the picture's sides`,
        )
      }
      const edge = (centre: number, side: number, sign: number) => centre + (sign * side) / 2
      return [
        {
          label,
          left: edge(x!, w!, -1) * width,
          top: edge(y!, h!, -1) * height,
          right: edge(x!, w!, 1) * width,
          bottom: edge(y!, h!, 1) * height,
        },
      ]
    })
    examples.push({ place: labels, file, known, categories: turn(known) })
  }
  if (unlabelled.length === files.length) {
    throw new ConfigError(`${description}: none of its pictures has labels; there is no file ${unlabelled[0]}`)
  }
  return examples
}

/**
 * The pictures of a folder or a list. Roboflow begins paths with a `../` that leads nowhere; Ultralytics removes it.
 */
async function yoloPictures(root: string, named: string): Promise<string[]> {
  const direct = resolve(root, named)
  const path = named.startsWith('../') && !existsSync(direct) ? resolve(root, named.slice(3)) : direct
  if (!path.endsWith('.txt')) return picturesIn(path)
  const lines = (await readText(path)).split('\n')
  return lines.flatMap((line) => (line.trim() ? [resolve(dirname(path), line.trim())] : []))
}

/**
 * All categories if they are few; otherwise those of a picture, and others in turn, so that each is asked equally
 * often.
 */
function inTurn(names: readonly string[]) {
  let next = 0
  return (known: readonly DetectedBox[], without: ReadonlySet<string> = new Set()): readonly string[] => {
    const chosen = new Set(known.map(({ label }) => label))
    for (let tried = 0; tried < names.length && chosen.size < MOST_CATEGORIES; tried++) {
      const name = names[next++ % names.length]!
      if (!without.has(name)) chosen.add(name)
    }
    return [...chosen]
  }
}

function parsed<Output>(schema: z.ZodType<Output>, value: unknown, place: string): Output {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const { path, message } = result.error.issues[0]!
  const where = path.length === 0 ? '' : `'${z.core.toDotPath(path)}': `
  throw new ConfigError(`${place}: ${where}${message.replace(/^Invalid input: /, '')}`)
}

function toJson(text: string, path: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new ConfigError(`${path} is not JSON: ${(error as Error).message.replace(/\s+/g, ' ')}`)
  }
}

function safely(read: () => unknown): unknown {
  try {
    return read()
  } catch {
    return null
  }
}
