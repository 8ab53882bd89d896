import { type Assets, withAsset } from '../../grounding/assets.ts'
import type { AnnotationReader, Dialect, Scene } from '../../grounding/dialect.ts'
import { DIALECTS } from '../../grounding/dialects/dialects.ts'
import { freeMarkupReader } from '../../grounding/dialects/markup.ts'
import type { AnnotationFormat } from '../../grounding/hints.ts'
import { formatPiece } from '../../grounding/markup-writer.ts'
import type { Constraint, TriggeredTagsConstraint } from '../../inference/contract/constraint.ts'
import type { ModelCard } from '../../models/card.ts'
import type { LoadedMedia } from '../prompt/media-parts.ts'
import { assetsOf, type View } from '../prompt/views.ts'
import { type PlacedMessage, partsOf } from '../request/message.ts'
import type { TextFilter } from './text-filter.ts'

export function dialectOf({ dialect }: ModelCard): Dialect {
  if (dialect === null) throw new Error('The model has no annotation dialect')
  return DIALECTS[dialect]
}

/** What the model says of a picture where it finds nothing. */
export function nothingIn(dialect: Dialect, scene: Scene): string {
  return dialect.detection.answer([], scene)
}

/** The media that a reply to these messages may refer to. */
export function sceneOf(
  messages: readonly PlacedMessage[],
  media: LoadedMedia,
  { assets, choices }: Pick<View, 'assets' | 'choices'> = { assets: assetsOf(messages) },
): Scene {
  const parts = messages.flatMap((placed) => [...partsOf(placed)]).map(({ part }) => part)
  const shown = parts.flatMap((part) => (part.type === 'text' ? [] : (media.get(part)?.parts ?? [])))
  const last = shown.findLast((part) => part.type === 'image' || part.type === 'frames')
  const image = last?.type === 'frames' ? last.frames[0] : last?.type === 'image' ? last.image : undefined
  const spans = parts.flatMap((part) => (part.type === 'text' ? [] : [media.get(part)?.span ?? null]))
  return {
    assets: assets.count,
    timed: assets.videos.length > 0,
    // Of several videos, a view that does not show all media shows one, so its times are of that one.
    spans: spans.length === assets.count ? spans : spans.filter((span) => span !== null),
    image: image ? { width: image.width, height: image.height } : null,
    ...(choices === undefined ? {} : { choices }),
  }
}

/** How a reply's annotations are constrained, and how they become the contract's markup. */
export interface Grounding {
  /** The constraint on the model's text; null where nothing asks for annotations. */
  readonly constraint: (TriggeredTagsConstraint & Pick<Constraint, 'advisory'>) | null
  /** Creates a filter that converts annotations to the contract's markup. It emits each annotation whole. */
  createFilter(): TextFilter
}

export interface GroundingParts {
  readonly assets: Assets
  readonly scene: Scene
  /** Receives the number of a reply's annotations that were dropped: they may be about several of the media. */
  dropped(count: number): void
}

/** Constrains a reply to annotations of one format. */
export function groundingIn(format: AnnotationFormat, dialect: Dialect, parts: GroundingParts): Grounding {
  return {
    constraint: tagsConstraint(format, dialect, parts.scene),
    createFilter: () => new AnnotationFilter(dialect.reader(parts.scene), parts),
  }
}

/** Without a format, the model may write markup of its own accord. Null where it needs no index and has no times. */
export function freeGrounding(parts: GroundingParts): Grounding | null {
  if (parts.assets.count <= 1 && !parts.scene.timed) return null
  return { constraint: null, createFilter: () => new AnnotationFilter(freeMarkupReader(parts.scene), parts) }
}

/** Holds free text to annotations of one format. */
export function tagsConstraint(
  format: AnnotationFormat,
  dialect: Dialect,
  scene: Scene,
): NonNullable<Grounding['constraint']> {
  const { triggers, tags } = dialect.tags(format, scene)
  return {
    type: 'triggered_tags',
    triggers,
    tags: tags.map(({ begin, pattern, end }) => ({ begin, content: { type: 'regex', pattern }, end })),
    advisory: true,
  }
}

class AnnotationFilter implements TextFilter {
  readonly #reader: AnnotationReader
  readonly #parts: GroundingParts
  #dropped = 0

  constructor(reader: AnnotationReader, parts: GroundingParts) {
    this.#reader = reader
    this.#parts = parts
  }

  push(text: string): string {
    return this.#written(this.#reader.push(text))
  }

  end(cut: boolean): string {
    const text = this.#written(this.#reader.end(cut))
    if (this.#dropped > 0) this.#parts.dropped(this.#dropped)
    return text
  }

  #written(pieces: ReturnType<AnnotationReader['push']>): string {
    let text = ''
    for (const piece of pieces) {
      const named = piece.kind === 'prose' ? piece : withAsset(piece, this.#parts.assets)
      if (named === null) this.#dropped++
      else text += formatPiece(named)
    }
    return text
  }
}
