import { type Question, QuestionStore } from '../questions/question-store.ts'

/** What answers a question, as `POST /v1/decisions` names it. */
export type QuestionType = 'predicate' | 'choice' | 'score' | 'x_count' | 'x_box' | 'x_point' | 'x_clip'

export interface TypedQuestion extends Question {
  readonly type: QuestionType
  /** Options of a choice, or levels of a score from the lowest: changing between them loses nothing. */
  readonly options: readonly string[]
  /** The largest number that is an answer of a count; null for the server's default. */
  readonly max: number | null
}

export const QUESTION_TYPES: readonly {
  readonly type: QuestionType
  readonly title: string
  readonly placeholder: string
}[] = [
  { type: 'predicate', title: 'Yes or no', placeholder: 'Is there a red circle?' },
  { type: 'choice', title: 'Choice', placeholder: 'Which colour is the heart?' },
  { type: 'score', title: 'Score', placeholder: 'How big is the star?' },
  { type: 'x_count', title: 'Count', placeholder: 'How many squares are there?' },
  { type: 'x_box', title: 'Box', placeholder: 'red circle' },
  { type: 'x_point', title: 'Point', placeholder: 'purple heart' },
  { type: 'x_clip', title: 'Clip', placeholder: 'the red circle appears' },
]

export const MOST_COUNTED = 999

/** One behind another has its type. */
export const questions = new QuestionStore<TypedQuestion>(400, (question, before) => ({
  ...question,
  type: before?.type ?? 'predicate',
  options: [],
  max: null,
}))

/** What a question is besides its place in the list. */
export type QuestionContent = Omit<TypedQuestion, 'id'>

export function replaceQuestions(contents: readonly QuestionContent[]): void {
  questions.replace(contents.map(({ text }) => text))
  for (const [index, { id }] of questions.all.value.entries()) questions.change(id, contents[index]!)
}

/** As a question of the request. */
export function toBody({ type, text, options, max }: QuestionContent) {
  return {
    type,
    instructions: text.trim(),
    ...(type === 'choice' ? { choices: options.map((value) => ({ value })) } : {}),
    ...(type === 'score' ? { levels: options.map((label) => ({ label })) } : {}),
    ...(type === 'x_count' && max !== null ? { max } : {}),
  }
}

/** Whether two mean the same question. */
export function areSame(one: QuestionContent, other: QuestionContent): boolean {
  return JSON.stringify(toBody(one)) === JSON.stringify(toBody(other))
}
