import fc from 'fast-check'
import { expect, test } from 'vitest'
import { AddedTokens, SLICE_CHARACTERS, slicesOf } from './text-slices.ts'

const NONE = new AddedTokens([])
const unit = fc.constantFrom(' ', '\n', 'a', 'word', '日本', '😀', '<', '>', '<|im_end|>\n', '1', '\t', '\u3000')
const text = fc
  .tuple(fc.array(unit, { minLength: 1, maxLength: 40 }), fc.integer({ min: 1, max: 3000 }))
  .map(([units, times]) => units.join('').repeat(times).slice(0, 40_000).toWellFormed())
const added = (texts: readonly string[]) => texts.map((text) => ({ text, isControl: false, strips: false }))

test('slices are the text, short, and cut no character in two', () => {
  fc.assert(
    fc.property(text, (text) => {
      const slices = [...slicesOf(text, NONE, true)]
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
      for (const [index, slice] of [...slicesOf(words.join(' '), NONE, true)].entries()) {
        expect(slice).toMatch(index === 0 ? /^[a-z].*[a-z.,]$/ : /^ [a-z].*[a-z.,]$/)
      }
    }),
    { numRuns: 20 },
  )
})

test('lines and tags without spaces are cut behind words', () => {
  const slices = [...slicesOf('<tr><td>12</td><td>ab</td></tr>'.repeat(1000), NONE, true)]
  expect(slices.length).toBeGreaterThan(7)
  for (const slice of slices.slice(0, -1)) expect(slice).toMatch(/[a-z\d]$/)
})

test('added tokens stay whole, and the text between them short', () => {
  const tokens = new AddedTokens(added(['<|im_start|>', '<|im_end|>', '<think>']))
  fc.assert(
    fc.property(text, (text) => {
      const turns = `<|im_start|>user\n${text}x<think><|im_end|>\n`.repeat(3)
      const slices = [...slicesOf(turns, tokens, true)]
      expect(slices.join('') === turns).toBe(true)
      for (const slice of slices) expect(slice.length).toBeLessThanOrEqual(SLICE_CHARACTERS)
      const whole = (text: string) => text.match(/<\|im_start\|>|<\|im_end\|>|<think>/g) ?? []
      expect(slices.flatMap(whole)).toEqual(whole(turns))
    }),
  )
})

/** As llama.cpp does it: the longest tokens first, each from the left. */
function partition(text: string, tokens: readonly string[]): string[] {
  let parts = [{ text, isToken: false }]
  for (const token of tokens.toSorted((a, b) => b.length - a.length)) {
    parts = parts.flatMap((part) => {
      if (part.isToken) return [part]
      const between = part.text.split(token).map((text) => ({ text, isToken: false }))
      return between.flatMap((rest, at) => (at === 0 ? [rest] : [{ text: token, isToken: true }, rest]))
    })
  }
  return parts.filter(({ text }) => text !== '').map(({ text, isToken }) => (isToken ? `[${text}]` : text))
}

const letters = (most: number) => fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 1, maxLength: most })

test('a text that is not cut at words is cut only at tokens, also where these overlap', () => {
  fc.assert(
    fc.property(fc.uniqueArray(letters(5), { maxLength: 6 }), letters(300), (tokens, text) => {
      const slices = [...slicesOf(text, new AddedTokens(added(tokens)), false, 1)].filter((slice) => slice !== '')
      expect(slices.join('')).toBe(text)
      expect(slices.flatMap((slice) => partition(slice, tokens))).toEqual(partition(text, tokens))
    }),
    { numRuns: 2000 },
  )
})

test('a long text is cut at each of many tokens, and a search for one lets others go first', () => {
  const lengths = (text: string) => [...slicesOf(text, new AddedTokens(added(['<td>', '\n', '\n\n'])), false)]
  for (const unit of ['ab<td>', '\n']) {
    const slices = lengths(unit.repeat(100_000)).filter((slice) => slice !== '')
    expect(Math.max(...slices.map(({ length }) => length))).toBeLessThanOrEqual(SLICE_CHARACTERS)
  }
  expect(lengths('<t'.repeat(100_000)).filter((slice) => slice === '').length).toBeGreaterThan(40)
})
