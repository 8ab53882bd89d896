import fc from 'fast-check'
import { expect, test } from 'vitest'
import { compactJson, rawItems, rawMember, rawMembers } from './raw-json.ts'

/** Any JSON text without duplicate keys, including white space and spellings that `JSON.stringify` does not produce. */
const blank = fc.constantFrom('', ' ', '\n', '\t\r\n')
const string = fc.oneof(
  fc.string().map((text) => JSON.stringify(text)),
  fc.constantFrom('"\\u0061"', '"\\\\"', '"\\""', '"{[\\"]}"', '"__proto__"', '"toString"', '"10"', '""'),
)
/** Node's JSON.parse confuses a key that is a quote with a key that is a backslash when it has seen both. */
const key = string.filter((text) => !/["\\]/.test(JSON.parse(text)))
const { json } = fc.letrec<{ json: string }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom('1.0', '1e3', '-0', 'true', 'null', '12345678901234567890'),
    string,
    fc
      .tuple(blank, fc.array(fc.tuple(blank, tie('json'), blank).map((parts) => parts.join(''))))
      .map(([space, items]) => `[${items.length === 0 ? space : items.join(',')}]`),
    fc
      .tuple(
        blank,
        fc.uniqueArray(fc.tuple(blank, key, blank, blank, tie('json'), blank), {
          selector: ([, key]) => JSON.parse(key),
        }),
      )
      .map(([space, members]) => {
        const texts = members.map(([a, key, b, c, value, d]) => `${a}${key}${b}:${c}${value}${d}`)
        return `{${texts.length === 0 ? space : texts.join(',')}}`
      }),
  ),
}))

test('finds the same parts as JSON.parse in any text', () => {
  fc.assert(
    fc.property(json, (text) => {
      const value = JSON.parse(text)
      const items = rawItems(text)
      const members = rawMembers(text)
      if (Array.isArray(value)) {
        expect(JSON.stringify(items?.map((item) => JSON.parse(item)))).toBe(JSON.stringify(value))
        for (const item of items!) expect(text).toContain(item)
      } else expect(items).toBeNull()
      if (typeof value !== 'object' || value === null || Array.isArray(value)) {
        expect(members).toBeNull()
        return
      }
      for (const { key, rawKey } of members!) expect(JSON.parse(rawKey)).toBe(key)
      for (const key of Object.keys(value)) {
        expect(JSON.stringify(JSON.parse(rawMember(text, key)!))).toBe(JSON.stringify(value[key]))
      }
    }),
    { numRuns: 500 },
  )
})

test('order and spelling stay', () => {
  const text = '{"10": 1.0, "2": {"b":1e3,"a":[ ]} , "10": "\\u0061"}'
  expect(rawMembers(text)).toEqual([
    { key: '10', rawKey: '"10"', value: '1.0', start: 7 },
    { key: '2', rawKey: '"2"', value: '{"b":1e3,"a":[ ]}', start: 17 },
    { key: '10', rawKey: '"10"', value: '"\\u0061"', start: 43 },
  ])
  expect(rawMember(text, '10')).toBe('"\\u0061"')
  expect(rawMember(text, '3')).toBeNull()
})

test('reads a long text only once', () => {
  const text = `{"a":${'['.repeat(100_000)}${']'.repeat(100_000)},"b":"${'\\\\'.repeat(1_000_000)}","c":"${'\\"'.repeat(1_000_000)}"}`
  expect(rawMembers(text)?.map(({ key }) => key)).toEqual(['a', 'b', 'c'])
})

test('compact JSON says the same, without white space', () => {
  fc.assert(
    fc.property(json, (text) => {
      const compact = compactJson(text)
      expect(JSON.parse(compact)).toEqual(JSON.parse(text))
      expect(compactJson(JSON.stringify(JSON.parse(text), null, 2))).toBe(JSON.stringify(JSON.parse(text)))
      expect(compact.length).toBeLessThanOrEqual(text.length)
    }),
  )
})

test.each([
  ['{ "10" : 12345678901234567890 , "2":1.0e2 }', '{"10":12345678901234567890,"2":1.0e2}'],
  ['["\\u00e9 \\" x", " a "]', '["é \\" x"," a "]'],
])('compact %s', (text, compact) => {
  expect(compactJson(text)).toBe(compact)
})
