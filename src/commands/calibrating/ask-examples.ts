import type { DecisionAnswer } from '../../client/answers.ts'
import type { LookoutClient } from '../../client/client.ts'
import { ServerError } from '../../client/server-error.ts'
import { ConfigError } from '../../config/config.ts'
import { MediaError, openMedium, sendMedia } from '../asking/media.ts'
import type { Example } from './examples.ts'
import type { Judged } from './judged.ts'
import { twoAtOnce } from './two-at-once.ts'

export interface ExampleAsking {
  readonly client: LookoutClient
  readonly model: string
  /** Whether the temperatures of the model's card apply. */
  readonly calibrated: boolean
  /** Called after each file. */
  readonly onFile?: (done: number, files: number) => void
}

/** Limit of the API. */
const MOST_QUESTIONS = 400

/**
 * Asks all questions about each file at once. Questions without an answer are left out.
 * @returns in the order of the examples.
 * @throws ConfigError naming the line of an example that cannot be asked.
 */
export async function askExamples(examples: readonly Example[], asking: ExampleAsking): Promise<readonly Judged[]> {
  const byFile = Map.groupBy(examples.entries(), ([, { file }]) => file)
  const batches = [...byFile].map(([file, batch]) => ({ file, batch }))
  const judged: (Judged | null)[] = []
  const askAll = async ({ batch }: (typeof batches)[number]) => {
    for (let from = 0; from < batch.length; from += MOST_QUESTIONS) {
      const part = batch.slice(from, from + MOST_QUESTIONS)
      const answers = await askAbout(
        part.map(([, example]) => example),
        asking,
      )
      for (const [i, [index, example]] of part.entries()) judged[index] = judge(example, answers[i]!)
    }
  }
  await twoAtOnce(batches, askAll, asking.onFile)
  return judged.filter((one) => one !== null)
}

async function askAbout(
  examples: readonly Example[],
  { client, model, calibrated }: ExampleAsking,
): Promise<readonly DecisionAnswer[]> {
  const [{ file, place }] = examples as readonly [Example]
  await using uploads = new AsyncDisposableStack()
  try {
    const medium = await openMedium(file)
    const [sent] = await sendMedia([medium], client, uploads)
    return await client.decide({
      model,
      input: [{ role: 'user', content: [sent!.part] }],
      questions: examples.map(({ question }) => question),
      x_calibrated: calibrated,
    })
  } catch (error) {
    if (error instanceof MediaError) throw new ConfigError(`${place}: ${error.message}`)
    if (!(error instanceof ServerError) || error.param === null) throw error
    const [, index] = /^questions\[(\d+)\]/.exec(error.param) ?? []
    if (index !== undefined) throw new ConfigError(`${examples[Number(index)]!.place}: ${error.message}`)
    throw /^input\b/.test(error.param) ? new ConfigError(`${place}: ${file}: ${error.message}`) : error
  }
}

function judge({ type, name, file, right }: Example, answer: DecisionAnswer): Judged | null {
  if (answer.type === 'refusal') return null
  const probabilities =
    answer.type === 'predicate'
      ? [answer.probability, 1 - answer.probability]
      : 'probabilities' in answer
        ? answer.probabilities.map(({ probability }) => probability)
        : null
  return probabilities === null ? null : { type, name, file, probabilities, right }
}
