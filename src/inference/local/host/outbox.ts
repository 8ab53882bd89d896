import type { ChildProcess } from 'node:child_process'
import type { ToEngine } from '../protocol.ts'

/** A message that may hold megabytes of pixels. */
type Large = Extract<ToEngine, { type: 'generate' | 'count' }>

/**
 * Queues messages to the engine process. Between two steps the process reads about as much as one image, so an abort
 * behind many images would arrive many steps late. Therefore large messages are written one at a time, all others
 * overtake them, and a large message that is aborted while it waits is never sent.
 */
export class Outbox {
  readonly #process: ChildProcess
  readonly #onLost: (id: number, error: Error) => void
  readonly #waiting = new Map<number, Large>()
  #isWriting = false

  /** @param onLost called for a message that had to wait and then cannot be sent. */
  constructor(process: ChildProcess, onLost: (id: number, error: Error) => void) {
    this.#process = process
    this.#onLost = onLost
  }

  /** @throws Error when the message cannot be sent. One that has to wait is reported to `onLost` instead. */
  send(message: ToEngine): void {
    if (message.type === 'abort' && this.#waiting.delete(message.id)) return
    if (message.type !== 'generate' && message.type !== 'count') this.#write(message, () => {})
    else if (this.#isWriting) this.#waiting.set(message.id, message)
    else this.#writeLarge(message)
  }

  #writeLarge(message: Large): void {
    this.#write(message, () => {
      this.#isWriting = false
      this.#writeNext()
    })
    this.#isWriting = this.#process.connected
  }

  #writeNext(): void {
    for (const [id, message] of this.#waiting) {
      this.#waiting.delete(id)
      try {
        this.#writeLarge(message)
        return
      } catch (error) {
        this.#onLost(id, error as Error)
      }
    }
  }

  /** @param written called when the channel has room for more. */
  #write(message: ToEngine, written: () => void): void {
    // A message to a process that has just ended is lost. Its "exit" event fails the pending calls.
    if (this.#process.connected) this.#process.send(message, written)
  }
}
