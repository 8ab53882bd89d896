import { getOrMake } from '../get-or-make.ts'
import { GuardedWorker } from './guarded-worker.ts'

interface Waiting<Question, Answer> {
  readonly question: Question
  readonly resolve: (answer: Answer | null | Promise<Answer | null>) => void
}

/**
 * A pool of threads, shared by owners, for work that may fail or never end. Owners take turns, and only one question of
 * each is answered at a time. One owner's slow questions do not delay another's while a thread is free.
 */
export class GuardedPool<Question, Answer> {
  readonly #idle: GuardedWorker<Question, Answer>[]
  readonly #all: readonly GuardedWorker<Question, Answer>[]
  /** Waiting questions by owner. The first owner is next. */
  readonly #queues = new Map<string, Waiting<Question, Answer>[]>()
  readonly #asking = new Set<string>()

  /** @param limitMs maximum processor time of an answer, in ms. Each thread starts with its first question. */
  constructor(file: URL, { threads, limitMs, data = null }: { threads: number; limitMs: number; data?: unknown }) {
    this.#all = Array.from({ length: threads }, () => new GuardedWorker(file, data, limitMs))
    this.#idle = [...this.#all]
  }

  /** Number of an owner's questions that wait for a thread. */
  waiting(owner: string): number {
    return this.#queues.get(owner)?.length ?? 0
  }

  /** Estimated time until they are answered, in ms, from the duration of recent answers. */
  waitMs(owner: string): number {
    return this.waiting(owner) * Math.max(...this.#all.map(({ meanMs }) => meanMs))
  }

  /**
   * @returns null when there was no answer within the limit.
   * @throws Error when the thread dies.
   */
  ask(owner: string, question: Question): Promise<Answer | null> {
    return new Promise((resolve) => {
      getOrMake(this.#queues, owner, () => []).push({ question, resolve })
      this.#next()
    })
  }

  async stop(): Promise<void> {
    await Promise.all(this.#all.map((worker) => worker.stop()))
  }

  #next(): void {
    const owner = [...this.#queues.keys()].find((name) => !this.#asking.has(name))
    if (owner === undefined) return
    const worker = this.#idle.shift()
    if (worker === undefined) return
    const queue = this.#queues.get(owner)!
    const { question, resolve } = queue.shift()!
    this.#asking.add(owner)
    const answer = worker.ask(question).finally(() => {
      this.#asking.delete(owner)
      // The owner moves to the end.
      this.#queues.delete(owner)
      if (queue.length > 0) this.#queues.set(owner, queue)
      // Prefer threads that are already running.
      this.#idle.unshift(worker)
      this.#next()
    })
    resolve(answer)
  }
}
