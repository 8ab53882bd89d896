import type { Annotation, Clip, GridPoint, Leaf, Track } from '../../../grounding/annotation.ts'
import type { PlacedAnnotation } from '../../../grounding/annotation-scanner.ts'
import { GRID } from '../../../media/coordinates.ts'
import { edgesOf } from '../openai/decisions.ts'
import type { AnnotationBody } from './wire/annotations.ts'

type Part = Leaf | Clip
type Common = Pick<AnnotationBody, 'start_index' | 'end_index' | 'mention' | 'asset_index'>

/**
 * Returns one annotation per place or time that an annotation names. All parts of a collection or track have its position
 * in the text.
 * @param text the text at least up to the annotation's end.
 */
export function toAnnotations({ annotation, start, end }: PlacedAnnotation, text: string): AnnotationBody[] {
  const start_index = charactersIn(text.slice(0, start))
  const end_index = start_index + charactersIn(text.slice(start, end))
  return partsOf(annotation).flatMap((part) => {
    const { mention = null, assetIdx: asset_index = null } = part
    return toAnnotation(part, { start_index, end_index, mention, asset_index })
  })
}

/** Parts inherit missing fields. */
function partsOf(annotation: Annotation): Part[] {
  if (annotation.kind === 'track') return inherited(annotation, annotation.waypoints)
  if (annotation.kind !== 'collection') return [annotation]
  return inherited(annotation, annotation.members.flatMap(partsOf))
}

function inherited({ mention, assetIdx }: Pick<Track, 'mention' | 'assetIdx'>, parts: readonly Part[]): Part[] {
  const shared = { ...(mention === undefined ? {} : { mention }), ...(assetIdx === undefined ? {} : { assetIdx }) }
  return parts.map((part) => ({ ...shared, ...part }))
}

function toAnnotation(part: Part, common: Common): AnnotationBody[] {
  if (part.kind === 'clip') {
    return [{ type: 'x_clip', ...common, start_seconds: part.start, end_seconds: part.end ?? part.start }]
  }
  const timed = { ...common, seconds: part.t ?? null }
  if (part.kind === 'point_box') {
    const box = edgesOf(part.points)
    return box === null ? [] : [{ type: 'x_box', ...timed, box }]
  }
  const points = part.points.map(toPoint)
  return part.kind === 'point'
    ? [{ type: 'x_point', ...timed, point: points[0]! }]
    : [{ type: 'x_polygon', ...timed, points }]
}

function toPoint({ x, y }: GridPoint) {
  return { x: x / GRID, y: y / GRID }
}

function charactersIn(text: string): number {
  let count = 0
  for (const _ of text) count++
  return count
}
