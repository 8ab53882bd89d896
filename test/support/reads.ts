import type { Engine } from '../../src/inference/contract/engine.ts'
import type { Reading } from '../../src/inference/contract/generation.ts'
import type { PromptPart } from '../../src/inference/contract/parts.ts'
import type { ReadQuestion } from '../../src/inference/contract/work.ts'
import { trusted, untrusted } from './local-engine.ts'

/** The end of a question, and the start of its reply, as the shipped model's template has them. */
export const OPEN_TURN = trusted('<|im_end|>\n<|im_start|>assistant\n')

export function ask(text: string, ...replies: string[]): ReadQuestion {
  return { suffix: [untrusted(text), OPEN_TURN], replies }
}

export function read(
  engine: Engine,
  prefix: readonly PromptPart[],
  questions: readonly ReadQuestion[],
  { signal, organisation = 'test' }: { signal?: AbortSignal; organisation?: string } = {},
): Promise<Reading> {
  return engine.read!({ organisation, prefix, questions }, signal ?? new AbortController().signal)
}

/** Log-probabilities of the replies to each question, in request order. */
export async function logProbsOf({ answers }: Pick<Reading, 'answers'>): Promise<(readonly number[])[]> {
  const found: (readonly number[])[] = []
  for await (const answer of answers) {
    if ('error' in answer) throw answer.error
    if (found[answer.question] !== undefined) throw new Error(`Question ${answer.question} was answered twice.`)
    found[answer.question] = answer.logProbs
  }
  return found
}

export async function readAll(
  engine: Engine,
  prefix: readonly PromptPart[],
  questions: readonly ReadQuestion[],
  organisation?: string,
): Promise<(readonly number[])[]> {
  return logProbsOf(await read(engine, prefix, questions, organisation === undefined ? {} : { organisation }))
}
