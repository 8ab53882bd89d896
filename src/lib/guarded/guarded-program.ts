import { flushCompileCache } from 'node:module'
import { READY } from './guarded-process.ts'

/** A message may be a text of the stranger whose work failed. */
const LONGEST_MESSAGE = 1_000

/** What a question became: its answer, or why there is none. */
export type Attempt<Answer> =
  | { readonly answer: Answer }
  | { readonly failure: { readonly message: string; readonly code: string | null } }

/**
 * Makes this process answer the questions of a `GuardedProcess`, one after the other. It ends with its parent.
 * @param answer may throw; its error's message is passed on.
 */
export function answerQuestions<Question, Answer>(answer: (question: Question) => Answer | Promise<Answer>): void {
  let last = Promise.resolve()
  const reply = (attempt: Attempt<Answer> | typeof READY) => process.send!(attempt)
  process.on('disconnect', () => process.exit())
  // A signal to the whole service, as of Ctrl-C, is not the fault of the question that is being answered.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
  process.on('message', (question: Question) => {
    last = last
      .then(() => answer(question))
      .then(
        (given) => reply({ answer: given }),
        (error: unknown) => reply({ failure: failureOf(error) }),
      )
      .then(() => {})
  })
  // Node does it when a process exits, but this one is killed when it is idle.
  flushCompileCache()
  reply(READY)
}

/** @throws Error with the message and the code that the process had. */
export function answerOf<Answer>(attempt: Attempt<Answer>): Answer {
  if ('answer' in attempt) return attempt.answer
  const { message, code } = attempt.failure
  throw Object.assign(new Error(message), code === null ? {} : { code })
}

/** An answer to a part of a question, of which other parts may have failed. */
export function attempted<Answer>(answer: () => Answer): Attempt<Answer> {
  try {
    return { answer: answer() }
  } catch (error) {
    return { failure: failureOf(error) }
  }
}

function failureOf(error: unknown): { message: string; code: string | null } {
  if (!(error instanceof Error)) return { message: bounded(String(error)), code: null }
  const { message, cause } = error
  const code = 'code' in error && typeof error.code === 'string' ? error.code : null
  return { message: bounded(cause instanceof Error ? `${message}: ${cause.message}` : message), code }
}

function bounded(message: string): string {
  return message.length <= LONGEST_MESSAGE ? message : `${message.slice(0, LONGEST_MESSAGE).toWellFormed()}…`
}
