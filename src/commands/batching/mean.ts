/** Absolute changes of probabilities, or of log-probabilities. */
export interface Spread {
  readonly mean_change: number
  readonly largest_change: number
}

/** A running mean and maximum. */
export class Mean {
  count = 0
  largest = 0
  #sum = 0

  add(number: number): void {
    this.count++
    this.#sum += number
    this.largest = Math.max(this.largest, number)
  }

  addAll(other: Mean): void {
    this.count += other.count
    this.#sum += other.#sum
    this.largest = Math.max(this.largest, other.largest)
  }

  /** Null without numbers. */
  get mean(): number | null {
    return this.count === 0 ? null : this.#sum / this.count
  }

  get spread(): Spread {
    return { mean_change: this.mean ?? 0, largest_change: this.largest }
  }
}
