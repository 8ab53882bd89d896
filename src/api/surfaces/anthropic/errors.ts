import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ApiError } from '../../../lib/errors/errors.ts'
import { answerError, type ShownError } from '../../http/error-handler.ts'
import { THREADS_UNSUPPORTED } from './wire/message-request.ts'
import type { MessageErrorBody } from './wire/message-response.ts'

const REQUEST_ID = 'request-id'

/** Makes all responses of a scope's endpoints, including errors, look like those of Anthropic's API. */
export function answerAsAnthropic(scope: FastifyInstance): void {
  scope.setErrorHandler(handleError)
  scope.addHook('onRequest', (request, reply, done) => {
    reply.header(REQUEST_ID, request.id)
    done()
  })
}

function handleError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  reply.header(REQUEST_ID, request.id)
  answerError(error, request, reply, (shown) => showError(shown, request.id))
}

export function showError(error: ApiError, requestId: string): ShownError {
  return { status: error.code === 'model_overloaded' ? OVERLOADED : error.status, body: toErrorBody(error, requestId) }
}

export function toErrorBody(error: ApiError, requestId: string): MessageErrorBody {
  const details = error.code === THREADS_UNSUPPORTED ? { details: { error_code: THREADS_UNSUPPORTED } } : {}
  return { type: 'error', error: { type: typeOf(error), message: error.sentence, ...details }, request_id: requestId }
}

type ErrorType = MessageErrorBody['error']['type']

/** The status for overload in Anthropic's API. */
const OVERLOADED = 529
const TYPES: Readonly<Record<number, ErrorType>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
}

function typeOf({ status, code }: ApiError): ErrorType {
  if (code === 'model_overloaded') return 'overloaded_error'
  return TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error')
}
