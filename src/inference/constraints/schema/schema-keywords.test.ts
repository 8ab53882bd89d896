import { expect, test } from 'vitest'
import { ignoredKeywords } from './schema-keywords.ts'

test.each<[schema: unknown, names: readonly string[]]>([
  [{ title: 'a', type: 'object', properties: { discriminator: { type: 'string' } } }, []],
  [{ 'x-order': 1, properties: { a: { propertyOrder: 2 }, b: { propertyOrder: 3 } } }, ['x-order', 'propertyOrder']],
  [{ const: { foo: 1 }, enum: [{ foo: 1 }], default: { foo: 1 }, examples: [{ foo: 1 }] }, []],
  [{ items: [{ foo: 1 }, { type: 'string', format: 'semver' }] }, ['foo', 'format: semver']],
  [{ dependencies: { a: ['b'], c: { bar: 1 } }, not: { foo: 1 } }, ['bar', 'foo']],
  [{ $ref: '#/components/a', components: { a: { foo: 1 } }, more: { a: { bar: 1 } } }, ['more', 'foo']],
  [{ format: 'date', contentEncoding: 'base64' }, ['contentEncoding']],
  [{ properties: [], allOf: { foo: 1 }, items: 5 }, []],
  [true, []],
  ['foo', []],
])('keywords without effect in %j', (schema, names) => {
  expect(ignoredKeywords(schema)).toEqual(names)
})

test('a schema of any depth is read', () => {
  let schema: unknown = { foo: 1 }
  for (let depth = 0; depth < 40_000; depth++) schema = { items: schema }
  expect(ignoredKeywords(schema)).toEqual(['foo'])
})

test('a list may hold more schemas than a call takes arguments', () => {
  expect(ignoredKeywords({ anyOf: [{ foo: 1 }, ...Array.from({ length: 300_000 }, () => true)] })).toEqual(['foo'])
})
