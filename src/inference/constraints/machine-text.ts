import { choice, EMPTY, type Expression, type GrammarBuilder, type Reference, repeat, sequence } from './grammar.ts'
import type { Alphabet } from './regex/alphabet.ts'
import { type CodePoints, union } from './regex/code-points.ts'
import { NONE, type StateMachine } from './regex/state-machine.ts'

/** Sets of more ranges are written once. */
const LARGEST_SET = 4

interface Edge {
  readonly target: number
  /** Equal for equal sets. */
  readonly set: Expression
}

/** A set of characters, as often as the counts say. */
interface Run {
  readonly set: Expression
  readonly min: number
  /** Null for no end. */
  readonly max: number | null
}

/**
 * The texts that a state machine accepts, as a grammar that is read in one way: a rule for each state that several others
 * lead to, or that is followed by several. Runs of one set become counts.
 * @param charactersOf says how one character out of a set is written.
 */
export function machineText(
  machine: StateMachine,
  alphabet: Alphabet,
  charactersOf: (set: CodePoints) => Expression,
  builder: GrammarBuilder,
): Expression {
  return new MachineWriter(machine, alphabet, charactersOf, builder).write()
}

class MachineWriter {
  readonly #machine: StateMachine
  readonly #alphabet: Alphabet
  readonly #charactersOf: (set: CodePoints) => Expression
  readonly #builder: GrammarBuilder
  readonly #sets = new Map<string, Expression>()
  readonly #edges: readonly (readonly Edge[])[]
  readonly #sources: Int32Array
  /** States after which there is nothing but a run of one set. */
  readonly #runs: readonly (Run | null)[]
  readonly #rules = new Map<number, Reference>()

  constructor(
    machine: StateMachine,
    alphabet: Alphabet,
    charactersOf: (set: CodePoints) => Expression,
    builder: GrammarBuilder,
  ) {
    this.#machine = machine
    this.#alphabet = alphabet
    this.#charactersOf = charactersOf
    this.#builder = builder
    this.#edges = Array.from(machine.accepting.keys(), (state) => this.#edgesOf(state))
    this.#sources = new Int32Array(machine.accepting.length)
    for (const { target } of this.#edges.flat()) this.#sources[target]!++
    this.#runs = this.#findRuns()
  }

  write(): Expression {
    const open = [0]
    const root = this.#startOf(0, open)
    // The list grows while it is gone through.
    for (const state of open) {
      const rule = this.#rules.get(state)
      if (rule !== undefined) this.#builder.define(rule, this.#bodyOf(state, open))
    }
    return root
  }

  /** @param open takes the states whose rules are still to be defined. */
  #startOf(state: number, open: number[]): Expression {
    const run = this.#runs[state]
    if (run) return repeat(run.set, run.min, run.max)
    let rule = this.#rules.get(state)
    if (rule === undefined) {
      rule = this.#builder.reserve()
      this.#rules.set(state, rule)
      if (state !== 0) open.push(state)
    }
    return rule
  }

  #bodyOf(start: number, open: number[]): Expression {
    const runs: Run[] = []
    let state = start
    let rest: Expression | null = null
    while (rest === null) {
      const edges = this.#edges[state]!
      const run = this.#runs[state]
      const [edge] = edges
      if (run && state !== start) {
        append(runs, run)
        rest = EMPTY
      } else if (state !== start && this.#needsRule(state)) rest = this.#startOf(state, open)
      else if (edges.length === 1 && this.#machine.accepting[state] === 0) {
        append(runs, { set: edge!.set, min: 1, max: 1 })
        state = edge!.target
      } else {
        const options = edges.map(({ target, set }) => sequence([set, this.#startOf(target, open)]))
        rest = choice(this.#machine.accepting[state] === 1 ? [EMPTY, ...options] : options)
      }
    }
    return sequence([...runs.map(({ set, min, max }) => repeat(set, min, max)), rest])
  }

  #needsRule(state: number): boolean {
    return this.#sources[state]! > 1 || this.#edges[state]!.length > 1 || this.#machine.accepting[state] === 1
  }

  #edgesOf(state: number): readonly Edge[] {
    const { classes, next } = this.#machine
    const symbols = Map.groupBy(Array(classes).keys(), (symbol) => next[state * classes + symbol]!)
    symbols.delete(NONE)
    return Array.from(symbols, ([target, list]) => ({ target, set: this.#setOf(list) }))
  }

  #setOf(symbols: readonly number[]): Expression {
    const key = symbols.join()
    let set = this.#sets.get(key)
    if (set === undefined) {
      const characters = union(...symbols.map((symbol) => this.#alphabet.classes[symbol]!))
      set = this.#charactersOf(characters)
      if (characters.length > LARGEST_SET || set.type === 'choice') set = this.#builder.rule(set)
      this.#sets.set(key, set)
    }
    return set
  }

  #findRuns(): readonly (Run | null)[] {
    const runs: (Run | null | undefined)[] = Array(this.#edges.length)
    for (const start of runs.keys()) {
      const path: number[] = []
      let state = start
      while (runs[state] === undefined) {
        const edges = this.#edges[state]!
        const [edge] = edges
        // Until it is known.
        runs[state] = null
        if (this.#machine.accepting[state] === 0 || edges.length > 1) break
        if (edge === undefined) runs[state] = { set: EMPTY, min: 0, max: 0 }
        else if (edge.target === state) runs[state] = { set: edge.set, min: 0, max: null }
        else {
          path.push(state)
          state = edge.target
        }
      }
      for (const earlier of path.toReversed()) {
        const { target, set } = this.#edges[earlier]![0]!
        const after = runs[target]
        const isSame = after && after.max !== null && (after.max === 0 || after.set === set)
        if (isSame) runs[earlier] = { set, min: 0, max: after.max! + 1 }
      }
    }
    return runs as (Run | null)[]
  }
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
