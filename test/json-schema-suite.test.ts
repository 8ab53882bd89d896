import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { grammarOf } from '../src/inference/constraints/constraint-grammar.ts'
import { FORMATS } from '../src/inference/constraints/schema/formats.ts'
import { KEYWORDS } from '../src/inference/constraints/schema/schema-keywords.ts'
import { UnsupportedConstraint } from '../src/inference/constraints/unsupported-constraint.ts'
import { accepts, byteAutomaton } from './support/byte-automaton.ts'
import { someForm } from './support/promised-schema.ts'

/** A checkout of github.com/json-schema-org/JSON-Schema-Test-Suite, which no package on npm holds in a recent version. */
const SUITE = process.env.LOOKOUT_JSON_SCHEMA_SUITE
const PAGE = new URL('../docs/json-schema.md', import.meta.url)
const RESULTS = new URL('../docs/contributing/operations-notes.md', import.meta.url)

interface Group {
  readonly description: string
  readonly schema: unknown
  readonly tests: readonly { readonly description: string; readonly data: unknown; readonly valid: boolean }[]
}

interface Tally {
  groups: number
  exact: number
  narrower: number
  refused: number
}

/** What came of some groups. */
interface Findings {
  readonly reasons: Map<string, number>
  readonly wrong: string[]
}

/** Either a schema is refused, or no invalid value is let through. */
function judge({ schema, tests, description }: Group, tally: Tally, { reasons, wrong }: Findings): void {
  tally.groups++
  let automaton: ReturnType<typeof byteAutomaton>
  try {
    automaton = byteAutomaton({ type: 'json_schema', schema })
  } catch (error) {
    if (!(error instanceof UnsupportedConstraint)) throw error
    const reason = reasonOf(error)
    reasons.set(reason, (reasons.get(reason) ?? 0) + 1)
    tally.refused++
    return
  }
  const missed = tests.filter(({ data, valid, description: about }) => {
    const accepted = someForm(data, (form) => accepts(automaton, form))
    if (accepted && !valid) wrong.push(`${description}: ${about}`)
    return valid && !accepted
  })
  tally[missed.length === 0 ? 'exact' : 'narrower']++
}

const REASONS: readonly (readonly [RegExp, string])[] = [
  [
    /not a reference within the schema|refers to nothing|no schema inside has/,
    '`$ref` to anything but a place in the schema',
  ],
  [/refers to itself/, '`$ref` to itself'],
  [/told apart/, '`oneOf` of schemas that cannot be told apart'],
  [/^'not' leaves/, '`not` of what has no other name'],
  [/^'uniqueItems' is only/, '`uniqueItems` of items that the schema does not list'],
  [/^'maxContains' is only/, '`maxContains` beside another `contains`'],
  [/states to keep/, 'patterns that take too many states together'],
  [
    /^the schema false|is empty|allows no such|allows none|allows nothing|can be written|is less than|no string satisfies|cannot be kept beside|no value of/,
    'schemas that allow nothing',
  ],
  [/__proto__/, 'a property `__proto__`'],
]

function reasonOf({ message, path }: UnsupportedConstraint): string {
  for (const [pattern, reason] of REASONS) {
    const found = message.match(pattern)
    if (found !== null) return found[0].replace(pattern, reason)
  }
  return path.at(-1) === 'pattern' ? 'a pattern that is not supported' : message
}

/** `content.json` of draft 7 has what later drafts call annotations. */
function tallyOf(folder: string, $schema: string, findings: Findings): Tally {
  const tally: Tally = { groups: 0, exact: 0, narrower: 0, refused: 0 }
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.json') && name !== 'content.json')) {
    for (const group of JSON.parse(readFileSync(join(folder, file), 'utf8')) as Group[]) {
      const { schema } = group
      judge({ ...group, schema: typeof schema === 'object' ? { $schema, ...schema } : schema }, tally, findings)
    }
  }
  return tally
}

describe.skipIf(SUITE === undefined)('the JSON Schema Test Suite', () => {
  test.each([
    ['draft2020-12', 'https://json-schema.org/draft/2020-12/schema'],
    ['draft7', 'http://json-schema.org/draft-07/schema#'],
  ])('%s is kept or refused, as the page says', (draft, $schema) => {
    const findings: Findings = { reasons: new Map(), wrong: [] }
    const rows = ['', 'optional', 'optional/format'].map((part) => {
      const { groups, exact, narrower, refused } = tallyOf(join(SUITE!, 'tests', draft, part), $schema, findings)
      return `| ${part || 'required'} | ${groups} | ${exact} | ${narrower} | ${refused} |`
    })
    expect(findings.wrong).toEqual([])
    const reasons = [...findings.reasons].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))
    const tables = [
      `| ${draft} | groups | kept exactly | kept more narrowly | refused |`,
      '|---|---|---|---|---|',
      ...rows,
      '',
      '| refused for | groups |',
      '|---|---|',
      ...reasons.map(([reason, count]) => `| ${reason} | ${count} |`),
    ].join('\n')
    expect(readFileSync(RESULTS, 'utf8')).toContain(`${tables}\n\n`)
  })
})

describe('the page', () => {
  const page = readFileSync(PAGE, 'utf8')
  const namedIn = (section: string) => {
    const [, text = ''] = page.split(`## ${section}\n`)
    const rows = text
      .split('\n## ', 1)[0]!
      .split('\n')
      .filter((line) => line.startsWith('| '))
    return [...rows.join('\n').matchAll(/`([$\w]+)`/g)].map(([, keyword]) => keyword!)
  }
  const messageFor = (schema: unknown) => {
    try {
      grammarOf({ type: 'json_schema', schema })
      return 'supported'
    } catch (error) {
      return (error as Error).message
    }
  }

  test('names every keyword', () => {
    const named = [...namedIn('Supported'), ...namedIn('Without effect')]
    const known = [...KEYWORDS].filter(([, { effect }]) => effect === 'enforced').map(([keyword]) => keyword)
    expect(known.filter((keyword) => !named.includes(keyword))).toEqual([])
    for (const keyword of namedIn('Without effect')) {
      expect(KEYWORDS.get(keyword)?.effect).not.toBe('enforced')
      expect(messageFor({ [keyword]: null })).toBe('supported')
    }
  })

  test('names the formats', () => {
    const [, list = ''] = page.match(/Formats: ([^.]*)\./)!
    const formats = [...list.matchAll(/`([\w-]+)`/g)].map(([, format]) => format)
    expect(formats).toEqual(Object.keys(FORMATS))
  })
})
