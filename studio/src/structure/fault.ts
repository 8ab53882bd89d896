import type { Failure } from '../server/failure.ts'
import { JsonTextError, placeOf, readJson } from './json-places.ts'

/** What is wrong with a schema or a pattern, and where in its text. */
export interface Fault {
  readonly message: string
  /** In UTF-16 units of the text. */
  readonly offset: number
}

const SCHEMA = 'response_format.json_schema.schema'

/** Why a text is not JSON; null when it is. */
export function faultOfJson(text: string): Fault | null {
  try {
    readJson(text)
    return null
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error
    return { message: error.message, offset: error.offset }
  }
}

/**
 * What the server does not take about a schema, at the place that `param` names: a member's name, or a value of a list.
 * @returns null when the failure is about something else.
 */
export function faultOfSchema(text: string, { param, message }: Pick<Failure, 'param' | 'message'>): Fault | null {
  if (param === null || !(param === SCHEMA || /^[.[]/.test(param.slice(SCHEMA.length))) || !param.startsWith(SCHEMA)) {
    return null
  }
  const place = placeOf(readJson(text), param.slice(SCHEMA.length))
  return { message: problemIn(message), offset: (place.key ?? place).start }
}

/** What the server does not take about a regular expression, at the character that the message counts. */
export function faultOfPattern(text: string, { param, message }: Pick<Failure, 'param' | 'message'>): Fault | null {
  if (param !== 'regex') return null
  const character = Number(/\(at character (\d+)\)/.exec(message)?.[1] ?? 1)
  // The server counts whole characters.
  return { message: problemIn(message), offset: [...text].slice(0, character - 1).join('').length }
}

/** Without what stands before the problem itself, which a place in the text says better. */
function problemIn(message: string): string {
  return message.replace(/^The (?:JSON schema|regular expression) is not supported: /, '')
}
