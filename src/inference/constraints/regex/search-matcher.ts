import { Alphabet } from './alphabet.ts'
import { characterSets, Determiniser, type State } from './determiniser.ts'
import { parseSyntax } from './parser.ts'
import { ANYTHING } from './pattern.ts'
import { WorkBudget } from './state-machine.ts'

/** Maximum steps for all texts that one pattern is matched against. */
const MOST_WORK = 100_000_000
/** Maximum states of an assertion. */
const MOST_STATES = 100_000

/** Checks whether a pattern matches a part of a text. Like `PatternMatcher`, it takes time linear in the text. */
export class SearchMatcher {
  readonly #alphabet: Alphabet
  readonly #states: Determiniser

  /** @throws PatternError */
  constructor(source: string) {
    const match = parseSyntax(source)
    this.#alphabet = new Alphabet(characterSets(match))
    const search = { type: 'sequence', parts: [ANYTHING, match, ANYTHING] } as const
    this.#states = new Determiniser(search, this.#alphabet, { states: MOST_STATES, budget: new WorkBudget(MOST_WORK) })
  }

  test(text: string): boolean {
    let state: State | null = this.#states.start()
    for (const character of text) {
      const symbol = this.#alphabet.classOf(character.codePointAt(0)!)
      // Half of a surrogate pair is not a character.
      if (symbol < 0) return false
      state = this.#states.step(state, symbol)
      if (state === null) return false
    }
    return this.#states.accepts(state)
  }
}
