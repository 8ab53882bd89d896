/**
 * The `type` of an error. Every error that a client receives is an `ApiError`. It is thrown where the cause is known,
 * names the parameter at fault, and becomes a response in one place (`api/http/error-handler.ts`).
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
  /** Path of the parameter at fault, e.g. `messages[0].content[1].image_url`. */
  readonly param?: string | null
  /** The same as keys and indices, where the schema of a request knows them. */
  readonly path?: readonly (string | number)[] | null
  readonly code?: string | null
  /**
   * Seconds for the `Retry-After` header, which rounds them up. A fraction is also sent exactly, as `retry-after-ms`.
   */
  readonly retryAfter?: number
  readonly cause?: unknown
}

export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly status: number
  readonly type: ErrorType
  readonly param: string | null
  readonly path: readonly (string | number)[] | null
  readonly code: string | null
  readonly retryAfter: number | undefined

  constructor(message: string, fields: ApiErrorFields) {
    super(message, { cause: fields.cause })
    this.status = fields.status
    this.type = fields.type
    this.param = fields.param ?? null
    this.path = fields.path ?? null
    this.code = fields.code ?? null
    this.retryAfter = fields.retryAfter
  }

  /** The response body that the contract prescribes for every error. */
  toBody(): ErrorBody {
    return { error: { message: this.message, type: this.type, param: this.param, code: this.code } }
  }
}

export interface ErrorBody {
  error: { message: string; type: string | null; param: string | null; code: string | null }
}

type Detail = Pick<ApiErrorFields, 'code' | 'path' | 'cause'> & { status?: number }

/** A mistake of the client, with status 400 by default. `param` is null only when no single parameter is at fault. */
export function invalidRequest(message: string, param: string | null, detail: Detail = {}): ApiError {
  return new ApiError(message, { status: 400, type: 'invalid_request_error', param, ...detail })
}

/** The server cannot accept the work now. `retryAfter` is in seconds. */
export function modelOverloaded(message: string, retryAfter: number): ApiError {
  return new ApiError(message, { status: 503, type: 'server_error', code: 'model_overloaded', retryAfter })
}

/** A bug in the server. The cause is logged and never sent to the client. */
export function internalError(cause: unknown): ApiError {
  return new ApiError('Internal error', { status: 500, type: 'server_error', cause })
}

/** A dependency (database, blob store, Redis) is unavailable. `retryAfter` is in whole seconds. */
export function serviceUnavailable(message: string, retryAfter: number, cause?: unknown): ApiError {
  return new ApiError(message, { status: 503, type: 'server_error', retryAfter, cause })
}

/** The sentence with the retry delay that ends an error message. */
export function tryAgainIn(seconds: number): string {
  const whole = wholeSeconds(seconds)
  return `Try again in ${whole} ${whole === 1 ? 'second' : 'seconds'}.`
}

/** Rounds up to whole seconds, at least 1, for `Retry-After`. */
export function wholeSeconds(seconds: number): number {
  return Math.max(1, Math.ceil(seconds))
}
