import fc from 'fast-check'
import { expect, test } from 'vitest'
import { isTextDeeper, isValueDeeper, MOST_JSON_LEVELS } from './json-depth.ts'

function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  return 1 + Math.max(0, ...Object.values(value).map(depthOf))
}

test('measures the nesting of texts and values, with any strings in them', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), fc.nat(7), fc.constantFrom(0, 2), (value, levels, indent) => {
      const expected = depthOf(value) > levels
      expect(isValueDeeper(value, levels)).toBe(expected)
      expect(isTextDeeper(JSON.stringify(value, null, indent), levels)).toBe(expected)
    }),
  )
})

test('accepts any text, valid or not', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom('[', ']', '{', '}', '"', '\\', 'a') }), (text) => {
      isTextDeeper(text, 3)
    }),
  )
})

test('millions of levels do not overflow the stack', () => {
  const text = `${'['.repeat(3_000_000)}${']'.repeat(3_000_000)}`
  expect(isTextDeeper(text)).toBe(true)
  expect(isValueDeeper(JSON.parse(text))).toBe(true)
  expect(isTextDeeper(text, 3_000_000)).toBe(false)
})

test.each([0, 1])('%i levels above the limit', (more) => {
  const text = '{"a":'.repeat(MOST_JSON_LEVELS + more) + 1 + '}'.repeat(MOST_JSON_LEVELS + more)
  expect(isTextDeeper(text)).toBe(more > 0)
  expect(isValueDeeper(JSON.parse(text))).toBe(more > 0)
})
