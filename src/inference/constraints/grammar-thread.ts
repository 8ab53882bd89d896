import type { Worker } from 'node:worker_threads'
import { FailureError } from '../local/failure.ts'
import type { ServeMessage } from './compile-probe-worker.ts'
import { FAULT, GrammarLine, Operation } from './grammar-line.ts'
import type { Matcher } from './xgrammar.ts'

/** A grammar that is this slow to follow is a fault; in ms. */
const ANSWER_LIMIT_MS = 5_000

/**
 * A grammar that was slow to compile stays in the thread that compiled it, and is followed there: to compile it again in
 * the engine would hold up everybody.
 */
export class GrammarThread {
  readonly #worker: Worker
  readonly #line: GrammarLine
  #lastMatcher = 0
  #isClosed = false
  /** Matchers that are not disposed of. */
  openMatchers = 0

  /** @param worker the thread, which has just compiled the grammar; this owns it now. */
  constructor(worker: Worker, vocabularySize: number) {
    this.#worker = worker
    this.#line = new GrammarLine(vocabularySize)
    worker.on('error', () => {
      this.#isClosed = true
    })
    const message: ServeMessage = { serve: this.#line.buffer }
    worker.postMessage(message)
  }

  /** @throws FailureError when the thread has been ended. */
  createMatcher(): Matcher {
    if (this.#isClosed) {
      throw new FailureError({
        kind: 'overloaded',
        message: 'The constraint was displaced by others that are slow to compile. Try again.',
        retryAfter: 1,
      })
    }
    const matcher = ++this.#lastMatcher
    this.#call(Operation.create, matcher)
    this.openMatchers++
    return {
      nextTokens: () => {
        this.#call(Operation.nextTokens, matcher)
        return this.#line.mask
      },
      accept: (token) => this.#call(Operation.accept, matcher, token) === 1,
      forcedText: () => this.#line.readText(this.#call(Operation.forcedText, matcher)),
      dispose: () => {
        this.openMatchers--
        // Not asked of a thread that failed: all it held is gone with it.
        if (!this.#isClosed) this.#line.call({ operation: Operation.dispose, matcher, value: 0 }, ANSWER_LIMIT_MS)
      },
    }
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  close(): void {
    this.#isClosed = true
    void this.#worker.terminate()
  }

  #call(operation: number, matcher: number, value = 0): number {
    if (this.#isClosed) throw new Error('The thread of a constraint has ended.')
    const answer = this.#line.call({ operation, matcher, value }, ANSWER_LIMIT_MS)
    if (answer !== null && answer !== FAULT) return answer
    this.close()
    throw new Error(answer === null ? 'A constraint could not be followed in time.' : 'A constraint failed.')
  }
}
