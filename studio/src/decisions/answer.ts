import type { Clip, Mark } from '../marks/mark.ts'
import type { TypedQuestion } from './questions.ts'
import type { AnswerBody } from './wire.ts'

export interface Option {
  readonly name: string
  /** From 0 to 1; those of all options add up to 1. */
  readonly share: number
}

/** An answer as it is shown and kept. */
export type Answer =
  | {
      readonly kind: 'read'
      /** In the order of the question. Those of a predicate are yes and no, those of a count its numbers. */
      readonly options: readonly Option[]
      /** The mean of the levels, which count from 0; null where there are none. */
      readonly score: number | null
      readonly confidence: number
      /** How likely the model gives one of the options at all. */
      readonly mass: number
    }
  | {
      readonly kind: 'box' | 'point' | 'clip'
      /** Left, top, right and bottom as parts of the sides; x and y; start and end in seconds. Null: it is not there. */
      readonly place: readonly number[] | null
      /** Null where the engine does not say. */
      readonly confidence: number | null
    }
  | { readonly kind: 'none' }

/** A question as it was asked, with its answer. */
export interface Decided {
  readonly question: TypedQuestion
  readonly answer: Answer
  /** The id of the attachment that places are on; empty where there was none. */
  readonly media: string
  /** The model that answered; null where a session does not say. */
  readonly model: string | null
}

export type ReadAnswer = Extract<Answer, { kind: 'read' }>

export function toAnswer(body: AnswerBody): Answer {
  switch (body.type) {
    case 'predicate': {
      const { probability, x_label_mass: mass } = body
      const options = [
        { name: 'Yes', share: probability },
        { name: 'No', share: 1 - probability },
      ]
      return { kind: 'read', options, score: null, confidence: Math.max(probability, 1 - probability) * mass, mass }
    }
    case 'choice':
    case 'x_count': {
      const options = body.probabilities.map(({ value, probability }) => ({ name: String(value), share: probability }))
      return { kind: 'read', options, score: null, confidence: body.confidence, mass: body.x_label_mass }
    }
    case 'score': {
      const options = body.probabilities.map(({ label, probability }) => ({ name: label, share: probability }))
      return { kind: 'read', options, score: body.score, confidence: body.confidence, mass: body.x_label_mass }
    }
    case 'x_box': {
      const { box, confidence } = body
      return { kind: 'box', place: box && [box.left, box.top, box.right, box.bottom], confidence }
    }
    case 'x_point':
      return { kind: 'point', place: body.point && [body.point.x, body.point.y], confidence: body.confidence }
    case 'x_clip': {
      const { clip, confidence } = body
      return { kind: 'clip', place: clip && [clip.start_seconds, clip.end_seconds], confidence }
    }
    default:
      return { kind: 'none' }
  }
}

/** The likeliest option; the first of several. */
export function topOf({ options }: ReadAnswer): Option {
  return options.reduce((best, option) => (option.share > best.share ? option : best))
}

/** The answer in a word, or in numbers. */
export function answerText(answer: Answer): string {
  if (answer.kind === 'none') return 'no answer'
  if (answer.kind === 'read') return answer.score === null ? topOf(answer).name : answer.score.toFixed(2)
  return answer.place === null ? 'not found' : answer.place.map((number) => number.toFixed(3)).join(' ')
}

/** What the stage shows of an answer. @param id unique on the page. @param media the id of the attachment */
export function placesOf(
  answer: Answer,
  id: string,
  label: string,
  media: string,
): { readonly marks: readonly Mark[]; readonly clips: readonly Clip[] } {
  if (answer.kind === 'read' || answer.kind === 'none' || answer.place === null) return { marks: [], clips: [] }
  const [a = 0, b = 0, c = 0, d = 0] = answer.place
  if (answer.kind === 'clip') return { marks: [], clips: [{ id, media, label, start: a, end: b }] }
  const points =
    answer.kind === 'box'
      ? [
          { x: a, y: b },
          { x: c, y: d },
        ]
      : [{ x: a, y: b }]
  return { marks: [{ id, media, label, kind: answer.kind, points }], clips: [] }
}
