/** Log-probabilities of the tokens of completions, with the shipped weights; nothing here depends on what they say. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { branch, CARD, chat, GREEDY, RANDOM, trusted, untrusted } from '../../../../test/support/local-engine.ts'
import { loadLocalCard } from '../../../models/card.ts'
import type { FinishEvent, RankedToken, TokenLogProb } from '../../contract/generation.ts'
import type { Branch } from '../../contract/work.ts'
import { LocalEngine } from './local-engine.ts'

/** Kernels differ a little, by the rows of a batch and the number of threads, and keys and values are rounded to f16. */
const ROUNDING = 0.02

let engine: LocalEngine

beforeAll(async () => {
  engine = await LocalEngine.start(await loadLocalCard(CARD), { seed: 1 })
})

afterAll(() => engine?.close())

interface Rated {
  readonly text: string
  readonly entries: readonly TokenLogProb[]
  readonly finish: FinishEvent
}

async function complete(fields: Partial<Branch>, whole = false): Promise<Rated> {
  const work = { organisation: 'test', prefix: chat, branches: [branch({ maxTokens: 40, ...fields })], whole }
  const { events } = await engine.generate(work, new AbortController().signal)
  let text = ''
  const entries: TokenLogProb[] = []
  for await (const event of events) {
    if (event.type === 'error') throw event.error
    if (event.type === 'finish') return { text, entries, finish: event }
    text += event.text
    expect(event.logProbs?.length).toBe(fields.topLogProbs === undefined ? undefined : event.tokens)
    entries.push(...(event.logProbs ?? []))
  }
  throw new Error('The completion did not end.')
}

const HARD = { ...GREEDY, frequencyPenalty: 1.5, presencePenalty: 0.5 }
const thought = { end: '</think>', closing: '\n</think>\n\n', budget: 8 }
const CASES: readonly (readonly [string, Partial<Branch>])[] = [
  ['greedy', {}],
  ['random', { sampling: RANDOM }],
  ['the likeliest few', { sampling: { ...RANDOM, topK: 5, topP: 0.9 } }],
  ['penalties', { sampling: HARD }],
  ['a thought', { thought }],
  [
    'a random thought and a constraint',
    { thought, sampling: RANDOM, constraint: { type: 'regex', pattern: '[a-f]{9}' } },
  ],
  ['JSON', { constraint: { type: 'json_schema', schema: { enum: ['a long text', { key: [1, 2, 3] }] } } }],
]

test.each(CASES)('%s: every token has one, and the tokens are the same as without', async (_, fields) => {
  const { text, entries, finish } = await complete({ ...fields, topLogProbs: 20 })
  const plain = await complete(fields)
  const { end, ...rest } = finish
  expect({ text, finish: rest }).toEqual({ text: plain.text, finish: plain.finish })
  // It prints nothing, and no other token was likelier where the likeliest is taken.
  expect(end === undefined ? 'length' : 'stop').toBe(finish.reason)
  if (end !== undefined) expect(end).toMatchObject({ bytes: [], text: expect.stringMatching(/./) })
  if (fields.sampling === undefined) expect(end?.top[0]?.logProb).toBe(end?.logProb)
  expect(printed(entries)).toBe(text)
  expect(entries.length).toBeGreaterThan(0)
  for (const entry of entries) {
    expect(entry.logProb).toBeLessThanOrEqual(0)
    expect(entry.logProb).toBeGreaterThan(Number.NEGATIVE_INFINITY)
    expect(entry.top.map(({ logProb }) => logProb)).toEqual(
      entry.top.map(({ logProb }) => logProb).toSorted(descending),
    )
    expect(mass(entry.top)).toBeLessThanOrEqual(1 + 1e-9)
    // An equally likely token may have the lower id.
    if (fields.sampling === undefined) expect(entry.top[0]!.logProb).toBe(entry.logProb)
    const same = entry.top.find((other) => isSame(other, entry))
    if (same !== undefined) expect(same.logProb).toBe(entry.logProb)
    else expect(entry.logProb).toBeLessThanOrEqual(entry.top.at(-1)!.logProb)
  }
})

test('are computed before temperature, top_k, top_p and penalties', async () => {
  const [first] = (await complete({ topLogProbs: 20 })).entries
  for (const sampling of [RANDOM, HARD, { ...RANDOM, topK: 1 }]) {
    const { top } = (await complete({ topLogProbs: 20, sampling, maxTokens: 1 })).entries[0]!
    expectAlike(top, first!.top)
  }
})

test('under a constraint, are those among the allowed tokens', async () => {
  const constraint = { type: 'regex', pattern: '[xy]' } as const
  const { text, entries, finish } = await complete({ topLogProbs: 20, constraint })
  const [entry] = entries
  // Behind it, nothing but an end is allowed.
  expect(finish.end!.top.every(({ bytes }) => bytes.length === 0)).toBe(true)
  expect(mass(finish.end!.top)).toBeCloseTo(1, 9)
  expect(entry!.top.map((one) => one.text).toSorted()).toEqual(['x', 'y'])
  expect(mass(entry!.top)).toBeCloseTo(1, 9)
  expect(text).toBe(entry!.top[0]!.text)
  // The one that was not chosen is told as it is where it alone is asked for.
  const [other] = (await complete({ topLogProbs: 1, constraint: { ...constraint, pattern: entry!.top[1]!.text } }))
    .entries
  expect(other).toEqual({ ...other, text: entry!.top[1]!.text, logProb: 0 })
})

test('forced tokens are certain, and have no alternatives', async () => {
  const constraint = { type: 'regex', pattern: 'Exactly these words\\.' } as const
  for (const topLogProbs of [0, 1, 5]) {
    const { text, entries } = await complete({ topLogProbs, constraint })
    expect(text).toBe('Exactly these words.')
    for (const { text, bytes, logProb, top } of entries.slice(1)) {
      expect(logProb).toBe(0)
      expect(top).toEqual(topLogProbs === 0 ? [] : [{ text, bytes, logProb: 0 }])
    }
  }
})

/**
 * The other reply's tokens as far as both replies are the same. Rounding may decide between two tokens that are equally
 * likely, and then other tokens follow; anything else that differs fails.
 */
function untilTie(one: readonly TokenLogProb[], other: readonly TokenLogProb[]): readonly TokenLogProb[] {
  const end = one.findIndex(({ text }, at) => other[at]?.text !== text)
  if (end === -1) {
    expect(other.length).toBe(one.length)
    return other
  }
  const [first, second] = one[end]!.top
  expect(first!.logProb - second!.logProb, `token ${end}`).toBeLessThan(ROUNDING)
  return other.slice(0, end)
}

test('the requested number is reported, always the same; a whole reply and n completions have them too', async () => {
  const { entries } = await complete({ topLogProbs: 20 })
  for (const topLogProbs of [0, 1, 7]) {
    const fewer = await complete({ topLogProbs }, true)
    const compared = untilTie(entries, fewer.entries)
    expect(compared.length).toBeGreaterThan(0)
    for (const [at, { top, logProb }] of compared.entries()) {
      expect(Math.abs(logProb - entries[at]!.logProb)).toBeLessThan(ROUNDING)
      expectAlike(top, entries[at]!.top.slice(0, topLogProbs))
    }
  }
  const prefix = [trusted('<|im_start|>user\n'), untrusted('Hi'), trusted('<|im_end|>\n<|im_start|>assistant\n')]
  const branches = [branch({ n: 2, sampling: RANDOM, topLogProbs: 2 }), branch({ suffix: [untrusted('a')] })]
  const { events } = await engine.generate({ organisation: 'test', prefix, branches }, new AbortController().signal)
  for await (const event of events) {
    if (event.type === 'text') expect(event.logProbs?.length).toBe(event.branch === 0 ? event.tokens : undefined)
  }
})

test('an incomplete character at the end is not in the text', async () => {
  const constraint = { type: 'regex', pattern: '\u{1F600}{20}' } as const
  for (const maxTokens of [1, 2, 3, 4, 5]) {
    const { text, entries, finish } = await complete({ maxTokens, topLogProbs: 1, constraint })
    expect(finish).toMatchObject({ reason: 'length', completionTokens: maxTokens })
    expect(printed(entries)).toBe(text)
    expect(entries.length).toBeLessThanOrEqual(maxTokens)
  }
})

/** Without an incomplete character at the end. */
function printed(entries: readonly TokenLogProb[]): string {
  const bytes = Buffer.from(entries.flatMap((entry) => entry.bytes))
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes, { stream: true })
}

function expectAlike(found: readonly RankedToken[], expected: readonly RankedToken[]): void {
  expect(found).toHaveLength(expected.length)
  for (const [at, { logProb }] of found.entries()) {
    expect(Math.abs(logProb - expected[at]!.logProb)).toBeLessThan(ROUNDING)
  }
}

function isSame(a: RankedToken, b: RankedToken): boolean {
  return a.text === b.text && a.bytes.join() === b.bytes.join()
}

function mass(tokens: readonly RankedToken[]): number {
  return tokens.reduce((sum, { logProb }) => sum + Math.exp(logProb), 0)
}

function descending(a: number, b: number): number {
  return b - a
}
