import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import { deserialize } from 'node:v8'
import type { ToEngine } from '../protocol.ts'

type Piece = Extract<ToEngine, { readonly type: 'piece' }>

/** How long a message that is arriving may hold up a step, in ms. */
const RECEIVE_MS = 2
/** A timer of a millisecond may take longer, by this much in ms: timers have the resolution of a millisecond. */
const LATE_MS = 1.2

/** Puts messages together that arrive in pieces; see `Outbox`. */
export class Inbox {
  readonly #pieces = new Map<number, Uint8Array[]>()

  /**
   * @returns the message, when it is complete.
   * @throws Error for a message that cannot be read.
   */
  take({ id, bytes, isLast }: Piece): ToEngine | null {
    const pieces = this.#pieces.get(id) ?? []
    pieces.push(bytes)
    if (isLast) this.#pieces.delete(id)
    else this.#pieces.set(id, pieces)
    return isLast ? (deserialize(Buffer.concat(pieces)) as ToEngine) : null
  }

  /** The rest of a message will not come. */
  drop(id: number): void {
    this.#pieces.delete(id)
  }

  /**
   * Lets messages in: what has arrived, and for a moment what is on its way. The channel holds less than an image, so that
   * one would otherwise take many steps to arrive.
   * @param until by the clock of `performance`: the step is still computed by a device, so there is time for what arrives.
   */
  async receive(until = 0): Promise<void> {
    const end = performance.now() + RECEIVE_MS
    do await nextTurn()
    while (this.#pieces.size > 0 && performance.now() < end)
    while (performance.now() + 1 + LATE_MS < until) await delay(1)
  }
}
