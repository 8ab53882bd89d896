import type { Annotation, Clip, Leaf, Track } from './annotation.ts'
import type { AnnotationFormat } from './hints.ts'

/** The media that annotations of a reply may refer to, by their index among all media of the request. */
export interface Assets {
  /** Number of all media of the request, audio included. */
  readonly count: number
  readonly images: readonly number[]
  readonly videos: readonly number[]
}

/** The media that annotations of this format may refer to, in order. */
export function assetsFor(format: AnnotationFormat, assets: Assets): readonly number[] {
  return format === 'clip' ? assets.videos : visual(assets)
}

/**
 * An annotation of a reply with its asset index, which is present only in requests with several media. An annotation
 * without a valid index gets the only possible one. Null if there are several, or none.
 */
export function withAsset(annotation: Annotation, assets: Assets): Annotation | null {
  if (assets.count <= 1) return annotation
  switch (annotation.kind) {
    case 'clip':
      return indexed(annotation, assets.videos)
    case 'track':
      return trackWithAsset(annotation, assets)
    case 'collection': {
      const { assetIdx, ...collection } = annotation
      const own = assetIdx === undefined ? {} : { assetIdx }
      const members = annotation.members.flatMap((member) => withAsset({ ...own, ...member }, assets) ?? [])
      return members.length === 0 ? null : { ...collection, members: members as (Leaf | Clip | Track)[] }
    }
    default:
      return leafWithAsset(annotation, assets)
  }
}

/** Only a video has times. */
function leafWithAsset(leaf: Leaf, assets: Assets): Leaf | null {
  const all = visual(assets)
  const isIndexed = leaf.assetIdx !== undefined && all.includes(leaf.assetIdx)
  const found = indexed(leaf, isIndexed || leaf.t === undefined ? all : assets.videos)
  if (found === null || assets.videos.includes(found.assetIdx!)) return found
  const { t: _, ...still } = found
  return still
}

function trackWithAsset(track: Track, { videos }: Assets): Track | null {
  const assetIdx = track.assetIdx ?? track.waypoints[0]?.assetIdx
  const waypoints = track.waypoints.map(({ assetIdx: _, ...waypoint }) => waypoint)
  return indexed({ ...track, waypoints, ...(assetIdx === undefined ? {} : { assetIdx }) }, videos)
}

function indexed<Of extends Leaf | Clip | Track>(annotation: Of, possible: readonly number[]): Of | null {
  const { assetIdx } = annotation
  if (assetIdx !== undefined && possible.includes(assetIdx)) return annotation
  return possible.length === 1 ? { ...annotation, assetIdx: possible[0]! } : null
}

function visual({ images, videos }: Assets): readonly number[] {
  return [...images, ...videos].sort((a, b) => a - b)
}
