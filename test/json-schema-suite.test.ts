import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { schemaValidator } from '../src/conversation/reply/schema-validator.ts'
import { grammarOf } from '../src/inference/constraints/constraint-grammar.ts'
import { FORMATS } from '../src/inference/constraints/formats.ts'
import { UnsupportedConstraint } from '../src/inference/constraints/unsupported-constraint.ts'
import { accepts, byteAutomaton } from './support/byte-automaton.ts'
import { promisedSchema, someForm } from './support/promised-schema.ts'

/** A checkout of github.com/json-schema-org/JSON-Schema-Test-Suite, which no package on npm holds in a recent version. */
const SUITE = process.env.LOOKOUT_JSON_SCHEMA_SUITE
const PAGE = new URL('../docs/json-schema.md', import.meta.url)

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

/** Either a schema is refused, or no invalid value is let through, and every valid one that the page promises. */
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
  const isPromised = schemaValidator(promisedSchema(schema) as object | boolean)
  const missed = tests.filter(({ data, valid, description: about }) => {
    const accepted = someForm(data, (form) => accepts(automaton, form))
    const isExpected = isPromised(data)
    const isUnwritten = !accepted && UNWRITTEN.test(JSON.stringify(data))
    if ((accepted !== isExpected && !isUnwritten) || (accepted && !valid)) wrong.push(`${description}: ${about}`)
    return valid && !accepted
  })
  tally[missed.length === 0 ? 'exact' : 'narrower']++
}

/** Numbers of more digits than are written, and control characters that JSON has no short escape for. */
const UNWRITTEN = /\d{16}|e[+-]?\d{3}|\\u00/

const REASONS: readonly (readonly [RegExp, string])[] = [
  [/^the keyword '(.*)' is not supported/, '`$1`'],
  [
    /^'\w+' beside '(?:\$ref|anyOf|oneOf|allOf|enum|const)'/,
    'a keyword next to `$ref`, `anyOf`, `oneOf`, `allOf` or `enum`',
  ],
  [/not a reference within the schema|refers to nothing/, '`$ref` to anything but a place in the schema'],
  [/refers to itself/, '`$ref` to itself'],
  [/^'\$id' is only/, '`$id` below the top'],
  [/^the format/, 'other formats'],
  [/^'allOf' is only/, '`allOf` of several schemas'],
  [/^'oneOf' is only/, '`oneOf` of schemas that cannot be told apart'],
  [/^the schema false|is empty|allows no such|allows none/, 'schemas that allow nothing'],
  [/^'additionalProperties' with a schema/, '`additionalProperties` with a schema next to `properties`'],
  [/^'items' with a list/, '`items` with a list of schemas'],
  [/^'items' with a schema|of exactly the/, '`prefixItems` with other lengths'],
  [/need a 'type'|says nothing about/, 'keywords about another type, or about several without `type`'],
  [/__proto__/, 'a property `__proto__`'],
]

function reasonOf({ message, path }: UnsupportedConstraint): string {
  for (const [pattern, reason] of REASONS) {
    const found = message.match(pattern)
    if (found !== null) return found[0].replace(pattern, reason)
  }
  return path.at(-1) === 'pattern' ? 'a pattern that is not supported' : message
}

function tallyOf(folder: string, findings: Findings): Tally {
  const tally: Tally = { groups: 0, exact: 0, narrower: 0, refused: 0 }
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.json'))) {
    for (const group of JSON.parse(readFileSync(join(folder, file), 'utf8')) as Group[]) judge(group, tally, findings)
  }
  return tally
}

describe.skipIf(SUITE === undefined)('the JSON Schema Test Suite', () => {
  test.each(['draft2020-12', 'draft7'])('%s is kept or refused, as the page says', (draft) => {
    const findings: Findings = { reasons: new Map(), wrong: [] }
    const rows = ['', 'optional', 'optional/format'].map((part) => {
      const { groups, exact, narrower, refused } = tallyOf(join(SUITE!, 'tests', draft, part), findings)
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
    expect(readFileSync(PAGE, 'utf8')).toContain(`${tables}\n\n`)
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

  test('names the keywords that are supported, and those that are not', () => {
    expect(namedIn('Supported').length).toBeGreaterThan(30)
    for (const keyword of namedIn('Supported')) {
      expect(messageFor({ [keyword]: null })).not.toContain(`the keyword '${keyword}' is not supported`)
    }
    const refused = namedIn('Not supported').filter((keyword) => !namedIn('Supported').includes(keyword))
    expect(refused.length).toBeGreaterThan(20)
    for (const keyword of refused) {
      expect(messageFor({ [keyword]: null })).toBe(`the keyword '${keyword}' is not supported`)
    }
  })

  test('names the formats', () => {
    const [, list = ''] = page.match(/Formats: ([^.]*)\./)!
    const formats = [...list.matchAll(/`([\w-]+)`/g)].map(([, format]) => format)
    expect(formats).toEqual(Object.keys(FORMATS))
  })
})
