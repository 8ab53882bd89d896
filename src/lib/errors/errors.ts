import type { ErrorCode } from './error-codes.ts'
import { type ErrorText, mentions, plainText, renamed, written } from './error-text.ts'
import { type Names, nameOf, type Param, type Path, pathOf, shownName } from './param.ts'

export { say } from './error-text.ts'

/**
 * The `type` of an error. Every error that a client receives is an `ApiError`. It is thrown where the cause is known,
 * names the parameter at fault, and becomes a response in `api/http/error-handler.ts`, or in its surface's own shape.
 * It keeps the names of parameters, which differ between APIs, separate from the client's values.
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
  /** The parameter at fault. */
  readonly param?: Param | null
  readonly code?: ErrorCode | null
  /**
   * Seconds for the `Retry-After` header, which rounds them up. A fraction is also sent exactly, as `retry-after-ms`.
   */
  readonly retryAfter?: number | undefined
  readonly cause?: unknown
}

export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly text: ErrorText
  readonly status: number
  readonly type: ErrorType
  /** Keys and indices of the parameter at fault; null when no single parameter is. */
  readonly path: Path | null
  /** The same in the notation of errors, e.g. `messages[0].content[1].image_url`. */
  readonly param: string | null
  readonly code: ErrorCode | null
  readonly retryAfter: number | undefined

  /** @param message a plain text must not name a parameter that another API names differently. */
  constructor(message: string | ErrorText, fields: ApiErrorFields) {
    const text = typeof message === 'string' ? plainText(message) : message
    super(written(text), { cause: fields.cause })
    const { param = null } = fields
    this.text = text
    this.status = fields.status
    this.type = fields.type
    this.path = param === null || param.length === 0 ? null : pathOf(param)
    this.param = this.path && shownName(this.path)
    this.code = fields.code ?? null
    this.retryAfter = fields.retryAfter
  }

  /** The same error with another parameter. */
  at(param: Param): ApiError {
    return new ApiError(this.text, { ...this.#fields, param })
  }

  /** The same error with another API's parameter names. The client's text stays unchanged. */
  named(names: Names): ApiError {
    return new ApiError(renamed(this.text, names), { ...this.#fields, param: this.path && names(this.path) })
  }

  /** The message for an API that has no other place for the parameter at fault. */
  get sentence(): string {
    const { text, message, path, param } = this
    return path === null || mentions(text, path) ? message : `${param}: ${message}`
  }

  /** The response body that the contract prescribes for every error. */
  toBody(): ErrorBody {
    return { error: { message: this.message, type: this.type, param: this.param, code: this.code } }
  }

  get #fields(): ApiErrorFields {
    const { status, type, path, code, retryAfter, cause } = this
    return { status, type, param: path, code, retryAfter, cause }
  }
}

/**
 * Adds the path to an error from a room that only knows parameters by name.
 * @param paths the paths that the name may refer to.
 */
export function located(error: unknown, paths: readonly Path[]): unknown {
  if (!(error instanceof ApiError) || error.path === null) return error
  const [name, ...within] = error.path
  const path = paths.find((path) => nameOf(path) === name)
  return path === undefined ? error : error.at([...path, ...within])
}

/** An error of a request with another API's parameter names; anything else is returned unchanged. */
export function namedBy(error: unknown, names: Names | undefined): unknown {
  return error instanceof ApiError && names !== undefined ? error.named(names) : error
}

export interface ErrorBody {
  error: { message: string; type: string | null; param: string | null; code: string | null }
}

type Detail = Pick<ApiErrorFields, 'code' | 'cause'> & { status?: number }

/**
 * A mistake of the client, with status 400 by default. `param` is null only when no single parameter is at fault.
 * @param message a template (see `say`) if it names parameters whose names differ in other APIs.
 */
export function invalidRequest(message: string | ErrorText, param: Param | null, detail: Detail = {}): ApiError {
  return new ApiError(message, { status: 400, type: 'invalid_request_error', param, ...detail })
}

/** The server cannot accept the work now. `retryAfter` is in seconds. */
export function modelOverloaded(message: string, retryAfter: number): ApiError {
  return new ApiError(message, { status: 503, type: 'server_error', code: 'model_overloaded', retryAfter })
}

/** The client must wait. `retryAfter` is in whole seconds. */
export function rateLimited(message: string, retryAfter: number): ApiError {
  return new ApiError(message, { status: 429, type: 'rate_limit_error', code: 'rate_limit_exceeded', retryAfter })
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
