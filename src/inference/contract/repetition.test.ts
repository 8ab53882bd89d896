import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Repetition } from './repetition.ts'

const limits = { blockTokens: 8, repeats: 4, tokens: 20 }

/** How many tokens are read until the text counts as going round in circles; null for never. */
function stopAt(tokens: readonly number[]): number | null {
  const repetition = new Repetition(limits)
  const at = tokens.findIndex((token) => repetition.push(token))
  return at === -1 ? null : at + 1
}

/** The same by its definition: the end of the text is a block, often enough. */
function expectedStop(tokens: readonly number[]): number | null {
  for (let end = 1; end <= tokens.length; end++) {
    for (let block = 1; block <= limits.blockTokens; block++) {
      const length = Math.max(limits.tokens, limits.repeats * block)
      if (end < length) continue
      const tail = tokens.slice(end - length, end)
      if (tail.every((token, i) => i < block || token === tail[i - block])) return end
    }
  }
  return null
}

test('a text counts as going round in circles when its end is one block again and again', () => {
  const block = fc.array(fc.nat(2), { minLength: 1, maxLength: 12 })
  fc.assert(
    fc.property(
      fc.array(fc.nat(2), { maxLength: 30 }),
      block,
      fc.integer({ min: 1, max: 60 }),
      (head, block, times) => {
        const tokens = [...head, ...Array.from({ length: times }, () => block).flat()]
        expect(stopAt(tokens)).toBe(expectedStop(tokens))
      },
    ),
  )
})

test('lists and tables whose lines differ do not', () => {
  const row = (number: number) => [1, 2, 3, 100 + number, 2, 4, 5]
  expect(stopAt(Array.from({ length: 500 }, (_, i) => row(i)).flat())).toBeNull()
})

test('a reset starts over', () => {
  const repetition = new Repetition(limits)
  for (let i = 0; i < 19; i++) expect(repetition.push(7)).toBe(false)
  repetition.reset()
  expect(repetition.push(7)).toBe(false)
})
