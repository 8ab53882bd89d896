import { basename } from 'node:path'
import type { Detection } from '../../client/index.ts'
import { type DetectedPicture, toCoco } from '../../exports/index.ts'

/** What is kept of a picture that was searched. */
export interface SearchedPicture {
  /** As it was named. */
  readonly name: string
  /** Of the upright picture, in pixels. */
  readonly width: number
  readonly height: number
  readonly detections: readonly Detection[]
  readonly finish_reason: string
}

/** Pictures are named by their files alone where these differ. */
export function cocoText(results: readonly SearchedPicture[], categories: readonly string[]): string {
  const names = results.map(({ name }) => basename(name))
  const isClear = new Set(names).size === names.length
  const pictures = results.map((result, index) => ({
    ...toDetected(result),
    ...(isClear ? { name: names[index]! } : {}),
  }))
  return `${JSON.stringify(toCoco(pictures, categories))}\n`
}

/** The names of the columns, and a row for each detection. */
export function detectionRows(results: readonly SearchedPicture[], isPoints: boolean): string[][] {
  const rows = results.flatMap(({ name, detections }) => {
    return detections.map((detection) => [name, detection.mention, ...numbersOf(detection).map(String)])
  })
  return [['file', 'label', ...(isPoints ? ['x', 'y'] : ['left', 'top', 'right', 'bottom'])], ...rows]
}

function numbersOf({ point, point_box: box }: Detection): number[] {
  return box ? [box.top_left.x, box.top_left.y, box.bottom_right.x, box.bottom_right.y] : [point!.x, point!.y]
}

export function toDetected({ name, width, height, detections }: SearchedPicture): DetectedPicture {
  const boxes = detections.flatMap(({ mention, point_box: box }) => {
    if (!box) return []
    const { top_left: from, bottom_right: to } = box
    return [{ label: mention, left: from.x, top: from.y, right: to.x, bottom: to.y }]
  })
  const points = detections.flatMap(({ mention, point, point_box: box }) => {
    return point && !box ? [{ label: mention, ...point }] : []
  })
  return { name, width, height, boxes, points }
}
