import type { Detection, Detections } from '../../client/answers.ts'
import type { Mark } from '../../drawing/mark.ts'
import { toCoco } from '../../exports/coco.ts'
import type { DetectedPicture, Origin } from '../../exports/detected-picture.ts'
import { note } from '../asking/screen.ts'
import { placePictures } from './placed.ts'

/** The result of searching a picture. */
export interface SearchedPicture {
  /** The given name. */
  readonly name: string
  /** Width of the upright picture, in pixels. */
  readonly width: number
  readonly height: number
  readonly detections: readonly Detection[]
  readonly categories?: Detections['categories']
  readonly confidence?: Detections['confidence']
  readonly finish_reason: string
}

/** @param names of all pictures, including those without a result. File names are relative to their common folder. */
export function cocoText(results: readonly SearchedPicture[], names: readonly string[], origin: Origin): string {
  const { paths } = placePictures(names)
  const pictures = results.map((result) => toDetected(result, paths.get(result.name)!))
  return `${JSON.stringify(toCoco(pictures, origin))}\n`
}

/**
 * The names of the columns, and a row for each detection; for a picture without detections, its name and empty cells.
 * @param isRated whether there is a column for the confidence.
 */
export function detectionRows(
  results: readonly SearchedPicture[],
  { isPoints, isRated }: { readonly isPoints: boolean; readonly isRated: boolean },
): string[][] {
  const places = isPoints ? ['x', 'y'] : ['left', 'top', 'right', 'bottom']
  const head = ['file', 'label', ...places, ...(isRated ? ['confidence'] : [])]
  const rows = results.flatMap(({ name, detections }) => {
    if (detections.length === 0) return [head.map((_, column) => (column === 0 ? name : ''))]
    return detections.map((detection) => {
      const rated = isRated ? [detection.confidence!.toFixed(3)] : []
      return [name, detection.mention, ...numbersOf(detection).map(String), ...rated]
    })
  })
  return [head, ...rows]
}

/** Prints a note if the confidence is not calibrated. */
export function noteUncalibrated(results: readonly SearchedPicture[]): void {
  if (results.every(({ confidence }) => confidence?.calibrated !== false)) return
  note('confidence is not calibrated for this model: it says which objects are surer, not how often they are right')
}

/** The categories in a comma-separated list, each once. */
export function readCategories(text: string): string[] {
  return [...new Set(text.split(',').map((name) => name.trim()))].filter((name) => name !== '')
}

export function toMark({ mention, point, point_box: box }: Detection): Mark {
  return box
    ? { label: mention, kind: 'box', points: [box.top_left, box.bottom_right] }
    : { label: mention, kind: 'point', points: [point!] }
}

function numbersOf({ point, point_box: box }: Detection): number[] {
  return box ? [box.top_left.x, box.top_left.y, box.bottom_right.x, box.bottom_right.y] : [point!.x, point!.y]
}

/** @param name for the exported file. */
export function toDetected({ width, height, detections }: SearchedPicture, name: string): DetectedPicture {
  const boxes = detections.flatMap(({ mention, point_box: box, confidence }) => {
    if (!box) return []
    const { top_left: from, bottom_right: to } = box
    const rated = confidence === undefined ? {} : { confidence }
    return [{ label: mention, left: from.x, top: from.y, right: to.x, bottom: to.y, ...rated }]
  })
  const points = detections.flatMap(({ mention, point, point_box: box }) => {
    return point && !box ? [{ label: mention, ...point }] : []
  })
  return { name, width, height, boxes, points }
}
