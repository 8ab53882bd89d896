import { bytes, choice, EMPTY, type Expression, type Grammar, literal, type Reference, sequence } from './grammar.ts'
import { MarkAutomaton } from './mark-automaton.ts'
import type { ByteRange } from './utf8.ts'

interface Tag {
  readonly begin: string
  readonly content: Grammar
  readonly end: string
}

interface TagPolicy {
  readonly triggers: readonly string[]
  /** The text begins with a tag. */
  readonly atLeastOne: boolean
  /** The text ends behind a tag. */
  readonly stopAfterFirst: boolean
}

/**
 * Free text in which whatever begins with a trigger is a tag: each state of the triggers' automaton is a rule, and the
 * tags stand where a trigger is found.
 * @param tags each of which begins with one of the triggers.
 */
export function tagGrammar(tags: readonly Tag[], { triggers, atLeastOne, stopAfterFirst }: TagPolicy): Grammar {
  const used = triggers.filter((trigger) => tags.some(({ begin }) => begin.startsWith(trigger)))
  const triggerOf = new Map(used.map((trigger) => [latin1(trigger), trigger]))
  const automaton = new MarkAutomaton(triggerOf.keys())
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
  const rules = new Map(tags.flatMap(({ content }) => [...content.rules]))
  for (const [state, rule] of states) {
    const bytesTo = Map.groupBy(BYTES, (byte) => automaton.after(state, String.fromCharCode(byte)).end)
    const steps = [...bytesTo].map(([end, values]): Expression => {
      const trigger = triggerOf.get(end)
      return sequence([bytes(rangesOf(values)), trigger === undefined ? states.get(end)! : tagsBehind(trigger)])
    })
    rules.set(rule, choice([EMPTY, ...steps]))
  }
  return { root: atLeastOne ? tagsBehind('') : free, rules }
}

const BYTES = Array.from({ length: 256 }, (_, byte) => byte)

function rangesOf(bytes: readonly number[]): ByteRange[] {
  const ranges: [number, number][] = []
  for (const byte of bytes) {
    const last = ranges.at(-1)
    if (last !== undefined && byte === last[1] + 1) last[1] = byte
    else ranges.push([byte, byte])
  }
  return ranges
}

function latin1(text: string): string {
  return Buffer.from(text).toString('latin1')
}
