import type { DecisionAnswer } from '../../client/answers.ts'
import { csvLine } from '../../exports/csv.ts'
import { toTable } from '../output.ts'
import type { AskedQuestion } from './question-file.ts'

/** The answers about one input. */
export interface Decided {
  /** The given name; the text itself for a question without a file. */
  readonly file: string
  readonly answers: readonly DecisionAnswer[]
}

type PlaceAnswer = Extract<DecisionAnswer, { type: 'x_box' | 'x_point' | 'x_clip' }>

const BAR = 20
const EIGHTHS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉']
/** The most options of one question in the table; less likely ones are left out. */
const MOST_OPTIONS = 5
const LEAST_SHARE = 0.005
const LONGEST = 40

/** A table with a bar for each probability. */
export function answerTable(results: readonly Decided[], questions: readonly AskedQuestion[]): string {
  const several = results.length > 1
  const rows = results.flatMap(({ file, answers }) =>
    answers.flatMap((answer, i) =>
      rowsOf(answer).map(({ text, share }, row) => [
        ...(several ? [row === 0 && i === 0 ? file : ''] : []),
        row === 0 ? short(labelOf(questions[i]!)) : '',
        text,
        share === null ? '' : share.toFixed(3),
        share === null ? '' : barOf(share),
      ]),
    ),
  )
  return toTable([...(several ? ['FILE'] : []), 'QUESTION', 'ANSWER', 'PROBABILITY', ''], rows)
}

/** One line for each answer. The probability of a predicate is that of yes. */
export function answerCsv(results: readonly Decided[], questions: readonly AskedQuestion[]): string {
  const lines = results.flatMap(({ file, answers }) =>
    answers.map((answer, i) => {
      const { text, probability, confidence } = summaryOf(answer)
      const numbers = [probability, confidence].map((number) => (number === null ? '' : String(number)))
      return csvLine([file, labelOf(questions[i]!), answer.type, text, ...numbers])
    }),
  )
  return csvLine(['file', 'question', 'type', 'answer', 'probability', 'confidence']) + lines.join('')
}

/** The number in the first answer by which results are sorted. */
export function rankOf({ answers: [first] }: Decided): number {
  switch (first?.type) {
    case 'predicate':
      return first.probability
    case 'score':
      return first.score
    case 'x_count':
      return first.count
    case 'choice':
      return first.confidence
    default:
      return first === undefined || first.type === 'refusal' || placeIn(first) === null ? -1 : (first.confidence ?? 0)
  }
}

function placeIn(answer: PlaceAnswer) {
  return answer.type === 'x_box' ? answer.box : answer.type === 'x_point' ? answer.point : answer.clip
}

function labelOf({ name, instructions }: AskedQuestion): string {
  if (typeof name === 'string') return name
  return typeof instructions === 'string' ? instructions : ''
}

interface Row {
  readonly text: string
  readonly share: number | null
}

function rowsOf(answer: DecisionAnswer): readonly Row[] {
  switch (answer.type) {
    case 'predicate': {
      const { text } = summaryOf(answer)
      return [{ text, share: Math.max(answer.probability, 1 - answer.probability) }]
    }
    case 'choice':
    case 'x_count':
      return likeliest(
        answer.probabilities.map(({ value, probability }) => ({ text: String(value), share: probability })),
      )
    case 'score':
      return [
        { text: answer.score.toFixed(2), share: null },
        ...answer.probabilities.map(({ label, value, probability }) => ({
          text: `${value} ${short(label)}`,
          share: probability,
        })),
      ]
    default:
      return [{ text: summaryOf(answer).text, share: 'confidence' in answer ? answer.confidence : null }]
  }
}

function likeliest(rows: readonly { readonly text: string; readonly share: number }[]): readonly Row[] {
  const sorted = [...rows].sort((a, b) => b.share - a.share)
  return sorted.filter(({ share }, i) => i === 0 || (i < MOST_OPTIONS && share >= LEAST_SHARE))
}

interface Summary {
  readonly text: string
  readonly probability: number | null
  readonly confidence: number | null
}

function summaryOf(answer: DecisionAnswer): Summary {
  switch (answer.type) {
    case 'predicate':
      return { text: answer.probability >= 0.5 ? 'yes' : 'no', probability: answer.probability, confidence: null }
    case 'choice': {
      const probability = Math.max(...answer.probabilities.map((option) => option.probability))
      return { text: String(answer.choice), probability, confidence: answer.confidence }
    }
    case 'score':
      return { text: String(answer.score), probability: null, confidence: answer.confidence }
    case 'x_count':
      return {
        text: String(answer.count),
        probability: answer.probabilities[answer.count]!.probability,
        confidence: answer.confidence,
      }
    case 'refusal':
      return { text: 'no answer', probability: null, confidence: null }
    default:
      return { text: placeOf(answer), probability: null, confidence: answer.confidence }
  }
}

function placeOf(answer: PlaceAnswer): string {
  const place = placeIn(answer)
  if (place === null) return 'not found'
  return Object.entries(place)
    .map(([edge, number]) => `${edge.replace('_seconds', '')} ${number}`)
    .join(', ')
}

/** In eighths of a character. */
function barOf(share: number): string {
  const eighths = Math.round(share * BAR * 8)
  return '█'.repeat(Math.floor(eighths / 8)) + EIGHTHS[eighths % 8]
}

function short(text: string): string {
  return text.length <= LONGEST ? text : `${text.slice(0, LONGEST - 1)}…`
}
