import { GuardedWorker } from './guarded-worker.ts'

interface Waiting<Question, Answer> {
  readonly question: Question
  readonly resolve: (answer: Answer | null | Promise<Answer | null>) => void
}

/**
 * Some threads for work that may fail or never end, shared by owners. Owners take turns, and each has one question
 * answered at a time: the slow questions of one hold up none of another while a thread is left.
 */
export class GuardedPool<Question, Answer> {
  readonly #idle: GuardedWorker<Question, Answer>[]
  readonly #all: readonly GuardedWorker<Question, Answer>[]
  /** By owner; whose turn is next comes first. */
  readonly #queues = new Map<string, Waiting<Question, Answer>[]>()
  readonly #asking = new Set<string>()

  /** @param limitMs time that an answer may take. A thread starts with its first question. */
  constructor(file: URL, { threads, limitMs, data = null }: { threads: number; limitMs: number; data?: unknown }) {
    this.#all = Array.from({ length: threads }, () => new GuardedWorker(file, data, limitMs))
    this.#idle = [...this.#all]
  }

  /** Questions of an owner whose turn has not come. */
  waiting(owner: string): number {
    return this.#queues.get(owner)?.length ?? 0
  }

  /** Time until they are answered, in ms, by what answers took lately. */
  waitMs(owner: string): number {
    return this.waiting(owner) * Math.max(...this.#all.map(({ meanMs }) => meanMs))
  }

  /**
   * @returns null when there was no answer within the limit.
   * @throws Error when the thread dies.
   */
  ask(owner: string, question: Question): Promise<Answer | null> {
    return new Promise((resolve) => {
      const queue = this.#queues.get(owner) ?? []
      queue.push({ question, resolve })
      this.#queues.set(owner, queue)
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
      // Behind all others.
      this.#queues.delete(owner)
      if (queue.length > 0) this.#queues.set(owner, queue)
      // The one that runs already is asked first.
      this.#idle.unshift(worker)
      this.#next()
    })
    resolve(answer)
  }
}
