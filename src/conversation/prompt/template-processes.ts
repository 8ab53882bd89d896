import { GuardedProcess, ProcessEnded } from '../../lib/guarded/guarded-process.ts'
import { type Attempt, answerOf } from '../../lib/guarded/guarded-program.ts'
import { READER, type ReaderQuestion } from '../../models/read/model-reader.ts'

/** Tens of thousands of turns take the interpreter a second. */
const LIMIT_MS = 10_000
/** For conversations of a usual length, which share a process. What takes longer is rendered apart. */
const USUAL_LIMIT_MS = 1_000
/** A server that starts has other work for its cores until then; a request that comes earlier starts the process. */
const WARM_UP_MS = 500

/** Turns of conversations that are rendered together: a process has the time of one for all of them. */
const MOST_TURNS_TOGETHER = 256

type Renderer = GuardedProcess<ReaderQuestion, Attempt<readonly Attempt<string>[]>>
type Variables = Readonly<Record<string, unknown>>

interface Waiting {
  readonly variables: Variables
  resolve(prompt: string | Promise<string>): void
  reject(error: Error): void
}

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
  /** By template, the conversations that wait for a shared process while one with the same template is rendered. */
  readonly #usualQueues = new Map<string, Waiting[]>()
  readonly #longQueues = new Map<string, Waiting[]>()
  #warming: NodeJS.Timeout | null = null

  /** Has the process that renders most conversations started soon. */
  warmUp(): void {
    this.#warming ??= setTimeout(() => this.#usual.warmUp(), WARM_UP_MS).unref()
  }

  /**
   * @param isLong whether it may take more than some ten milliseconds.
   * @throws Error with the template's own message when the template rejects its values; ProcessEnded.
   */
  render(source: string, variables: Variables, isLong: boolean): Promise<string> {
    if (this.#apart.has(source)) return this.#renderApart(source, variables)
    return new Promise((resolve, reject) => {
      const queues = isLong ? this.#longQueues : this.#usualQueues
      const waiting = { variables, resolve, reject }
      const queue = queues.get(source)
      if (queue !== undefined) {
        queue.push(waiting)
        return
      }
      queues.set(source, [waiting])
      void this.#work(source, queues, isLong)
    })
  }

  /**
   * Renders what waits for a template, some conversations at a time: one that ends the process must not have others behind
   * it that do the same.
   */
  async #work(source: string, queues: Map<string, Waiting[]>, isLong: boolean): Promise<void> {
    const queue = queues.get(source)!
    while (queue.length > 0 && !this.#apart.has(source)) await this.#renderSome(source, takeSome(queue), isLong)
    queues.delete(source)
    for (const { variables, resolve } of queue) resolve(this.#renderApart(source, variables))
  }

  async #renderSome(source: string, some: readonly Waiting[], isLong: boolean): Promise<void> {
    const renderer = isLong ? this.#long : this.#usual
    try {
      const prompts = await ask(
        renderer,
        source,
        some.map(({ variables }) => variables),
      )
      for (const [i, { resolve, reject }] of some.entries()) settle(prompts[i]!, resolve, reject)
    } catch (error) {
      const isEnded = error instanceof ProcessEnded
      if (isEnded) this.#separate(source)
      // Alone, each may take as long as any. One that was alone and filled the memory would do so again.
      const again = isEnded && (some.length > 1 || (!isLong && error.reason === 'time'))
      for (const { variables, resolve, reject } of some) {
        if (again) resolve(this.#renderApart(source, variables))
        else reject(error as Error)
      }
    }
  }

  async #renderApart(source: string, variables: Variables): Promise<string> {
    const [prompt] = await ask(this.#apart.get(source)!, source, [variables])
    return answerOf(prompt!)
  }

  #separate(source: string): void {
    if (!this.#apart.has(source)) this.#apart.set(source, new GuardedProcess({ ...READER, limitMs: LIMIT_MS }))
  }

  async close(): Promise<void> {
    if (this.#warming !== null) clearTimeout(this.#warming)
    await Promise.all([this.#usual, this.#long, ...this.#apart.values()].map((renderer) => renderer.stop()))
  }
}

async function ask(
  renderer: Renderer,
  source: string,
  conversations: readonly Variables[],
): Promise<readonly Attempt<string>[]> {
  return answerOf(await renderer.ask({ type: 'render', source, conversations }))
}

/** Takes the first conversation, and those behind it that have few turns together. */
function takeSome(queue: Waiting[]): Waiting[] {
  let turns = 0
  const end = queue.findIndex(({ variables: { messages } }, i) => {
    turns += Array.isArray(messages) ? messages.length : MOST_TURNS_TOGETHER
    return i > 0 && turns > MOST_TURNS_TOGETHER
  })
  return queue.splice(0, end === -1 ? queue.length : end)
}

function settle(prompt: Attempt<string>, resolve: Waiting['resolve'], reject: Waiting['reject']): void {
  try {
    resolve(answerOf(prompt))
  } catch (error) {
    reject(error as Error)
  }
}
