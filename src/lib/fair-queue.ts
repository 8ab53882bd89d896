import { getOrMake } from './get-or-make.ts'
import { sumOf } from './sum.ts'

interface Queued {
  readonly organisation: string
  /** Ascending in order of arrival. */
  readonly id: number
}

/** Serves organisations in turn, and the items of each organisation in order of arrival. */
export class FairQueue<T extends Queued> {
  /** Non-empty queues by organisation. The first is next to be served. */
  readonly #queues = new Map<string, T[]>()

  get isEmpty(): boolean {
    return this.#queues.size === 0
  }

  /** The next item to be served. It stays in the queue until removed. */
  get head(): T | undefined {
    const [first] = this.#queues.values()
    return first?.[0]
  }

  /** The next item of each organisation, in order of turns. */
  get heads(): readonly T[] {
    return [...this.#queues.values()].map(([first]) => first!)
  }

  /** All items, grouped by organisation. */
  get items(): readonly T[] {
    return [...this.#queues.values()].flat()
  }

  get size(): number {
    return sumOf([...this.#queues.values()], ({ length }) => length)
  }

  /** Items of one organisation. */
  sizeOf(organisation: string): number {
    return this.#queues.get(organisation)?.length ?? 0
  }

  /** Adds an item in order of arrival, unless it is already in the queue. */
  add(item: T): void {
    const queue = getOrMake(this.#queues, item.organisation, () => [])
    const after = queue.findLastIndex((other) => other.id <= item.id)
    if (queue[after] !== item) queue.splice(after + 1, 0, item)
  }

  /** @returns whether the item was in the queue. */
  remove(item: T): boolean {
    const queue = this.#queues.get(item.organisation)
    const index = queue?.indexOf(item) ?? -1
    if (queue === undefined || index < 0) return false
    queue.splice(index, 1)
    if (queue.length === 0) this.#queues.delete(item.organisation)
    return true
  }

  /** Ends an organisation's turn, the current one's by default: it moves to the end. */
  rotate(organisation = this.head?.organisation ?? ''): void {
    const queue = this.#queues.get(organisation)
    if (queue === undefined) return
    this.#queues.delete(organisation)
    this.#queues.set(organisation, queue)
  }
}
