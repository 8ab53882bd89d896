/**
 * Tracks which prefix of a mark a growing text ends with. From Aho and Corasick, "Efficient string matching" (1975).
 */
export class MarkAutomaton {
  /** Every proper prefix of a mark. The empty one comes first. */
  readonly states: ReadonlySet<string>
  readonly #marks: ReadonlySet<string>

  constructor(marks: Iterable<string>) {
    this.#marks = new Set(marks)
    const beginnings = [...this.#marks].map((mark) => [...mark].map((_, end, all) => all.slice(0, end).join('')))
    this.states = new Set(['', ...beginnings.flat()])
  }

  /** The mark that ends with this character, or else the next state. */
  after(state: string, character: string): { readonly end: string; readonly isMark: boolean } {
    const text = [...state, character]
    const ends = text.map((_, begin) => text.slice(begin).join(''))
    const mark = ends.find((end) => this.#marks.has(end))
    if (mark !== undefined) return { end: mark, isMark: true }
    return { end: ends.find((end) => this.states.has(end)) ?? '', isMark: false }
  }
}
