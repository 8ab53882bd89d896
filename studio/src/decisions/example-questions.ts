import type { QuestionContent, QuestionType } from './questions.ts'

/** About the sample picture; the shipped model answers them rightly (test/weights/studio-examples.test.ts). */
export const EXAMPLE_QUESTIONS: readonly QuestionContent[] = [
  example('predicate', 'Is there a red circle?'),
  example('predicate', 'Is there a yellow ring?'),
  example('choice', 'Which colour is the heart?', ['red', 'purple', 'orange', 'blue']),
  example('choice', 'What is in the top left corner?', ['red circle', 'blue star', 'purple heart']),
  example('score', 'How big is the star?', ['small', 'medium', 'large']),
  { ...example('x_count', 'How many squares are there?'), max: 10 },
  example('x_box', 'red circle'),
  example('x_box', 'blue star'),
]

function example(type: QuestionType, text: string, options: readonly string[] = []): QuestionContent {
  return { type, text, options, max: null }
}
