import {
  characters,
  choice,
  EMPTY,
  type Expression,
  type GrammarBuilder,
  literal,
  type Reference,
  sequence,
} from './grammar.ts'
import { MarkAutomaton } from './mark-automaton.ts'
import { type CodePoints, difference, intersection, setOf } from './regex/code-points.ts'

interface Alphabet {
  /** Characters that stand for themselves. */
  readonly plain: CodePoints
  /** Other texts that a text may be made of, such as escapes. */
  readonly escapes: readonly string[]
}

/** Texts of an alphabet, as they are written, in which no mark occurs. */
export function textWithout(
  marks: readonly string[],
  { plain, escapes }: Alphabet,
  builder: GrammarBuilder,
): Expression {
  const automaton = new MarkAutomaton(marks)
  const rules = new Map([...automaton.states].map((state): [string, Reference] => [state, builder.reserve()]))
  const special = setOf(marks.join(''))
  const others = difference(plain, special)
  const writtenAlone = [...new Set(marks.join(''))].filter(
    (character) => intersection(plain, setOf(character)).length > 0,
  )
  for (const [state, rule] of rules) {
    const steps = [...writtenAlone, ...escapes].flatMap((written) => {
      const next = stateBehind(automaton, state, written)
      return next === null ? [] : [sequence([literal(written), rules.get(next)!])]
    })
    if (others.length > 0) steps.unshift(sequence([characters(others), rules.get('')!]))
    builder.define(rule, choice([EMPTY, ...steps]))
  }
  return rules.get('')!
}

/** Null when a mark would end on the way. */
function stateBehind(automaton: MarkAutomaton, state: string, text: string): string | null {
  let current = state
  for (const character of text) {
    const { end, isMark } = automaton.after(current, character)
    if (isMark) return null
    current = end
  }
  return current
}
