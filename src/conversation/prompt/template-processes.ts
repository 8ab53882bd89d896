import { GuardedProcess, ProcessEnded } from '../../lib/guarded-process.ts'
import { type Attempt, answerOf } from '../../lib/guarded-program.ts'
import { READER, type ReaderQuestion } from '../../models/model-reader.ts'

/** Tens of thousands of turns take the interpreter a second. */
const LIMIT_MS = 10_000
/** For conversations of a usual length, which share a process. What takes longer is rendered apart. */
const USUAL_LIMIT_MS = 1_000
/** A server that starts has other work for its cores until then; a request that comes earlier starts the process. */
const WARM_UP_MS = 500

type Renderer = GuardedProcess<ReaderQuestion, Attempt<unknown>>

/**
 * Renders conversations outside of this process: with templates of strangers, which may loop for ever or fill the memory
 * for any one conversation, and long conversations, which would hold up everything else.
 */
export class TemplateProcesses {
  /** For conversations of a usual length. It stays, since a request would wait for its start. */
  readonly #usual: Renderer = new GuardedProcess({ ...READER, limitMs: USUAL_LIMIT_MS, idleMs: null })
  readonly #long: Renderer = new GuardedProcess({ ...READER, limitMs: LIMIT_MS })
  /** Of templates that have ended a process: they hold up nobody else from then on. */
  readonly #apart = new Map<string, Renderer>()
  /** By template, the end of the last conversation that waits for a shared process. */
  readonly #usualTurns = new Map<string, Promise<void>>()
  readonly #longTurns = new Map<string, Promise<void>>()
  #warming: NodeJS.Timeout | null = null

  /** Has the process that renders most conversations started soon. */
  warmUp(): void {
    this.#warming ??= setTimeout(() => this.#usual.warmUp(), WARM_UP_MS).unref()
  }

  /**
   * @param isLong whether it may take more than some ten milliseconds.
   * @throws Error with the template's own message when the template rejects its values; ProcessEnded.
   */
  async render(source: string, variables: Readonly<Record<string, unknown>>, isLong: boolean): Promise<string> {
    const question = { type: 'render', source, variables } as const
    const shared = this.#apart.has(source) ? undefined : await this.#turn(source, isLong)
    if (shared === undefined) return this.#renderApart(question)
    try {
      return answerOf(await shared.renderer.ask(question)) as string
    } catch (error) {
      if (!(error instanceof ProcessEnded)) throw error
      this.#separate(source)
      // Alone, it may take as long as any.
      if (isLong || error.reason !== 'time') throw error
    } finally {
      shared.done()
    }
    return this.#renderApart(question)
  }

  /**
   * Waits until the conversation before this one with the same template is rendered: one that ends the process must not
   * have others behind it that do the same.
   * @returns undefined when the template has ended a process by then.
   */
  async #turn(source: string, isLong: boolean): Promise<{ renderer: Renderer; done(): void } | undefined> {
    const turns = isLong ? this.#longTurns : this.#usualTurns
    const before = turns.get(source)
    const { promise, resolve } = Promise.withResolvers<void>()
    turns.set(source, promise)
    const done = () => {
      if (turns.get(source) === promise) turns.delete(source)
      resolve()
    }
    await before
    if (!this.#apart.has(source)) return { renderer: isLong ? this.#long : this.#usual, done }
    done()
    return undefined
  }

  async #renderApart(question: ReaderQuestion & { readonly source: string }): Promise<string> {
    return answerOf(await this.#apart.get(question.source)!.ask(question)) as string
  }

  #separate(source: string): void {
    if (!this.#apart.has(source)) this.#apart.set(source, new GuardedProcess({ ...READER, limitMs: LIMIT_MS }))
  }

  async close(): Promise<void> {
    if (this.#warming !== null) clearTimeout(this.#warming)
    await Promise.all([this.#usual, this.#long, ...this.#apart.values()].map((renderer) => renderer.stop()))
  }
}
