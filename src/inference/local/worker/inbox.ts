import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import type { ToEngine } from '../protocol.ts'
import { SharedFile } from '../shared-file.ts'

type Shared = Extract<ToEngine, { readonly type: 'shared' }>

/** Maximum delay of a step by an arriving message, in ms. */
const RECEIVE_MS = 2
/** Maximum lateness of a timer of one millisecond, in ms: timers have a resolution of one millisecond. */
const LATE_MS = 1.2

/** Reads large messages from the file that the API process writes them to; see `Outbox`. */
export class Inbox {
  readonly #file: SharedFile
  readonly #arriving = new Set<number>()
  #last: Promise<unknown> = Promise.resolve()

  /** @param descriptor the file's. */
  constructor(descriptor: number) {
    this.#file = new SharedFile(descriptor)
  }

  /**
   * Reads messages in order of arrival.
   * @returns the message; null if it was dropped in the meantime.
   * @throws Error for a message that cannot be read.
   */
  async take({ id, stored }: Shared): Promise<ToEngine | null> {
    this.#arriving.add(id)
    try {
      const reading = this.#last.then(() => this.#file.take<ToEngine>(stored))
      this.#last = reading.catch(() => {})
      const message = await reading
      return this.#arriving.has(id) ? message : null
    } finally {
      this.#arriving.delete(id)
    }
  }

  /** Drops a message that is being read. */
  drop(id: number): void {
    this.#arriving.delete(id)
  }

  /**
   * Receives the messages that have arrived, and waits a moment for those on their way. Another thread reads the pixels of an
   * image in about a millisecond.
   * @param until by the clock of `performance`: a device computes the step until then, so messages delay nothing.
   */
  async receive(until = 0): Promise<void> {
    const end = performance.now() + RECEIVE_MS
    do await nextTurn()
    while (this.#arriving.size > 0 && performance.now() < end)
    while (performance.now() + 1 + LATE_MS < until) await delay(1)
  }
}
