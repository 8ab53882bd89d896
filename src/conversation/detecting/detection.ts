import type { Leaf } from '../../grounding/annotation.ts'
import type { DetectionKind } from '../../grounding/dialect.ts'
import { gridToPixels, type Point } from '../../media/coordinates.ts'
import type { Size } from '../../media/pixels.ts'
import type { Box } from '../request/detect-request.ts'

/** In pixels of the upright image. */
export type Detection = { readonly mention: string } & ({ readonly box: Box } | { readonly point: Point })

export function toDetection({ mention = '', kind, points }: Leaf, output: DetectionKind, size: Size): Detection {
  if (kind === 'point') return { mention, point: gridToPixels(points[0]!, size) }
  const [topLeft, bottomRight] = points as readonly [Point, Point]
  if (output === 'point') return { mention, point: gridToPixels(centre({ topLeft, bottomRight }), size) }
  return { mention, box: { topLeft: gridToPixels(topLeft, size), bottomRight: gridToPixels(bottomRight, size) } }
}

export function centre({ topLeft, bottomRight }: Box): Point {
  return { x: (topLeft.x + bottomRight.x) / 2, y: (topLeft.y + bottomRight.y) / 2 }
}
