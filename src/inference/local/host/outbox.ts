import type { ChildProcess } from 'node:child_process'
import type { ToEngine } from '../protocol.ts'

/** A message that may hold megabytes of pixels. */
type Large = Extract<ToEngine, { type: 'generate' | 'count' }>

/**
 * What is to be sent to the engine process. It reads about as much between two of its steps as one picture takes, so an
 * abort that stood behind many pictures would be seen many steps later, and what nobody waits for any more would go on.
 * So large messages are written one at a time, all others overtake them, and those that are aborted are never sent.
 */
export class Outbox {
  readonly #process: ChildProcess
  readonly #onLost: (id: number, error: Error) => void
  readonly #waiting = new Map<number, Large>()
  #isWriting = false

  /** @param onLost called for a message that had to wait and cannot be sent. */
  constructor(process: ChildProcess, onLost: (id: number, error: Error) => void) {
    this.#process = process
    this.#onLost = onLost
  }

  /** @throws Error when the message cannot be sent, unless it has to wait. */
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

  /** @param written called when the process has room for more. */
  #write(message: ToEngine, written: () => void): void {
    // A message to a process that just ended is lost; its "exit" tells whoever waits for an answer.
    if (this.#process.connected) this.#process.send(message, written)
  }
}
