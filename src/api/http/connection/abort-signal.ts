import type { FastifyReply } from 'fastify'

/** The status that nginx logs for a client that disconnected before the response was complete. It is never sent. */
export const CLIENT_CLOSED_REQUEST = 499

/** Thrown when the client closes the connection before the response is complete. */
export class ClientDisconnected extends Error {
  override readonly name = 'ClientDisconnected'
}

/**
 * A signal that fires when work on a request must stop: its response has closed, or the service shuts down.
 * @param closed fires after a complete response too: `shutdown` would keep a signal that never fires in memory.
 */
export function requestSignal(closed: AbortSignal, shutdown: AbortSignal): AbortSignal {
  return AbortSignal.any([closed, shutdown])
}

/** A signal that fires when the response is complete, or when its connection closes before that. */
export function closedSignal({ raw }: FastifyReply): AbortSignal {
  const closed = new AbortController()
  const abort = () => closed.abort(new ClientDisconnected('The client closed the connection'))
  raw.once('close', abort)
  if (raw.destroyed) abort()
  return closed.signal
}
