import { flushCompileCache } from 'node:module'
import { READY } from './guarded-process.ts'

/** A message may contain the input whose processing failed. */
const LONGEST_MESSAGE = 1_000

/** The outcome of a question: its answer, or the error. */
export type Attempt<Answer> =
  | { readonly answer: Answer }
  | { readonly failure: { readonly message: string; readonly code: string | null } }

/**
 * Makes this process answer the questions of a `GuardedProcess`, one after another. It ends with its parent.
 * @param answer may throw; its error's message is passed on.
 */
export function answerQuestions<Question, Answer>(answer: (question: Question) => Answer | Promise<Answer>): void {
  let last = Promise.resolve()
  const reply = (attempt: Attempt<Answer> | typeof READY) => process.send!(attempt)
  process.on('disconnect', () => process.exit())
  // A signal to the whole service, such as Ctrl-C, is not the fault of the current question.
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
  // Node does this when a process exits, but an idle process is killed.
  flushCompileCache()
  reply(READY)
}

/** @throws Error with the message and the code of the error in the process. */
export function answerOf<Answer>(attempt: Attempt<Answer>): Answer {
  if ('answer' in attempt) return attempt.answer
  const { message, code } = attempt.failure
  throw Object.assign(new Error(message), code === null ? {} : { code })
}

/** The outcome for one part of a question, whose other parts may fail separately. */
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
