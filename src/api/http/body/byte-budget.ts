import { type ApiError, modelOverloaded, tryAgainIn } from '../../../lib/errors.ts'
import { FairQueue } from '../../../lib/fair-queue.ts'

/** Time that a body waits for room before its client is told to come again. */
const WAIT_MS = 60_000
/** Bodies that may wait. They take no memory meanwhile: the client's own connection holds them. */
const MOST_WAITING = 1024
const RETRY_SECONDS = 5

/** Garbage is collected when it comes to this part of the budget. */
const GARBAGE_SHARE = 1 / 4

export interface ByteBudgetOptions {
  readonly waitMs?: number
  readonly collect?: () => void
}

interface Waiting {
  readonly id: number
  readonly organisation: string
  readonly bytes: number
  readonly admit: (lease: ByteLease) => void
}

/**
 * Bounds what large request bodies take of this process's memory together. A body that finds no room waits, unread, and
 * organisations take turns; so a flood of one of them delays its own requests.
 */
export class ByteBudget {
  readonly #limit: number
  readonly #waitMs: number
  readonly #collect: () => void
  /** Since the last collection. */
  #released = 0
  readonly #queue = new FairQueue<Waiting>()
  #waiting = 0
  #taken = 0
  #lastId = 0

  /** @param collect frees the memory of what was given back. */
  constructor(limitBytes: number, { waitMs = WAIT_MS, collect = () => {} }: ByteBudgetOptions = {}) {
    this.#limit = limitBytes
    this.#waitMs = waitMs
    this.#collect = collect
  }

  /** Bytes that requests hold now. */
  get taken(): number {
    return this.#taken
  }

  /**
   * Resolves when there is room. A body larger than the whole budget has all of it to itself.
   * @param signal fires when nobody waits any more.
   * @throws ApiError 503 when there is no room in time; the signal's reason when that has fired.
   */
  async acquire(bytes: number, organisation: string, signal: AbortSignal): Promise<ByteLease> {
    signal.throwIfAborted()
    const wanted = Math.min(bytes, this.#limit)
    if (this.#queue.isEmpty && this.#taken + wanted <= this.#limit) return this.#lease(wanted)
    if (this.#waiting >= MOST_WAITING) throw noRoom()
    return new Promise((resolve, reject) => {
      const leave = (reason: unknown) => {
        settle()
        this.#queue.remove(item)
        reject(reason)
        this.#admit()
      }
      const onAbort = () => leave(signal.reason)
      const timer = setTimeout(() => leave(noRoom()), this.#waitMs)
      const settle = () => {
        this.#waiting--
        clearTimeout(timer)
        signal.removeEventListener('abort', onAbort)
      }
      const item: Waiting = {
        id: ++this.#lastId,
        organisation,
        bytes: wanted,
        admit: (lease) => {
          settle()
          resolve(lease)
        },
      }
      signal.addEventListener('abort', onAbort, { once: true })
      this.#waiting++
      this.#queue.add(item)
    })
  }

  #admit(): void {
    for (let next = this.#queue.head; next && this.#taken + next.bytes <= this.#limit; next = this.#queue.head) {
      this.#queue.rotate()
      this.#queue.remove(next)
      next.admit(this.#lease(next.bytes))
    }
  }

  #lease(bytes: number): ByteLease {
    this.#taken += bytes
    return new ByteLease(bytes, (released) => {
      this.#taken -= released
      this.#released += released
      if (this.#released > this.#limit * GARBAGE_SHARE) {
        // What was given back is free only now, and others may take its room.
        this.#collect()
        this.#released = 0
      }
      this.#admit()
    })
  }
}

/** What one body holds of a budget. */
export class ByteLease {
  #bytes: number
  readonly #giveBack: (bytes: number) => void

  constructor(bytes: number, giveBack: (bytes: number) => void) {
    this.#bytes = bytes
    this.#giveBack = giveBack
  }

  /** Gives back some, at most what is left. */
  giveBack(bytes: number): void {
    const released = Math.min(bytes, this.#bytes)
    this.#bytes -= released
    if (released > 0) this.#giveBack(released)
  }

  release(): void {
    this.giveBack(this.#bytes)
  }
}

function noRoom(): ApiError {
  return modelOverloaded(`Too many large requests are being received. ${tryAgainIn(RETRY_SECONDS)}`, RETRY_SECONDS)
}
