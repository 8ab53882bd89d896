import { type Assets, withAsset } from '../../grounding/assets.ts'
import type { AnnotationReader, Dialect, Scene } from '../../grounding/dialect.ts'
import { DIALECTS } from '../../grounding/dialects/dialects.ts'
import { freeMarkupReader } from '../../grounding/dialects/markup.ts'
import { evidenceIn } from '../../grounding/evidence.ts'
import type { AnnotationFormat } from '../../grounding/hints.ts'
import { formatPiece } from '../../grounding/markup-writer.ts'
import type { ServedModel } from '../../inference/catalog/registry.ts'
import type { Constraint, TriggeredTagsConstraint } from '../../inference/contract/constraint.ts'
import type { TokenLogProb } from '../../inference/contract/generation.ts'
import type { ModelCard } from '../../models/card.ts'
import type { LoadedMedia } from '../prompt/media-parts.ts'
import { assetsOf, type View, viewsOf, wholeView } from '../prompt/views.ts'
import { mediaIn, type PlacedMessage } from '../request/message.ts'
import type { TextFilter } from './stages.ts'

export function dialectOf({ dialect }: ModelCard): Dialect {
  if (dialect === null) throw new Error('The model has no annotation dialect')
  return DIALECTS[dialect]
}

/** Returns the model's reply for a picture in which it finds nothing. */
export function nothingIn(dialect: Dialect, scene: Scene): string {
  return dialect.detection.answer([], scene)
}

/** Returns the media that a reply to these messages may refer to. */
export function sceneOf(
  messages: readonly PlacedMessage[],
  media: LoadedMedia,
  { assets, choices }: Pick<View, 'assets' | 'choices'> = { assets: assetsOf(messages) },
): Scene {
  const loaded = mediaIn(messages).map(({ part }) => media.get(part))
  const shown = loaded.flatMap((one) => one?.parts ?? [])
  const last = shown.findLast((part) => part.type === 'image' || part.type === 'frames')
  const image = last?.type === 'frames' ? last.frames[0] : last?.type === 'image' ? last.image : undefined
  const spans = loaded.map((one) => one?.span ?? null)
  return {
    assets: assets.count,
    timed: assets.videos.length > 0,
    // A view that hides some of the media shows only one video, so times refer to that one.
    spans: spans.length === assets.count ? spans : spans.filter((span) => span !== null),
    image: image ? { width: image.width, height: image.height } : null,
    ...(choices === undefined ? {} : { choices }),
  }
}

/** How a reply's annotations are constrained, and how they become the contract's markup. */
export interface Grounding {
  /** The constraint on the model's text; null if nothing asks for annotations. */
  readonly constraint: (TriggeredTagsConstraint & Pick<Constraint, 'advisory'>) | null
  /** Creates a filter that converts annotations to the contract's markup. It emits each annotation whole. */
  createFilter(): TextFilter
  /** Rates the places in a reply; absent unless they are boxes or points in a single image. */
  readonly rate?: RatePlaces
}

/** @param tokens of the reply, with their alternatives. @param isCut whether it was truncated. */
export type RatePlaces = (tokens: readonly TokenLogProb[], isCut: boolean) => readonly RatedPlace[]

export interface RatedPlace {
  /** Null for an annotation without one. */
  readonly mention: string | null
  /** The probability mass of digits that keep the coordinates near the written ones, 0..1; null if unknown. */
  readonly confidence: number | null
}

/** How a model is asked for annotations in a format, or for none. */
export interface Annotations {
  /** The model's reply for a picture in which it finds nothing; empty without a format. */
  readonly nothing: string
  /** The instruction in the prompt; null without a format. */
  readonly instruction: string | null
  /** Returns the views in which the model is asked, each with all the messages. */
  viewsOf(messages: readonly PlacedMessage[]): View[]
  /** Returns null if nothing asks for annotations and they need no index and have no times. */
  groundingOf(view: View, media: LoadedMedia): Grounding | null
}

interface AnnotationsSource {
  readonly model: ServedModel
  readonly messages: readonly PlacedMessage[]
  readonly media: LoadedMedia
  /** Receives the number of a reply's annotations that were dropped: they may be about several of the media. */
  dropped(count: number): void
}

/** @param format null if the request asks for none; the model may still write markup of its own accord. */
export function annotationsOf(
  format: AnnotationFormat | null,
  { model: { card }, messages, media, dropped }: AnnotationsSource,
): Annotations {
  if (format === null) {
    return {
      nothing: '',
      instruction: null,
      viewsOf: (messages) => [wholeView(messages)],
      groundingOf: (view, media) => {
        const scene = sceneOf(view.messages, media, view)
        if (view.assets.count <= 1 && !scene.timed) return null
        const createFilter = () => new AnnotationFilter(freeMarkupReader(scene), view.assets, dropped)
        return { constraint: null, createFilter }
      },
    }
  }
  const dialect = dialectOf(card)
  const nothing = nothingIn(dialect, sceneOf(messages, media))
  return {
    nothing,
    instruction: dialect.instruction(format),
    viewsOf: (messages) => viewsOf(messages, format, { namesAssets: card.namesAssets, nothing }),
    groundingOf: (view, media) => {
      const scene = sceneOf(view.messages, media, view)
      const createFilter = () => new AnnotationFilter(dialect.reader(scene), view.assets, dropped)
      const constraint = tagsConstraint(format, dialect, scene)
      const isSingle = view.assets.count === 1 && scene.image !== null && !scene.timed
      if (!isSingle || (format !== 'box' && format !== 'point')) return { constraint, createFilter }
      const form = dialect.detection.form(format, scene)
      const rate: RatePlaces = (tokens, isCut) =>
        // In free text, the alternatives at an annotation's beginning or at the end are words, which say nothing about
        // the place.
        evidenceIn({ tokens, end: null, isCut }, form, dialect.reader(scene)).places.map(
          ({ annotation: { mention = null }, evidence }) => ({ mention, confidence: evidence?.near ?? null }),
        )
      return { constraint, createFilter, rate }
    },
  }
}

/** Limits the annotations in free text to one format. */
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
  readonly #assets: Assets
  readonly #report: (dropped: number) => void
  #dropped = 0

  constructor(reader: AnnotationReader, assets: Assets, report: (dropped: number) => void) {
    this.#reader = reader
    this.#assets = assets
    this.#report = report
  }

  push(text: string): string {
    return this.#written(this.#reader.push(text))
  }

  end(cut: boolean): string {
    const text = this.#written(this.#reader.end(cut))
    if (this.#dropped > 0) this.#report(this.#dropped)
    return text
  }

  #written(found: ReturnType<AnnotationReader['push']>): string {
    let text = ''
    for (const one of found) {
      const named = one.kind === 'prose' ? one : withAsset(one, this.#assets)
      if (named === null) this.#dropped++
      else text += formatPiece(named)
    }
    return text
  }
}
