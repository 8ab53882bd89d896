import fc from 'fast-check'
import { expect, test } from 'vitest'
import { logSum } from './log-sum.ts'

const exactly = (logits: Float32Array) => {
  const largest = Math.max(...logits)
  return largest + Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - largest), 0))
}

test('adds up exponentials of whatever size', () => {
  const logit = fc.oneof(
    fc.float({ min: -20, max: 20, noNaN: true }),
    fc.float({ min: -1000, max: 1000, noNaN: true }),
    fc.constant(Number.NEGATIVE_INFINITY),
  )
  const logits = fc.tuple(fc.float({ min: -50, max: 50, noNaN: true }), fc.array(logit, { maxLength: 300 }))
  fc.assert(
    fc.property(logits, ([one, others]) => {
      const all = Float32Array.from([one, ...others])
      expect(Math.abs(logSum(all) - exactly(all))).toBeLessThan(1e-8)
    }),
  )
})

test('of one logit is that logit', () => {
  expect(logSum(Float32Array.of(3.5, Number.NEGATIVE_INFINITY))).toBe(3.5)
})
