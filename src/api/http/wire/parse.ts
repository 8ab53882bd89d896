import { core, type z } from 'zod'
import { ERROR_CODES, type ErrorCode } from '../../../lib/errors/error-codes.ts'
import { type ApiError, invalidRequest, say } from '../../../lib/errors/errors.ts'
import { nameOf, type Path } from '../../../lib/errors/param.ts'
import { isRecord } from '../../../lib/json/parse-json.ts'

type Issue = z.core.$ZodIssue

/** Stops at the first issue: otherwise a list of a million wrong items would produce a million issues. */
const FIRST_ISSUE = { async: false, abortEarly: true } as const

/** Validates a body and drops unknown keys. @throws ApiError 400 naming the first parameter at fault. */
export function parseBody<Schema extends z.ZodType>(schema: Schema, body: unknown): z.output<Schema> {
  if (!isRecord(body)) throw invalidRequest('The request body must be a JSON object', null)
  const payload = run(schema, body)
  if (payload instanceof Promise) throw new Error('A schema of a request must not be asynchronous')
  const [issue] = payload.issues
  if (issue) throw toApiError(core.util.finalizeIssue(issue, FIRST_ISSUE, core.config()))
  return payload.value as z.output<Schema>
}

/** Zod reads the `length` of any value where it expects a string, which throws for some objects that JSON can hold. */
function run(schema: z.ZodType, body: unknown): ReturnType<z.ZodType['_zod']['run']> {
  try {
    return schema._zod.run({ value: body, issues: [] }, FIRST_ISSUE)
  } catch (cause) {
    throw invalidRequest('The request body contains a value that cannot be read', null, { cause })
  }
}

/** Error codes that clients know for particular parameters. */
const CODES = new Map<unknown, ErrorCode>([
  ['temperature', 'invalid_temperature'],
  ['regex', 'invalid_regex'],
  ['response_format', 'invalid_response_format'],
  ['response_format.type', 'unsupported_response_format'],
  ['text.format.type', 'unsupported_response_format'],
])

function toApiError(first: Issue): ApiError {
  const found = deepest(first)
  // The error is at the unknown key itself.
  const issue = found.code === 'unrecognized_keys' ? { ...found, path: [...found.path, found.keys[0]!] } : found
  const path = issue.path.filter((key) => typeof key !== 'symbol')
  return invalidRequest(say`Invalid '${path}': ${reason(issue)}`, path, { code: codeFor(issue, path) })
}

/** An issue with its own message gets only the code that its schema names, not its parameter's. */
function codeFor(issue: Issue, path: Path): ErrorCode | null {
  const named = issue.code === 'custom' ? ERROR_CODES.find((code) => code === issue.params?.code) : undefined
  return named ?? (hasOwnMessage(issue) ? null : parameterCode(path))
}

/** Returns the code of errors about a parameter or a field in it; null for most parameters. */
export function parameterCode(path: Path): ErrorCode | null {
  return CODES.get(nameOf(path)) ?? CODES.get(path[0]) ?? null
}

/** Codes of a value that is as a whole not what a member of a union expects. */
const OF_THE_WHOLE: readonly string[] = ['invalid_type', 'invalid_value']

/** Returns the issue of the union member that matched deepest, which describes the mistake best. */
function deepest(issue: Issue): Issue {
  if (issue.code !== 'invalid_union' || issue.errors.length === 0) return issue
  const entered = issue.errors
    .map((issues) => issues[0])
    .filter(
      (inner): inner is Issue => inner !== undefined && !(inner.path.length === 0 && OF_THE_WHOLE.includes(inner.code)),
    )
    .sort((a, b) => b.path.length - a.path.length)[0]
  if (!entered) return issue
  return deepest({ ...entered, path: [...issue.path, ...entered.path] })
}

function hasOwnMessage({ message }: Issue): boolean {
  return !/^(Invalid|Too|Unrecognized) /.test(message)
}

function reason(issue: Issue): string {
  // A message in the schema is more specific than one derived from the issue.
  if (hasOwnMessage(issue)) return issue.message
  switch (issue.code) {
    case 'invalid_union':
      return unionReason(issue)
    case 'invalid_value':
      return `expected ${oneOf(issue.values)}`
    case 'invalid_type':
      return issue.message.endsWith('received undefined') ? 'it is required' : typeReason(issue)
    case 'unrecognized_keys':
      return 'there is no such field'
    case 'too_small':
      return bound('at least', issue.minimum, issue)
    case 'too_big':
      return bound('at most', issue.maximum, issue)
    default:
      return issue.message
  }
}

function typeReason(issue: Extract<Issue, { code: 'invalid_type' }>): string {
  if (issue.expected === 'int') return 'expected an integer'
  // Zod's "record" is an object to clients.
  if (issue.expected === 'record') return issue.message.replace(/^Invalid input: expected record/, 'expected object')
  return issue.message.replace(/^Invalid input: /, '')
}

interface Bound {
  readonly origin: string
  readonly inclusive?: boolean | undefined
}

function bound(words: 'at least' | 'at most', limit: number | bigint, { origin, inclusive }: Bound): string {
  if (origin === 'array') return `expected ${words} ${limit} ${limit === 1 ? 'item' : 'items'}`
  if (origin === 'string') return `expected ${words} ${limit} ${limit === 1 ? 'character' : 'characters'}`
  if (inclusive) return `expected ${words} ${limit}`
  return `expected ${words === 'at least' ? 'more' : 'less'} than ${limit}`
}

function unionReason(issue: Extract<Issue, { code: 'invalid_union' }>): string {
  if ('options' in issue && Array.isArray(issue.options)) return `expected ${oneOf(issue.options)}`
  const first = issue.errors.map((issues) => issues[0]).filter((inner) => inner !== undefined)
  const expected = first.map((inner) => {
    if (inner.code === 'invalid_value') return oneOf(inner.values)
    if (!('expected' in inner)) return inner.code
    // Zod's "record" is an object to clients.
    return inner.expected === 'record' ? 'object' : String(inner.expected)
  })
  const received = first.map((inner) => inner.message.match(/received (\w+)$/)?.[1]).find(Boolean)
  if (received === 'undefined') return 'it is required'
  return `expected ${[...new Set(expected)].join(' or ')}${received ? `, received ${received}` : ''}`
}

function oneOf(values: readonly unknown[]): string {
  // The options of a union whose discriminator may be left out include undefined and null.
  const quoted = values.filter((value) => value != null).map((value) => `'${String(value)}'`)
  return quoted.length === 1 ? quoted[0]! : `one of ${quoted.join(', ')}`
}
