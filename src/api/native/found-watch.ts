import type { FastifyRequest } from 'fastify'
import { type ApiError, invalidRequest } from '../../lib/errors/errors.ts'
import type { Watch, Watches } from '../../watches/watches.ts'
import { principalOf } from '../http/access/auth.ts'

/** The key of the watch in the request's path. */
export function keyOf(request: FastifyRequest): [organisation: string, id: string] {
  return [principalOf(request).organisation, (request.params as { watch_id: string }).watch_id]
}

/** @throws ApiError 404 */
export async function foundWatch(request: FastifyRequest, { watches }: { readonly watches: Watches }): Promise<Watch> {
  return found(await watches.find(...keyOf(request)), request)
}

/** @throws ApiError 404 */
export function found(watch: Watch | null, request: FastifyRequest): Watch {
  if (watch !== null) return watch
  throw noSuchWatch(keyOf(request)[1])
}

export function noSuchWatch(id: string): ApiError {
  return invalidRequest(`No such watch: ${id.slice(0, 200)}`, 'watch_id', { status: 404, code: 'watch_not_found' })
}
