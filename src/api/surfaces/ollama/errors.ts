import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ApiError } from '../../../lib/errors/errors.ts'
import { answerError } from '../../http/error-handler.ts'

/** Shows errors as Ollama does. */
export function handleError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  answerError(error, request, reply, (shown) => ({ status: shown.status, body: toErrorBody(shown) }))
}

/** Ollama's errors are plain texts. */
export function toErrorBody({ sentence }: ApiError): object {
  return { error: sentence }
}
