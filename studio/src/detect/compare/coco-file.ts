import type { DetectedBox } from '../../../../src/exports/detected-picture.ts'

/** The boxes that a file of annotations has for a picture. */
export interface KnownPicture {
  readonly name: string
  /** Size of the picture, as the file says; null where it does not. */
  readonly size: { readonly width: number; readonly height: number } | null
  /** Null where several pictures of the file have the name, in different folders: nothing tells which of them is meant. */
  readonly boxes: readonly DetectedBox[] | null
}

/**
 * Reads a file in COCO's format of object detection. Annotations of crowds are left out: they are areas, not objects.
 * @returns pictures by their file names, without folders.
 * @throws Error with a sentence for the user when it is no such file.
 */
export function readCoco(text: string): Map<string, KnownPicture> {
  const file = parse(text)
  const [images, annotations, categories] = [file.images, file.annotations, file.categories] as unknown[]
  if (!Array.isArray(images) || !Array.isArray(annotations) || !Array.isArray(categories)) {
    throw new Error('This is not a COCO file: it needs the lists images, annotations and categories.')
  }
  const names = new Map<unknown, string>()
  for (const [index, { id, name }] of records(categories, 'categories')) {
    if (typeof name !== 'string') throw new Error(`categories[${index}] has no name.`)
    names.set(id, name)
  }
  const pictures = new Map<unknown, { name: string; size: KnownPicture['size']; boxes: DetectedBox[] }>()
  for (const [index, { id, file_name: name, width, height }] of records(images, 'images')) {
    if (typeof name !== 'string') throw new Error(`images[${index}] has no file_name.`)
    const size = typeof width === 'number' && typeof height === 'number' ? { width, height } : null
    pictures.set(id, { name: name.replace(/^.*[/\\]/, ''), size, boxes: [] })
  }
  for (const [index, { image_id, category_id, bbox, iscrowd }] of records(annotations, 'annotations')) {
    const [picture, label] = [pictures.get(image_id), names.get(category_id)]
    if (picture === undefined) throw new Error(`annotations[${index}] names an image that the file does not have.`)
    if (label === undefined) throw new Error(`annotations[${index}] names a category that the file does not have.`)
    if (!Array.isArray(bbox) || bbox.length !== 4 || !bbox.every((value) => Number.isFinite(value))) {
      throw new Error(`annotations[${index}] has no bbox of four numbers.`)
    }
    const [left, top, width, height] = bbox as [number, number, number, number]
    if (!iscrowd) picture.boxes.push({ label, left, top, right: left + width, bottom: top + height })
  }
  const byName = Map.groupBy(pictures.values(), ({ name }) => name)
  return new Map(
    [...byName].map(([name, [picture, another]]) => [name, another ? { ...picture!, boxes: null } : picture!]),
  )
}

function parse(text: string): Record<string, unknown> {
  let file: unknown
  try {
    file = JSON.parse(text)
  } catch {
    throw new Error('This is not a COCO file: it is not valid JSON.')
  }
  return typeof file === 'object' && file !== null ? (file as Record<string, unknown>) : {}
}

function* records(list: readonly unknown[], name: string): Generator<[number, Record<string, unknown>]> {
  for (const [index, item] of list.entries()) {
    if (typeof item !== 'object' || item === null) throw new Error(`${name}[${index}] is not an object.`)
    yield [index, item as Record<string, unknown>]
  }
}
