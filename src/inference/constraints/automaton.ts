import type { Grammar } from './grammar.ts'
import type { Matcher } from './matcher.ts'
import { type ClassNode, type Node, type NodeData, NodeGraph, type SequenceNode } from './nodes.ts'
import { NONE, type TokenTrie } from './tokens/token-trie.ts'

/** Approximate size at which the caches are cleared. */
const MOST_BYTES = 16 * 2 ** 20
/** Estimated bytes of a map entry with its key: a rest, a state, or one of its readings. */
const REST_BYTES = 200
const STATE_BYTES = 200
const READING_BYTES = 16
/** Maximum number of cached token masks, which have a bit for each token. */
const MOST_MASKS = 64
/**
 * Maximum number of readings of the same prefix that are followed. Patterns that leave open which of their counts a
 * character belongs to, such as `(a{1,9}[a-z]{0,90}){0,60}`, have more. Texts that only the others would allow are
 * forbidden.
 */
const MOST_READINGS = 1000
/** States with more readings are not clamped. */
const MOST_CLAMPED = 64
/**
 * Maximum number of readings that one walk through the vocabulary visits, which bounds its time. The remaining text is
 * written byte by byte.
 */
const MOST_WORK = 50_000
const LONGEST_FORCED_TEXT = 4096
/** The same for a search for forced text, which is only an optimisation. */
const MOST_FORCED_WORK = 5_000

const DEAD = 0
const UNKNOWN = -1
const BYTES = 256
const BITS = 32

/**
 * The rest of a text: a part of the grammar, and what follows it. Equal rests are one object, so they can be compared
 * by identity.
 */
interface Rest {
  readonly id: number
  /** Null at the end of the text. */
  readonly node: Node | null
  /** Index of the next part of a sequence. */
  readonly at: number
  /** Remaining counts of a repeat. */
  readonly min: number
  readonly max: number | null
  readonly next: Rest | null
}

interface State {
  /** Each begins with a byte, or is the end. */
  readonly readings: readonly Rest[]
  readonly canEnd: boolean
  /** Its index in the table, valid while `age` is that of the table. */
  index: number
  age: number
}

/**
 * Follows a grammar byte by byte. Nothing is computed ahead: a state is a set of readings, each a stack of what must
 * follow, with counts as numbers, so that `{0,10000}` costs no more than `*`. States and the tokens that they allow are
 * cached until the cache is too large.
 *
 * The readings are the partial derivatives of Antimirov, "Partial derivatives of regular expressions and finite
 * automaton constructions" (1996), with rules as in a pushdown automaton.
 */
export class Automaton {
  readonly #graph: NodeGraph
  readonly #trie: TokenTrie
  /** Whether endless parts are skipped; false for a grammar that no finite text completes. */
  readonly #skipsEndless: boolean
  readonly #end: Rest = { id: 0, node: null, at: 0, min: 0, max: null, next: null }
  readonly #rests = new Map<string, Rest>()
  readonly #states = new Map<string, State>()
  readonly #clamped = new Map<Rest, Rest>()
  /** Least recently used first. */
  readonly #masks = new Map<State, Int32Array>()
  #byIndex: (State | null)[] = [null]
  /** The index of the next state, by state and byte. */
  #table = new Int32Array(BYTES * 16)
  #age = 0
  /** Whether a state ever had more than `MOST_READINGS`. */
  #leavesOut = false
  #lastRest = 0
  #work = 0
  /** Estimated bytes of the caches. */
  #bytes = 0

  constructor(grammar: Grammar | NodeData, trie: TokenTrie) {
    this.#graph = new NodeGraph(grammar)
    this.#trie = trie
    this.#skipsEndless = !this.#graph.isEndless(this.#graph.root)
  }

  createMatcher(): Matcher {
    const { tokens, stopTokens } = this.#trie.vocabulary
    let state: State | null = this.#expand([this.#push(this.#graph.root, this.#end)])
    return {
      nextTokens: () => (state === null ? new Int32Array(Math.ceil(tokens.length / BITS)) : this.#nextTokens(state)),
      accept: (token) => {
        if (state === null) return false
        if (stopTokens.includes(token)) {
          if (!state.canEnd) return false
          state = null
          return true
        }
        const next = this.#afterBytes(state, tokens[token] ?? '')
        if (next === null) return false
        state = next
        return true
      },
      forcedText: () => (state === null ? '' : this.#forcedText(state)),
    }
  }

  /**
   * The maximum number of readings of a prefix, by a greedy search that continues with the byte that leaves most
   * readings.
   * @param bytes maximum length of the prefix.
   */
  mostReadings(bytes: number): number {
    let state = this.#expand([this.#push(this.#graph.root, this.#end)])
    let most = state.readings.length
    for (let length = 0; length < bytes; length++) {
      let widest: State | null = null
      // One byte of each range represents all bytes that no reading distinguishes from it.
      for (const byte of new Set(state.readings.flatMap(({ node }) => firstBytes(node)))) {
        const index = this.#after(this.#indexOf(state), byte)
        const next = index === DEAD ? null : this.#byIndex[index]!
        if (next !== null && next.readings.length > (widest?.readings.length ?? 0)) widest = next
      }
      if (widest === null) break
      state = widest
      most = Math.max(most, state.readings.length)
    }
    return most
  }

  #nextTokens(exact: State): Int32Array {
    if (this.#bytes > MOST_BYTES) this.#forget()
    const state = this.#clamp(exact)
    const known = this.#masks.get(state)
    this.#masks.delete(state)
    const mask = known ?? this.#walk(state)
    // The readings that were left out here may differ from those that `accept` leaves out: from now on, both use the
    // same ones.
    if (this.#leavesOut && state !== exact) return this.#nextTokens(exact)
    this.#masks.set(state, mask)
    for (const [oldest] of this.#masks) {
      if (this.#masks.size <= MOST_MASKS) break
      this.#masks.delete(oldest)
    }
    return mask
  }

  #afterBytes(from: State, bytes: string): State | null {
    if (bytes === '') return null
    let state = from
    for (let i = 0; i < bytes.length; i++) {
      const index = this.#after(this.#indexOf(state), bytes.charCodeAt(i))
      if (index === DEAD) return null
      state = this.#byIndex[index]!
    }
    return state
  }

  /** Whole characters only; long texts are cut. */
  #forcedText(from: State): string {
    const bytes: number[] = []
    this.#work = 0
    for (let state = from; !state.canEnd && bytes.length < LONGEST_FORCED_TEXT; ) {
      if (this.#work > MOST_FORCED_WORK) break
      const start = this.#indexOf(state) * BYTES
      const viable = this.#table.subarray(start, start + BYTES)
      const byte = viable.findIndex((next) => next !== DEAD)
      if (byte === -1 || viable.subarray(byte + 1).some((next) => next !== DEAD)) break
      const next = this.#after(this.#indexOf(state), byte)
      if (next === DEAD) break
      bytes.push(byte)
      state = this.#byIndex[next]!
    }
    const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(bytes), { stream: true })
    return text.split('\ufffd', 1)[0]!
  }

  #walk(state: State): Int32Array {
    const { vocabulary, longest } = this.#trie
    const mask = new Int32Array(Math.ceil(vocabulary.tokens.length / BITS))
    const start = this.#indexOf(state)
    this.#work = 0
    if (!this.#markTokens(mask, start, longest)) {
      mask.fill(0)
      this.#markTokens(mask, start, 1)
    }
    if (state.canEnd) for (const token of vocabulary.stopTokens) mark(mask, token)
    return mask
  }

  /**
   * @param most maximum bytes of a token.
   * @returns false if it gave up because it was too much work.
   */
  #markTokens(mask: Int32Array, start: number, most: number): boolean {
    const { bytes, depths, ends, tokens, twins } = this.#trie
    const path = new Int32Array(most + 1)
    path[0] = start
    let table = this.#table
    for (let node = 0; node < bytes.length; ) {
      const depth = depths[node]!
      if (depth >= most) {
        node = ends[node]!
        continue
      }
      const from = path[depth]!
      let next = table[from * BYTES + bytes[node]!]!
      if (next === UNKNOWN) {
        if (most > 1 && this.#work > MOST_WORK) return false
        next = this.#after(from, bytes[node]!)
        table = this.#table
      }
      if (next === DEAD) {
        node = ends[node]!
        continue
      }
      path[depth + 1] = next
      for (let token = tokens[node]!; token !== NONE; token = twins[token]!) mark(mask, token)
      node++
    }
    return true
  }

  #after(from: number, byte: number): number {
    const known = this.#table[from * BYTES + byte]!
    if (known !== UNKNOWN) return known
    const { readings } = this.#byIndex[from]!
    const nexts: Rest[] = []
    // Range of bytes that no reading distinguishes from this one.
    let low = 0
    let high = BYTES - 1
    for (const { node, next } of readings) {
      if (node === null) continue
      for (const [first, last] of (node as ClassNode).ranges) {
        if (last < byte) low = Math.max(low, last + 1)
        else if (first > byte) high = Math.min(high, first - 1)
        else {
          low = Math.max(low, first)
          high = Math.min(high, last)
          nexts.push(next!)
        }
      }
    }
    const state = this.#expand(nexts)
    this.#work += readings.length
    const index = state.readings.length === 0 ? DEAD : this.#indexOf(state)
    this.#table.fill(index, from * BYTES + low, from * BYTES + high + 1)
    return index
  }

  #indexOf(state: State): number {
    if (state.age === this.#age) return state.index
    const index = this.#byIndex.length
    this.#byIndex.push(state)
    this.#bytes += BYTES * Int32Array.BYTES_PER_ELEMENT
    state.index = index
    state.age = this.#age
    if ((index + 1) * BYTES > this.#table.length) {
      const larger = new Int32Array(this.#table.length * 2)
      larger.set(this.#table)
      this.#table = larger
    }
    const viable = this.#table.subarray(index * BYTES, (index + 1) * BYTES)
    viable.fill(DEAD)
    for (const { node } of state.readings) {
      if (node === null) continue
      for (const [first, last] of (node as ClassNode).ranges) viable.fill(UNKNOWN, first, last + 1)
    }
    return index
  }

  /** Texts in progress keep their own states, which find their way back into the table. */
  #forget(): void {
    this.#rests.clear()
    this.#states.clear()
    this.#clamped.clear()
    this.#masks.clear()
    this.#byIndex = [null]
    // The table had grown with the states.
    this.#table = new Int32Array(BYTES * 16)
    this.#bytes = 0
    this.#age++
  }

  #expand(rests: readonly Rest[]): State {
    const readings: Rest[] = []
    const seen = new Set<Rest>()
    for (const rest of rests) this.#read(rest, seen, readings)
    this.#work += seen.size
    return this.#stateOf(readings)
  }

  #stateOf(readings: readonly Rest[]): State {
    const key = readings
      .map(({ id }) => id)
      .sort((a, b) => a - b)
      .join()
    let state = this.#states.get(key)
    if (state === undefined) {
      state = { readings, canEnd: readings.includes(this.#end), index: DEAD, age: -1 }
      this.#states.set(key, state)
      this.#bytes += STATE_BYTES + READING_BYTES * readings.length
    }
    return state
  }

  /** Expands a rest, without reading a byte, to all rests that begin with a byte. */
  #read(rest: Rest, seen: Set<Rest>, readings: Rest[]): void {
    if (seen.has(rest)) return
    if (readings.length >= MOST_READINGS) {
      this.#leavesOut = true
      return
    }
    seen.add(rest)
    const { node, next } = rest
    switch (node?.type) {
      case undefined:
      case 'class':
        readings.push(rest)
        return
      case 'rule':
        this.#read(this.#push(node.body!, next!), seen, readings)
        return
      case 'choice':
        for (const option of node.options) {
          if (!this.#skips(option)) this.#read(this.#push(option, next!), seen, readings)
        }
        return
      case 'repeat': {
        const min = this.#graph.isEmptiable(node.part) ? 0 : rest.min
        if (min === 0) this.#read(next!, seen, readings)
        if (this.#skips(node.part)) return
        // Each iteration consumes at least one byte, so the recursion ends.
        const left = rest.max === null ? null : rest.max - 1
        const more = left === 0 ? next! : this.#rest({ ...rest, min: Math.max(0, min - 1), max: left, next: next! })
        this.#read(this.#push(this.#graph.filled(node.part), more), seen, readings)
        return
      }
      case 'sequence': {
        const part = node.parts[rest.at]
        if (part === undefined) this.#read(next!, seen, readings)
        else this.#read(this.#push(part, this.#behind(node, rest.at, next!)), seen, readings)
      }
    }
  }

  #skips(node: Node): boolean {
    return this.#skipsEndless && this.#graph.isEndless(node)
  }

  #push(node: Node, next: Rest): Rest {
    const [min, max] = node.type === 'repeat' ? [node.min, node.max] : [0, null]
    return this.#rest({ node, at: 0, min, max, next })
  }

  /** What follows a part of a sequence. */
  #behind(node: SequenceNode, at: number, next: Rest): Rest {
    return at + 1 === node.parts.length ? next : this.#rest({ node, at: at + 1, min: 0, max: null, next })
  }

  #rest(fields: Omit<Rest, 'id'> & { readonly next: Rest }): Rest {
    const { node, at, min, max, next } = fields
    // The rest of a repetition does not depend on its initial counts.
    const what = node!.type === 'repeat' ? `*${node!.part.id}` : node!.id
    const key = `${what},${at},${min},${max},${next.id}`
    let rest = this.#rests.get(key)
    if (rest === undefined) {
      rest = { id: ++this.#lastRest, node, at, min, max, next }
      this.#rests.set(key, rest)
      this.#bytes += REST_BYTES
    }
    return rest
  }

  /** A state that allows the same tokens: counts that no token can use up are treated as equal. */
  #clamp(state: State): State {
    if (this.#leavesOut || state.readings.length > MOST_CLAMPED) return state
    const readings = state.readings.map((rest) => this.#clampRest(rest))
    return this.#stateOf([...new Set(readings)])
  }

  #clampRest(rest: Rest): Rest {
    const open: Rest[] = []
    let clamped: Rest | undefined
    for (let at: Rest = rest; clamped === undefined; at = at.next!) {
      clamped = at.node === null ? at : this.#clamped.get(at)
      if (clamped === undefined) open.push(at)
    }
    const enough = this.#trie.longest + 1
    for (const at of open.toReversed()) {
      const max = at.max === null ? null : Math.min(at.max, enough)
      clamped = this.#rest({ ...at, min: Math.min(at.min, enough), max, next: clamped })
      this.#clamped.set(at, clamped)
    }
    return clamped
  }
}

function firstBytes(node: Node | null): readonly number[] {
  return node?.type === 'class' ? node.ranges.map(([first]) => first) : []
}

function mark(mask: Int32Array, token: number): void {
  mask[token >> 5]! |= 1 << (token & 31)
}
