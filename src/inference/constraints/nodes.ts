import { getOrMake } from '../../lib/get-or-make.ts'
import type { Expression, Grammar, Reference } from './grammar.ts'
import type { CodePoints } from './regex/code-points.ts'
import { type ByteRange, byteSequences } from './utf8.ts'

/** A part of a grammar, over bytes. Equal parts are one object. */
export type Node = ClassNode | SequenceNode | ChoiceNode | RepeatNode | RuleNode

/** One byte. */
export interface ClassNode {
  readonly type: 'class'
  readonly id: number
  readonly ranges: readonly ByteRange[]
}

/** The empty text if it has no parts. */
export interface SequenceNode {
  readonly type: 'sequence'
  readonly id: number
  readonly parts: readonly Node[]
}

interface ChoiceNode {
  readonly type: 'choice'
  readonly id: number
  readonly options: readonly Node[]
}

interface RepeatNode {
  readonly type: 'repeat'
  readonly id: number
  readonly part: Node
  readonly min: number
  /** Null for no end. */
  readonly max: number | null
}

export interface RuleNode {
  readonly type: 'rule'
  readonly id: number
  body: Node | null
  /** Whether it matches the empty text. */
  isEmptiable: boolean
  /** Whether no finite text matches it. */
  isEndless: boolean
}

/** The data of a graph. Plain data: it crosses threads. */
export interface NodeData {
  readonly root: Node
  readonly lastId: number
}

const NO_RULES: Grammar['rules'] = new Map()

/** A grammar in the form that `Automaton` follows. */
export class NodeGraph {
  readonly root: Node
  readonly #rules: Grammar['rules']
  readonly #ruleNodes = new Map<Reference, RuleNode>()
  readonly #nodes = new Map<string, Node>()
  readonly #filled = new Map<Node, Node>()
  readonly #emptiable = new Map<Node, boolean>()
  readonly #endless = new Map<Node, boolean>()
  #lastId = 0

  /** @param grammar a grammar, or the data of a graph that another thread made from it. */
  constructor(grammar: Grammar | NodeData) {
    if ('lastId' in grammar) {
      this.#rules = NO_RULES
      this.root = grammar.root
      this.#lastId = grammar.lastId
      return
    }
    const { root, rules } = grammar
    this.#rules = rules
    this.root = this.#node(root)
    // The loop adds entries to the Map.
    for (const [reference, node] of this.#ruleNodes) {
      const expression = this.#rules.get(reference)
      if (expression === undefined) throw new Error('A rule of a grammar is not defined.')
      node.body = this.#node(expression)
    }
    this.#settle()
  }

  get data(): NodeData {
    return { root: this.root, lastId: this.#lastId }
  }

  isEmptiable(node: Node): boolean {
    return getOrMake(this.#emptiable, node, () => this.#findEmptiable(node))
  }

  #findEmptiable(node: Node): boolean {
    switch (node.type) {
      case 'class':
        return false
      case 'sequence':
        return node.parts.every((part) => this.isEmptiable(part))
      case 'choice':
        return node.options.some((option) => this.isEmptiable(option))
      case 'repeat':
        return node.min === 0 || this.isEmptiable(node.part)
      case 'rule':
        return node.isEmptiable
    }
  }

  /** Whether a text that has reached this node can never end. */
  isEndless(node: Node): boolean {
    return getOrMake(this.#endless, node, () => this.#findEndless(node))
  }

  #findEndless(node: Node): boolean {
    switch (node.type) {
      case 'class':
        return node.ranges.length === 0
      case 'sequence':
        return node.parts.some((part) => this.isEndless(part))
      case 'choice':
        return node.options.every((option) => this.isEndless(option))
      case 'repeat':
        return node.min > 0 && this.isEndless(node.part)
      case 'rule':
        return node.isEndless
    }
  }

  /** A node that matches the same texts except the empty one. */
  filled(node: Node): Node {
    if (!this.isEmptiable(node)) return node
    return getOrMake(this.#filled, node, () => this.#withoutEmpty(node))
  }

  #withoutEmpty(node: Node): Node {
    switch (node.type) {
      case 'class':
        return node
      case 'sequence': {
        // All of its parts are emptiable: one of them is the first non-empty one.
        const options = node.parts.map((part, index) => [this.filled(part), ...node.parts.slice(index + 1)])
        return this.#choice(options)
      }
      case 'choice':
        return this.#choice(node.options.map((option) => [this.filled(option)]))
      case 'repeat': {
        const part = this.filled(node.part)
        const rest = this.#repeat(part, 0, node.max === null ? null : node.max - 1)
        return this.#sequence([part, rest])
      }
      case 'rule':
        return this.filled(node.body!)
    }
  }

  /** Bottom-up: a rule is known to be emptiable, or to end, only if its parts are known to. */
  #settle(): void {
    // Those that were found last are the deepest.
    const rules = [...this.#ruleNodes.values()].toReversed()
    for (let changed = true; changed; ) {
      changed = false
      for (const rule of rules) {
        const isEmptiable = this.isEmptiable(rule.body!)
        const isEndless = this.isEndless(rule.body!)
        changed ||= isEmptiable !== rule.isEmptiable || isEndless !== rule.isEndless
        Object.assign(rule, { isEmptiable, isEndless })
      }
      this.#emptiable.clear()
      this.#endless.clear()
    }
  }

  #node(expression: Expression): Node {
    switch (expression.type) {
      case 'literal':
        return this.#sequence(Array.from(Buffer.from(expression.text), (byte) => this.#class([[byte, byte]])))
      case 'characters':
        return this.#characters(expression.set)
      case 'reference':
        return this.#rule(expression)
      case 'sequence':
        return this.#sequence(expression.parts.map((part) => this.#node(part)))
      case 'choice':
        return this.#choice(expression.options.map((option) => [this.#node(option)]))
      case 'repeat':
        return this.#repeat(this.#node(expression.part), expression.min, expression.max)
    }
  }

  #characters(set: CodePoints): Node {
    const sequences = set.flatMap(byteSequences)
    const single = sequences.filter((bytes) => bytes.length === 1).flat()
    const longer = sequences.filter((bytes) => bytes.length > 1)
    const options = longer.map((bytes) => bytes.map((range) => this.#class([range])))
    if (single.length > 0) options.unshift([this.#class(single)])
    return this.#choice(options)
  }

  #rule(reference: Reference): RuleNode {
    return getOrMake(this.#ruleNodes, reference, () => {
      return { type: 'rule', id: ++this.#lastId, body: null, isEmptiable: false, isEndless: true }
    })
  }

  #class(ranges: readonly ByteRange[]): Node {
    return this.#unique(`class ${ranges.join(' ')}`, (id) => ({ type: 'class', id, ranges }))
  }

  #repeat(part: Node, min: number, max: number | null): Node {
    if (max === 0) return this.#sequence([])
    return this.#unique(`repeat ${part.id} ${min} ${max}`, (id) => ({ type: 'repeat', id, part, min, max }))
  }

  #sequence(parts: readonly Node[]): Node {
    const flat = parts.flatMap((part) => (part.type === 'sequence' ? part.parts : [part]))
    if (flat.length === 1) return flat[0]!
    return this.#unique(`sequence ${flat.map(({ id }) => id)}`, (id) => ({ type: 'sequence', id, parts: flat }))
  }

  /** Merges options that begin with the same part, so that only a few of a thousand labels are followed at a time. */
  #choice(options: readonly (readonly Node[])[]): Node {
    const flat = options.flatMap((parts) => flatOptions(parts))
    const byFirst = Map.groupBy(flat, ([first]) => first)
    const merged = [...byFirst].map(([first, group]) => {
      if (first === undefined || group.length === 1) return this.#sequence(group[0]!)
      const shared = commonLength(group)
      const rests = group.map((parts) => parts.slice(shared))
      return this.#sequence([...group[0]!.slice(0, shared), this.#choice(rests)])
    })
    if (merged.length === 1) return merged[0]!
    return this.#unique(`choice ${merged.map(({ id }) => id)}`, (id) => ({ type: 'choice', id, options: merged }))
  }

  #unique(key: string, make: (id: number) => Node): Node {
    return getOrMake(this.#nodes, key, () => make(++this.#lastId))
  }
}

/** The texts of an option, each as a list of its parts. */
function flatOptions(parts: readonly Node[]): (readonly Node[])[] {
  const [only] = parts
  if (parts.length !== 1 || only === undefined) return [parts]
  if (only.type === 'sequence') return [only.parts]
  return only.type === 'choice' ? only.options.flatMap((option) => flatOptions([option])) : [parts]
}

function commonLength([first, ...others]: readonly (readonly Node[])[]): number {
  let length = 0
  while (length < first!.length && others.every((other) => other[length] === first![length])) length++
  return length
}
