import { getOrMake } from '../../lib/get-or-make.ts'
import { choice, EMPTY, type Expression, type GrammarBuilder, type Reference, repeat, sequence } from './grammar.ts'
import type { Alphabet } from './regex/alphabet.ts'
import { type CodePoints, union } from './regex/code-points.ts'
import { NONE, type StateMachine } from './regex/state-machine.ts'

/** A set with more ranges than this gets a rule of its own. */
const LARGEST_SET = 4

interface Edge {
  readonly target: number
  /** Equal sets have equal expressions. */
  readonly set: Expression
}

/** A set of characters, repeated. */
interface Run {
  readonly set: Expression
  readonly min: number
  /** Null for no end. */
  readonly max: number | null
}

/**
 * The texts that a state machine accepts, as a grammar with one reading per text: a rule for each state that several
 * others lead to, or that several follow. Runs of one set become counts.
 * @param charactersOf how one character from a set is written.
 */
export function machineText(
  machine: StateMachine,
  alphabet: Alphabet,
  charactersOf: (set: CodePoints) => Expression,
  builder: GrammarBuilder,
): Expression {
  const sets = new Map<string, Expression>()
  const rules = new Map<number, Reference>()
  const edgesBy = Array.from(machine.accepting.keys(), edgesOf)
  const sources = new Int32Array(machine.accepting.length)
  for (const { target } of edgesBy.flat()) sources[target]!++
  const runsBy = findRuns(machine, edgesBy)
  /** States whose rules are still to be defined. */
  const open = [0]
  const root = startOf(0)
  // The loop extends the list.
  for (const state of open) {
    const rule = rules.get(state)
    if (rule !== undefined) builder.define(rule, bodyOf(state))
  }
  return root

  function startOf(state: number): Expression {
    const run = runsBy[state]
    if (run) return repeat(run.set, run.min, run.max)
    return getOrMake(rules, state, () => {
      if (state !== 0) open.push(state)
      return builder.reserve()
    })
  }

  function bodyOf(start: number): Expression {
    const runs: Run[] = []
    let state = start
    let rest: Expression | null = null
    while (rest === null) {
      const edges = edgesBy[state]!
      const run = runsBy[state]
      const [edge] = edges
      if (run && state !== start) {
        append(runs, run)
        rest = EMPTY
      } else if (state !== start && needsRule(state)) rest = startOf(state)
      else if (edges.length === 1 && machine.accepting[state] === 0) {
        append(runs, { set: edge!.set, min: 1, max: 1 })
        state = edge!.target
      } else {
        const options = edges.map(({ target, set }) => sequence([set, startOf(target)]))
        rest = choice(machine.accepting[state] === 1 ? [EMPTY, ...options] : options)
      }
    }
    return sequence([...runs.map(({ set, min, max }) => repeat(set, min, max)), rest])
  }

  function needsRule(state: number): boolean {
    return sources[state]! > 1 || edgesBy[state]!.length > 1 || machine.accepting[state] === 1
  }

  function edgesOf(state: number): readonly Edge[] {
    const { classes, next } = machine
    const symbols = Map.groupBy(Array(classes).keys(), (symbol) => next[state * classes + symbol]!)
    symbols.delete(NONE)
    return Array.from(symbols, ([target, list]) => ({ target, set: setOf(list) }))
  }

  function setOf(symbols: readonly number[]): Expression {
    return getOrMake(sets, symbols.join(), () => {
      const characters = union(...symbols.map((symbol) => alphabet.classes[symbol]!))
      const set = charactersOf(characters)
      return characters.length > LARGEST_SET || set.type === 'choice' ? builder.rule(set) : set
    })
  }
}

/** By state: the run of one set with nothing after it; null if there is more. */
function findRuns(machine: StateMachine, edgesBy: readonly (readonly Edge[])[]): readonly (Run | null)[] {
  const runs: (Run | null | undefined)[] = Array(edgesBy.length)
  for (const start of runs.keys()) {
    const path: number[] = []
    let state = start
    while (runs[state] === undefined) {
      const edges = edgesBy[state]!
      const [edge] = edges
      // Until it is known.
      runs[state] = null
      if (machine.accepting[state] === 0 || edges.length > 1) break
      if (edge === undefined) runs[state] = { set: EMPTY, min: 0, max: 0 }
      else if (edge.target === state) runs[state] = { set: edge.set, min: 0, max: null }
      else {
        path.push(state)
        state = edge.target
      }
    }
    for (const earlier of path.toReversed()) {
      const { target, set } = edgesBy[earlier]![0]!
      const after = runs[target]
      const isSame = after && after.max !== null && (after.max === 0 || after.set === set)
      if (isSame) runs[earlier] = { set, min: 0, max: after.max! + 1 }
    }
  }
  return runs as (Run | null)[]
}

function append(runs: Run[], run: Run): void {
  const previous = runs.at(-1)
  if (run.max === 0) return
  if (previous === undefined || previous.set !== run.set) runs.push(run)
  else {
    const max = previous.max === null || run.max === null ? null : previous.max + run.max
    runs.splice(-1, 1, { set: run.set, min: previous.min + run.min, max })
  }
}
