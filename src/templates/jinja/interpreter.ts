import { Interpreter } from '@huggingface/jinja'
import { ArgumentsOf } from './arguments.ts'
import { filterNamed } from './filters.ts'
import { methodOf } from './methods.ts'
import { calculate } from './operators.ts'
import { testNamed } from './tests.ts'
import {
  boolean,
  FunctionValue,
  integer,
  isList,
  isMap,
  isNumber,
  isString,
  isTrue,
  isUndefined,
  iterate,
  type Key,
  keyOf,
  MapValue,
  NONE,
  newScope,
  type Scope,
  string,
  textOf,
  UNDEFINED,
  type Value,
} from './values.ts'

/** A node of the tree into which the library parses a template, with the fields that are used here. */
export interface Node<Inner = unknown> {
  readonly type: string
  readonly value: Inner
}
interface Block extends Node {
  readonly body: readonly Node[]
}
interface Loop extends Block {
  readonly loopvar: Node
  readonly iterable: Node & { readonly lhs: Node; readonly test: Node }
  readonly defaultBlock: readonly Node[]
}
interface Member extends Node {
  readonly object: Node
  readonly property: Node
  readonly computed: boolean
}
interface Binary extends Node {
  readonly operator: Node<string>
  readonly left: Node
  readonly right: Node
}
interface Applied extends Node<string> {
  readonly callee: Node<string>
  readonly args: readonly Node[]
}

/** The methods of the library's interpreter that are overridden or called: its types hide both. */
interface Evaluator {
  run(program: Node): Value
  evaluate(node: Node | undefined, scope: Scope): Value
  evaluateBlock(statements: readonly Node[], scope: Scope): Value
  evaluateFor(node: Loop, scope: Scope): Value
  evaluateMacro(node: Block & { readonly name: Node<string> }, scope: Scope): Value
  evaluateMemberExpression(node: Member, scope: Scope): Value
  evaluateBinaryExpression(node: Binary, scope: Scope): Value
  evaluateTestExpression(node: Node & { operand: Node; negate: boolean; test: Node<string> }, scope: Scope): Value
  evaluateSliceExpression(object: Value, node: Node, scope: Scope): Value
  evaluateArguments(args: readonly Node[], scope: Scope): [Value[], Map<string, Value>]
  applyFilter(operand: Value, filter: Applied, scope: Scope): Value
}
const LibraryInterpreter = Interpreter as unknown as new (scope: Scope) => Evaluator

/** `break` and `continue`, with the output of the loop's body so far. */
class Jump extends Error {
  readonly ends: boolean
  text = ''

  constructor(ends: boolean) {
    super('Only loops can be left')
    this.ends = ends
  }
}

/** Statements without output. */
const SILENT = new Set(['Set', 'Macro', 'Comment'])

/**
 * Runs templates like Jinja in Python. The library's own interpreter differs in how it prints, compares and looks up
 * values, in the scopes of loops and macros, and in its filters, tests and methods.
 */
export class PythonInterpreter extends LibraryInterpreter {
  override evaluate(node: Node | undefined, scope: Scope): Value {
    if (node?.type === 'Break' || node?.type === 'Continue') throw new Jump(node.type === 'Break')
    if (node?.type === 'ObjectLiteral') {
      const entries = [...(node.value as ReadonlyMap<Node, Node>)]
      return new MapValue(
        new Map(entries.map(([key, value]) => [keyOf(this.evaluate(key, scope)), this.evaluate(value, scope)])),
      )
    }
    return super.evaluate(node, scope)
  }

  override evaluateBlock(statements: readonly Node[], scope: Scope): Value {
    let text = ''
    try {
      for (const statement of statements) {
        const value = this.evaluate(statement, scope)
        if (!SILENT.has(statement.type)) text += textOf(value)
      }
    } catch (error) {
      if (error instanceof Jump) error.text = text + error.text
      throw error
    }
    return string(text)
  }

  override evaluateFor(node: Loop, outer: Scope): Value {
    const { lhs, test } = node.iterable.type === 'SelectExpression' ? node.iterable : { lhs: node.iterable, test: null }
    const inside = (item: Value) => {
      const scope = newScope(outer)
      assign(node.loopvar, item, scope)
      return scope
    }
    const all = iterate(this.evaluate(lhs, outer))
    const items = test === null ? all : all.filter((item) => isTrue(this.evaluate(test, inside(item))))
    if (items.length === 0) return this.evaluateBlock(node.defaultBlock, newScope(outer))
    let text = ''
    for (const [index, item] of items.entries()) {
      const scope = inside(item)
      scope.setVariable('loop', new MapValue(new LoopFields(items, index)))
      try {
        text += this.evaluateBlock(node.body, scope).value
      } catch (error) {
        if (!(error instanceof Jump)) throw error
        text += error.text
        if (error.ends) break
      }
    }
    return string(text)
  }

  /** A macro sees the scope of its definition. In the library, it sees the scope of its call. */
  override evaluateMacro(node: Block & { readonly name: Node<string> }, scope: Scope): Value {
    super.evaluateMacro(node, scope)
    const { value: name } = node.name
    const { value: call } = scope.lookupVariable(name) as InstanceType<typeof FunctionValue>
    const macro = new FunctionValue((args, from) => {
      const own = newScope(scope)
      const caller = from.variables.get('caller')
      if (caller !== undefined) own.setVariable('caller', caller)
      return call(args, own)
    })
    scope.setVariable(name, macro)
    return NONE
  }

  /** `a.b` is the method of that name rather than the entry, `a['b']` the entry. */
  override evaluateMemberExpression(node: Member, scope: Scope): Value {
    const object = this.evaluate(node.object, scope)
    if (isUndefined(object)) throw new Error(`${nameOfNode(node.object)} is undefined`)
    if (node.property.type === 'SliceExpression') return this.evaluateSliceExpression(object, node.property, scope)
    if (node.computed) {
      const key = this.evaluate(node.property, scope)
      const item = itemOf(object, key)
      return isUndefined(item) && isString(key) ? methodOf(object, key.value) : item
    }
    const name = node.property.value as string | number
    const method = typeof name === 'string' ? methodOf(object, name) : UNDEFINED
    return isUndefined(method) ? itemOf(object, typeof name === 'string' ? string(name) : integer(name)) : method
  }

  override evaluateBinaryExpression(node: Binary, scope: Scope): Value {
    const left = this.evaluate(node.left, scope)
    const operator = node.operator.value
    if (operator === 'and' && !isTrue(left)) return left
    if (operator === 'or' && isTrue(left)) return left
    const right = this.evaluate(node.right, scope)
    return operator === 'and' || operator === 'or' ? right : calculate(operator, left, right)
  }

  override evaluateTestExpression(
    { operand, negate, test: { value: name } }: Node & { operand: Node; negate: boolean; test: Node<string> },
    scope: Scope,
  ): Value {
    return boolean(testNamed(name)(this.evaluate(operand, scope)) !== negate)
  }

  override applyFilter(operand: Value, filter: Applied, scope: Scope): Value {
    if (filter.type === 'Identifier')
      return filterNamed(filter.value)(operand, new ArgumentsOf(filter.value, [], new Map()))
    const { value: name } = filter.callee
    return filterNamed(name)(operand, new ArgumentsOf(name, ...this.evaluateArguments(filter.args, scope)))
  }
}

function assign(target: Node, value: Value, scope: Scope): void {
  if (target.type !== 'TupleLiteral') {
    scope.setVariable((target as Node<string>).value, value)
    return
  }
  const targets = target.value as readonly Node[]
  const values = iterate(value)
  if (targets.length !== values.length)
    throw new Error(`expected ${targets.length} values to unpack, got ${values.length}`)
  for (const [i, inner] of targets.entries()) assign(inner, values[i]!, scope)
}

const LOOP_FIELDS = new Map<Key, (items: readonly Value[], index: number) => Value | undefined>([
  ['index', (_items, index) => integer(index + 1)],
  ['index0', (_items, index) => integer(index)],
  ['revindex', (items, index) => integer(items.length - index)],
  ['revindex0', (items, index) => integer(items.length - index - 1)],
  ['first', (_items, index) => boolean(index === 0)],
  ['last', (items, index) => boolean(index === items.length - 1)],
  ['length', (items) => integer(items.length)],
  // Recursive loops, which would go deeper, are not supported.
  ['depth', () => integer(1)],
  ['depth0', () => integer(0)],
  ['previtem', (items, index) => items[index - 1]],
  ['nextitem', (items, index) => items[index + 1]],
  ['cycle', (_items, index) => new FunctionValue((args) => args[index % args.length] ?? UNDEFINED)],
])

/** The fields of `loop`. They are computed when they are read: some templates iterate over all turns for each turn. */
class LoopFields extends Map<Key, Value> {
  readonly #items: readonly Value[]
  readonly #index: number

  constructor(items: readonly Value[], index: number) {
    super()
    this.#items = items
    this.#index = index
  }

  override get(name: Key): Value | undefined {
    return LOOP_FIELDS.get(name)?.(this.#items, this.#index)
  }
}

function itemOf(object: Value, key: Value): Value {
  if (isMap(object)) return (isUndefined(key) ? undefined : object.value.get(keyOf(key))) ?? UNDEFINED
  if (object.type === 'NamespaceValue') return (object.value as Map<unknown, Value>).get(key.value) ?? UNDEFINED
  if (!isNumber(key)) return UNDEFINED
  if (isList(object)) return object.value.at(Number(key.value)) ?? UNDEFINED
  const character = isString(object) ? [...object.value].at(Number(key.value)) : undefined
  return character === undefined ? UNDEFINED : string(character)
}

function nameOfNode(node: Node): string {
  return node.type === 'Identifier' ? `'${node.value}'` : 'a value that the template reads from'
}
