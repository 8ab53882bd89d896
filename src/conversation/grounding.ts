import {
  type AnnotationFormat,
  type AnnotationReader,
  DIALECTS,
  type Dialect,
  formatPiece,
  type Scene,
} from '../grounding/index.ts'
import type { Constraint } from '../inference/engine.ts'
import type { ModelCard } from '../models/card.ts'
import type { LoadedImages } from './images.ts'
import { type PlacedMessage, partsOf } from './message.ts'
import type { ReplyEvent } from './reply.ts'

export function dialectOf(card: ModelCard): Dialect {
  return DIALECTS[card.dialect]
}

/** What a reply to these messages may refer to. */
export function sceneOf(messages: readonly PlacedMessage[], images: LoadedImages): Scene {
  const parts = messages.flatMap((placed) => [...partsOf(placed)]).map(({ part }) => part)
  const last = parts.findLast((part) => part.type === 'image_url')
  const { width, height } = (last && images.get(last)) ?? {}
  return {
    assets: parts.filter(({ type }) => type !== 'text').length,
    timed: parts.some(({ type }) => type.startsWith('video')),
    picture: width === undefined || height === undefined ? null : { width, height },
  }
}

/** How a reply is brought to hold annotations of one format, in the contract's markup. */
export class Grounding {
  /** What the model is bound to write. */
  readonly constraint: Constraint
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

  /** The same reply in the contract's markup. An annotation leaves in one piece, and only when it is whole. */
  async *translate(reply: AsyncIterable<ReplyEvent>): AsyncGenerator<ReplyEvent, void, void> {
    const reader = this.#dialect.reader(this.#scene)
    for await (const event of reply) {
      const text = event.type === 'finish' ? ending(reader, event.reason) : written(reader.push(event.text))
      if (text !== '') yield { type: 'text', text }
      if (event.type === 'finish') yield event
    }
  }

  /** A reply that is there as a whole. */
  translateWhole(text: string, reason: 'stop' | 'length'): string {
    const reader = this.#dialect.reader(this.#scene)
    return written(reader.push(text)) + ending(reader, reason)
  }
}

function ending(reader: AnnotationReader, reason: 'stop' | 'length'): string {
  return written(reader.end(reason === 'length'))
}

function written(pieces: ReturnType<AnnotationReader['push']>): string {
  return pieces.map(formatPiece).join('')
}
