import { type ApiError, modelOverloaded, tryAgainIn } from '../../../lib/errors/errors.ts'
import { FairQueue } from '../../../lib/fair-queue.ts'

/** How long a body waits for room before it is rejected. */
const WAIT_MS = 60_000
/** Maximum bodies that may wait. They take no memory: their bytes are not yet read from the socket. */
const MOST_WAITING = 1024
const RETRY_SECONDS = 5

/** Garbage is collected when released bytes reach this share of the budget. */
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
 * Limits the total memory of large request bodies. A body that does not fit waits unread. Organisations take turns, so a
 * flood of requests from one of them delays only its own.
 */
export class ByteBudget {
  readonly #limit: number
  readonly #waitMs: number
  readonly #collect: () => void
  /** Bytes released since the last collection. */
  #released = 0
  readonly #queue = new FairQueue<Waiting>()
  #waiting = 0
  #taken = 0
  #lastId = 0

  /** @param collect frees the memory of released bodies. */
  constructor(limitBytes: number, { waitMs = WAIT_MS, collect = () => {} }: ByteBudgetOptions = {}) {
    this.#limit = limitBytes
    this.#waitMs = waitMs
    this.#collect = collect
  }

  /** Bytes held now. */
  get taken(): number {
    return this.#taken
  }

  /**
   * Resolves when there is room. A body larger than the whole budget gets all of it.
   * @param signal cancels the wait.
   * @throws ApiError 503 when there is no room in time; the signal's reason when it is aborted.
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
        // Released memory is free only after a collection, and the next body may need it.
        this.#collect()
        this.#released = 0
      }
      this.#admit()
    })
  }
}

/** The part of a budget that one body holds. */
export class ByteLease {
  #bytes: number
  readonly #giveBack: (bytes: number) => void

  constructor(bytes: number, giveBack: (bytes: number) => void) {
    this.#bytes = bytes
    this.#giveBack = giveBack
  }

  /** Releases up to `bytes` of the bytes still held. */
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
