import type { Annotation, Clip, GridPoint, Leaf } from './annotation.ts'
import type { Scene, TimeSpan } from './dialect.ts'

/**
 * Brings an annotation into the contract's form: corners and times in order and times within the video, no `assetIdx`
 * when the request has only one asset, and no `t` when it has no video.
 */
export function normalised(annotation: Annotation, scene: Scene): Annotation {
  const { assetIdx, ...rest } = annotation
  const own = (
    assetIdx !== undefined && scene.assets > 1 && assetIdx < scene.assets ? { ...rest, assetIdx } : rest
  ) as Annotation
  switch (own.kind) {
    case 'clip':
      return inOrder(own, spanOf(scene, assetIdx))
    case 'track':
      return { ...own, waypoints: own.waypoints.map((waypoint) => normalisedLeaf(waypoint, scene, assetIdx)) }
    case 'collection':
      return own
    default:
      return normalisedLeaf(own, scene)
  }
}

/** @param inherited the asset of a leaf without one. */
function normalisedLeaf({ t, assetIdx, ...leaf }: Leaf, scene: Scene, inherited?: number): Leaf {
  const { timed, assets } = scene
  const span = spanOf(scene, assetIdx ?? inherited)
  return {
    ...leaf,
    ...(timed && t !== undefined ? { t: span === null ? t : held(t, span, LEAF_STEPS) } : {}),
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

function inOrder(clip: Clip, span: TimeSpan | null): Clip {
  const [start, end] = [clip.start, clip.end ?? clip.start]
    .sort((a, b) => a - b)
    .map((time) => (span === null ? time : held(time, span, CLIP_STEPS)))
  return { ...clip, start: start!, ...(clip.end === undefined ? {} : { end: end! }) }
}

/** Fractions of a second to which times are rounded. */
const LEAF_STEPS = 10
const CLIP_STEPS = 1e6

/** The time span for annotations of an asset; that of all videos if the asset is unknown. */
function spanOf({ spans = [] }: Scene, asset: number | undefined): TimeSpan | null {
  const own = asset === undefined ? null : spans[asset]
  if (own) return own
  const known = spans.filter((span) => span !== null)
  if (known.length === 0) return null
  return { from: Math.min(...known.map(({ from }) => from)), to: Math.max(...known.map(({ to }) => to)) }
}

/** The closest time within the span, also after rounding. */
function held(time: number, { from, to }: TimeSpan, steps: number): number {
  const least = Math.ceil(from * steps - ROUNDING) / steps
  const most = Math.floor(to * steps + ROUNDING) / steps
  return time < least ? Math.min(least, most) : Math.min(time, most)
}

/** Tolerance, in steps: 2.3 seconds are 23 tenths, although their product in binary is slightly different. */
const ROUNDING = 1e-3
