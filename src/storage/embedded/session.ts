import type { Socket } from 'node:net'
import { endsInTransaction, endsWithPanic, FrontendMessages, welcome } from './wire.ts'

/** The one session of an embedded database: bytes of whole messages in, bytes of the answer out. */
export interface WireSession {
  execute(messages: Uint8Array, onAnswer: (bytes: Uint8Array) => void): Promise<void>
  rollback(): Promise<void>
}

/** A transaction that is idle for this long has lost its client, and all others wait for it. */
export const IDLE_IN_TRANSACTION_MS = 15_000
/** More than an error and the message after it. */
const TAIL_BYTES = 4_096

/**
 * Lets many connections share a database that has one session. Connections take turns with one group of messages each; a
 * connection that has begun a transaction keeps the session until the transaction ends. Session state that outlives a
 * transaction (settings, named statements, temporary tables) would be visible to every connection: programs that
 * connect here use none.
 *
 * `@electric-sql/pglite-socket` 0.2.17 cannot take the place of this class and of `wire.ts`. It passes on single messages
 * instead of groups. After a statement that fails, messages of other connections come in between: some answers reach the
 * wrong connection, some errors reach none, and connections break (`npm run bench -- embedded-database` counts them). It also
 * limits only how long a connection may be idle, not a transaction; gives no more answers once the database has thrown an
 * error; does not report that a connection was closed, which decides how long the database's process lives; and requires
 * another version of PGlite.
 */
export class SharedSession {
  readonly #session: WireSession
  readonly #waiting: { readonly socket: Socket; readonly messages: Uint8Array }[] = []
  #holder: Socket | null = null
  #idle: NodeJS.Timeout | undefined
  #running = false
  /** Connected sockets. */
  readonly connections = new Set<Socket>()
  readonly #onFailure: (error: unknown) => void

  /** @param onFailure called when the database itself is broken and can answer nothing more. */
  constructor(session: WireSession, onFailure: (error: unknown) => void) {
    this.#session = session
    this.#onFailure = onFailure
  }

  add(socket: Socket, onClose: () => void): void {
    const messages = new FrontendMessages()
    this.connections.add(socket)
    socket.setNoDelay(true)
    socket.on('data', (bytes) => {
      try {
        for (const event of messages.push(bytes)) {
          if (event.type === 'ssl') socket.write('N')
          else if (event.type === 'startup') socket.write(welcome())
          else if (event.type === 'group') this.#waiting.push({ socket, messages: event.bytes })
          else socket.end()
        }
        void this.#run()
      } catch {
        socket.destroy()
      }
    })
    socket.on('error', () => socket.destroy())
    socket.on('close', () => {
      this.connections.delete(socket)
      void this.#run()
      onClose()
    })
  }

  async #run(): Promise<void> {
    if (this.#running) return
    this.#running = true
    try {
      for (;;) {
        if (this.#holder?.destroyed) {
          await this.#session.rollback()
          this.#hold(null)
        }
        const next = this.#waiting.findIndex(({ socket }) => this.#holder === null || socket === this.#holder)
        if (next < 0) break
        const { socket, messages } = this.#waiting.splice(next, 1)[0]!
        if (socket.destroyed) continue
        this.#hold(await this.#answer(socket, messages))
      }
    } catch (error) {
      this.#onFailure(error)
    } finally {
      this.#running = false
    }
  }

  /** @returns the socket if it is inside a transaction now; otherwise null. */
  async #answer(socket: Socket, messages: Uint8Array): Promise<Socket | null> {
    let tail = Buffer.alloc(0)
    await this.#session.execute(messages, (bytes) => {
      // A copy: the database reuses the memory for its next answer.
      const answer = Buffer.from(bytes)
      tail = Buffer.concat([tail, answer.subarray(-TAIL_BYTES)]).subarray(-TAIL_BYTES)
      if (!socket.destroyed) socket.write(answer)
    })
    if (endsWithPanic(tail)) throw new Error('The database has ended')
    return endsInTransaction(tail.subarray(-6)) ? socket : null
  }

  #hold(socket: Socket | null): void {
    this.#holder = socket
    clearTimeout(this.#idle)
    if (socket) this.#idle = setTimeout(() => socket.destroy(), IDLE_IN_TRANSACTION_MS)
  }
}
