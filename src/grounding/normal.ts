import type { Annotation, Clip, GridPoint, Leaf } from './annotation.ts'
import type { Scene } from './dialect.ts'

/**
 * The annotation as the contract wants it: corners in order, times in order, and nothing said of assets or times where
 * the request has only one asset, or only still pictures.
 */
export function upright(annotation: Annotation, scene: Scene): Annotation {
  const { assetIdx, ...rest } = annotation
  const own = (
    assetIdx !== undefined && scene.assets > 1 && assetIdx < scene.assets ? { ...rest, assetIdx } : rest
  ) as Annotation
  switch (own.kind) {
    case 'clip':
      return inOrder(own)
    case 'track':
      return { ...own, waypoints: own.waypoints.map((waypoint) => uprightLeaf(waypoint, scene)) }
    case 'collection':
      return own
    default:
      return uprightLeaf(own, scene)
  }
}

function uprightLeaf({ t, assetIdx, ...leaf }: Leaf, { timed, assets }: Scene): Leaf {
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
