import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Caller } from '../../../conversation/conversations.ts'
import type { ServedModel } from '../../../inference/catalog/registry.ts'
import { principalOf } from '../access/auth.ts'
import { closedSignal } from '../connection/abort-signal.ts'
import { notesOf } from './response-notes.ts'

/**
 * Admits a request that computes no tokens: the ledger gets no row, and a spent budget does not matter. Its model stays
 * until the response has been sent.
 */
export function unmetered(request: FastifyRequest, reply: FastifyReply, model: ServedModel): Caller {
  request.servedModel = model.id
  const release = model.engine.hold?.()
  const closed = closedSignal(reply)
  if (release !== undefined) closed.addEventListener('abort', release)
  if (closed.aborted) release?.()
  return { model, organisation: principalOf(request).organisation, ...notesOf(request, reply) }
}
