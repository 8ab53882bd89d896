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
import { type CodePoints, difference, intersection, setOf, union } from './regex/code-points.ts'

export interface Alphabet {
  /** Characters that are written as themselves. */
  readonly plain: CodePoints
  /** Multi-character elements of a text, such as escapes. */
  readonly escapes: readonly string[]
}

/** Texts, as they are written, that contain no mark. */
export function textWithout(
  marks: readonly string[],
  { plain, escapes }: Alphabet,
  builder: GrammarBuilder,
): Expression {
  const automaton = new MarkAutomaton(marks)
  const rules = new Map([...automaton.states].map((state): [string, Reference] => [state, builder.reserve()]))
  const inMarks = setOf(marks.join(''))
  const alone = Array.from(new Set(marks.join(''))).filter((one) => intersection(plain, setOf(one)).length > 0)
  for (const [state, rule] of rules) {
    const charactersTo = Map.groupBy(alone, (character) => stateBehind(automaton, state, character))
    const sets = new Map([...charactersTo].map(([next, list]) => [next, setOf(list.join(''))]))
    // No mark contains any other character.
    sets.set('', union(difference(plain, inMarks), sets.get('') ?? []))
    const steps = [...sets].flatMap(([next, set]) =>
      next === null || set.length === 0 ? [] : [sequence([characters(set), rules.get(next)!])],
    )
    const escaped = escapes.flatMap((text) => {
      const next = stateBehind(automaton, state, text)
      return next === null ? [] : [sequence([literal(text), rules.get(next)!])]
    })
    builder.define(rule, choice([EMPTY, ...steps, ...escaped]))
  }
  return rules.get('')!
}

/** Null if a mark would be completed on the way. */
function stateBehind(automaton: MarkAutomaton, state: string, text: string): string | null {
  let current = state
  for (const character of text) {
    const { end, isMark } = automaton.after(current, character)
    if (isMark) return null
    current = end
  }
  return current
}
