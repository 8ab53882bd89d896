import { toCoco } from '../../../../src/exports/coco.ts'
import { csvLine } from '../../../../src/exports/csv.ts'
import type { DetectedPicture, Origin } from '../../../../src/exports/detected-picture.ts'
import { labelMeName, toLabelMe } from '../../../../src/exports/label-me.ts'
import { toYolo } from '../../../../src/exports/yolo.ts'
import type { Attachment } from '../../media/attachment.ts'
import { toDetectedPicture } from '../labelling/spot.ts'
import { results } from '../results.ts'
import { marksOn } from '../stage.ts'
import { isRated, sureSpots } from '../sureness.ts'
import { drawPicture } from './draw-picture.ts'

export interface ExportFormat {
  readonly title: string
  /** Whether the format has boxes only. */
  readonly isBoxesOnly?: boolean
  toFile(pictures: readonly Attachment[]): Promise<File> | File
}

export const EXPORT_FORMATS: readonly ExportFormat[] = [
  {
    title: 'PNG',
    async toFile(pictures) {
      const names = namesBeside(pictures)
      const files = new Map<string, Blob>()
      for (const [index, picture] of pictures.entries()) {
        files.set(
          `${stem(names[index]!)}.png`,
          await drawPicture(
            picture,
            marksOn(picture).filter(({ role }) => role !== 'unsure'),
          ),
        )
      }
      return oneFile(files, 'pictures.zip')
    },
  },
  {
    title: 'COCO',
    isBoxesOnly: true,
    toFile: (pictures) => jsonFile(toCoco(detected(pictures), originOf(pictures)), 'coco.json'),
  },
  {
    title: 'YOLO',
    isBoxesOnly: true,
    toFile: (pictures) => {
      const named = detected(pictures, namesBeside(pictures)).map((picture) => ({
        ...picture,
        name: `images/${picture.name}`,
      }))
      return zipFile(toYolo(named, originOf(pictures)), 'yolo.zip')
    },
  },
  {
    title: 'LabelMe',
    toFile: (pictures) =>
      oneFile(
        new Map(
          detected(pictures, namesBeside(pictures)).map((picture) => [
            labelMeName(picture.name),
            toJson(toLabelMe(picture, picture.name)),
          ]),
        ),
        'labelme.zip',
      ),
  },
  { title: 'CSV', toFile: (pictures) => new File([toCsv(detected(pictures))], 'detections.csv', { type: 'text/csv' }) },
]

function detected(pictures: readonly Attachment[], names = uniqueNames(pictures)): DetectedPicture[] {
  return pictures.map((picture, index) =>
    toDetectedPicture(names[index]!, picture, sureSpots(results.value.get(picture.id))),
  )
}

function originOf(pictures: readonly Attachment[]): Origin {
  const found = pictures.flatMap(({ id }) => results.value.get(id) ?? [])
  const asked = [...new Set(found.flatMap((result) => result.asked))]
  const [model = null, ...others] = new Set(found.flatMap((result) => result.model ?? []))
  return { asked, model: others.length === 0 ? model : null, version: null, date: new Date() }
}

/** As `lookout detect --format csv` writes it. Among boxes, a point has its place twice. */
function toCsv(pictures: readonly DetectedPicture[]): string {
  const isPoints = pictures.every(({ boxes }) => boxes.length === 0) && pictures.some(({ points }) => points?.length)
  const places = isPoints ? ['x', 'y'] : ['left', 'top', 'right', 'bottom']
  const head = ['file', 'label', ...places, ...(isRated.value ? ['confidence'] : [])]
  const rated = (confidence: number | undefined) => (isRated.value ? [confidence?.toFixed(3) ?? ''] : [])
  const rows = pictures.flatMap(({ name, boxes, points = [] }) => [
    ...boxes.map(({ label, left, top, right, bottom, confidence }) => {
      return [name, label, left, top, right, bottom, ...rated(confidence)]
    }),
    ...points.map(({ label, x, y, confidence }) => {
      return [name, label, x, y, ...(isPoints ? [] : [x, y]), ...rated(confidence)]
    }),
    ...(boxes.length + points.length === 0 ? [head.map((_, column) => (column === 0 ? name : ''))] : []),
  ])
  return [head, ...rows].map((row) => csvLine(row.map(String))).join('')
}

/** The pictures' own names, as far as no two are the same: pasted pictures all have the same name. */
function uniqueNames(pictures: readonly { readonly name: string }[], partOf = (name: string) => name): string[] {
  const taken = new Set<string>()
  return pictures.map(({ name }) => {
    const plain = name.replaceAll(/[/\\]/g, '_')
    const ending = plain.slice(stem(plain).length)
    let unique = plain
    for (let count = 2; taken.has(partOf(unique)); count++) unique = `${stem(plain)}-${count}${ending}`
    taken.add(partOf(unique))
    return unique
  })
}

/** Names whose files can stand beside each other, also with other endings. A page of a document is a PNG. */
function namesBeside(pictures: readonly Attachment[]): string[] {
  return uniqueNames(
    pictures.map(({ name }) => ({ name: name.replace(/, page \d+$/, '$&.png') })),
    stem,
  )
}

function stem(name: string): string {
  return name.replace(/[.][^.]+$/, '')
}

function toJson(value: object): string {
  return `${JSON.stringify(value, null, 2)}\n`
}

function jsonFile(value: object, name: string): File {
  return new File([toJson(value)], name, { type: 'application/json' })
}

/** The only file as it is, or several as an archive. */
async function oneFile(files: ReadonlyMap<string, string | Blob>, archive: string): Promise<File> {
  const [[name, content]] = [...files] as [[string, string | Blob]]
  return files.size === 1 ? new File([content], name) : zipFile(files, archive)
}

async function zipFile(files: ReadonlyMap<string, string | Blob>, name: string): Promise<File> {
  const { zipSync } = await import('fflate')
  const bytes: Record<string, Uint8Array> = {}
  for (const [path, content] of files) bytes[path] = new Uint8Array(await new Blob([content]).arrayBuffer())
  // What is exported is short or compressed already.
  return new File([zipSync(bytes, { level: 0 })], name, { type: 'application/zip' })
}
