import { isMap, isNone, isNumber, isString, isTrue, type Key, textOf, type Value } from './values.ts'

/** The arguments of a function, a method, a filter or a test. */
export class ArgumentsOf {
  readonly #name: string
  readonly positional: readonly Value[]
  readonly namedOnes: ReadonlyMap<Key, Value>

  constructor(name: string, positional: readonly Value[], named: ReadonlyMap<Key, Value>) {
    this.#name = name
    this.positional = positional
    this.namedOnes = named
  }

  /** The arguments of a call: the library appends the named ones as one value. */
  static call(name: string, args: readonly Value[]): ArgumentsOf {
    const last = args.at(-1)
    if (last === undefined || last.type !== 'KeywordArgumentsValue' || !isMap(last))
      return new ArgumentsOf(name, args, new Map())
    return new ArgumentsOf(name, args.slice(0, -1), last.value)
  }

  at(index: number, name: string): Value | undefined {
    return this.positional[index] ?? this.namedOnes.get(name)
  }

  needed(index: number): Value {
    const value = this.positional[index]
    if (value === undefined) throw new Error(`${this.#name} needs ${index + 1} argument${index === 0 ? '' : 's'}`)
    return value
  }

  named(name: string): Value {
    const value = this.namedOnes.get(name)
    if (value === undefined) throw new Error(`${this.#name} needs the argument '${name}'`)
    return value
  }

  text(index: number): string {
    const value = this.needed(index)
    if (!isString(value)) throw new Error(`${this.#name} needs a string`)
    return value.value
  }

  /** Null if absent or None. */
  optional<Inner>(index: number, name: string, is: (value: Value) => value is Value<Inner>): Inner | null {
    const value = this.at(index, name)
    if (value === undefined || isNone(value)) return null
    if (!is(value)) throw new Error(`${this.#name} does not take ${textOf(value)} as '${name}'`)
    return value.value
  }

  integer(index: number, name: string, fallback: number): number {
    return Number(this.optional(index, name, isNumber) ?? fallback)
  }

  flag(index: number, name: string): boolean {
    const value = this.at(index, name)
    return value !== undefined && isTrue(value)
  }
}
