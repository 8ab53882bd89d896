import type { CodePoints } from './code-points.ts'
import type { Pattern } from './pattern.ts'

type Instruction =
  | { readonly set: CodePoints; readonly next: number }
  /** Continues at each of them. */
  | { readonly either: number[] }

/** The end of every program. */
const ACCEPT = 0

/**
 * Checks whether a pattern matches a whole text, in time linear in the text: patterns come from clients, and
 * JavaScript's own engine backtracks, which may take exponential time.
 */
export class PatternMatcher {
  readonly #program: Instruction[] = [{ either: [] }]
  readonly #start: number

  constructor(pattern: Pattern) {
    this.#start = this.#compile(pattern, ACCEPT)
  }

  test(text: string): boolean {
    // The step at which each instruction was last reached.
    const reached = new Int32Array(this.#program.length).fill(-1)
    let current = this.#reach([this.#start], reached, 0)
    let step = 0
    for (const character of text) {
      step++
      const codePoint = character.codePointAt(0)!
      const next = current.flatMap((index) => {
        const instruction = this.#program[index]!
        return 'set' in instruction && contains(instruction.set, codePoint) ? [instruction.next] : []
      })
      if (next.length === 0) return false
      current = this.#reach(next, reached, step)
    }
    return reached[ACCEPT] === step
  }

  /** All instructions that can be reached without reading a character. */
  #reach(starts: number[], reached: Int32Array, step: number): number[] {
    const found: number[] = []
    const open = starts
    for (let index = open.pop(); index !== undefined; index = open.pop()) {
      if (reached[index] === step) continue
      reached[index] = step
      const instruction = this.#program[index]!
      if ('either' in instruction) open.push(...instruction.either)
      else found.push(index)
    }
    return found
  }

  /** @returns the start of the pattern that continues at `next`. */
  #compile(pattern: Pattern, next: number): number {
    switch (pattern.type) {
      case 'character':
        return this.#add({ set: pattern.set, next })
      case 'sequence':
        return pattern.parts.reduceRight((start, part) => this.#compile(part, start), next)
      case 'choice':
        return this.#add({ either: pattern.options.map((option) => this.#compile(option, next)) })
      case 'repeat':
        return this.#repeat(pattern.part, pattern.min, pattern.max, next)
    }
  }

  #repeat(part: Pattern, min: number, max: number | null, next: number): number {
    let start = next
    if (max === null) {
      const either = [next]
      start = this.#add({ either })
      either.push(this.#compile(part, start))
    }
    for (let i = min; i < (max ?? 0); i++) start = this.#add({ either: [this.#compile(part, start), next] })
    for (let i = 0; i < min; i++) start = this.#compile(part, start)
    return start
  }

  #add(instruction: Instruction): number {
    return this.#program.push(instruction) - 1
  }
}

function contains(set: CodePoints, codePoint: number): boolean {
  return set.some(([first, last]) => codePoint >= first && codePoint <= last)
}
