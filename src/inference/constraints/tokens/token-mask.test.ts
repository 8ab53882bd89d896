import fc from 'fast-check'
import { expect, test } from 'vitest'
import { onlyToken, someToken } from './token-mask.ts'

function maskOf(tokens: Iterable<number>, size: number): Int32Array {
  const mask = new Int32Array(Math.ceil(size / 32))
  for (const token of tokens) mask[token >> 5]! |= 1 << (token & 31)
  return mask
}

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
