import { ApiError } from '../../lib/errors/errors.ts'

/** A call's time limit. Its signal fires at the limit, when the client disconnects, and when the call ends. */
export class Deadline {
  readonly signal: AbortSignal
  readonly #overtime = new AbortController()
  readonly #released = new AbortController()
  readonly #timer: NodeJS.Timeout

  /** @param advice what a client can do to stay within the limit. */
  constructor(seconds: number, caller: AbortSignal, advice?: string) {
    this.signal = AbortSignal.any([caller, this.#overtime.signal, this.#released.signal])
    this.#timer = setTimeout(() => this.#overtime.abort(overtimeError(seconds, advice)), seconds * 1000)
  }

  /** Whether this deadline caused the error. */
  caused(error: unknown): boolean {
    return this.#overtime.signal.aborted && error === this.#overtime.signal.reason
  }

  /** Ends the call's remaining work. It must be called at the end of every call, successful or not. */
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
