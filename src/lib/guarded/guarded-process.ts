import type { ChildProcess } from 'node:child_process'
import { serviceUnavailable } from '../errors/errors.ts'
import { spawnLimited } from './limited-process.ts'
import { CHILD_ENVIRONMENT } from './memory.ts'
import { limitWork } from './work-limit.ts'

/** Sent by a program that uses `answerQuestions` when it is ready for questions. */
export const READY = 'ready'
/**
 * A question that ends this many processes is at fault. The first one may have been killed by an operator or the
 * system.
 */
const MOST_LOSSES = 2
/** Signals of a process that ended by itself: because its heap is full, or in a crash. */
export const OWN_ENDS: ReadonlySet<string | null> = new Set([
  'SIGABRT',
  'SIGTRAP',
  'SIGSEGV',
  'SIGBUS',
  'SIGILL',
  'SIGFPE',
])
/**
 * A process that lost its parent and is in an endless loop ends after this much processor time; any other is replaced.
 */
const PROCESSOR_SECONDS = 60
const MOST_FAILED_STARTS = 2
const RETRY_AFTER_S = 5

export type EndReason = 'time' | 'memory'

/**
 * A question that its process could not answer within its limits. The message names the limit, for the middle of a
 * sentence.
 */
export class ProcessEnded extends Error {
  override readonly name = 'ProcessEnded'
  readonly reason: EndReason

  constructor(reason: EndReason, { limitMs, memoryBytes }: Pick<GuardedProcessOptions, 'limitMs' | 'memoryBytes'>) {
    super(
      reason === 'time'
        ? `it takes more than ${limitMs / 1000} s of processor time`
        : `it needs more than ${Math.round(memoryBytes / 2 ** 20)} MiB of memory, or crashes the process that does it`,
    )
    this.reason = reason
  }
}

export interface GuardedProcessOptions {
  /** A module that calls `answerQuestions`. */
  readonly program: URL
  /** Maximum processor time of an answer, in ms. */
  readonly limitMs: number
  /** Limits on the process's writable memory, and on its heap. */
  readonly memoryBytes: number
  readonly heapMb: number
  /** Time after which an idle process ends, in ms; null for never. */
  readonly idleMs: number | null
}

interface Asked<Question, Answer> {
  readonly question: Question
  readonly limitMs: number
  readonly resolve: (answer: Answer) => void
  readonly reject: (error: Error) => void
  losses: number
}

/**
 * A process for work on untrusted input, which may never end, fill the memory or crash. Of the server's environment, it
 * only gets the location of compiled code. Questions are sent immediately and answered in order. A question that ends
 * its process, or takes too long, is rejected; the questions after it are sent again to the next process.
 *
 * The process starts with the first question, and keeps this process alive only while it has questions.
 */
export class GuardedProcess<Question, Answer> {
  readonly #options: GuardedProcessOptions
  /** In the order of their answers. */
  #asked: Asked<Question, Answer>[] = []
  #child: ChildProcess | null = null
  #isReady = false
  #isLate = false
  #failedStarts = 0
  #limit: Disposable | null = null
  #idle: NodeJS.Timeout | undefined

  constructor(options: GuardedProcessOptions) {
    this.#options = options
  }

  /** Starts the process before the first question. */
  warmUp(): void {
    if (this.#child !== null) return
    this.#child = this.#start()
    this.#rest()
  }

  /**
   * @throws ProcessEnded when the question is at fault; ApiError 503 when no process can be started, or each is killed.
   */
  ask(question: Question, limitMs = this.#options.limitMs): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#asked.push({ question, limitMs, resolve, reject, losses: 0 })
      if (this.#child === null) this.#child = this.#start()
      else if (this.#isReady) this.#send(question)
      this.#watch()
    })
  }

  /** Ends the process. Unanswered questions are rejected. */
  async stop(): Promise<void> {
    this.#rejectAll(new Error('The process was stopped'))
    const child = this.#child
    if (child === null || child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise((resolve) => child.once('close', resolve))
    child.ref()
    child.kill('SIGKILL')
    await ended
  }

  #start(): ChildProcess {
    const { program, memoryBytes, heapMb } = this.#options
    const child = spawnLimited({
      program,
      options: [`--max-old-space-size=${heapMb}`],
      environment: { ...CHILD_ENVIRONMENT, ...(process.env.TZ === undefined ? {} : { TZ: process.env.TZ }) },
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      memoryBytes,
      processorSeconds: PROCESSOR_SECONDS,
    })
    this.#isReady = false
    this.#isLate = false
    child.on('message', (message) => {
      if (message === READY) this.#begin()
      else this.#settle(message as Answer)
    })
    child.on('error', () => this.#ended(child, null))
    child.once('close', (_code, signal) => this.#ended(child, signal))
    return child
  }

  #begin(): void {
    this.#isReady = true
    this.#failedStarts = 0
    for (const { question } of this.#asked) this.#send(question)
    this.#watch()
  }

  #send(question: Question): void {
    // Sending fails only if the process has ended, as its `close` event will report.
    this.#child?.send(question as object, () => {})
  }

  #settle(answer: Answer): void {
    this.#unwatch()
    this.#asked.shift()?.resolve(answer)
    this.#watch()
  }

  /** Limits the time of the current question. */
  #watch(): void {
    const [first] = this.#asked
    if (first === undefined) {
      this.#rest()
      return
    }
    clearTimeout(this.#idle)
    this.#child?.ref()
    this.#child?.channel?.ref()
    if (!this.#isReady || this.#limit !== null) return
    this.#limit = limitWork(this.#child?.pid, first.limitMs, () => {
      this.#isLate = true
      this.#child?.kill('SIGKILL')
    })
  }

  #unwatch(): void {
    this.#limit?.[Symbol.dispose]()
    this.#limit = null
  }

  #rest(): void {
    this.#child?.unref()
    this.#child?.channel?.unref()
    clearTimeout(this.#idle)
    const { idleMs } = this.#options
    if (idleMs !== null) this.#idle = setTimeout(() => this.#child?.kill('SIGKILL'), idleMs).unref()
  }

  #ended(child: ChildProcess, signal: NodeJS.Signals | null): void {
    if (this.#child !== child) return
    this.#unwatch()
    clearTimeout(this.#idle)
    this.#child = null
    const [first] = this.#asked
    if (this.#isReady) {
      if (first !== undefined && (this.#isLate || OWN_ENDS.has(signal) || ++first.losses === MOST_LOSSES)) {
        this.#asked.shift()
        const { memoryBytes } = this.#options
        // No question can send its process a SIGKILL.
        if (signal === 'SIGKILL' && !this.#isLate)
          first.reject(this.#unavailable('is killed, perhaps for lack of memory'))
        else first.reject(new ProcessEnded(this.#isLate ? 'time' : 'memory', { limitMs: first.limitMs, memoryBytes }))
      }
    } else if (++this.#failedStarts === MOST_FAILED_STARTS) {
      this.#failedStarts = 0
      this.#rejectAll(this.#unavailable('does not start'))
    }
    if (this.#asked.length === 0) return
    this.#child = this.#start()
    this.#watch()
  }

  #unavailable(what: string): Error {
    const cause = new Error(`The process of ${this.#options.program.pathname} ${what}`)
    return serviceUnavailable('No process can do it now; try again later', RETRY_AFTER_S, cause)
  }

  #rejectAll(error: Error): void {
    const asked = this.#asked
    this.#asked = []
    for (const { reject } of asked) reject(error)
  }
}
