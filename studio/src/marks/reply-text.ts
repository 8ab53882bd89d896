import type { Annotation, Leaf, Prose } from '../../../src/grounding/annotation.ts'
import { MarkupError, parseMarkup } from '../../../src/grounding/markup-parser.ts'
import type { Clip, Mark } from './mark.ts'

/** A piece of a reply: text, or an annotation with what it shows. */
export type ReplyPiece =
  | { readonly kind: 'prose'; readonly text: string }
  | {
      readonly kind: 'annotation'
      readonly label: string
      readonly marks: readonly Mark[]
      readonly clips: readonly Clip[]
    }

/** The grid that annotations use. */
const GRID = 1000

/**
 * Reads a reply, also one that is still arriving: the server sends annotations whole, and a piece of a tag at the end is
 * left out until the rest is there.
 * @param scope makes the ids of marks unique on the page.
 * @param media ids of all attachments of the request, in order; annotations name one by its index, or mean the last.
 */
export function readReply(text: string, scope: string, media: readonly string[]): ReplyPiece[] {
  let count = 0
  const marksOf = (leaf: Leaf, from: Inherited): Mark => ({
    id: `${scope}/${count++}`,
    media: mediaOf(leaf.assetIdx ?? from.assetIdx, media),
    label: leaf.mention ?? from.mention ?? '',
    kind: leaf.kind === 'point_box' ? 'box' : leaf.kind,
    points: leaf.points.map(({ x, y }) => ({ x: x / GRID, y: y / GRID })),
    ...((leaf.t ?? from.t) === undefined ? {} : { time: (leaf.t ?? from.t)! }),
  })
  const collect = (annotation: Annotation, from: Inherited, marks: Mark[], clips: Clip[]): void => {
    const own = { ...from, ...definedOf(annotation) }
    if (annotation.kind === 'track') for (const leaf of annotation.waypoints) marks.push(marksOf(leaf, own))
    else if (annotation.kind === 'collection') for (const one of annotation.members) collect(one, own, marks, clips)
    else if (annotation.kind === 'clip') {
      const { start, end } = annotation
      const place = { id: `${scope}/${count++}`, media: mediaOf(own.assetIdx, media), label: own.mention ?? '' }
      clips.push({ ...place, start, ...(end === undefined ? {} : { end }) })
    } else marks.push(marksOf(annotation, from))
  }
  return parseLeniently(text).map((piece): ReplyPiece => {
    if (piece.kind === 'prose') return { kind: 'prose', text: piece.text.replaceAll('&lt;', '<') }
    const marks: Mark[] = []
    const clips: Clip[] = []
    collect(piece, {}, marks, clips)
    return { kind: 'annotation', label: piece.mention ?? marks[0]?.label ?? clips[0]?.label ?? '', marks, clips }
  })
}

interface Inherited {
  readonly mention?: string
  readonly assetIdx?: number
  readonly t?: number
}

function definedOf({ mention, assetIdx, ...rest }: Annotation): Inherited {
  const t = 't' in rest ? rest.t : undefined
  return {
    ...(mention === undefined ? {} : { mention }),
    ...(assetIdx === undefined ? {} : { assetIdx }),
    ...(t === undefined ? {} : { t }),
  }
}

function mediaOf(index: number | undefined, media: readonly string[]): string {
  return media[index ?? media.length - 1] ?? ''
}

/** A reply that is not valid markup, as other servers may send, is prose from the first invalid place on. */
function parseLeniently(text: string): readonly (Prose | Annotation)[] {
  const tail = /<\/?[a-z_]*$/i.exec(text)
  const whole = tail ? text.slice(0, tail.index) : text
  try {
    return parseMarkup(whole)
  } catch (error) {
    if (!(error instanceof MarkupError)) throw error
    const prose = { kind: 'prose', text: whole.slice(error.offset) } as const
    return [...parseLeniently(whole.slice(0, error.offset)), prose]
  }
}
