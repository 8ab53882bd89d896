import {
  type AnnotationFormat,
  type AnnotationReader,
  DIALECTS,
  type Dialect,
  formatPiece,
  type Scene,
} from '../../grounding/index.ts'
import type { Constraint, TriggeredTagsConstraint } from '../../inference/engine.ts'
import type { ModelCard } from '../../models/card.ts'
import type { LoadedMedia } from '../prompt/media-parts.ts'
import { type PlacedMessage, partsOf } from '../request/message.ts'
import type { TextFilter } from './text-filter.ts'

export function dialectOf({ dialect }: ModelCard): Dialect {
  if (dialect === null) throw new Error('The model has no annotation dialect')
  return DIALECTS[dialect]
}

/** The media that a reply to these messages may refer to. */
export function sceneOf(messages: readonly PlacedMessage[], media: LoadedMedia): Scene {
  const parts = messages.flatMap((placed) => [...partsOf(placed)]).map(({ part }) => part)
  const shown = parts.flatMap((part) => (part.type === 'text' ? [] : (media.get(part)?.parts ?? [])))
  const last = shown.findLast((part) => part.type === 'image' || part.type === 'frames')
  const image = last?.type === 'frames' ? last.frames[0] : last?.type === 'image' ? last.image : undefined
  return {
    assets: parts.filter(({ type }) => type !== 'text').length,
    timed: parts.some(({ type }) => type.startsWith('video')),
    spans: parts.flatMap((part) => (part.type === 'text' ? [] : [media.get(part)?.span ?? null])),
    image: image ? { width: image.width, height: image.height } : null,
  }
}

/** Constrains a reply to annotations of one format and converts them to the contract's markup. */
export class Grounding {
  /** The constraint on the model's text. */
  readonly constraint: TriggeredTagsConstraint & Pick<Constraint, 'advisory'>
  readonly #dialect: Dialect
  readonly #scene: Scene

  constructor(format: AnnotationFormat, dialect: Dialect, scene: Scene) {
    this.#dialect = dialect
    this.#scene = scene
    const { triggers, tags } = dialect.tags(format, scene)
    this.constraint = {
      type: 'triggered_tags',
      triggers,
      tags: tags.map(({ begin, pattern, end }) => ({ begin, content: { type: 'regex', pattern }, end })),
      advisory: true,
    }
  }

  /** Creates a filter that converts annotations to the contract's markup. It emits each annotation whole. */
  createFilter(): TextFilter {
    const reader = this.#dialect.reader(this.#scene)
    return { push: (text) => written(reader.push(text)), end: (cut) => written(reader.end(cut)) }
  }
}

function written(pieces: ReturnType<AnnotationReader['push']>): string {
  return pieces.map(formatPiece).join('')
}
