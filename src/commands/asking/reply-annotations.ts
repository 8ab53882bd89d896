import type { Mark } from '../../drawing/mark.ts'
import type { Annotation, Clip, Leaf } from '../../grounding/annotation.ts'
import { MarkupError, parseMarkup } from '../../grounding/markup-parser.ts'
import { gridToPixels } from '../../media/coordinates.ts'
import { pagesIn } from '../../media/page-selection.ts'
import { isPicture, type Medium } from './media.ts'

/** One annotation of a reply, as `--json` prints it. */
export interface ReplyAnnotation {
  readonly kind: 'point' | 'box' | 'polygon' | 'clip'
  readonly mention: string
  readonly file: string | null
  /** Page of a PDF, from 1. */
  readonly page?: number
  /** [x, y] in pixels of the upright picture. */
  readonly points?: readonly (readonly [number, number])[]
  /** [x, y] on the 0..1000 grid, for a frame of a video. */
  readonly grid_points?: readonly (readonly [number, number])[]
  /** Seconds from the start of the video. */
  readonly time?: number
  readonly start?: number
  readonly end?: number
}

const KINDS = { point: 'point', point_box: 'box', polygon: 'polygon' } as const

/** A reply's text without its annotations, and the annotations. Those of another server may not parse. */
export function readReply(reply: string): { readonly prose: string; readonly leaves: readonly (Leaf | Clip)[] } {
  try {
    const items = parseMarkup(reply)
    return {
      prose: items.map((item) => (item.kind === 'prose' ? item.text : '')).join(''),
      leaves: items.flatMap((item) => (item.kind === 'prose' ? [] : flatten(item, {}))),
    }
  } catch (error) {
    if (error instanceof MarkupError) return { prose: reply, leaves: [] }
    throw error
  }
}

/** The annotations in a reply, each with its medium. */
export function annotationsIn(reply: string, media: readonly Medium[]): ReplyAnnotation[] {
  return readReply(reply).leaves.map((item) => describe(item, media))
}

export function marksOn(medium: Medium, annotations: readonly ReplyAnnotation[]): Mark[] {
  return annotations.flatMap(({ kind, mention, file, points }) =>
    kind === 'clip' || points === undefined || file !== medium.name
      ? []
      : [{ kind, label: mention, points: points.map(([x, y]) => ({ x, y })) }],
  )
}

type Inherited = { readonly mention?: string; readonly assetIdx?: number; readonly t?: number }

/** Members inherit what the annotation around them says. */
function flatten(annotation: Annotation, above: Inherited): (Leaf | Clip)[] {
  const own = { ...above, ...withoutUndefined(annotation) }
  switch (annotation.kind) {
    case 'collection':
      return annotation.members.flatMap((member) => flatten(member, inherited(own)))
    case 'track':
      return annotation.waypoints.flatMap((leaf) => flatten(leaf, inherited(own)))
    default:
      return [own as Leaf | Clip]
  }
}

function inherited({ mention, assetIdx, t }: Inherited): Inherited {
  return withoutUndefined({ mention, assetIdx, t })
}

function withoutUndefined<Of extends object>(fields: Of): Of {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== '')) as Of
}

/** More than any request may have. */
const MOST_PAGES = 100_000

/** Only the server knows how many pages a document has, so media after one cannot be distinguished from its pages. */
function assetOf(
  asset: number | undefined,
  media: readonly Medium[],
): { readonly medium: Medium | undefined; readonly page: number | null } {
  const first = media.findIndex(({ kind }) => kind === 'document')
  if (first === -1) return { medium: asset === undefined ? media.at(-1) : media[asset], page: null }
  // Without a number, there was only one image.
  const place = asset ?? (media.length === 1 ? 0 : media.length)
  if (place < first) return { medium: media[place], page: null }
  const document = media[first]!
  if (first < media.length - 1) return { medium: undefined, page: null }
  let left = place - first
  for (const page of pagesIn(document.pages ?? null, MOST_PAGES)) if (left-- === 0) return { medium: document, page }
  return { medium: document, page: null }
}

function describe(item: Leaf | Clip, media: readonly Medium[]): ReplyAnnotation {
  const { medium, page } = assetOf(item.assetIdx, media)
  const common = { mention: item.mention ?? '', file: medium?.name ?? null, ...(page === null ? {} : { page }) }
  if (item.kind === 'clip') {
    return { kind: 'clip', ...common, start: item.start, ...(item.end === undefined ? {} : { end: item.end }) }
  }
  const time = item.t === undefined ? {} : { time: item.t }
  if (medium && isPicture(medium)) {
    const points = item.points.map((point) => gridToPixels(point, medium.size)).map(({ x, y }) => [x, y] as const)
    return { kind: KINDS[item.kind], ...common, points, ...time }
  }
  return { kind: KINDS[item.kind], ...common, grid_points: item.points.map(({ x, y }) => [x, y] as const), ...time }
}
