import {
  type AnnotationFormat,
  type AnnotationReader,
  DIALECTS,
  type Dialect,
  formatPiece,
  type Scene,
} from '../../grounding/index.ts'
import type { TriggeredTagsConstraint } from '../../inference/engine.ts'
import type { ModelCard } from '../../models/card.ts'
import type { LoadedMedia } from '../prompt/media-parts.ts'
import { type PlacedMessage, partsOf } from '../request/message.ts'
import type { TextFilter } from './text-filter.ts'

export function dialectOf({ dialect }: ModelCard): Dialect {
  if (dialect === null) throw new Error('A model that has no dialect was asked for annotations')
  return DIALECTS[dialect]
}

/** What a reply to these messages may refer to. */
export function sceneOf(messages: readonly PlacedMessage[], media: LoadedMedia): Scene {
  const parts = messages.flatMap((placed) => [...partsOf(placed)]).map(({ part }) => part)
  const shown = parts.flatMap((part) => (part.type === 'text' ? [] : (media.get(part) ?? [])))
  const last = shown.findLast((part) => part.type === 'image' || part.type === 'frames')
  const picture = last?.type === 'frames' ? last.frames[0] : last?.type === 'image' ? last.image : undefined
  return {
    assets: parts.filter(({ type }) => type !== 'text').length,
    timed: parts.some(({ type }) => type.startsWith('video')),
    image: picture ? { width: picture.width, height: picture.height } : null,
  }
}

/** How a reply is brought to hold annotations of one format, in the contract's markup. */
export class Grounding {
  /** What the model is bound to write. */
  readonly constraint: TriggeredTagsConstraint
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
    }
  }

  /** Brings a text into the contract's markup. An annotation leaves in one piece, and only when it is whole. */
  createFilter(): TextFilter {
    const reader = this.#dialect.reader(this.#scene)
    return { push: (text) => written(reader.push(text)), end: (cut) => written(reader.end(cut)) }
  }
}

function written(pieces: ReturnType<AnnotationReader['push']>): string {
  return pieces.map(formatPiece).join('')
}
