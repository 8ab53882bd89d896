import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Sampling } from '../../contract/work.ts'
import { chooseFrom } from '../native/choice.ts'
import { PLAIN_OPERATIONS } from '../native/logits-operations.ts'
import { DrawingSampler } from './drawing-sampler.ts'
import type { Rows } from './sampler.ts'

const PLAIN: Sampling = { temperature: 1, topP: 1, topK: 0, frequencyPenalty: 0, presencePenalty: 0 }
const LOGITS = [2, 1.5, 1, 0, -1, -3, 0.5, 1.9]

function rowOf(logits: readonly number[]): Rows {
  const row = Float32Array.from(logits)
  return { choose: (_, ask) => chooseFrom(PLAIN_OPERATIONS, row, ask) }
}

function draw(logits: readonly number[], sampling: Partial<Sampling>, seed: number, allowed?: Int32Array): number {
  const sampler = new DrawingSampler({ ...PLAIN, ...sampling }, seed)
  return sampler.sample(rowOf(logits), 0, allowed)
}

function sequence(logits: (place: number) => readonly number[], seed: number, length = 200): number[] {
  const sampler = new DrawingSampler(PLAIN, seed)
  return Array.from({ length }, (_, place) => sampler.sample(rowOf(logits(place)), 0))
}

describe.each([
  ['temperature 1', {}, [0, 1, 2, 3, 4, 5, 6, 7]],
  ['temperature 2', { temperature: 2 }, [0, 1, 2, 3, 4, 5, 6, 7]],
  ['top_k', { topK: 3 }, [0, 7, 1]],
  ['top_p', { topP: 0.5 }, [0, 7]],
  ['top_k before top_p', { topK: 3, topP: 0.8 }, [0, 7, 1]],
] as const)('%s', (_, sampling, among) => {
  test('each token is drawn with its probability', () => {
    const draws = 20_000
    const counts = new Map<number, number>()
    for (let seed = 0; seed < draws; seed++) {
      const token = draw(LOGITS, sampling, seed)
      counts.set(token, (counts.get(token) ?? 0) + 1)
    }
    const temperature = 'temperature' in sampling ? sampling.temperature : 1
    const weights = among.map((token) => Math.exp(LOGITS[token]! / temperature))
    const total = weights.reduce((sum, weight) => sum + weight)
    expect(new Set(counts.keys())).toEqual(new Set(among))
    // Five standard deviations. Seeds are fixed, so that this cannot fail now and then.
    for (const [at, token] of among.entries()) {
      const share = weights[at]! / total
      const error = Math.abs(counts.get(token)! / draws - share)
      expect(error).toBeLessThan(5 * Math.sqrt((share * (1 - share)) / draws))
    }
  })
})

test('the same seed draws the same tokens, another seed others, and each position has its own noise', () => {
  const flat = () => Array.from({ length: 100 }, () => 0)
  expect(sequence(flat, 5)).toEqual(sequence(flat, 5))
  expect(sequence(flat, 5)).not.toEqual(sequence(flat, 6))
  expect(new Set(sequence(flat, 5)).size).toBeGreaterThan(70)
})

test('rounding changes few tokens, and none after them', () => {
  const size = 500
  const logit = (place: number, token: number) => 3 * Math.sin(place * 7.1 + token * 1.3)
  const exact = (place: number) => Array.from({ length: size }, (_, token) => logit(place, token))
  const rounded = (place: number) =>
    Array.from({ length: size }, (_, token) => logit(place, token) + 1e-3 * Math.sin(place * 3.7 + token * 9.1))
  const [one, other] = [sequence(exact, 3, 1_000), sequence(rounded, 3, 1_000)]
  expect(one.filter((token, place) => token !== other[place]).length).toBeLessThan(5)
})

test('penalties and masks', () => {
  const sampler = new DrawingSampler({ ...PLAIN, frequencyPenalty: 2, presencePenalty: 2 }, 1)
  const drawn = Array.from({ length: 8 }, () => sampler.sample(rowOf(new Array(8).fill(0)), 0))
  expect(new Set(drawn).size).toBeGreaterThan(6)
  fc.assert(
    fc.property(fc.array(fc.nat(40), { minLength: 1 }), fc.nat(), (tokens, seed) => {
      const mask = new Int32Array(2)
      for (const token of tokens) mask[token >> 5]! |= 1 << (token & 31)
      const logits = Array.from({ length: 41 }, (_, token) => (tokens.includes(token) ? -100 : 100))
      expect(tokens).toContain(draw(logits, { topP: 0.9, topK: 40 }, seed, mask))
    }),
  )
})

test.each([[[Number.NaN, Number.NaN]], [[Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY]]])(
  'logits that are no numbers still give a token: %j',
  (logits) => {
    expect([0, 1]).toContain(draw(logits, { topP: 0.5 }, 1))
  },
)
