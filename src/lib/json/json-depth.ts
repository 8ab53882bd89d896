import { endOfString } from './raw-json.ts'

/**
 * Maximum nesting of arrays and objects in clients' JSON that is processed recursively: schemas, parameters of tools
 * and arguments of calls. A supported schema has at most 40 levels of its own, and each of them is two levels of JSON.
 */
export const MOST_JSON_LEVELS = 100

/** Maximum characters of a JSON schema that replies can follow. */
export const LONGEST_SCHEMA = 200_000

/** Whether a JSON text is nested deeper than `levels`. It does not recurse, and the text need not be valid. */
export function isTextDeeper(json: string, levels: number = MOST_JSON_LEVELS): boolean {
  let depth = 0
  for (let at = 0; at < json.length; at++) {
    switch (json.charCodeAt(at)) {
      case QUOTE:
        at = endOfString(json, at) - 1
        break
      case OPEN_BRACKET:
      case OPEN_BRACE:
        if (++depth > levels) return true
        break
      case CLOSE_BRACKET:
      case CLOSE_BRACE:
        depth--
    }
  }
  return false
}

/** The same for a parsed value. */
export function isValueDeeper(value: unknown, levels: number = MOST_JSON_LEVELS): boolean {
  let level = [value].filter(isNested)
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > levels) return true
    level = level.flatMap((nested) => Object.values(nested).filter(isNested))
  }
  return false
}

function isNested(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

const QUOTE = 0x22
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
