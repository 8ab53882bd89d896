import { ServerFailure, type Wire } from '../wire/wire.ts'

/** How often a server is asked for its health, and how long it may take to answer, in ms. */
export interface HealthTimes {
  readonly intervalMs: number
  readonly answerMs: number
}

export const HEALTH_TIMES: HealthTimes = { intervalMs: 2_000, answerMs: 5_000 }
/** Checks in a row that must fail before a server that does not answer counts as lost; a refused connection is enough by itself. */
const MISSED_CHECKS = 2
/** A server that was found to be wrong is looked at again after this many intervals. */
const WRONG_PAUSE = 5

/** What is asked of a server besides completions. */
export type HealthChecks = Pick<Wire, 'checkHealth' | 'verify'>

export type ServerState = 'unknown' | 'up' | 'down' | 'wrong'

export interface ServerEvents {
  /** Called when the server can be used, or can no longer be. */
  changed(): void
  log(level: 'info' | 'warn', message: string): void
}

/** One server of a model: whether it can be used, and what it is computing. */
export class ModelServer {
  readonly url: string
  /** Completions that it is computing for us. */
  load = 0
  readonly #wire: HealthChecks
  readonly #times: HealthTimes
  readonly #events: ServerEvents
  readonly #closing = new AbortController()
  #state: ServerState = 'unknown'
  #problem = ''
  #missed = 0
  /** Whether it may have become another server than the one that was verified. */
  #isDoubted = false
  #skip = 0
  /** Fires when the server is lost. */
  #lost = new AbortController()
  #checking: Promise<void> | null = null
  #timer: NodeJS.Timeout | null = null

  constructor(url: string, wire: HealthChecks, times: HealthTimes, events: ServerEvents) {
    this.url = url
    this.#wire = wire
    this.#times = times
    this.#events = events
  }

  get state(): ServerState {
    return this.#state
  }

  /** Why it cannot be used. */
  get problem(): string {
    return this.#problem
  }

  /** Fires when the server is lost: what it was computing will never come. */
  get lost(): AbortSignal {
    return this.#lost.signal
  }

  /** Looks at the server now, and from then on at intervals. */
  async watch(): Promise<void> {
    await this.check()
    if (this.#closing.signal.aborted) return
    this.#timer = setInterval(() => void this.check(), this.#times.intervalMs)
    this.#timer.unref()
  }

  /** Looks at the server now; calls share their looks. Never rejects. */
  check(): Promise<void> {
    this.#checking ??= this.#check().finally(() => {
      this.#checking = null
    })
    return this.#checking
  }

  /** Looks at the server now, and whether it is still the one that was verified. */
  doubt(): Promise<void> {
    this.#isDoubted = true
    return this.check()
  }

  close(): void {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#closing.abort()
  }

  async #check(): Promise<void> {
    if (this.#state === 'wrong' && this.#skip-- > 0) return
    const answer = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(this.#times.answerMs)])
    try {
      await this.#wire.checkHealth(this.url, answer)
      this.#missed = 0
      if (this.#state === 'up' && !this.#isDoubted) return
      const patient = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(VERIFY_MS)])
      await this.#wire.verify(this.url, patient)
      this.#isDoubted = false
      this.#turn('up', '')
    } catch (error) {
      if (this.#closing.signal.aborted) return
      this.#missed++
      if (error instanceof ServerFailure && error.kind === 'wrong') {
        this.#skip = WRONG_PAUSE
        this.#turn('wrong', error.message)
        return
      }
      const silent = !(error instanceof ServerFailure)
      // It is healthy, and has no room for the verification.
      if (this.#state === 'up' && !silent && error.kind === 'busy') return
      if (this.#state === 'up' && silent && this.#missed < MISSED_CHECKS) return
      this.#turn('down', silent ? `it does not answer within ${this.#times.answerMs} ms` : (error as Error).message)
    }
  }

  #turn(state: ServerState, problem: string): void {
    const changed = state !== this.#state || problem !== this.#problem
    const wasUp = this.#state === 'up'
    this.#state = state
    this.#problem = problem
    if (!changed) return
    if (state === 'up') this.#events.log('info', `${this.url} can be used`)
    else this.#events.log('warn', `${this.url} cannot be used: ${problem}`)
    if (wasUp) {
      this.#lost.abort(new ServerFailure('lost', problem))
      this.#lost = new AbortController()
    }
    this.#events.changed()
  }
}

/** The check of the tokenizer waits for a step of the server. */
const VERIFY_MS = 30_000
