interface Queued {
  readonly organisation: string
  /** Ascending in order of arrival. */
  readonly id: number
}

/** Serves organisations in turn, and the items of one in order of arrival. */
export class FairQueue<T extends Queued> {
  /** Items by organisation, none empty; whose turn it is comes first. */
  readonly #queues = new Map<string, T[]>()

  get isEmpty(): boolean {
    return this.#queues.size === 0
  }

  /** The item whose turn it is; it stays until it is removed. */
  get head(): T | undefined {
    const [first] = this.#queues.values()
    return first?.[0]
  }

  /** All items, those of one organisation after those of another. */
  get items(): readonly T[] {
    return [...this.#queues.values()].flat()
  }

  /** Puts an item at its place by arrival; one that is there already stays. */
  add(item: T): void {
    const queue = this.#queues.get(item.organisation)
    if (queue === undefined) {
      this.#queues.set(item.organisation, [item])
      return
    }
    const after = queue.findLastIndex((other) => other.id <= item.id)
    if (queue[after] !== item) queue.splice(after + 1, 0, item)
  }

  /** @returns whether it was there. */
  remove(item: T): boolean {
    const queue = this.#queues.get(item.organisation)
    const index = queue?.indexOf(item) ?? -1
    if (queue === undefined || index < 0) return false
    queue.splice(index, 1)
    if (queue.length === 0) this.#queues.delete(item.organisation)
    return true
  }

  /** The organisation whose turn it was got something; the next one's turn comes. */
  rotate(): void {
    const [first] = this.#queues
    if (first === undefined) return
    this.#queues.delete(first[0])
    this.#queues.set(...first)
  }
}
