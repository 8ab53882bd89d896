import { parse, tokenize } from '@huggingface/jinja'
import { ArgumentsOf } from './arguments.ts'
import { type Node, PythonInterpreter } from './interpreter.ts'
import { strftime } from './strftime.ts'
import { withTestsAsFilters } from './tokens.ts'
import {
  boolean,
  type Call,
  integer,
  isList,
  isMap,
  iterate,
  type Key,
  keyOf,
  list,
  MapValue,
  NONE,
  newScope,
  string,
  textOf,
  toValue,
  type Value,
} from './values.ts'

/** Functions and values that all chat templates can use, with the names in Transformers. */
const GLOBALS: Readonly<Record<string, Value>> = {
  true: boolean(true),
  True: boolean(true),
  false: boolean(false),
  False: boolean(false),
  none: NONE,
  None: NONE,
  raise_exception: toValue((args: readonly Value[]) => {
    throw new Error(textOf(args[0] ?? string('')))
  }),
  strftime_now: toValue((args: readonly Value[]) => string(strftime(new Date(), textOf(args[0] ?? string(''))))),
  range: toValue(range satisfies Call),
  dict: toValue(dict satisfies Call),
}

function range(args: readonly Value[]): Value {
  const numbers = args.map(({ value }) => Number(value))
  const [start, stop, step = 1] = numbers.length < 2 ? [0, numbers[0] ?? 0] : (numbers as [number, number, number?])
  if (step === 0) throw new Error('range() arg 3 must not be zero')
  const result: number[] = []
  for (let i = start; step > 0 ? i < stop : i > stop; i += step) result.push(i)
  return list(result.map(integer))
}

function dict(args: readonly Value[]): Value {
  const { positional, namedOnes } = ArgumentsOf.call('dict', args)
  const [source] = positional
  const pairs = (items: Value): [Key, Value][] =>
    iterate(items).map((pair) => {
      const [key, value] = isList(pair) ? pair.value : []
      if (key === undefined || value === undefined) throw new Error('dict() needs pairs')
      return [keyOf(key), value]
    })
  const entries = source === undefined ? [] : isMap(source) ? [...source.value] : pairs(source)
  return new MapValue(new Map<Key, Value>([...entries, ...namedOnes]))
}

/** A chat template in Jinja. It renders the same as Hugging Face Transformers from the same variables. */
export class JinjaTemplate {
  readonly #program: Node

  /** @throws Error for a source that is not a template. */
  constructor(source: string) {
    // Jinja2 normalises all line ends to this one.
    const tokens = tokenize(source.replace(/\r\n?/g, '\n'), { lstrip_blocks: true, trim_blocks: true })
    this.#program = parse(withTestsAsFilters(tokens) as typeof tokens) as unknown as Node
  }

  /**
   * @param variables JSON values.
   * @throws Error when the template rejects them.
   */
  render(variables: Readonly<Record<string, unknown>>): string {
    const scope = newScope()
    for (const [name, value] of Object.entries(GLOBALS)) scope.setVariable(name, value)
    for (const [name, value] of Object.entries(variables)) scope.setVariable(name, toValue(value))
    return textOf(new PythonInterpreter(scope).run(this.#program))
  }
}
