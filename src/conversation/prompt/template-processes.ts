import { GuardedProcess, ProcessEnded } from '../../lib/guarded-process.ts'
import { type Attempt, answerOf } from '../../lib/guarded-program.ts'
import { READER, type ReaderQuestion } from '../../models/model-reader.ts'

/** Tens of thousands of turns take the interpreter a second. */
const LIMIT_MS = 10_000
/** A server that starts has other work for its cores until then; a request that comes earlier starts the process. */
const WARM_UP_MS = 500

type Renderer = GuardedProcess<ReaderQuestion, Attempt<unknown>>

/**
 * Renders conversations outside of this process: with templates of strangers, which may loop for ever or fill the memory
 * for any one conversation, and long conversations, which would hold up everything else.
 */
export class TemplateProcesses {
  /** For conversations of a usual length. It stays, since a request would wait for its start. */
  readonly #usual: Renderer = new GuardedProcess({ ...READER, limitMs: LIMIT_MS, idleMs: null })
  readonly #long: Renderer = new GuardedProcess({ ...READER, limitMs: LIMIT_MS })
  /** Of templates that have ended a process: they hold up nobody else from then on. */
  readonly #apart = new Map<string, Renderer>()
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
    const renderer = this.#apart.get(source) ?? (isLong ? this.#long : this.#usual)
    try {
      return answerOf(await renderer.ask({ type: 'render', source, variables })) as string
    } catch (error) {
      if (error instanceof ProcessEnded && !this.#apart.has(source))
        this.#apart.set(source, new GuardedProcess({ ...READER, limitMs: LIMIT_MS }))
      throw error
    }
  }

  async close(): Promise<void> {
    if (this.#warming !== null) clearTimeout(this.#warming)
    await Promise.all([this.#usual, this.#long, ...this.#apart.values()].map((renderer) => renderer.stop()))
  }
}
