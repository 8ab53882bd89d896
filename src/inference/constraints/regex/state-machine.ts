import { Partition } from './partition.ts'

/** No transition. */
export const NONE = -1

/** A deterministic automaton over the classes of an alphabet. Every text leads to one state or to `NONE`. */
export interface StateMachine {
  /** Number of classes of the alphabet. */
  readonly classes: number
  /** The next state by state and class; the initial state is 0. A machine without states accepts nothing. */
  readonly next: Int32Array
  /** 1 for each accepting state, else 0. */
  readonly accepting: Uint8Array
}

export class TooManyStatesError extends Error {
  constructor() {
    super('it takes too many states')
  }
}

/** A budget of steps. */
export class WorkBudget {
  readonly #steps: number
  #spent = 0

  constructor(steps: number) {
    this.#steps = steps
  }

  get spent(): number {
    return this.#spent
  }

  get left(): number {
    return this.#steps - this.#spent
  }

  /** @throws TooManyStatesError */
  spend(steps: number): void {
    this.#spent += steps
    if (this.#spent > this.#steps) throw new TooManyStatesError()
  }

  /** Takes a share of the remaining budget. */
  share(part: number): WorkBudget {
    return new WorkBudget(this.left * part)
  }
}

/** Limits on computing a machine. */
export interface Limits {
  readonly states: number
  readonly budget: WorkBudget
}

/** Builds a state machine by exploring it from state 0. */
export function explore<State>(
  classes: number,
  start: State,
  machine: Omit<Steps<State>, 'start'>,
  { states, budget }: Limits,
): StateMachine {
  const found: State[] = [start]
  const ids = new Map<string | number, number>([[machine.keyOf(start), 0]])
  const next: number[] = []
  for (let id = 0; id < found.length; id++) {
    budget.spend(classes)
    for (let symbol = 0; symbol < classes; symbol++) {
      const state = machine.step(found[id]!, symbol)
      if (state === null) {
        next.push(NONE)
        continue
      }
      const key = machine.keyOf(state)
      let target = ids.get(key)
      if (target === undefined) {
        if (found.length >= states) throw new TooManyStatesError()
        target = found.push(state) - 1
        ids.set(key, target)
      }
      next.push(target)
    }
  }
  return {
    classes,
    next: Int32Array.from(next),
    accepting: Uint8Array.from(found, (state) => Number(machine.accepts(state))),
  }
}

const NOTHING = { next: new Int32Array(0), accepting: new Uint8Array(0) }

/** A lazily computed machine: only reached states exist. */
export interface Steps<State> {
  keyOf(state: State): string | number
  start(): State
  /** Null if there is no transition. */
  step(state: State, symbol: number): State | null
  accepts(state: State): boolean
}

/**
 * The texts that both the machine and `steps` accept; where `negated`, those that only the machine accepts.
 * @throws TooManyStatesError
 */
export function intersection<State>(
  machine: StateMachine,
  steps: Steps<State>,
  { negated, ...limits }: Limits & { readonly negated: boolean },
): StateMachine {
  const { classes, next, accepting } = machine
  if (accepting.length === 0) return machine
  const pairs = {
    keyOf: ([state, beside]: Pair<State>) => `${state} ${beside === null ? '' : steps.keyOf(beside)}`,
    accepts: ([state, beside]: Pair<State>) =>
      accepting[state] === 1 && (beside !== null && steps.accepts(beside)) !== negated,
    step: ([state, beside]: Pair<State>, symbol: number): Pair<State> | null => {
      const target = next[state * classes + symbol]!
      if (target === NONE) return null
      const other = beside === null ? null : steps.step(beside, symbol)
      return other === null && !negated ? null : [target, other]
    },
  }
  return minimised(explore(classes, [0, steps.start()], pairs, limits))
}

type Pair<State> = readonly [state: number, beside: State | null]

/** The machine that accepts every text. */
export function everything(classes: number): StateMachine {
  return { classes, next: new Int32Array(classes), accepting: Uint8Array.of(1) }
}

/** Accepts the texts that the machine does not accept. */
export function complement({ classes, next, accepting }: StateMachine): StateMachine {
  const count = accepting.length
  const total = new Int32Array((count + 1) * classes).fill(count)
  for (const [index, target] of next.entries()) if (target !== NONE) total[index] = target
  const flipped = new Uint8Array(count + 1).fill(1)
  for (let state = 0; state < count; state++) flipped[state] = 1 - accepting[state]!
  // If the machine has no states, the added state is the first.
  return minimised({ classes, next: total, accepting: flipped })
}

/** By state: length of the shortest text from there to an accepting state; Infinity if there is none. */
export function distancesToEnd({ classes, next, accepting }: StateMachine): Float64Array {
  const count = accepting.length
  const distances = new Float64Array(count).fill(Number.POSITIVE_INFINITY)
  const sources = Array.from({ length: count }, (): number[] => [])
  for (const [index, target] of next.entries()) {
    const source = Math.floor(index / classes)
    if (target !== NONE && sources[target]!.at(-1) !== source) sources[target]!.push(source)
  }
  const open: number[] = []
  for (let state = 0; state < count; state++) {
    if (accepting[state] === 0) continue
    distances[state] = 0
    open.push(state)
  }
  // The loop extends the array.
  for (const state of open) {
    for (const source of sources[state]!) {
      if (distances[source] !== Number.POSITIVE_INFINITY) continue
      distances[source] = distances[state]! + 1
      open.push(source)
    }
  }
  return distances
}

/**
 * The accepted texts of the given lengths.
 * @param max null for no end.
 */
export function withLengths(machine: StateMachine, min: number, max: number | null, limits: Limits): StateMachine {
  if (machine.accepting.length === 0) return machine
  const { classes, next, accepting } = machine
  const distances = distancesToEnd(machine)
  const most = max ?? min
  const counted = {
    keyOf: (key: number) => key,
    accepts: (key: number) => accepting[Math.floor(key / (most + 1))] === 1 && key % (most + 1) >= min,
    step: (key: number, symbol: number) => {
      const target = next[Math.floor(key / (most + 1)) * classes + symbol]!
      const length = (key % (most + 1)) + 1
      if (target === NONE || (max !== null && length + distances[target]! > max)) return null
      return target * (most + 1) + Math.min(length, most)
    },
  }
  if (max !== null && distances[0]! > max) return { classes, ...NOTHING }
  return minimised(explore(classes, 0, counted, limits))
}

/** The smallest equivalent machine, without states from which no text can be completed. (Hopcroft 1971) */
export function minimised(machine: StateMachine): StateMachine {
  const { classes } = machine
  const { next, accepting } = withoutDeadEnds(machine)
  const count = accepting.length
  if (count === 0) return { classes, ...NOTHING }
  // An extra state after the last one represents `NONE`.
  const size = count + 1
  const partition = new Partition(size)
  partition.mark(...Array.from(accepting.keys()).filter((state) => accepting[state] === 1))
  partition.split()
  partition.mark(count)
  partition.split()
  const { starts, sources } = inverse(next, classes, count)
  const open = new Set(Array.from({ length: partition.count * classes }, (_, index) => index))
  for (const splitter of open) {
    open.delete(splitter)
    const block = Math.floor(splitter / classes)
    const symbol = splitter % classes
    for (const state of partition.members(block)) {
      for (let at = starts[symbol * (size + 1) + state]!; at < starts[symbol * (size + 1) + state + 1]!; at++) {
        partition.mark(sources[at]!)
      }
    }
    for (const [old, added] of partition.split()) {
      const isSmaller = partition.sizeOf(added) <= partition.sizeOf(old)
      for (let other = 0; other < classes; other++) {
        const known = open.has(old * classes + other)
        open.add((known || isSmaller ? added : old) * classes + other)
      }
    }
  }
  return quotient({ classes, next, accepting }, (state) => partition.blockOf(state === NONE ? count : state))
}

/** The predecessors of each state by class; `NONE` is the extra state. */
function inverse(next: Int32Array, classes: number, count: number) {
  const size = count + 1
  const starts = new Int32Array(classes * (size + 1) + 1)
  const targetOf = (state: number, symbol: number) => {
    const target = state === count ? NONE : next[state * classes + symbol]!
    return target === NONE ? count : target
  }
  const sources = new Int32Array(classes * size)
  let at = 0
  for (let symbol = 0; symbol < classes; symbol++) {
    const counts = new Int32Array(size)
    for (let state = 0; state < size; state++) counts[targetOf(state, symbol)]!++
    const places = new Int32Array(size)
    for (let target = 0; target < size; target++) {
      places[target] = at
      starts[symbol * (size + 1) + target] = at
      at += counts[target]!
    }
    starts[symbol * (size + 1) + size] = at
    for (let state = 0; state < size; state++) sources[places[targetOf(state, symbol)]!++] = state
  }
  return { starts, sources }
}

function quotient(machine: StateMachine, blockOf: (state: number) => number): StateMachine {
  const { classes, next, accepting } = machine
  const none = blockOf(NONE)
  const ids = new Map([[blockOf(0), 0]])
  const states = [0]
  const merged: number[] = []
  for (const state of states) {
    for (let symbol = 0; symbol < classes; symbol++) {
      const target = next[state * classes + symbol]!
      const block = blockOf(target)
      if (block !== none && !ids.has(block)) ids.set(block, states.push(target) - 1)
      merged.push(block === none ? NONE : ids.get(block)!)
    }
  }
  return { classes, next: Int32Array.from(merged), accepting: Uint8Array.from(states, (state) => accepting[state]!) }
}

function withoutDeadEnds(machine: StateMachine): StateMachine {
  const distances = distancesToEnd(machine)
  const isDead = (state: number) => distances[state] === Number.POSITIVE_INFINITY
  if (machine.accepting.length === 0 || isDead(0)) return { classes: machine.classes, ...NOTHING }
  return { ...machine, next: machine.next.map((target) => (target === NONE || isDead(target) ? NONE : target)) }
}
