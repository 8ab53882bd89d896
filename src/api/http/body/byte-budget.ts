import { type ApiError, modelOverloaded, tryAgainIn } from '../../../lib/errors/errors.ts'
import { FairQueue } from '../../../lib/fair-queue.ts'

/** How long a body waits for room before it is rejected. */
const WAIT_MS = 60_000
/** Maximum bodies that may wait. They take no memory: their bytes are not yet read from the socket. */
const MOST_WAITING = 1024
const RETRY_SECONDS = 5

/**
 * The share of the budget that one organisation may hold, and a minimum that it may always hold: enough for a message.
 */
const SHARE = 1 / 2
const LEAST_SHARE_BYTES = 32 * 2 ** 20

/** Garbage is collected when released bytes reach this share of the budget. */
const GARBAGE_SHARE = 1 / 4

export interface ByteBudgetOptions {
  readonly waitMs?: number
  readonly collect?: () => void
}

interface Waiting {
  readonly id: number
  /** The queue in which it waits: that of its owner, or a separate one for messages of its owner that have begun. */
  readonly organisation: string
  readonly owner: string
  readonly bytes: number
  readonly admit: (lease: ByteLease) => void
}

/**
 * Limits the total memory of large request bodies. A body that does not fit waits unread. Organisations take turns, and each
 * has a share: a flood of requests from one of them, or bodies that never arrive, delay only its own.
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
  /** Bytes held by each organisation. */
  readonly #held = new Map<string, number>()
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
   * @param isBegun whether it is the rest of a body that already holds room, which it would otherwise keep while it
   * waits: so it does not wait for its owner's share.
   * @throws ApiError 503 when there is no room in time; the signal's reason when it is aborted.
   */
  async acquire(bytes: number, owner: string, signal: AbortSignal, isBegun = false): Promise<ByteLease> {
    signal.throwIfAborted()
    const wanted = Math.min(bytes, this.#limit)
    const organisation = isBegun ? `${owner} begun` : owner
    // Small bodies would otherwise use up their organisation's share again and again, while a large one waits.
    const isFirst = this.#next === undefined && this.#queue.sizeOf(organisation) === 0
    const isNext = isFirst && this.#isInShare({ organisation, owner, bytes: wanted })
    if (isNext && this.#taken + wanted <= this.#limit) return this.#lease(wanted, owner)
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
        owner,
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

  /**
   * Takes room immediately.
   * @returns null if there is not enough.
   */
  take(bytes: number, owner: string): ByteLease | null {
    const isInShare = this.#isInShare({ organisation: owner, owner, bytes })
    return isInShare && this.#taken + bytes <= this.#limit ? this.#lease(bytes, owner) : null
  }

  /** The next in turn whose organisation has not used up its share. The budget may not have room for it yet. */
  get #next(): Waiting | undefined {
    return this.#queue.heads.find((item) => this.#isInShare(item))
  }

  #isInShare({ organisation, owner, bytes }: Omit<Waiting, 'id' | 'admit'>): boolean {
    const held = organisation === owner ? this.#held.get(owner) : undefined
    return held === undefined || held + bytes <= Math.max(this.#limit * SHARE, LEAST_SHARE_BYTES)
  }

  #admit(): void {
    for (let next = this.#next; next && this.#taken + next.bytes <= this.#limit; next = this.#next) {
      this.#queue.rotate(next.organisation)
      this.#queue.remove(next)
      next.admit(this.#lease(next.bytes, next.owner))
    }
  }

  #lease(bytes: number, organisation: string): ByteLease {
    const hold = (change: number) => {
      this.#taken += change
      const held = (this.#held.get(organisation) ?? 0) + change
      if (held === 0) this.#held.delete(organisation)
      else this.#held.set(organisation, held)
    }
    hold(bytes)
    return new ByteLease(bytes, (released) => {
      hold(-released)
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

  /** Releases all but some of the bytes. */
  shrink(bytes: number): void {
    this.giveBack(Math.max(0, this.#bytes - bytes))
  }

  /** Takes over the bytes of another lease of the same organisation. */
  absorb(other: ByteLease): void {
    this.#bytes += other.#bytes
    other.#bytes = 0
  }

  release(): void {
    this.giveBack(this.#bytes)
  }
}

function noRoom(): ApiError {
  return modelOverloaded(`Too many large requests are being received. ${tryAgainIn(RETRY_SECONDS)}`, RETRY_SECONDS)
}
