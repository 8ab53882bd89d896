import type { FastifyReply } from 'fastify'

/** What the log of many web servers calls a client that left before its answer. */
export const CLIENT_GONE = 499

/** The client closed the connection before it had its answer. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone'
}

/**
 * A signal that fires as soon as nobody waits for the answer any more: the client has gone, or the service, closing,
 * waits no longer.
 */
export function answerSignal(reply: FastifyReply, shutdown: AbortSignal): AbortSignal {
  // Aborted after a whole answer too: then nobody listens, and a signal that never fires would be kept by `shutdown`.
  return AbortSignal.any([closedSignal(reply), shutdown])
}

/** A signal that fires when the answer is out, or its connection is closed before. */
export function closedSignal({ raw }: FastifyReply): AbortSignal {
  const closed = new AbortController()
  const abort = () => closed.abort(new ClientGone('The client closed the connection'))
  raw.once('close', abort)
  if (raw.destroyed) abort()
  return closed.signal
}
