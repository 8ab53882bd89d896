/**
 * The part of PostgreSQL's frontend/backend protocol (version 3) that is needed to share one PGlite session between
 * connections. https://www.postgresql.org/docs/current/protocol-message-formats.html
 */

/** Whole messages of a connection, in groups that must reach the session without another connection's in between. */
export class FrontendMessages {
  /** The part of the next message that has arrived. Its chunks are joined once: a message may have a thousand. */
  #chunks: Buffer[] = []
  #bytes = 0
  /** The least number of bytes with which it can be complete. */
  #wanted = 0
  #group: Buffer[] = []
  #started = false;

  /** Yields what the bytes complete: `startup`, `ssl` (a request for encryption), `cancel`, `end`, or groups. */
  *push(bytes: Buffer): Generator<FrontendEvent, void, void> {
    if (this.#bytes === 0) this.#chunks = []
    this.#chunks.push(bytes)
    this.#bytes += bytes.length
    for (;;) {
      const head = this.#started ? 1 : 0
      this.#wanted = Math.max(this.#wanted, head + 4)
      if (this.#bytes < this.#wanted) return
      const buffer = this.#joined()
      const length = head + buffer.readInt32BE(head)
      if (length < head + 4 || length > MAX_MESSAGE_BYTES) throw new Error(`A message of ${length} bytes`)
      this.#wanted = length
      if (this.#bytes < length) return
      const message = buffer.subarray(0, length)
      this.#chunks = [buffer.subarray(length)]
      this.#bytes -= length
      this.#wanted = 0
      if (!this.#started) {
        const code = length >= 8 ? message.readInt32BE(4) : 0
        if (code === SSL_REQUEST || code === GSS_REQUEST) yield { type: 'ssl' }
        else if (code === CANCEL_REQUEST) yield { type: 'cancel' }
        else {
          this.#started = true
          yield { type: 'startup' }
        }
        continue
      }
      const type = String.fromCharCode(message[0]!)
      if (type === 'X') {
        yield { type: 'end' }
        continue
      }
      this.#group.push(message)
      if (!ENDS_GROUP.includes(type)) continue
      yield { type: 'group', bytes: new Uint8Array(Buffer.concat(this.#group)) }
      this.#group = []
    }
  }

  #joined(): Buffer {
    if (this.#chunks.length > 1) this.#chunks = [Buffer.concat(this.#chunks)]
    return this.#chunks[0]!
  }
}

export type FrontendEvent =
  | { readonly type: 'startup' | 'ssl' | 'cancel' | 'end' }
  | { readonly type: 'group'; readonly bytes: Uint8Array }

const MAX_MESSAGE_BYTES = 64 * 2 ** 20
const SSL_REQUEST = 80_877_103
const GSS_REQUEST = 80_877_104
const CANCEL_REQUEST = 80_877_102
/** A simple query and a function call stand alone; Parse, Bind, Describe and Execute belong to the Sync after them. */
const ENDS_GROUP = 'QSF'

/** The answer to a client that connects. It needs no password: access to the socket is access to the database. */
export function welcome(): Buffer {
  const parameters = {
    server_version: '18.0',
    server_encoding: 'UTF8',
    client_encoding: 'UTF8',
    DateStyle: 'ISO, MDY',
    integer_datetimes: 'on',
    standard_conforming_strings: 'on',
  }
  const int32 = (value: number) => {
    const bytes = Buffer.alloc(4)
    bytes.writeInt32BE(value)
    return bytes
  }
  const message = (type: string, body: Buffer) => Buffer.concat([Buffer.from(type), int32(body.length + 4), body])
  return Buffer.concat([
    message('R', int32(0)),
    ...Object.entries(parameters).map(([name, value]) => message('S', Buffer.from(`${name}\0${value}\0`))),
    message('K', Buffer.concat([int32(process.pid), int32(0)])),
    message('Z', Buffer.from('I')),
  ])
}

/** Whether an answer ends with ReadyForQuery inside a transaction, from its last six bytes. */
export function endsInTransaction(tail: Uint8Array): boolean {
  return tail.length === 6 && tail[0] === 0x5a && (tail[5] === 0x54 || tail[5] === 0x45)
}

/**
 * Whether an answer ends with an error that ends a PostgreSQL process, such as when its log cannot be written. The
 * embedded one would wait for its own locks forever.
 */
export function endsWithPanic(tail: Buffer): boolean {
  return /\0V(PANIC|FATAL)\0.*\0\0$/s.test(tail.toString('latin1'))
}
