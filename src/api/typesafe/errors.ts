import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ApiError } from '../../lib/errors.ts'
import { answerError, type ShownError } from '../http/error-handler.ts'
import { questionParam } from './system-one-request.ts'
import type { SystemOneErrorBody, SystemOneRequestBody } from './wire/system-one.ts'

export const REQUEST_ID = 'x-typesafe-request-id'

/** Shows errors as TypeSafe's API does: mistakes in a body with status 422 and their place, others as a sentence. */
export function handleError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  reply.header(REQUEST_ID, request.id)
  answerError(error, request, reply, show)
}

function show(error: ApiError): ShownError {
  if (error.status !== 400)
    return { status: error.status, body: { detail: error.message } satisfies SystemOneErrorBody }
  const detail = [{ loc: ['body', ...locationOf(error)], msg: error.message, type: error.code ?? 'value_error' }]
  return { status: 422, body: { detail } satisfies SystemOneErrorBody }
}

function locationOf({ path, param }: ApiError): (string | number)[] {
  return path !== null ? [...path] : param === null ? [] : [param]
}

/**
 * The keys of a parameter. Questions and assets have names of any characters, so that names in the request are looked for.
 */
export function pathOf(param: string, { questions, assets }: SystemOneRequestBody): (string | number)[] {
  for (const placeholder of Object.keys(assets ?? {})) {
    // What is wrong with an image is the asset as a whole.
    if (isWithin(param, `assets.${placeholder}`))
      return ['assets', placeholder, ...(param.endsWith('.part') ? ['part'] : [])]
  }
  for (const id of Object.keys(questions)) {
    const whole = questionParam(id)
    if (isWithin(param, whole)) return ['questions', id, ...keysOf(param.slice(whole.length))]
  }
  return keysOf(param)
}

function isWithin(param: string, whole: string): boolean {
  return param === whole || param.startsWith(`${whole}.`)
}

function keysOf(param: string): string[] {
  return param.split('.').filter((key) => key !== '')
}
