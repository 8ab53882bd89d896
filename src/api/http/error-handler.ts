import type { FastifyError, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify'
import {
  ApiError,
  internalError,
  invalidRequest,
  serviceUnavailable,
  tryAgainIn,
  wholeSeconds,
} from '../../lib/errors/errors.ts'
import type { ApiCall } from './api-call.ts'
import { CLIENT_CLOSED_REQUEST, ClientDisconnected } from './connection/abort-signal.ts'

const RETRY_AFTER_S = 5

/** How an error is shown to a client. */
export interface ShownError {
  readonly status: number
  readonly body: object
}

/** Answers a thrown error in the contract's shape. A surface with a shape of its own calls `answerError`. */
export function handleError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  answerError(error, request, reply, showError)
}

/** Shows an error as the contract does. */
export function showError(error: ApiError): ShownError {
  return { status: error.status, body: error.toBody() }
}

/** Answers a thrown error in the shape that `show` gives it. */
export function answerError(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  show: (error: ApiError) => ShownError,
): void {
  if (error instanceof ClientDisconnected) {
    // No client receives this response; the status is for the log.
    reply.code(CLIENT_CLOSED_REQUEST).send()
    return
  }
  const apiError = toApiError(error)
  noteError(apiError, { id: request.id, trace: request.trace, logger: request.server.logger })
  if (apiError.status === 413) {
    // Fastify would close the connection; `lingering-close.ts` reads and drops the rest of the body instead.
    reply.removeHeader('connection')
  }
  // Do not wait for the rest of a request that timed out.
  if (apiError.status === 408) reply.header('connection', 'close')
  const { retryAfter } = apiError
  if (retryAfter !== undefined) {
    reply.header('retry-after', wholeSeconds(retryAfter))
    // OpenAI's clients read this header first.
    if (!Number.isInteger(retryAfter)) reply.header('retry-after-ms', Math.ceil(retryAfter * 1000))
  }
  const { status, body } = show(apiError)
  reply.code(status).send(body)
}

/** Records the error of a response: in the call's trace and, if the server is at fault, in the log. */
export function noteError(error: ApiError, call: Pick<ApiCall, 'id' | 'trace' | 'logger'>): void {
  call.trace?.failed(error)
  logServerError(error, call)
}

export function logServerError(error: ApiError, { id: traceId, logger }: Pick<ApiCall, 'id' | 'logger'>): void {
  // 503 and 504 are expected under load; a 500 is a bug.
  if (error.status === 500) logger.error({ traceId, err: error.cause ?? error }, error.message)
  else if (error.status > 500) logger.warn({ traceId, status: error.status, cause: causeOf(error) }, error.message)
}

/** Why a required service has failed, in one line; undefined if the error says everything. */
function causeOf({ cause }: ApiError): string | undefined {
  if (!(cause instanceof Error)) return undefined
  const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : cause.name
  return `${code}: ${cause.message}`
}

export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error
  if (isFastifyError(error)) return fromFastify(error)
  // The threads that parse bodies or compile schemas, when the system refuses to start more.
  if (error instanceof Error && 'code' in error && error.code === 'ERR_WORKER_INIT_FAILED')
    return serviceUnavailable(
      `The server can start no thread at the moment. ${tryAgainIn(RETRY_AFTER_S)}`,
      RETRY_AFTER_S,
      error,
    )
  return internalError(error)
}

export function notFound(request: FastifyRequest): never {
  const path = pathOf(request)
  const meant = meantPath(request, path)
  const advice = meant === undefined ? '' : `; use ${meant}`
  throw invalidRequest(`Unknown path: ${request.method} ${path}${advice}`, null, { status: 404 })
}

/** The endpoint that a client meant whose base URL lacks `/v1`, has more than that, or ends with a slash. */
function meantPath({ method, server }: FastifyRequest, path: string): string | undefined {
  // The router would read these as patterns, and throws for some of them.
  if (/[:*]/.test(path)) return undefined
  const plain = `/${path.split('/').filter(Boolean).join('/')}`
  const candidates = [plain, `/v1${plain}`, plain.replace(/^.*(?=\/v1\/)/, ''), plain.replace(/^\/v1/, '')]
  return candidates.find((url) => url !== path && server.hasRoute({ method: method as HTTPMethods, url }))
}

/** Returns the path without the query, which may hold data that must not reach logs or messages. */
export function pathOf(request: FastifyRequest): string {
  return request.url.split('?', 1)[0]!.slice(0, 200)
}

function isFastifyError(error: unknown): error is FastifyError {
  return error instanceof Error && 'statusCode' in error && typeof error.statusCode === 'number'
}

function fromFastify(error: FastifyError): ApiError {
  const status = error.statusCode ?? 500
  if (status < 400 || status >= 500) return internalError(error)
  return invalidRequest(MESSAGES[error.code] ?? error.message, null, { status, cause: error })
}

const MESSAGES: Readonly<Record<string, string>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: 'The request body is larger than 20 MB',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'The request body must be JSON, sent with Content-Type: application/json',
  FST_ERR_CTP_EMPTY_JSON_BODY: 'The request body is empty; a JSON object is expected',
  FST_ERR_CTP_INVALID_JSON_BODY: 'The request body is not valid JSON',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'The length of the request body does not match Content-Length',
  FST_ERR_MAX_PARAM_LENGTH: 'The path is too long',
  FST_ERR_BAD_URL: 'The path is not a valid URL path',
}
