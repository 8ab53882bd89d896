import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ApiError } from '../../../lib/errors/errors.ts'
import { answerError, type ShownError } from '../../http/error-handler.ts'
import type { SystemOneErrorBody } from './wire/system-one.ts'

export const REQUEST_ID = 'x-typesafe-request-id'

/** Answers with errors in TypeSafe's shape: mistakes in a body have status 422 and a place, others are a sentence. */
export function handleError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  reply.header(REQUEST_ID, request.id)
  answerError(error, request, reply, show)
}

function show(error: ApiError): ShownError {
  if (error.status !== 400)
    return { status: error.status, body: { detail: error.message } satisfies SystemOneErrorBody }
  const detail = [{ loc: ['body', ...(error.path ?? [])], msg: error.message, type: error.code ?? 'value_error' }]
  return { status: 422, body: { detail } satisfies SystemOneErrorBody }
}
