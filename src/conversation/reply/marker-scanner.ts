export interface Found {
  /** Text that holds no mark, nor the beginning of one. */
  readonly before: string
  /** The mark behind it; null when none has come yet. */
  readonly mark: string | null
  readonly rest: string
}

/** Looks for marks in a text that comes in pieces. What may be the beginning of a mark is held back. */
export class Marks {
  readonly #marks: readonly string[]
  #held = ''

  constructor(marks: readonly string[]) {
    this.#marks = marks
  }

  /** The first mark. None may be the beginning of another. */
  find(text: string): Found {
    const all = this.#held + text
    this.#held = ''
    let at = all.length
    let mark: string | null = null
    for (const candidate of this.#marks) {
      const found = all.indexOf(candidate)
      if (found !== -1 && found < at) {
        at = found
        mark = candidate
      }
    }
    if (mark !== null) return { before: all.slice(0, at), mark, rest: all.slice(at + mark.length) }
    const cut = all.length - this.#beginning(all)
    this.#held = all.slice(cut)
    return { before: all.slice(0, cut), mark: null, rest: '' }
  }

  /** What was held back and is text after all. */
  end(): string {
    const held = this.#held
    this.#held = ''
    return held
  }

  /** Length of the longest end of the text that a mark may begin with. */
  #beginning(text: string): number {
    let longest = 0
    for (const mark of this.#marks) {
      for (let length = Math.min(mark.length - 1, text.length); length > longest; length--) {
        if (text.endsWith(mark.slice(0, length))) longest = length
      }
    }
    return longest
  }
}
