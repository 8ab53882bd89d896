import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'
import { BODY_LIMIT_BYTES } from '../body/body-reader.ts'
import type { ByteLease } from '../body/byte-budget.ts'
import { drained } from './response-stream.ts'
import type { Upgraded } from './upgrades.ts'

/** Proxies end connections that are silent for 60 s. */
const PING_MS = 30_000
/** What a message may take of memory without a share of the budget for bodies. */
const FREE_BYTES = 128 * 1024
/** Bytes of the head of a ping or pong, which is no part of a message. */
const CONTROL_HEAD_BYTES = 6
/** Time limit for receiving a message that takes more. */
const MESSAGE_MS = 120_000
const POLICY_VIOLATION = 1008
const TRY_AGAIN_LATER = 1013

export interface Message {
  readonly data: Buffer
  readonly isBinary: boolean
  /** Its share of the budget; null for a short message. Release it when the data is no longer needed. */
  readonly lease: ByteLease | null
}

interface MessageSocketOptions {
  readonly pingMs?: number | undefined
  /** Waits for room for more bytes of a message. @param isBegun whether it has some already. */
  readonly reserve: (bytes: number, isBegun: boolean) => Promise<ByteLease>
  readonly onMessage: (message: Message) => void
}

/** A WebSocket with bounds on memory: of what the client sends, and of what it does not read. */
export class MessageSocket {
  readonly #webSocket: WebSocket
  readonly #connection: Duplex
  readonly #options: MessageSocketOptions
  #full: Promise<void> | null = null
  /** Works for which messages wait with the client. */
  #pauses = 0
  /** Bytes of the message that is arriving. */
  #arrived = 0
  #room = FREE_BYTES
  #lease: ByteLease | null = null
  #deadline: NodeJS.Timeout | undefined
  #isSilent = false

  constructor({ webSocket, connection }: Upgraded, options: MessageSocketOptions) {
    this.#webSocket = webSocket
    this.#connection = connection
    this.#options = options
    // Without another `binaryType`, data are buffers.
    webSocket.on('message', (data, isBinary) =>
      options.onMessage({ data: data as Buffer, isBinary, lease: this.#endMessage() }),
    )
    // The socket closes with the code of the fault.
    webSocket.on('error', () => {})
    for (const kind of ['ping', 'pong'] as const) {
      webSocket.on(kind, ({ length }: Buffer) => {
        this.#arrived -= CONTROL_HEAD_BYTES + length
      })
    }
    // It is called after the socket's own listeners, so the last piece of a message counts for the next one.
    connection.on('data', ({ length }: Buffer) => this.#count(length))
    const timer = setInterval(() => this.#ping(), options.pingMs ?? PING_MS)
    webSocket.once('close', () => {
      clearInterval(timer)
      this.#endMessage()?.release()
    })
  }

  /** Null while the client can take more; else a promise that resolves when it can, or has disconnected. */
  get full(): Promise<void> | null {
    return this.#full
  }

  /** Sends a text, whether or not the client can take more. Until it can, no more messages are read. */
  send(text: string): void {
    if (!this.#isOpen) return
    this.#webSocket.send(text)
    if (this.#full !== null || !this.#connection.writableNeedDrain) return
    this.#full = drained(this.#connection).then(() => {
      this.#full = null
    })
    void this.pausing(this.#full)
  }

  /** Reads no more messages until the work has ended. Those of a piece that has been read still come. */
  async pausing<Result>(work: Promise<Result>): Promise<Result> {
    this.#pauses++
    this.#webSocket.pause()
    try {
      return await work
    } finally {
      this.#pauses--
      if (this.#pauses === 0) this.#webSocket.resume()
    }
  }

  close(code: number, reason: string): void {
    this.#webSocket.close(code, reason)
  }

  get #isOpen(): boolean {
    return this.#webSocket.readyState === this.#webSocket.OPEN
  }

  #count(bytes: number): void {
    this.#isSilent = false
    this.#arrived += bytes
    if (this.#arrived <= this.#room || !this.#isOpen) return
    void this.pausing(this.#makeRoom())
  }

  async #makeRoom(): Promise<void> {
    try {
      // In total no more than the largest message takes, which may be the whole budget.
      const bytes = Math.min(this.#room, BODY_LIMIT_BYTES + FREE_BYTES - this.#room)
      const lease = await this.#options.reserve(bytes, this.#lease !== null)
      if (this.#lease === null) this.#lease = lease
      else this.#lease.absorb(lease)
      this.#room *= 2
      const refuse = () => this.close(POLICY_VIOLATION, 'The message did not arrive in time')
      this.#deadline ??= setTimeout(refuse, MESSAGE_MS)
    } catch {
      this.close(TRY_AGAIN_LATER, 'The server has no room for a message of this size now')
    }
  }

  /** @returns the room of the message. */
  #endMessage(): ByteLease | null {
    const lease = this.#lease
    this.#lease = null
    this.#arrived = 0
    this.#room = FREE_BYTES
    clearTimeout(this.#deadline)
    this.#deadline = undefined
    return lease
  }

  #ping(): void {
    // While the socket is paused, what the client sends is not read.
    if (this.#isSilent && this.#pauses === 0) this.#webSocket.terminate()
    else this.#webSocket.ping()
    this.#isSilent = this.#pauses === 0
  }
}
