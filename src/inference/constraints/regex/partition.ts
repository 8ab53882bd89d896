/** Partitions numbers into blocks, which are split by marking some of their numbers. */
export class Partition {
  readonly #numbers: Int32Array
  readonly #places: Int32Array
  readonly #blocks: Int32Array
  readonly #starts: number[] = [0]
  readonly #ends: number[]
  /** Number of marked elements, at the start of each block. */
  readonly #marked: number[] = [0]
  #touched: number[] = []

  constructor(size: number) {
    this.#numbers = Int32Array.from({ length: size }, (_, index) => index)
    this.#places = this.#numbers.slice()
    this.#blocks = new Int32Array(size)
    this.#ends = [size]
  }

  get count(): number {
    return this.#starts.length
  }

  blockOf(number: number): number {
    return this.#blocks[number]!
  }

  sizeOf(block: number): number {
    return this.#ends[block]! - this.#starts[block]!
  }

  /** A copy: marking reorders a block. */
  members(block: number): Int32Array {
    return this.#numbers.slice(this.#starts[block]!, this.#ends[block]!)
  }

  mark(...numbers: readonly number[]): void {
    for (const number of numbers) {
      const block = this.#blocks[number]!
      const place = this.#places[number]!
      const target = this.#starts[block]! + this.#marked[block]!
      if (place < target) continue
      if (this.#marked[block] === 0) this.#touched.push(block)
      const other = this.#numbers[target]!
      this.#numbers[target] = number
      this.#places[number] = target
      this.#numbers[place] = other
      this.#places[other] = place
      this.#marked[block]!++
    }
  }

  /**
   * Splits the marked elements off their blocks.
   * @returns each split block with the new one.
   */
  split(): [old: number, added: number][] {
    const splits: [number, number][] = []
    for (const block of this.#touched) {
      const start = this.#starts[block]!
      const middle = start + this.#marked[block]!
      this.#marked[block] = 0
      if (middle === this.#ends[block]) continue
      const added = this.#starts.push(start) - 1
      this.#ends.push(middle)
      this.#marked.push(0)
      this.#starts[block] = middle
      for (let at = start; at < middle; at++) this.#blocks[this.#numbers[at]!] = added
      splits.push([block, added])
    }
    this.#touched = []
    return splits
  }
}
