import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { AddedTokens, SLICE_CHARACTERS, slicesOf } from './text-slices.ts'

const NONE = new AddedTokens([])
const WORDS = { atWords: true }
const unit = fc.constantFrom(' ', '\n', 'a', 'word', '日本', '😀', '<', '>', '<|im_end|>\n', '1', '\t', '\u3000')
const text = fc
  .tuple(fc.array(unit, { minLength: 1, maxLength: 40 }), fc.integer({ min: 1, max: 3000 }))
  .map(([units, times]) => units.join('').repeat(times).slice(0, 40_000).toWellFormed())
const added = (texts: readonly string[]) => texts.map((text) => ({ text, isControl: false, strips: false }))

test('slices are the text, short, and cut no character in two', () => {
  fc.assert(
    fc.property(text, (text) => {
      const slices = [...slicesOf(text, NONE, WORDS)]
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
      for (const [index, slice] of [...slicesOf(words.join(' '), NONE, WORDS)].entries()) {
        expect(slice).toMatch(index === 0 ? /^[a-z].*[a-z.,]$/ : /^ [a-z].*[a-z.,]$/)
      }
    }),
    { numRuns: 20 },
  )
})

test('lines and tags without spaces are cut behind words', () => {
  const slices = [...slicesOf('<tr><td>12</td><td>ab</td></tr>'.repeat(1000), NONE, WORDS)]
  expect(slices.length).toBeGreaterThan(7)
  for (const slice of slices.slice(0, -1)) expect(slice).toMatch(/[a-z\d]$/)
})

test.each(['。', '、', '」', ',', '\n'])('text of any script is cut before "%s"', (mark) => {
  const slices = [...slicesOf(`日本語и${mark}`.repeat(3000), NONE, WORDS)]
  expect(slices.length).toBeGreaterThan(3)
  for (const slice of slices.slice(0, -1)) expect(slice).toMatch(/и$/)
})

test.each(["'", '’'])('a word is not cut before "%s"', (apostrophe) => {
  const slices = [...slicesOf(`don${apostrophe}t.`.repeat(3000), NONE, WORDS)]
  for (const slice of slices.slice(0, -1)) expect(slice).toMatch(/t$/)
})

test('a long word is kept where that is wanted, but not without end', () => {
  const long = { atWords: true, keepsWords: true }
  const tokens = new AddedTokens(added(['<|im_start|>']))
  for (const unit of ['internationalization', '日本語', '😀']) {
    const word = unit.repeat(3000)
    expect([...slicesOf(word, tokens, long)]).toEqual([word])
    expect([...slicesOf(`<|im_start|>${word}.${word}`, tokens, long)].slice(0, 2)).toEqual([
      '<|im_start|>',
      unit === '😀' ? `${word}.${word}` : word,
    ])
    const slices = [...slicesOf(unit.repeat(200_000), tokens, long)].filter((slice) => slice !== '')
    for (const slice of slices) {
      expect(slice.length).toBeLessThanOrEqual(64 * SLICE_CHARACTERS)
      expect(slice.isWellFormed()).toBe(true)
    }
  }
})

describe('tokens that take blanks away', () => {
  const tokens = new AddedTokens([...added(['\n', '<td>']), { text: '<s>', isControl: false, strips: true }])
  const slices = (text: string, cuts: Parameters<typeof slicesOf>[2] = WORDS) => [...slicesOf(text, tokens, cuts)]

  test('a word behind many of them is not cut', () => {
    for (const times of [900, 1300, 1365, 1366, 3000]) {
      const text = `${'<s>'.repeat(times)}hello world`
      for (const slice of slices(text)) expect(slice).toMatch(/^(<|hello| world)/)
    }
  })

  test('no text is cut in these blanks', () => {
    for (const text of ['a<s>\n \nb', 'a \n\n<s>b', 'a\n<s>\n\n<s>\nb'])
      expect(slices(text, { atWords: false, least: 1 })).toEqual([text])
    expect(slices('a\nb<s>\n<td>c', { atWords: false, least: 1 })).toEqual(['a', '\n', 'b<s>\n', '<td>', 'c'])
  })

  test('slices with them are short', () => {
    for (const distance of [1, 1000, 3000, 4095, 5000]) {
      const text = `${'x'.repeat(distance)}<s>`.repeat(100_000 / distance)
      expect(slices(text).join('') === text).toBe(true)
      for (const slice of slices(text)) expect(slice.length).toBeLessThanOrEqual(3 * SLICE_CHARACTERS)
    }
  })
})

test('added tokens stay whole, and the text between them short', () => {
  const tokens = new AddedTokens(added(['<|im_start|>', '<|im_end|>', '<think>']))
  fc.assert(
    fc.property(text, (text) => {
      const turns = `<|im_start|>user\n${text}x<think><|im_end|>\n`.repeat(3)
      const slices = [...slicesOf(turns, tokens, WORDS)]
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
      const slices = [...slicesOf(text, new AddedTokens(added(tokens)), { atWords: false, least: 1 })].filter(
        (slice) => slice !== '',
      )
      expect(slices.join('')).toBe(text)
      expect(slices.flatMap((slice) => partition(slice, tokens))).toEqual(partition(text, tokens))
    }),
    { numRuns: 2000 },
  )
})

test('a long text is cut at each of many tokens, and a search for one lets others go first', () => {
  const lengths = (text: string) => [
    ...slicesOf(text, new AddedTokens(added(['<td>', '\n', '\n\n'])), { atWords: false }),
  ]
  for (const unit of ['ab<td>', '\n']) {
    const slices = lengths(unit.repeat(100_000)).filter((slice) => slice !== '')
    expect(Math.max(...slices.map(({ length }) => length))).toBeLessThanOrEqual(SLICE_CHARACTERS)
  }
  expect(lengths('<t'.repeat(100_000)).filter((slice) => slice === '').length).toBeGreaterThan(40)
})
