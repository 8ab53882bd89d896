import { Worker } from 'node:worker_threads'
import { limitWork } from './work-limit.ts'

const START_LIMIT_MS = 60_000
const FIRST_GUESS_MS = 100
/** Weight of the latest answer in the moving average of their duration. */
const LATEST_WEIGHT = 0.2
/** Message that a guarded worker's file posts when it is ready for questions. */
export const READY = 'ready'

/**
 * A thread for work that may fail or never end. It answers one question at a time and starts with the first one. If an
 * answer takes too long, the thread is terminated and restarted for the next question. It does not keep the process
 * alive.
 *
 * It guards time, not memory: a thread that runs out of memory can end the process. So ask only what is bounded:
 * schemas and patterns by the limits of `inference/constraints`, replies and prompts by the context of the model.
 */
export class GuardedWorker<Question, Answer> {
  readonly #file: URL
  readonly #data: unknown
  readonly #limitMs: number
  #worker: Promise<Worker> | null = null
  #last: Promise<unknown> = Promise.resolve()
  #meanMs = FIRST_GUESS_MS

  constructor(file: URL, data: unknown, limitMs: number) {
    this.#file = file
    this.#data = data
    this.#limitMs = limitMs
  }

  /** Moving average of the duration of answers, in ms. */
  get meanMs(): number {
    return this.#meanMs
  }

  /**
   * @returns null when there was no answer within the limit.
   * @throws Error when the thread dies.
   */
  async ask(question: Question): Promise<Answer | null> {
    const turn = this.#last.then(() => this.#answer(question))
    this.#last = turn.catch(() => {})
    return turn
  }

  /** Terminates the thread. The next question starts a new one. */
  async stop(): Promise<void> {
    const worker = this.#worker
    this.#worker = null
    await worker?.then(
      (running) => running.terminate(),
      () => {},
    )
  }

  async #answer(question: Question): Promise<Answer | null> {
    this.#worker ??= this.#start()
    const asked = performance.now()
    try {
      const worker = await this.#worker
      const answer = await nextMessage<Answer>(worker, this.#limitMs, () => worker.postMessage(question))
      if (answer === null) await this.stop()
      return answer
    } catch (error) {
      await this.stop()
      throw error
    } finally {
      this.#meanMs += LATEST_WEIGHT * (performance.now() - asked - this.#meanMs)
    }
  }

  async #start(): Promise<Worker> {
    const worker = new Worker(this.#file, { workerData: this.#data })
    worker.unref()
    if ((await nextMessage(worker, START_LIMIT_MS)) === READY) return worker
    await worker.terminate()
    throw new Error(`The thread of ${this.#file.pathname} did not start.`)
  }
}

function nextMessage<Message>(worker: Worker, limitMs: number, ask?: () => void): Promise<Message | null> {
  return new Promise((resolve, reject) => {
    const settle = (act: () => void) => {
      limit[Symbol.dispose]()
      for (const event of ['message', 'error', 'exit']) worker.removeAllListeners(event)
      act()
    }
    const limit = limitWork(worker, limitMs, () => settle(() => resolve(null)))
    worker.once('message', (message: Message) => settle(() => resolve(message)))
    worker.once('error', (error) => settle(() => reject(error)))
    worker.once('exit', (code) => settle(() => reject(new Error(`A thread ended with code ${code}.`))))
    ask?.()
  })
}
