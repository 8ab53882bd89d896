import type { Annotation, Clip, GridPoint, Leaf } from './annotation.ts'
import type { Scene } from './dialect.ts'

/**
 * Brings an annotation into the contract's form: corners and times in order, no `assetIdx` when the request has only
 * one asset, and no `t` when it has no video.
 */
export function normalised(annotation: Annotation, scene: Scene): Annotation {
  const { assetIdx, ...rest } = annotation
  const own = (
    assetIdx !== undefined && scene.assets > 1 && assetIdx < scene.assets ? { ...rest, assetIdx } : rest
  ) as Annotation
  switch (own.kind) {
    case 'clip':
      return inOrder(own)
    case 'track':
      return { ...own, waypoints: own.waypoints.map((waypoint) => normalisedLeaf(waypoint, scene)) }
    case 'collection':
      return own
    default:
      return normalisedLeaf(own, scene)
  }
}

function normalisedLeaf({ t, assetIdx, ...leaf }: Leaf, { timed, assets }: Scene): Leaf {
  return {
    ...leaf,
    ...(timed && t !== undefined ? { t } : {}),
    ...(assetIdx !== undefined && assets > 1 && assetIdx < assets ? { assetIdx } : {}),
    points: leaf.kind === 'point_box' ? corners(leaf.points) : leaf.points,
  }
}

function corners(points: readonly GridPoint[]): readonly GridPoint[] {
  const xs = points.map(({ x }) => x)
  const ys = points.map(({ y }) => y)
  return [
    { x: Math.min(...xs), y: Math.min(...ys) },
    { x: Math.max(...xs), y: Math.max(...ys) },
  ]
}

function inOrder(clip: Clip): Clip {
  const { start, end } = clip
  return end !== undefined && end < start ? { ...clip, start: end, end: start } : clip
}
