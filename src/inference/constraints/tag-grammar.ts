import {
  characters,
  choice,
  EMPTY,
  type Expression,
  type Grammar,
  literal,
  optional,
  type Reference,
  repeat,
  sequence,
} from './grammar.ts'
import { MarkAutomaton } from './mark-automaton.ts'
import { complement, setOf, union } from './regex/code-points.ts'

interface Tag {
  readonly begin: string
  readonly content: Grammar
  readonly end: string
}

interface TagPolicy {
  readonly triggers: readonly string[]
  /** The text must begin with a tag. */
  readonly atLeastOne: boolean
  /** The text ends after the first tag. */
  readonly stopAfterFirst: boolean
}

/** Maximum white-space characters between tags. */
const MOST_BLANKS = 2

function rulesOf(tags: readonly Tag[]): Map<Reference, Expression> {
  return new Map(tags.flatMap(({ content }) => [...content.rules]))
}

function anyTag(tags: readonly Tag[]): Expression {
  return choice(tags.map(({ begin, content, end }) => sequence([literal(begin), content.root, literal(end)])))
}

/** One of the tags or, unless `single`, several with `between` between them. */
export function listGrammar(
  tags: readonly Tag[],
  { between, single = false }: { readonly between: string; readonly single?: boolean },
): Grammar {
  const one: Reference = { type: 'reference', id: 0 }
  const rules = rulesOf(tags)
  rules.set(one, anyTag(tags))
  return { root: single ? one : sequence([one, repeat(sequence([literal(between), one]), 0, null)]), rules }
}

/** Either a structure, or tags separated by white space. With `atLeastOne`, only the tags. */
export function eitherGrammar(
  structure: Grammar,
  tags: readonly Tag[],
  { atLeastOne, stopAfterFirst }: Omit<TagPolicy, 'triggers'>,
): Grammar {
  const list: Reference = { type: 'reference', id: 0 }
  const tag = anyTag(tags)
  const more = sequence([repeat(characters(setOf(' \n')), 0, MOST_BLANKS), list])
  const rules = new Map([...structure.rules, ...rulesOf(tags)])
  rules.set(list, stopAfterFirst ? tag : sequence([tag, optional(more)]))
  return { root: atLeastOne ? list : choice([structure.root, list]), rules }
}

/**
 * Free text in which a trigger always begins a tag: each state of the triggers' automaton becomes a rule, and a
 * complete trigger leads to its tags.
 * @param tags each begins with one of the triggers.
 */
export function tagGrammar(tags: readonly Tag[], { triggers, atLeastOne, stopAfterFirst }: TagPolicy): Grammar {
  const used = triggers.filter((trigger) => trigger !== '' && tags.some(({ begin }) => begin.startsWith(trigger)))
  const automaton = new MarkAutomaton(used)
  const states = new Map(
    [...automaton.states].map((state): [string, Reference] => [state, { type: 'reference', id: 0 }]),
  )
  const free = states.get('')!
  const after = stopAfterFirst ? EMPTY : free
  const tagsBehind = (trigger: string) =>
    choice(
      tags
        .filter(({ begin }) => begin.startsWith(trigger))
        .map(({ begin, content, end }) =>
          sequence([literal(begin.slice(trigger.length)), content.root, literal(end), after]),
        ),
    )
  const rules = rulesOf(tags)
  const inTriggers = new Set(used.join(''))
  const others = complement(setOf([...inTriggers].join('')))
  for (const [state, rule] of states) {
    const byEnd = Map.groupBy(inTriggers, (character) => automaton.after(state, character).end)
    const sets = new Map([...byEnd].map(([end, list]) => [end, setOf(list.join(''))]))
    sets.set('', union(others, sets.get('') ?? []))
    const steps = [...sets].map(([end, set]) =>
      sequence([characters(set), used.includes(end) ? tagsBehind(end) : states.get(end)!]),
    )
    rules.set(rule, choice([EMPTY, ...steps]))
  }
  return { root: atLeastOne ? tagsBehind('') : free, rules }
}
