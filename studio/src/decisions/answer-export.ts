import { csvLine } from '../../../src/exports/csv.ts'
import { type Answer, answerText, type Decided, topOf } from './answer.ts'
import { toBody } from './questions.ts'

/** One line for each answer, as `lookout decide --format csv` writes them. The probability is that of the answer. */
export function toCsv(decided: readonly Decided[]): string {
  const lines = decided.map(({ question: { text, type }, answer }) => {
    const probability = answer.kind === 'read' && answer.score === null ? topOf(answer).share : null
    return csvLine([text.trim(), type, answerText(answer), cell(probability), cell(confidenceOf(answer))])
  })
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

function confidenceOf(answer: Answer): number | null {
  return answer.kind === 'none' ? null : answer.confidence
}

function cell(number: number | null): string {
  return number === null ? '' : String(number)
}
