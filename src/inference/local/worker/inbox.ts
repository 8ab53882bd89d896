import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import type { ToEngine } from '../protocol.ts'
import { SharedFile } from '../shared-file.ts'

type Shared = Extract<ToEngine, { readonly type: 'shared' }>

/** How long a message that is arriving may hold up a step, in ms. */
const RECEIVE_MS = 2
/** A timer of a millisecond may take longer, by this much in ms: timers have the resolution of a millisecond. */
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
   * @returns the message; null when it was dropped in the meantime.
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

  /** A message that is being read is not wanted any more. */
  drop(id: number): void {
    this.#arriving.delete(id)
  }

  /**
   * Lets messages in: what has arrived, and for a moment what is on its way. Another thread reads the pixels of an image in
   * about a millisecond.
   * @param until by the clock of `performance`: the step is still computed by a device, so there is time for what arrives.
   */
  async receive(until = 0): Promise<void> {
    const end = performance.now() + RECEIVE_MS
    do await nextTurn()
    while (this.#arriving.size > 0 && performance.now() < end)
    while (performance.now() + 1 + LATE_MS < until) await delay(1)
  }
}
