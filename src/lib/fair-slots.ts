/** The share of the slots that one organisation may use, so that some remain for others. */
const SHARE = 0.5

/** Limits the number of concurrent tasks. Organisations take turns, and none has more than half of the slots. */
export class FairSlots {
  readonly #count: number
  #running = 0
  /** Running tasks by organisation. */
  readonly #held = new Map<string, number>()
  /** Non-empty queues by organisation; the next one in turn is first. */
  readonly #waiting = new Map<string, Set<() => void>>()

  constructor(count: number) {
    this.#count = count
  }

  /**
   * Resolves when the task may begin. Disposing of the result frees the slot.
   * @throws the signal's reason when that fires first.
   */
  async take(organisation: string, signal: AbortSignal): Promise<Disposable> {
    signal.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const queue = this.#waiting.get(organisation) ?? new Set()
    this.#waiting.set(organisation, queue.add(resolve))
    const abandon = () => {
      if (queue.delete(resolve) && queue.size === 0) this.#waiting.delete(organisation)
      reject(signal.reason)
    }
    signal.addEventListener('abort', abandon, { once: true })
    this.#pump()
    try {
      await promise
    } finally {
      signal.removeEventListener('abort', abandon)
    }
    let isHeld = true
    return {
      [Symbol.dispose]: () => {
        if (isHeld) this.#give(organisation)
        isHeld = false
      },
    }
  }

  #pump(): void {
    for (let started = true; started && this.#running < this.#count; ) {
      started = false
      for (const [organisation, queue] of this.#waiting) {
        const held = this.#held.get(organisation) ?? 0
        if (held >= Math.max(1, this.#count * SHARE)) continue
        const [next] = queue
        queue.delete(next!)
        // Moves it to the end of the queue: a Map keeps insertion order.
        this.#waiting.delete(organisation)
        if (queue.size > 0) this.#waiting.set(organisation, queue)
        this.#held.set(organisation, held + 1)
        this.#running++
        next!()
        started = true
        break
      }
    }
  }

  #give(organisation: string): void {
    this.#running--
    const held = this.#held.get(organisation)! - 1
    if (held === 0) this.#held.delete(organisation)
    else this.#held.set(organisation, held)
    this.#pump()
  }
}
