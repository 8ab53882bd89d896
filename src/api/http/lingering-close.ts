import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'

/** What is read and dropped of a body that was refused: more than any upload may have. */
const MAX_BYTES = 256 * 2 ** 20
/** For as long as a JSON body may take. */
const TOTAL_MS = 120_000
const SILENCE_MS = 5_000
const CHECK_MS = 250

export interface LingeringOptions {
  /** In place of the usual time that a client may be silent in the middle of a body that was refused. */
  readonly lingerSilenceMs?: number | undefined
}

/**
 * Lets a client that is still sending see why it was refused. Many send the whole body before they read anything, and a
 * connection that is closed under them is an error without a reason: closing a socket that has unread bytes resets it. So
 * the rest of the body is read and dropped, within bounds, before the connection is closed; as nginx does.
 */
export function lingerBeforeClose(app: FastifyInstance, { lingerSilenceMs = SILENCE_MS }: LingeringOptions): void {
  app.addHook('onRequest', ({ raw: request }, { raw: response }, done) => {
    // Before Node's own listener, which closes the connection.
    if (!request.complete) {
      response.prependOnceListener('finish', () => {
        // What did not come in time is not waited for any longer.
        if (!request.complete && response.statusCode !== 408) linger(request, lingerSilenceMs)
      })
    }
    done()
  })
}

function linger(request: IncomingMessage, silenceMs: number): void {
  const { socket } = request
  const closing = holdOpen(socket)
  request.resume()
  const started = performance.now()
  const before = socket.bytesRead
  let [last, changed] = [before, started]
  const check = setInterval(
    () => {
      const now = performance.now()
      if (socket.bytesRead !== last) [last, changed] = [socket.bytesRead, now]
      if (last - before > MAX_BYTES || now - changed > silenceMs || now - started > TOTAL_MS) socket.destroy()
    },
    Math.min(CHECK_MS, silenceMs / 2),
  )
  request.once('end', () => {
    clearInterval(check)
    closing.release()
  })
  socket.once('close', () => clearInterval(check))
}

/** Until it is released, the end of a connection closes its sending half alone. */
function holdOpen(socket: Socket): { release(): void } {
  let ended = false
  socket.destroySoon = () => {
    ended = true
    socket.end()
  }
  return {
    release() {
      // The method of all sockets is seen again.
      Reflect.deleteProperty(socket, 'destroySoon')
      if (ended) socket.destroySoon()
    },
  }
}
