/**
 * The one family of errors that reach a client. They are thrown where the cause is known, each naming the parameter at
 * fault, and rendered to the wire shape in one place (`api/error-handler.ts`).
 */
export type ErrorType =
  | 'invalid_request_error'
  | 'authentication_error'
  | 'rate_limit_error'
  | 'insufficient_quota'
  | 'server_error'

export interface ApiErrorFields {
  readonly status: number
  readonly type: ErrorType
  /** Path of the input at fault, e.g. `messages[0].content[1].image_url`. */
  readonly param?: string | null
  readonly code?: string | null
  /** Seconds for the `Retry-After` header, which has whole ones; fractions go into `retry-after-ms`. */
  readonly retryAfter?: number
  readonly cause?: unknown
}

export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly status: number
  readonly type: ErrorType
  readonly param: string | null
  readonly code: string | null
  readonly retryAfter: number | undefined

  constructor(message: string, fields: ApiErrorFields) {
    super(message, { cause: fields.cause })
    this.status = fields.status
    this.type = fields.type
    this.param = fields.param ?? null
    this.code = fields.code ?? null
    this.retryAfter = fields.retryAfter
  }

  /** The body that the contract prescribes for every error. */
  toBody(): ErrorBody {
    return { error: { message: this.message, type: this.type, param: this.param, code: this.code } }
  }
}

export interface ErrorBody {
  error: { message: string; type: string | null; param: string | null; code: string | null }
}

type Detail = { code?: string | null; status?: number; cause?: unknown }

/** A mistake of the client; 400 unless said otherwise. `param` is null only where no single input is at fault. */
export function invalidRequest(message: string, param: string | null, detail: Detail = {}): ApiError {
  return new ApiError(message, { status: 400, type: 'invalid_request_error', param, ...detail })
}

/** The model or its engine cannot take work now; `retryAfter` in seconds. */
export function modelOverloaded(message: string, retryAfter: number): ApiError {
  return new ApiError(message, { status: 503, type: 'server_error', code: 'model_overloaded', retryAfter })
}

/** Our own fault. The cause is logged and never shown. */
export function internalError(cause: unknown): ApiError {
  return new ApiError('Internal error', { status: 500, type: 'server_error', cause })
}

/** Something that the service stands on (database, blob store, rate limits) is away; `retryAfter` in whole seconds. */
export function serviceUnavailable(message: string, retryAfter: number, cause?: unknown): ApiError {
  return new ApiError(message, { status: 503, type: 'server_error', retryAfter, cause })
}

/** The end of a message, for so many seconds. */
export function tryAgainIn(seconds: number): string {
  const whole = wholeSeconds(seconds)
  return `Try again in ${whole} ${whole === 1 ? 'second' : 'seconds'}.`
}

/** As `Retry-After` takes them: whole, and at least 1. */
export function wholeSeconds(seconds: number): number {
  return Math.max(1, Math.ceil(seconds))
}
