import { ApiError } from '../../lib/errors.ts'

/** The time that a call has. Its signal fires when that is over, when nobody waits any more, and when the call has ended. */
export class Deadline {
  readonly signal: AbortSignal
  readonly #overtime = new AbortController()
  readonly #released = new AbortController()
  readonly #timer: NodeJS.Timeout

  /** @param advice what a client can do to need less time. */
  constructor(seconds: number, caller: AbortSignal, advice?: string) {
    this.signal = AbortSignal.any([caller, this.#overtime.signal, this.#released.signal])
    this.#timer = setTimeout(() => this.#overtime.abort(overtimeError(seconds, advice)), seconds * 1000)
  }

  /** Whether the error is the one that says that the time was over. */
  caused(error: unknown): boolean {
    return this.#overtime.signal.aborted && error === this.#overtime.signal.reason
  }

  /** Ends everything that the call still holds. Called however it ends. */
  release(): void {
    clearTimeout(this.#timer)
    this.#released.abort()
  }
}

function overtimeError(seconds: number, advice: string | undefined): ApiError {
  return new ApiError(`The request took longer than ${seconds} seconds${advice ? `; ${advice}` : ''}`, {
    status: 504,
    type: 'server_error',
    code: 'timeout',
  })
}
