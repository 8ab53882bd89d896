import fc from 'fast-check'
import { expect, test } from 'vitest'
import { SLICE_CHARACTERS, slicesOf } from './text-slices.ts'

const unit = fc.constantFrom(' ', '\n', 'a', 'word', '日本', '😀', '<', '>', '<|im_end|>\n', '1', '\t', '\u3000')
const text = fc
  .tuple(fc.array(unit, { minLength: 1, maxLength: 40 }), fc.integer({ min: 1, max: 3000 }))
  .map(([units, times]) => units.join('').repeat(times).slice(0, 40_000).toWellFormed())

test('slices are the text, short, and cut no character in two', () => {
  fc.assert(
    fc.property(text, (text) => {
      const slices = [...slicesOf({ text, trusted: false })]
      expect(slices.join('') === text).toBe(true)
      for (const slice of slices) {
        expect(slice.length).toBeGreaterThan(0)
        expect(slice.length).toBeLessThanOrEqual(SLICE_CHARACTERS)
        expect(slice.isWellFormed()).toBe(true)
      }
    }),
  )
})

test('words are cut between each other', () => {
  fc.assert(
    fc.property(fc.array(fc.stringMatching(/^[a-z]{1,12}[.,]?$/), { minLength: 2000, maxLength: 3000 }), (words) => {
      for (const [index, slice] of [...slicesOf({ text: words.join(' '), trusted: false })].entries()) {
        expect(slice).toMatch(index === 0 ? /^[a-z].*[a-z.,]$/ : /^ [a-z].*[a-z.,]$/)
      }
    }),
    { numRuns: 20 },
  )
})

test('control tokens of trusted text stay whole', () => {
  fc.assert(
    fc.property(text, (text) => {
      const turns = `<|im_start|>user\n${text}<|im_end|>\n`.repeat(3)
      const slices = [...slicesOf({ text: turns, trusted: true })]
      expect(slices.join('') === turns).toBe(true)
      for (const slice of slices.slice(1)) expect(slice[0]).toBe('<')
    }),
  )
})
