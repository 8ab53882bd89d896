import fc from 'fast-check'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import type { Sampling } from '../../contract/work.ts'
import { type Ask, chooseFrom } from '../native/choice.ts'
import { PLAIN_OPERATIONS } from '../native/logits-operations.ts'
import { DrawingSampler } from './drawing-sampler.ts'
import type { Rows } from './sampler.ts'
import { SeenTokens } from './seen-tokens.ts'

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
  // At temperature 2, the ratio of a logit of 0 to the largest one is exp(-1); at temperature 0.5, it is exp(-4).
  ['min_p', { temperature: 2, minP: 0.36 }, [0, 7, 1, 2, 6, 3]],
  ['min_p at a low temperature', { temperature: 0.5, minP: 0.36 }, [0, 7, 1]],
  ['min_p within top_k', { topK: 4, minP: 0.6 }, [0, 7, 1]],
  ['min_p within top_p', { topP: 0.5, minP: 0.1 }, [0, 7]],
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

function seenBy({ repeated }: Ask): number[] {
  const seen: number[] = []
  repeated!.tokens.forEach((token) => {
    seen.push(token)
  })
  return seen
}

describe('a repetition penalty', () => {
  const choices = (
    sampling: Partial<Sampling>,
    prompt: readonly number[],
    logits: readonly number[],
    count: number,
  ) => {
    const sampler = new DrawingSampler({ ...PLAIN, temperature: 0, ...sampling }, 1, new SeenTokens(null, prompt))
    return Array.from({ length: count }, () => sampler.sample(rowOf(logits), 0))
  }

  test('divides positive logits and multiplies negative ones, of the prompt and of what was chosen', () => {
    // 0 and 7 become 1 and 0.95; then 1 and 2 become 0.75 and 0.5, so that 0 is the likeliest again.
    expect(choices({ repetitionPenalty: 2 }, [], LOGITS, 5)).toEqual([0, 7, 1, 0, 0])
    expect(choices({ repetitionPenalty: 2 }, [0, 7, 7], LOGITS, 1)).toEqual([1])
    expect(choices({ repetitionPenalty: 2 }, [0], [-1, -1.9], 2)).toEqual([1, 0])
    expect(choices({ repetitionPenalty: 0.5 }, [2], LOGITS, 1)).toEqual([0])
    expect(choices({ repetitionPenalty: 0.4 }, [2], LOGITS, 2)).toEqual([2, 2])
  })

  test('comes before the other penalties, and leaves the row as it was', () => {
    // 5 / 2 - 1 is more than 1.4, and (5 - 1) / 2 is 2.
    expect(choices({ repetitionPenalty: 2, presencePenalty: 1 }, [], [5, 1.4, 1.6], 3)).toEqual([0, 2, 0])
    const row = Float32Array.from(LOGITS)
    const sampler = new DrawingSampler(
      { ...PLAIN, repetitionPenalty: 1.3, frequencyPenalty: 1 },
      1,
      new SeenTokens(null, [1, 4, 5]),
    )
    for (let at = 0; at < 5; at++) sampler.sample({ choose: (_, ask) => chooseFrom(PLAIN_OPERATIONS, row, ask) }, 0)
    expect(row).toEqual(Float32Array.from(LOGITS))
  })

  test('counts tokens that may come before', () => {
    const sampler = new DrawingSampler({ ...PLAIN, repetitionPenalty: 2 }, 1, new SeenTokens(null, [3]))
    for (const token of [4, 3, 4]) sampler.accept(token)
    expect(seenBy(sampler.ask([5, 3, 5]))).toEqual([3, 4, 5])
    expect(seenBy(sampler.ask())).toEqual([3, 4])
  })

  test('of many completions copies the tokens of their long prompt for none of them', () => {
    const tokens = Array.from({ length: 50_000 }, (_, token) => token)
    const prompt = new SeenTokens(null, tokens)
    const adds = vi.spyOn(Set.prototype, 'add')
    onTestFinished(() => adds.mockRestore())
    const row = rowOf(tokens.map(() => 0))
    for (let seed = 0; seed < 8; seed++)
      new DrawingSampler({ ...PLAIN, repetitionPenalty: 2 }, seed, prompt).sample(row, 0)
    expect(adds.mock.calls.length).toBeLessThan(100)
  })
})

test.each([[[Number.NaN, Number.NaN]], [[Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY]]])(
  'logits that are no numbers still give a token: %j',
  (logits) => {
    expect([0, 1]).toContain(draw(logits, { topP: 0.5, minP: 0.1 }, 1))
  },
)
