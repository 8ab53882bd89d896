import { csvLine } from '../../../src/exports/csv.ts'
import { type Answer, answerText, type Decided, topOf } from './answer.ts'
import { toBody } from './questions.ts'

/** One line for each answer, as `lookout decide --format csv` writes them. The probability of a predicate is that of yes. */
export function toCsv(decided: readonly Decided[]): string {
  const lines = decided.map(({ question: { text, type }, answer }) =>
    csvLine([text.trim(), type, ...(type === 'predicate' ? predicateCells(answer) : cellsOf(answer))]),
  )
  return csvLine(['question', 'type', 'answer', 'probability', 'confidence']) + lines.join('')
}

export function toJson(decided: readonly Decided[]): string {
  const model = decided[0]?.model ?? null
  const results = decided.map(({ question, answer }) => ({ question: toBody(question), answer }))
  return `${JSON.stringify({ model, results }, null, 2)}\n`
}

/** To read: each question with its answer below. */
export function toText(decided: readonly Decided[]): string {
  return decided.map(({ question, answer }) => `${question.text.trim()}\n${answerText(answer)}\n`).join('\n')
}

function predicateCells(answer: Answer): string[] {
  if (answer.kind !== 'read') return cellsOf(answer)
  return [answerText(answer).toLowerCase(), cell(answer.options[0]!.share), '']
}

function cellsOf(answer: Answer): string[] {
  if (answer.kind === 'none') return [answerText(answer), '', '']
  const confidence = cell(answer.confidence)
  if (answer.kind !== 'read') {
    const place = answer.place?.map((number, at) => `${EDGES[answer.kind][at]} ${number}`).join(', ')
    return [place ?? answerText(answer), '', confidence]
  }
  if (answer.score !== null) return [cell(answer.score), '', confidence]
  return [answerText(answer), cell(topOf(answer).share), confidence]
}

const EDGES = { box: ['left', 'top', 'right', 'bottom'], point: ['x', 'y'], clip: ['start', 'end'] } as const

function cell(number: number | null): string {
  return number === null ? '' : String(number)
}
