import { getOrMake } from '../../../lib/get-or-make.ts'
import { ALL, type CodePoints, type Range } from './code-points.ts'

/** Groups characters into classes by the sets that contain them: no set distinguishes characters of one class. */
export class Alphabet {
  readonly classes: readonly CodePoints[]
  readonly #starts: readonly number[]
  readonly #classOfStart: readonly number[]
  readonly #members = new Map<CodePoints, Uint8Array>()

  constructor(sets: Iterable<CodePoints>) {
    const toggles = new Map<number, bigint>()
    let bit = 1n
    for (const set of new Set([ALL, ...sets])) {
      for (const [first, last] of set) {
        toggles.set(first, (toggles.get(first) ?? 0n) ^ bit)
        toggles.set(last + 1, (toggles.get(last + 1) ?? 0n) ^ bit)
      }
      bit <<= 1n
    }
    const starts = [...toggles.keys()].sort((a, b) => a - b)
    const ids = new Map<bigint, number>()
    const classes: Range[][] = []
    const classOfStart: number[] = []
    let within = 0n
    for (const [index, start] of starts.entries()) {
      within ^= toggles.get(start)!
      // The lowest bit is that of the set of all characters.
      const isCharacter = (within & 1n) === 1n
      const id = isCharacter ? (ids.get(within) ?? classes.push([]) - 1) : -1
      classOfStart.push(id)
      if (!isCharacter) continue
      ids.set(within, id)
      classes[id]!.push([start, starts[index + 1]! - 1])
    }
    this.classes = classes
    this.#starts = starts
    this.#classOfStart = classOfStart
  }

  /** @returns -1 for code points that are not characters. */
  classOf(codePoint: number): number {
    return this.#classOfStart[this.#intervalOf(codePoint)] ?? -1
  }

  /**
   * @returns for each class, whether a set contains it. The set must be one of those that the alphabet was made from.
   */
  members(set: CodePoints): Uint8Array {
    return getOrMake(this.#members, set, () => {
      const members = new Uint8Array(this.classes.length)
      for (const [first, last] of set) {
        for (let at = this.#intervalOf(first); at < this.#starts.length && this.#starts[at]! <= last; at++) {
          const id = this.#classOfStart[at]!
          if (id >= 0) members[id] = 1
        }
      }
      return members
    })
  }

  /** @returns the index of the last interval that starts at or before a code point; -1 if there is none. */
  #intervalOf(codePoint: number): number {
    let low = 0
    let high = this.#starts.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#starts[middle]! <= codePoint) low = middle + 1
      else high = middle
    }
    return low - 1
  }
}
