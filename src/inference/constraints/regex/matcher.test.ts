import fc from 'fast-check'
import { expect, test } from 'vitest'
import { toRegExp } from '../../../../test/support/reg-exp.ts'
import { parsePattern } from './anchors.ts'
import { PatternMatcher } from './matcher.ts'

const PATTERNS = [
  '',
  'a*',
  '(a|b)*b',
  '(?:ab?){2,3}',
  '(a*)*b?',
  '(a|aa)+',
  '[^a]?a{2}',
  '.b|a.',
  '(?:|a|ab){0,2}b',
  'x{0}a',
]

test('agrees with the engine of JavaScript', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...PATTERNS),
      fc.string({ unit: fc.constantFrom('a', 'b', '😀', '\n') }),
      (source, text) => {
        const pattern = parsePattern(source)
        expect(new PatternMatcher(pattern).test(text)).toBe(toRegExp(pattern).test(text))
      },
    ),
    { numRuns: 2000 },
  )
})

test('takes no longer for patterns that can be matched in many ways', () => {
  expect(new PatternMatcher(parsePattern('(a+)+b|(a|aa)+c')).test('a'.repeat(5_000))).toBe(false)
  expect(new PatternMatcher(parsePattern('.{0,10000}x')).test('a'.repeat(9_000))).toBe(false)
})

test.each([
  ['é[0-9](?=a)', 7],
  ['😀a\\b', 3],
  ['a(?<!b)', 2],
])('%s is refused at character %i', (source, character) => {
  expect(() => parsePattern(source)).toThrow(`is not supported (at character ${character})`)
})
