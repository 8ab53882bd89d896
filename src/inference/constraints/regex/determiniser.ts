import { getOrMake } from '../../../lib/get-or-make.ts'
import type { Alphabet } from './alphabet.ts'
import { ALL, type CodePoints } from './code-points.ts'
import { PatternError } from './parser.ts'
import type { Assertion, Syntax } from './pattern.ts'
import {
  complement,
  explore,
  type Limits,
  minimised,
  NONE,
  type StateMachine,
  type Steps,
  TooManyStatesError,
} from './state-machine.ts'

/** Maximum instructions of a pattern with its counts written out. */
const LONGEST_PROGRAM = 20_000
/** Maximum number of readings of the same prefix. */
const MOST_READINGS = 4_000

type Instruction =
  | { readonly type: 'characters'; readonly members: Uint8Array; readonly next: number }
  /** Continues at each of them. */
  | { readonly type: 'either'; readonly next: number[] }
  | { readonly type: 'assertion'; readonly assertion: Assertion; readonly next: number }
  /** Accepts any further text. */
  | { readonly type: 'rest' }
  | { readonly type: 'end' }

const END = 0
/** No conditions on what follows. */
const FREE = 0

/** One reading of a text's prefix. */
interface Reading {
  readonly at: number
  /** The conditions that the rest of the text must also satisfy. */
  readonly conditions: number
}

/** All readings of a text's prefix. */
export interface State {
  readonly readings: readonly Reading[]
  /** The current state of the machine of each lookbehind assertion. */
  readonly before: readonly number[]
  readonly key: string
}

interface Condition {
  readonly machine: StateMachine
  readonly id: number
  readonly state: number
}

/** All sets of characters in an expression. */
export function characterSets(syntax: Syntax): CodePoints[] {
  return [...partsOf(syntax)].flatMap((part) => (part.type === 'character' ? [part.set] : []))
}

/**
 * Reads a text in all ways that an expression allows, step by step. A lookbehind assertion is a machine that reads the
 * text from its start, in parallel with the expression. A lookahead assertion is a machine that starts at its place and
 * must accept the rest.
 */
export class Determiniser implements Steps<State> {
  readonly #alphabet: Alphabet
  readonly #limits: Limits
  readonly #program: Instruction[] = [{ type: 'end' }]
  readonly #start: number
  readonly #assertions: readonly Syntax[]
  readonly #before: readonly StateMachine[]
  readonly #initial: readonly number[]
  readonly #machinesAfter = new Map<string, StateMachine>()
  readonly #textIds = new Map<Syntax, number>()
  readonly #conditions: Condition[][] = [[]]
  readonly #conditionIds = new Map<string, number>([['', FREE]])
  readonly #machines = new Map<StateMachine, { readonly id: number; readonly universal: number }>()

  /** @param context the machines of lookbehind assertions, and their initial states. */
  constructor(
    syntax: Syntax,
    alphabet: Alphabet,
    limits: Limits,
    context: ReadonlyMap<Syntax, { readonly machine: StateMachine; readonly state: number }> = new Map(),
  ) {
    this.#alphabet = alphabet
    this.#limits = limits
    this.#assertions = [...textsBefore(syntax)]
    const machines = this.#assertions.map(
      (text) => context.get(text) ?? { machine: machineBefore(text, alphabet, limits), state: 0 },
    )
    this.#before = machines.map(({ machine }) => machine)
    this.#initial = machines.map(({ machine, state }) => (machine.accepting.length === 0 ? NONE : state))
    this.#start = this.#compile(syntax, END)
  }

  machine(): StateMachine {
    return minimised(explore(this.#alphabet.classes.length, this.start(), this, this.#limits))
  }

  keyOf({ key }: State): string {
    return key
  }

  start(): State {
    return this.#close([{ at: this.#start, conditions: FREE }], this.#initial)
  }

  /** Null if no text can continue with the symbol. */
  step(state: State, symbol: number): State | null {
    const next: Reading[] = []
    this.#limits.budget.spend(state.readings.length)
    for (const { at, conditions } of state.readings) {
      const instruction = this.#program[at]!
      const to =
        instruction.type === 'rest'
          ? at
          : instruction.type === 'characters' && instruction.members[symbol] === 1
            ? instruction.next
            : NONE
      if (to === NONE) continue
      const met = conditions === FREE ? FREE : this.#conditionsAfter(conditions, symbol)
      if (met !== NONE) next.push({ at: to, conditions: met })
    }
    if (next.length === 0) return null
    const { classes } = this.#alphabet
    const before = state.before.map((from, index) =>
      from === NONE ? NONE : this.#before[index]!.next[from * classes.length + symbol]!,
    )
    const closed = this.#close(next, before)
    return closed.readings.length === 0 ? null : closed
  }

  accepts({ readings }: State): boolean {
    return readings.some(({ at, conditions }) => {
      const { type } = this.#program[at]!
      return (
        (type === 'end' || type === 'rest') &&
        this.#conditions[conditions]!.every(({ machine, state }) => machine.accepting[state] === 1)
      )
    })
  }

  /** Follows readings to all the characters that may come next. */
  #close(starts: readonly Reading[], before: readonly number[]): State {
    const seen = new Set<string>()
    const readings: Reading[] = []
    const open = [...starts]
    for (let reading = open.pop(); reading !== undefined; reading = open.pop()) {
      const { at, conditions } = reading
      const key = `${at},${conditions}`
      if (seen.has(key)) continue
      seen.add(key)
      const instruction = this.#program[at]!
      switch (instruction.type) {
        case 'either':
          for (const next of instruction.next) open.push({ at: next, conditions })
          break
        case 'assertion': {
          const met = this.#meet(instruction.assertion, conditions, before)
          if (met !== NONE) open.push({ at: instruction.next, conditions: met })
          break
        }
        case 'rest':
          // Everything matches from here on: the other readings add nothing.
          if (conditions === FREE) return { readings: [reading], before: before.map(() => NONE), key: `*${at}` }
          readings.push(reading)
          break
        default:
          readings.push(reading)
      }
    }
    this.#limits.budget.spend(seen.size)
    if (readings.length > MOST_READINGS) throw new TooManyStatesError()
    const kept = this.#withoutImplied(readings).sort((a, b) => a.at - b.at || a.conditions - b.conditions)
    const key = `${kept.map(({ at, conditions }) => `${at}.${conditions}`).join()};${before.join()}`
    return { readings: kept, before, key }
  }

  /** A reading with fewer conditions allows everything that one with more allows. */
  #withoutImplied(readings: Reading[]): Reading[] {
    const free = new Set(readings.filter(({ conditions }) => conditions === FREE).map(({ at }) => at))
    return free.size === readings.length
      ? readings
      : readings.filter(({ at, conditions }) => conditions === FREE || !free.has(at))
  }

  /** @returns the conditions with that of an assertion added; `NONE` if it fails. */
  #meet(assertion: Assertion, conditions: number, before: readonly number[]): number {
    const { side, text, negated } = assertion
    if (side === 'before') {
      const index = this.#assertions.indexOf(text)
      const state = before[index]!
      const holds = state !== NONE && this.#before[index]!.accepting[state] === 1
      return holds === negated ? NONE : conditions
    }
    const machine = this.#machineAfter(assertion, before)
    return machine.accepting.length === 0 ? NONE : this.#withCondition(conditions, machine, 0)
  }

  #machineAfter({ text, negated }: Assertion, before: readonly number[]): StateMachine {
    const within = [...textsBefore(text)].map((inner) => this.#assertions.indexOf(inner))
    const key = `${this.#idOf(text)} ${negated} ${within.map((index) => before[index]).join()}`
    return getOrMake(this.#machinesAfter, key, () => {
      const context = new Map(
        within.map((index) => [this.#assertions[index]!, { machine: this.#before[index]!, state: before[index]! }]),
      )
      const found = new Determiniser(text, this.#alphabet, this.#limits, context).machine()
      const machine = negated ? complement(found) : found
      this.#machines.set(machine, { id: this.#machines.size, universal: universalState(machine) })
      return machine
    })
  }

  #idOf(text: Syntax): number {
    return getOrMake(this.#textIds, text, () => this.#textIds.size)
  }

  #withCondition(conditions: number, machine: StateMachine, state: number): number {
    const { id, universal } = this.#machines.get(machine)!
    if (state === universal) return conditions
    const known = this.#conditions[conditions]!
    if (known.some((condition) => condition.id === id && condition.state === state)) return conditions
    return this.#intern([...known, { machine, id, state }])
  }

  #conditionsAfter(conditions: number, symbol: number): number {
    const { classes } = this.#alphabet
    let after = FREE
    for (const { machine, state } of this.#conditions[conditions]!) {
      const next = machine.next[state * classes.length + symbol]!
      if (next === NONE) return NONE
      after = this.#withCondition(after, machine, next)
    }
    return after
  }

  #intern(conditions: readonly Condition[]): number {
    const sorted = conditions.toSorted((a, b) => a.id - b.id || a.state - b.state)
    const key = sorted.map(({ id, state }) => `${id}.${state}`).join()
    return getOrMake(this.#conditionIds, key, () => this.#conditions.push(sorted) - 1)
  }

  /** @returns the start of the expression that continues at `next`. */
  #compile(syntax: Syntax, next: number): number {
    switch (syntax.type) {
      case 'character':
        return this.#add({ type: 'characters', members: this.#alphabet.members(syntax.set), next })
      case 'assertion':
        return this.#add({ type: 'assertion', assertion: syntax, next })
      case 'sequence':
        return syntax.parts.reduceRight((start, part) => this.#compile(part, start), next)
      case 'choice':
        return this.#add({ type: 'either', next: syntax.options.map((option) => this.#compile(option, next)) })
      case 'repeat':
        return this.#repeat(syntax, next)
    }
  }

  #repeat({ part, min, max }: Syntax & { type: 'repeat' }, next: number): number {
    let start = next
    if (max === null) {
      const isRest = next === END && part.type === 'character' && part.set === ALL
      const either = [next]
      start = this.#add(isRest ? { type: 'rest' } : { type: 'either', next: either })
      if (!isRest) either.push(this.#compile(part, start))
    }
    for (let i = min; i < (max ?? 0); i++) {
      start = this.#add({ type: 'either', next: [this.#compile(part, start), next] })
    }
    for (let i = 0; i < min; i++) start = this.#compile(part, start)
    return start
  }

  #add(instruction: Instruction): number {
    if (this.#program.length >= LONGEST_PROGRAM) throw new TooManyStatesError()
    return this.#program.push(instruction) - 1
  }
}

/** @throws PatternError if the lookbehind is not supported. */
function machineBefore(text: Syntax, alphabet: Alphabet, limits: Limits): StateMachine {
  for (const part of partsOf(text)) {
    if (part.type !== 'assertion' || part.side !== 'after') continue
    throw new PatternError(`'${part.name}' within a lookbehind is not supported (at character ${part.at + 1})`)
  }
  return new Determiniser(text, alphabet, limits).machine()
}

/** The state of a minimal machine that accepts everything; `NONE` if there is none. */
function universalState({ classes, next, accepting }: StateMachine): number {
  const isUniversal = (state: number) =>
    accepting[state] === 1 && next.subarray(state * classes, (state + 1) * classes).every((target) => target === state)
  return Array.from(accepting.keys()).find(isUniversal) ?? NONE
}

/** The texts of an expression's lookbehind assertions, except for nested ones. */
function textsBefore(syntax: Syntax): Set<Syntax> {
  const isBefore = (part: Syntax) => part.type === 'assertion' && part.side === 'before'
  const assertions = [...partsOf(syntax, (part) => !isBefore(part))].filter(isBefore) as Assertion[]
  return new Set(assertions.map(({ text }) => text))
}

/**
 * An expression and its parts, outer parts first.
 * @param enters whether to visit the inside of a part.
 */
function* partsOf(syntax: Syntax, enters: (part: Syntax) => boolean = () => true): Generator<Syntax, void, void> {
  yield syntax
  if (!enters(syntax)) return
  if (syntax.type === 'assertion') yield* partsOf(syntax.text, enters)
  else if (syntax.type === 'repeat') yield* partsOf(syntax.part, enters)
  else if (syntax.type === 'sequence') for (const part of syntax.parts) yield* partsOf(part, enters)
  else if (syntax.type === 'choice') for (const option of syntax.options) yield* partsOf(option, enters)
}
