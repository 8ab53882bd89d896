import type { FastifyInstance, FastifyRequest } from 'fastify'
import { ApiError } from '../errors.ts'

/** Endpoints of the contract that this server does not have yet; each says so. */
const PATHS = ['/v1/files', '/v1/files/*']

export function addUnavailable(app: FastifyInstance): void {
  const refuse = async (request: FastifyRequest) => {
    throw new ApiError(`${request.routeOptions.url?.replace('/*', '')} is not available on this server yet`, {
      status: 404,
      type: 'invalid_request_error',
    })
  }
  // Refused before a body is read, whatever its type and size.
  for (const url of PATHS) app.all(url, { onRequest: refuse }, refuse)
}
