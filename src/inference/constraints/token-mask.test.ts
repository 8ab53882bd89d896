import fc from 'fast-check'
import { expect, test } from 'vitest'
import { forbidOthers, likeliestToken, onlyToken, someToken } from './token-mask.ts'

const { NaN: NONE, NEGATIVE_INFINITY } = Number

function maskOf(tokens: Iterable<number>, size: number): Int32Array {
  const mask = new Int32Array(Math.ceil(size / 32))
  for (const token of tokens) mask[token >> 5]! |= 1 << (token & 31)
  return mask
}

/** Logits of which many are alike, and tokens that may come. */
const rows = fc
  .array(fc.tuple(fc.constantFrom(-2, -0, 0, 1, 1.5, NONE, NEGATIVE_INFINITY, Infinity), fc.boolean()), {
    minLength: 1,
    maxLength: 200,
  })
  .map((tokens) => ({
    logits: Float32Array.from(tokens, ([logit]) => logit),
    allowed: [...tokens.keys()].filter((token) => tokens[token]![1]),
  }))

function likeliestByHand(logits: Float32Array, allowed: readonly number[]): number {
  const value = (token: number) => (Number.isNaN(logits[token]!) ? NEGATIVE_INFINITY : logits[token]!)
  return allowed.reduce((best, token) => (value(token) > value(best) ? token : best), allowed[0] ?? 0)
}

test('the likeliest token is the lowest of those with the largest logit', () => {
  fc.assert(
    fc.property(rows, ({ logits, allowed }) => {
      const all = [...logits.keys()]
      expect(likeliestToken(logits)).toBe(likeliestByHand(logits, all))
      expect(likeliestToken(logits, maskOf(allowed, logits.length))).toBe(likeliestByHand(logits, allowed))
    }),
  )
})

test('choosing from a mask is choosing from all once the others are forbidden', () => {
  fc.assert(
    fc.property(rows, ({ logits, allowed }) => {
      fc.pre(allowed.some((token) => logits[token]! > NEGATIVE_INFINITY))
      const mask = maskOf(allowed, logits.length)
      const token = likeliestToken(logits, mask)
      forbidOthers(logits, mask)
      expect(likeliestToken(logits)).toBe(token)
    }),
  )
})

test('a mask is read as the tokens that it was made of', () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat(199), { maxLength: 5 }), (tokens) => {
      const mask = maskOf(tokens, 200)
      expect(onlyToken(mask)).toBe(tokens.length === 1 ? tokens[0] : null)
      const seen: number[] = []
      expect(someToken(mask, (token) => seen.push(token) === 0)).toBe(false)
      expect(seen).toEqual(tokens.toSorted((a, b) => a - b))
    }),
  )
})
