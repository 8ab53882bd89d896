import { MediaRef } from './media-ref.ts'

/** How a language writes what JSON can say. */
export interface Syntax {
  readonly none: string
  readonly yes: string
  readonly no: string
  /** Indentation of one level. */
  readonly step: string
  text(value: string): string
  key(name: string): string
  media(media: MediaRef): string
}

/** What fits into this many columns is written on one line. */
const COLUMNS = 78

/** A value of JSON, with media in it, as a literal. @param indent of the line that the literal begins on */
export function writeLiteral(value: unknown, syntax: Syntax, indent = ''): string {
  if (value === null || value === undefined) return syntax.none
  if (typeof value === 'boolean') return value ? syntax.yes : syntax.no
  if (typeof value === 'number') return JSON.stringify(value)
  if (typeof value === 'string') return syntax.text(value)
  if (value instanceof MediaRef) return syntax.media(value)
  const inner = indent + syntax.step
  if (Array.isArray(value)) {
    return enclose(
      value.map((one) => writeLiteral(one, syntax, inner)),
      ['[', ']'],
      syntax.step,
      indent,
    )
  }
  const members = Object.entries(value).map(
    ([name, member]) => `${syntax.key(name)}: ${writeLiteral(member, syntax, inner)}`,
  )
  return enclose(members, ['{', '}'], syntax.step, indent)
}

/** @param indent of the line that the opening bracket stands on */
export function enclose(
  items: readonly string[],
  [open, close]: readonly [string, string],
  step: string,
  indent = '',
): string {
  const line = `${open}${items.join(', ')}${close}`
  if (indent.length + line.length <= COLUMNS && !line.includes('\n')) return line
  return `${open}\n${items.map((item) => `${indent}${step}${item}`).join(',\n')}\n${indent}${close}`
}
