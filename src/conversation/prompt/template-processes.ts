import { GuardedProcess, ProcessEnded } from '../../lib/guarded/guarded-process.ts'
import { type Attempt, answerOf } from '../../lib/guarded/guarded-program.ts'
import { READER, type ReaderQuestion } from '../../models/read/model-reader.ts'

/** The interpreter takes a second for tens of thousands of turns. */
const LIMIT_MS = 10_000
/** Time limit in the process that conversations of usual length share. One that takes longer is rendered in its own. */
const USUAL_LIMIT_MS = 1_000
/** Until then, a starting server needs its cores for other work. An earlier request starts the process at once. */
const WARM_UP_MS = 500

/** Maximum turns of conversations that are rendered together: they share the time limit of one. */
const MOST_TURNS_TOGETHER = 256

type Renderer = GuardedProcess<ReaderQuestion, Attempt<readonly Attempt<string>[]>>
type Variables = Readonly<Record<string, unknown>>

interface Waiting {
  readonly variables: Variables
  resolve(prompt: string | Promise<string>): void
  reject(error: Error): void
}

/**
 * Renders conversations in other processes: those with a third party's template, which may loop forever or fill the memory
 * for some conversation, and long ones, which would block the event loop.
 */
export class TemplateProcesses {
  /** Renders conversations of usual length. It stays alive, because a request would have to wait for its start. */
  readonly #usual: Renderer = new GuardedProcess({ ...READER, limitMs: USUAL_LIMIT_MS, idleMs: null })
  readonly #long: Renderer = new GuardedProcess({ ...READER, limitMs: LIMIT_MS })
  /** Processes of templates that have ended a shared one. From then on, they delay no other template. */
  readonly #apart = new Map<string, Renderer>()
  /** The conversations that wait for a shared process while one with the same template is rendered, by template. */
  readonly #usualQueues = new Map<string, Waiting[]>()
  readonly #longQueues = new Map<string, Waiting[]>()
  #warming: NodeJS.Timeout | null = null

  /** Soon starts the process that renders most conversations. */
  warmUp(): void {
    this.#warming ??= setTimeout(() => this.#usual.warmUp(), WARM_UP_MS).unref()
  }

  /**
   * @param isLong whether it may take more than about ten milliseconds.
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
   * Renders the conversations that wait for a template, a few at a time. If one ends the process, the rest do not repeat
   * that.
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
      for (const [i, { resolve }] of some.entries()) resolve(settled(prompts[i]!))
    } catch (error) {
      const isEnded = error instanceof ProcessEnded
      if (isEnded) this.#separate(source)
      // Each gets the full time limit in a process of its own. One that already filled the memory alone would do so again.
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

/** Takes the first conversation and the following ones, up to a total number of turns. */
function takeSome(queue: Waiting[]): Waiting[] {
  let turns = 0
  const end = queue.findIndex(({ variables: { messages } }, i) => {
    turns += Array.isArray(messages) ? messages.length : MOST_TURNS_TOGETHER
    return i > 0 && turns > MOST_TURNS_TOGETHER
  })
  return queue.splice(0, end === -1 ? queue.length : end)
}

async function settled(prompt: Attempt<string>): Promise<string> {
  return answerOf(prompt)
}
