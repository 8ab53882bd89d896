import fc from 'fast-check'
import { expect, test } from 'vitest'
import { GAP, NgramIndex } from './ngram-index.ts'

const NGRAM = 3

/** Texts of few tokens, so that they repeat, and of repeated sentences. */
const text = fc
  .array(
    fc.oneof(
      fc.array(fc.nat(3), { maxLength: 6 }),
      fc.constantFrom([7, 8, 9, 7, 8], [7, 8, 9, 10, 11, 12], [GAP], [11, 12, 13, 14, 15, 16]),
    ),
    { minLength: 10, maxLength: 40, size: 'max' },
  )
  .map((parts) => parts.flat())

test('predicts the tokens after an earlier occurrence, as far as the text or the draft itself goes', () => {
  let predictions = 0
  fc.assert(
    fc.property(text, fc.integer({ min: 1, max: 12 }), (tokens, most) => {
      const index = new NgramIndex()
      for (const [at, token] of tokens.entries()) {
        index.push(token)
        const { predicted, matched } = index
        const draft = index.draft(most)
        expect(draft[0] ?? null).toBe(predicted)
        expect(draft.length).toBeLessThanOrEqual(most)
        if (predicted === null) continue
        predictions++
        expect(matched).toBeGreaterThanOrEqual(NGRAM)
        const seen = tokens.slice(0, at + 1)
        const all = [...seen, ...draft]
        const end = seen.slice(-matched)
        expect(end).not.toContain(GAP)
        const isFoundAt = (place: number) =>
          end.every((value, i) => seen[place - matched + i] === value) &&
          draft.every((value, i) => all[place + i] === value)
        expect(seen.some((_, place) => place >= matched && isFoundAt(place))).toBe(true)
      }
    }),
  )
  expect(predictions).toBeGreaterThan(500)
})

test('finds earlier occurrences in a text of any length', () => {
  const words = Array.from({ length: 5000 }, (_, i) => i * 7)
  const index = new NgramIndex()
  for (const word of words) index.push(word)
  expect(index.predicted).toBeNull()
  for (const word of words.slice(100, 104)) index.push(word)
  expect(index.draft(5)).toEqual(words.slice(104, 109))
  expect(index.matched).toBe(4)
  for (const word of words.slice(104, 140)) index.push(word)
  expect([index.draft(2), index.matched]).toEqual([words.slice(140, 142), 16])
  // The prediction was wrong.
  index.push(1)
  expect(index.predicted).toBeNull()
})

test('a text that repeats itself is expected to go on', () => {
  const index = new NgramIndex()
  for (const token of [1, 2, 1, 2, 1, 2]) index.push(token)
  expect(index.draft(7)).toEqual([1, 2, 1, 2, 1, 2, 1])
})
