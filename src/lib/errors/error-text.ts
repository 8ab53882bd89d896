import { isSameParam, isWithin, type Names, type Path, shownName } from './param.ts'

/** A parameter and its `type`. An API whose parameter has no `type` names only the parameter. */
export interface Variant {
  readonly of: Path
  readonly type: string
}

type Value = string | number | Path | Variant

/** The text of an error, which keeps the client's values, as texts and numbers, separate from parameters, as paths. */
export interface ErrorText {
  readonly strings: readonly string[]
  readonly values: readonly Value[]
}

/** Writes the text of an error: ``say`${['tools']} has no '${name}'` ``. */
export function say(strings: TemplateStringsArray, ...values: readonly Value[]): ErrorText {
  return { strings: [...strings], values }
}

export function plainText(text: string): ErrorText {
  return { strings: [text], values: [] }
}

/** The text with parameter names in the API's notation. */
export function written({ strings, values }: ErrorText): string {
  return strings.map((text, i) => (i < values.length ? text + valueText(values[i]!) : text)).join('')
}

function valueText(value: Value): string {
  if (isPath(value)) return shownName(value) ?? ''
  return typeof value === 'object' ? `${shownName(value.of)} ${value.type}` : String(value)
}

/** The same text with another API's parameter names. */
export function renamed({ strings, values }: ErrorText, names: Names): ErrorText {
  return { strings, values: values.map((value) => renamedValue(value, names)) }
}

function renamedValue(value: Value, names: Names): Value {
  if (isPath(value)) return names(value)
  if (typeof value !== 'object') return value
  const of = names(value.of)
  return isSameParam(of, names([...value.of, 'type'])) ? of : { of, type: value.type }
}

/** Whether the text names the parameter or something in it. */
export function mentions({ values }: ErrorText, path: Path): boolean {
  return values.some((value) => typeof value === 'object' && isWithin(isPath(value) ? value : value.of, path))
}

function isPath(value: Value): value is Path {
  return Array.isArray(value)
}
