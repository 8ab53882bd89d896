import { ServerFailure, type Wire } from '../wire/wire.ts'

/** Interval and timeout of health checks, in ms. */
export interface HealthTimes {
  readonly intervalMs: number
  readonly answerMs: number
}

export const HEALTH_TIMES: HealthTimes = { intervalMs: 2_000, answerMs: 5_000 }
/**
 * Number of consecutive failed checks after which a server that does not respond counts as lost; a refused connection
 * is enough by itself.
 */
const MISSED_CHECKS = 2
/** Number of intervals after which a server that failed verification is checked again. */
const WRONG_PAUSE = 5

/** The part of a wire that health checks use. */
export type HealthChecks = Pick<Wire, 'checkHealth' | 'verify'>

export type ServerState = 'unknown' | 'up' | 'down' | 'wrong'

export interface ServerEvents {
  /** Called when the server becomes usable or unusable. */
  changed(): void
  log(level: 'info' | 'warn', message: string): void
}

/** One server of a model: whether it is usable, and its load. */
export class ModelServer {
  readonly url: string
  /** Number of completions that it is computing for this process. */
  load = 0
  readonly #wire: HealthChecks
  readonly #times: HealthTimes
  readonly #events: ServerEvents
  readonly #closing = new AbortController()
  #state: ServerState = 'unknown'
  #problem = ''
  #missed = 0
  /** Whether another server may have replaced the one that was verified. */
  #isDoubted = false
  #skip = 0
  /** Aborts when the server is lost. */
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

  /** Why it is unusable. */
  get problem(): string {
    return this.#problem
  }

  /** Aborts when the server is lost: its requests will not complete. */
  get lost(): AbortSignal {
    return this.#lost.signal
  }

  /** Checks the server now and then at intervals. */
  async watch(): Promise<void> {
    await this.check()
    if (this.#closing.signal.aborted) return
    this.#timer = setInterval(() => void this.check(), this.#times.intervalMs)
    this.#timer.unref()
  }

  /** Checks the server now; concurrent calls share a check. Never rejects. */
  check(): Promise<void> {
    this.#checking ??= this.#check().finally(() => {
      this.#checking = null
    })
    return this.#checking
  }

  /** Checks the server now, and verifies that it is still the same one. */
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
      // It is healthy, but too busy for the verification.
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

/** Checking the tokenizer waits for a step of the server. */
const VERIFY_MS = 30_000
