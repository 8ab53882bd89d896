import { post } from './chat.ts'
import type { KnownPicture } from './known-picture.ts'
import type { BenchServer } from './server.ts'

/** What a server said about a picture. */
export interface Answered {
  readonly totalMs: number
  /** To each question, in order. */
  readonly answers: readonly boolean[]
}

/** Asks Lookout all questions in one call. */
export async function decide(server: BenchServer, { url, questions }: KnownPicture): Promise<Answered> {
  const started = performance.now()
  const response = await post(server, '/v1/decisions', {
    model: server.model,
    input: [{ role: 'user', content: [{ type: 'input_image', image_url: url }] }],
    questions: questions.map(({ question }) => ({ type: 'predicate', instructions: question })),
  })
  const { answers } = (await response.json()) as { answers: { probability?: number }[] }
  return {
    totalMs: performance.now() - started,
    answers: answers.map(({ probability = 0 }) => probability > 0.5),
  }
}

/** How many answers are right, for printing. @param pictures one for each result. */
export function shareRight(results: readonly Answered[], pictures: readonly KnownPicture[]): string {
  const hits = results.flatMap(({ answers }, run) =>
    answers.map((answer, index) => answer === pictures[run]!.questions[index]!.answer),
  )
  return `${((100 * hits.filter(Boolean).length) / hits.length).toFixed(1)} %`
}
