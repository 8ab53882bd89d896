import fc from 'fast-check'
import { expect, test } from 'vitest'
import { rankTokens } from './choice.ts'
import { PLAIN_OPERATIONS } from './logits-operations.ts'

const logit = fc.oneof(
  fc.double({ min: -80, max: 80, noNaN: true }),
  fc.constantFrom(0, 0, 12.5, Number.NEGATIVE_INFINITY),
)
const cases = fc.record({
  logits: fc.array(logit, { minLength: 1, maxLength: 100 }).map((values) => Float32Array.from(values)),
  most: fc.nat(20),
  /** Mask of the tokens by their remainder modulo a number. */
  modulus: fc.option(fc.integer({ min: 1, max: 40 }), { nil: null }),
  chosen: fc.nat(99),
})

/** Computed by the definition, with the logits in ascending order. */
function logSoftmax(logits: Float32Array, isAllowed: (token: number) => boolean): number[] {
  const values = [...logits].map((value, token) => (isAllowed(token) ? value : Number.NEGATIVE_INFINITY))
  const largest = Math.max(...values)
  const sum = values.toSorted((a, b) => a - b).reduce((total, value) => total + Math.exp(value - largest), 0)
  return values.map((value) => value - largest - Math.log(sum))
}

test('log-probabilities are those of the softmax over the allowed tokens, the likeliest first', () => {
  fc.assert(
    fc.property(cases, ({ logits, most, modulus, chosen }) => {
      const isAllowed = (token: number) => modulus === null || token % modulus === 0
      const mask = modulus === null ? undefined : new Int32Array(Math.ceil(logits.length / 32))
      for (const token of logits.keys()) if (mask && isAllowed(token)) mask[token >> 5]! |= 1 << (token & 31)
      const token = isAllowed(chosen % logits.length) ? chosen % logits.length : 0
      const ranking = rankTokens(PLAIN_OPERATIONS, logits, token, most, mask)
      const expected = logSoftmax(logits, isAllowed)
      if (!expected.some((value) => value > Number.NEGATIVE_INFINITY)) {
        expect(ranking).toEqual({ logProb: Number.NEGATIVE_INFINITY, top: [] })
        return
      }
      expectClose(ranking.logProb, expected[token]!)
      const likeliest = [...expected.keys()]
        .filter((other) => expected[other]! > Number.NEGATIVE_INFINITY)
        .toSorted((a, b) => logits[b]! - logits[a]! || a - b)
        .slice(0, most)
      expect(ranking.top.map((one) => one.token)).toEqual(likeliest)
      for (const one of ranking.top) expectClose(one.logProb, expected[one.token]!)
      const mass = ranking.top.reduce((sum, one) => sum + Math.exp(one.logProb), 0)
      expect(mass).toBeLessThan(1 + 1e-12)
      if (most >= likeliest.length && logits.length <= most) expect(mass).toBeCloseTo(1, 12)
    }),
    { numRuns: 500 },
  )
})

test('a row with a NaN has no log-probabilities', () => {
  const none = Number.NEGATIVE_INFINITY
  expect(rankTokens(PLAIN_OPERATIONS, Float32Array.of(1, Number.NaN, 2), 2, 1)).toEqual({
    logProb: none,
    top: [{ token: 2, logProb: none }],
  })
})

function expectClose(found: number, expected: number): void {
  if (expected === Number.NEGATIVE_INFINITY) expect(found).toBe(expected)
  else expect(Math.abs(found - expected)).toBeLessThan(1e-12 * Math.max(1, Math.abs(expected)))
}
