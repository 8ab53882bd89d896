import fc from 'fast-check'
import { expect, test } from 'vitest'
import { distributionOf } from './probabilities.ts'

const logs = (...shares: number[]) => shares.map(Math.log)

test('probabilities of replies that mean the same are added and normalised', () => {
  const distribution = distributionOf([logs(0.1, 0.2), logs(0.1)], 1)!
  expect(distribution.probabilities[0]).toBeCloseTo(0.75, 12)
  expect(distribution.labelMass).toBeCloseTo(0.4, 12)
  expect(distribution.top).toBe(0)
  expect(distribution.confidence).toBeCloseTo(0.3, 12)
})

test('a temperature above 1 makes options more alike, and leaves their mass', () => {
  const distribution = distributionOf([logs(0.4), logs(0.1)], 2)!
  expect(distribution.probabilities[0]).toBeCloseTo(2 / 3, 12)
  expect(distribution.labelMass).toBeCloseTo(0.5, 12)
})

test('replies that the model cannot give have probability 0; if there are no others, there is no answer', () => {
  const never = Number.NEGATIVE_INFINITY
  expect(distributionOf([[never], [-1]], 1)!.probabilities).toEqual([0, 1])
  expect(distributionOf([[never], [never]], 1)).toBeNull()
})

test('probabilities of very unlikely replies still add up to 1', () => {
  const logProb = fc.double({ min: -2000, max: 0, noNaN: true })
  const replies = fc.array(fc.array(logProb, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 255 })
  fc.assert(
    fc.property(replies, fc.double({ min: 0.05, max: 20, noNaN: true }), (options, temperature) => {
      const { probabilities, labelMass, top, confidence } = distributionOf(options, temperature)!
      expect(probabilities.reduce((sum, share) => sum + share, 0)).toBeCloseTo(1, 9)
      expect(Math.max(...probabilities)).toBe(probabilities[top])
      expect(labelMass).toBeLessThanOrEqual(1)
      expect(confidence).toBeLessThanOrEqual(1)
    }),
  )
})
