import { QUESTION_TYPES, type QuestionContent, type QuestionType, questions, toBody } from './questions.ts'

/*
 * Files of questions in JSON, as `lookout decide --questions` takes them: a list, or a map with their names as keys, at the
 * top or under `questions`.
 */

/** @throws Error with a sentence for the user when they are no such questions, or of a kind that the page cannot show. */
export function readQuestionFile(text: string): readonly QuestionContent[] {
  let content: unknown
  try {
    content = JSON.parse(text)
  } catch {
    throw new Error('It is not JSON.')
  }
  const list = isRecord(content) && typeof content.questions === 'object' ? content.questions : content
  const entries = Array.isArray(list) ? list : isRecord(list) ? Object.values(list) : []
  if (entries.length === 0) throw new Error('It has no questions.')
  if (entries.length > questions.most) throw new Error(`It has more than ${questions.most} questions.`)
  return entries.map((entry, index) => {
    const question = contentOf(entry)
    if (question === null) throw new Error(`The page cannot show its question ${index + 1}.`)
    return question
  })
}

/** The types under `x_` go without it, as people write them. */
export function writeQuestionFile(contents: readonly QuestionContent[]): string {
  const list = contents.map((content) => {
    const { type, choices, levels, ...rest } = toBody(content)
    return {
      type: type.replace(/^x_/, ''),
      ...rest,
      ...(choices ? { choices: content.options } : {}),
      ...(levels ? { levels: content.options } : {}),
    }
  })
  return `${JSON.stringify(list, null, 2)}\n`
}

/** @returns null for what the page cannot show: instructions with images, options with descriptions. */
function contentOf(entry: unknown): QuestionContent | null {
  if (typeof entry === 'string') return { type: 'predicate', text: entry, options: [], max: null }
  if (!isRecord(entry) || typeof entry.instructions !== 'string') return null
  const { instructions: text, choices, levels, max = null } = entry
  const given = entry.type ?? (choices !== undefined ? 'choice' : levels !== undefined ? 'score' : 'predicate')
  const known = QUESTION_TYPES.find(({ type }) => type === given || type === `x_${String(given)}`)
  const options = optionsOf(choices ?? levels ?? [])
  if (known === undefined || options === null || !(max === null || typeof max === 'number')) return null
  return { type: known.type satisfies QuestionType, text, options, max }
}

function optionsOf(list: unknown): readonly string[] | null {
  if (!Array.isArray(list)) return null
  const names = list.map((one: unknown) => {
    const isPlain = isRecord(one) && (one.description ?? null) === null
    const name: unknown = isPlain ? (one.value ?? one.label) : one
    return typeof name === 'number' ? String(name) : name
  })
  return names.every((name) => typeof name === 'string') ? names : null
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
