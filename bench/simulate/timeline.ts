/** The clock of a simulation, in ms, and what is to happen on it. */
export class Timeline {
  /** A binary heap: each entry is due no later than its two children. */
  readonly #heap: Entry[] = []
  #now = 0
  #added = 0

  get now(): number {
    return this.#now
  }

  /** Runs `act` in `ms`, after what was added earlier for the same moment. */
  after(ms: number, act: () => void): void {
    const entry = { at: this.#now + Math.max(0, ms), order: this.#added++, act }
    const heap = this.#heap
    let index = heap.push(entry) - 1
    while (index > 0) {
      const parent = (index - 1) >> 1
      if (isBefore(heap[parent]!, entry)) break
      heap[index] = heap[parent]!
      index = parent
    }
    heap[index] = entry
  }

  /** Runs until nothing is left to happen, or nothing before `end`. */
  run(end = Number.POSITIVE_INFINITY): void {
    for (let next = this.#heap[0]; next !== undefined && next.at <= end; next = this.#heap[0]) {
      this.#takeFirst()
      this.#now = next.at
      next.act()
    }
  }

  #takeFirst(): void {
    const heap = this.#heap
    const last = heap.pop()!
    if (heap.length === 0) return
    let index = 0
    for (let child = 1; child < heap.length; child = 2 * index + 1) {
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child++
      if (isBefore(last, heap[child]!)) break
      heap[index] = heap[child]!
      index = child
    }
    heap[index] = last
  }
}

interface Entry {
  readonly at: number
  /** Order in which entries were added. */
  readonly order: number
  readonly act: () => void
}

function isBefore(a: Entry, b: Entry): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order)
}
