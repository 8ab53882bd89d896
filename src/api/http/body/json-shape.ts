import { isUtf8 } from 'node:buffer'
import { type ApiError, invalidRequest, say } from '../../../lib/errors/errors.ts'
import { MOST_JSON_LEVELS } from '../../../lib/json/json-depth.ts'
import { endOfString, MOST_VALUES, QUOTE, shapeFault } from '../../../lib/json/json-shape.ts'
import { parameterCode } from '../wire/parse.ts'

/**
 * Rejects JSON that is too deep or has too many values, before it is parsed.
 * @throws ApiError 400 naming the parameter that is too deep or too long.
 */
export function checkShape(bytes: Buffer): void {
  if (!isUtf8(bytes)) throw invalidRequest('The request body is not valid UTF-8', null)
  const fault = shapeFault(bytes)
  if (fault !== null) throw fault.isDeep ? tooDeep(bytes, fault.at) : tooMany(bytes, fault.at)
}

function tooDeep(bytes: Buffer, at: number): ApiError {
  const path = contractPart(keysAt(bytes, at))
  const problem = `is nested deeper than ${MOST_JSON_LEVELS} levels`
  if (path.length === 0) return invalidRequest(`The request body ${problem}`, null)
  return invalidRequest(say`Invalid '${path}': it ${problem}`, path, { code: parameterCode(path) })
}

function tooMany(bytes: Buffer, at: number): ApiError {
  // The error names the longest list on the path, which is the one to shorten.
  const keys = keysAt(bytes, at)
  const longest = Math.max(...keys.filter((key) => typeof key === 'number'), -1)
  const list = longest === -1 ? keys.slice(0, 1) : keys.slice(0, keys.indexOf(longest))
  return invalidRequest(`The request body contains more than ${MOST_VALUES} values`, list)
}

interface Level {
  readonly isArray: boolean
  index: number
  key: string
}

/** How many levels of a path the contract defines, by the first key. The structure below is the client's own. */
const NAMED_LEVELS = new Map<unknown, number>([
  ['messages', 3],
  ['context', 3],
  ['tools', 4],
  ['response_format', 3],
  ['structured_outputs', 2],
  ['prompts', 2],
])

/** Returns the first levels of the path to a byte. Runs only for a rejected body. */
function keysAt(bytes: Buffer, end: number): readonly (string | number)[] {
  const path: Level[] = []
  let below = 0
  let text = { start: 0, end: 0 }
  for (let at = 0; at < end; at++) {
    const top = below === 0 ? path.at(-1) : undefined
    switch (bytes[at]) {
      case QUOTE:
        text = { start: at, end: endOfString(bytes, at) }
        at = text.end
        break
      case 0x3a: // :
        if (top && !top.isArray) top.key = keyOf(bytes, text)
        break
      case 0x2c: // ,
        if (top) top.index++
        break
      case 0x5b: // [
      case 0x7b: // {
        if (path.length < 4) path.push({ isArray: bytes[at] === 0x5b, index: 0, key: '' })
        else below++
        break
      case 0x5d: // ]
      case 0x7d: // }
        if (below > 0) below--
        else path.pop()
        break
    }
  }
  const keys = path.map(({ isArray, index, key }) => (isArray ? index : key))
  if (typeof keys[0] === 'number') return []
  return keys
}

function contractPart(keys: readonly (string | number)[]): readonly (string | number)[] {
  // The contract has no list directly inside a list.
  const inner = keys.findIndex((key, level) => typeof key === 'number' && typeof keys[level - 1] === 'number')
  const named = NAMED_LEVELS.get(keys[0]) ?? 1
  return keys.slice(0, inner === -1 ? named : Math.min(named, inner))
}

const LONGEST_KEY = 100

function keyOf(bytes: Buffer, { start, end }: { readonly start: number; readonly end: number }): string {
  return bytes.toString('utf8', start + 1, Math.min(end, start + 1 + LONGEST_KEY))
}
