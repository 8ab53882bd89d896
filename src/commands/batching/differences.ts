import { isRecord } from '../../lib/json/parse-json.ts'

/** A field by its path, such as `items[2].name`. A missing value is undefined. */
export interface Difference {
  readonly path: string
  readonly before: unknown
  readonly now: unknown
}

/** The most fields of one part to list. */
const MOST_FIELDS = 3

/** The JSON object or list in a text; null for any other text. */
export function jsonIn(text: string): object | null {
  if (!/^\s*[{[]/.test(text)) return null
  try {
    const value: unknown = JSON.parse(text, exactly as (key: string, value: unknown) => unknown)
    return typeof value === 'object' ? value : null
  } catch {
    return null
  }
}

/** Keeps the digits of integers that JavaScript would round, so that different ids stay different. */
function exactly(_key: string, value: unknown, { source }: { readonly source?: string }): unknown {
  return typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(source!) ? source : value
}

/** The differences between two values; the order of an object's keys does not matter. */
export function differences(
  one: unknown,
  other: unknown,
): { readonly fields: readonly Difference[]; readonly more: number } {
  const fields: Difference[] = []
  let more = 0
  // Without recursion: a value may be nested deep.
  const stack: [path: string, one: unknown, other: unknown][] = [['', one, other]]
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    const [path, before, now] = next
    if (before === now) continue
    if (Array.isArray(before) && Array.isArray(now)) {
      for (let index = Math.max(before.length, now.length) - 1; index >= 0; index--) {
        stack.push([`${path}[${index}]`, before[index], now[index]])
      }
    } else if (isRecord(before) && isRecord(now)) {
      for (const key of [...new Set([...Object.keys(before), ...Object.keys(now)])].reverse()) {
        stack.push([path === '' ? key : `${path}.${key}`, ownOf(before, key), ownOf(now, key)])
      }
    } else if (fields.length < MOST_FIELDS) fields.push({ path, before, now })
    else more++
  }
  return { fields, more }
}

function ownOf(fields: Readonly<Record<string, unknown>>, key: string): unknown {
  return Object.hasOwn(fields, key) ? fields[key] : undefined
}

/** The most characters of a text to show before and after the first difference. */
const SHOWN = { before: 16, from: 40 }

/** The first difference of two texts. */
export function parting(
  one: string,
  other: string,
): { readonly word: number; readonly before: string; readonly now: string } {
  let at = 0
  while (at < one.length && one[at] === other[at]) at++
  // A word is shown whole, unless it is long or there are no words.
  let start = at
  while (start > 0 && at - start < SHOWN.before && !/\s/.test(one[start - 1]!)) start--
  const shown = (text: string) => {
    const cut = text.slice(start, start + SHOWN.from)
    const whole = cut.length < text.length - start ? `${cut.replace(/\s+\S*$/, '')} …` : cut
    return whole.toWellFormed()
  }
  return { word: one.slice(0, start).split(/\s+/).filter(Boolean).length + 1, before: shown(one), now: shown(other) }
}
