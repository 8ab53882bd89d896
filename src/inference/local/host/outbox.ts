import type { ChildProcess } from 'node:child_process'
import { serialize } from 'node:v8'
import type { ToEngine } from '../protocol.ts'

/** Less than the channel holds. Larger messages are sent in pieces of this size. */
const PIECE_BYTES = 64 * 1024

/** A message that is sent in pieces. */
interface Parcel {
  readonly id: number
  readonly message: ToEngine
  readonly isBackground: boolean
  /** Null before its first piece is sent. */
  bytes: Uint8Array | null
  sent: number
}

/**
 * Queues messages to the engine process. Between two steps the process reads about as much as the channel holds, so what
 * is behind the pixels of an image would arrive many steps late. Therefore large messages are sent in pieces, one piece at
 * a time. All other messages overtake them, and of the large ones, those that nobody waits for come last. A message that
 * is aborted while it waits is not sent.
 */
export class Outbox {
  readonly #process: ChildProcess
  readonly #onLost: (id: number, error: Error) => void
  readonly #parcels = new Map<number, Parcel>()
  #isWriting = false

  /** @param onLost called for a large message that cannot be sent. */
  constructor(process: ChildProcess, onLost: (id: number, error: Error) => void) {
    this.#process = process
    this.#onLost = onLost
  }

  /**
   * @param isBackground whether nobody waits for the answer.
   * @throws Error when the message cannot be sent. A large one is reported to `onLost` instead.
   */
  send(message: ToEngine, isBackground = false): void {
    if (message.type === 'abort') {
      const parcel = this.#parcels.get(message.id)
      this.#parcels.delete(message.id)
      if (parcel?.sent === 0) return
    }
    if (!('id' in message) || bytesOf(message) <= PIECE_BYTES) {
      this.#write(message, () => {})
      return
    }
    const { id } = message
    this.#parcels.set(id, { id, message, isBackground, bytes: null, sent: 0 })
    if (!this.#isWriting) this.#writePiece()
  }

  #writePiece(): void {
    this.#isWriting = false
    const parcels = [...this.#parcels.values()]
    const parcel = parcels.find(({ isBackground }) => !isBackground) ?? parcels[0]
    if (parcel === undefined) return
    const { id, sent } = parcel
    try {
      parcel.bytes ??= serialize(parcel.message)
      const bytes = parcel.bytes.subarray(sent, sent + PIECE_BYTES)
      parcel.sent += bytes.length
      const isLast = parcel.sent === parcel.bytes.length
      if (isLast) this.#parcels.delete(id)
      this.#write({ type: 'piece', id, bytes, isLast }, () => this.#writePiece())
      this.#isWriting = this.#process.connected
    } catch (error) {
      this.#parcels.delete(id)
      this.#onLost(id, error as Error)
      this.#writePiece()
    }
  }

  /** @param written called when the channel has room for more. */
  #write(message: ToEngine, written: () => void): void {
    // A message to a process that has just ended is lost. Its "exit" event fails the pending calls.
    if (this.#process.connected) this.#process.send(message, written)
  }
}

function bytesOf(message: ToEngine): number {
  const envelope = 'work' in message ? message.work : 'prompt' in message ? message.prompt : null
  if (envelope === null) return 0
  return envelope.views.reduce((sum, { byteLength }) => sum + byteLength, envelope.body.byteLength)
}
