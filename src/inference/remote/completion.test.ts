import fc from 'fast-check'
import { expect, test } from 'vitest'
import { grammarOf } from '../constraints/constraint-grammar.ts'
import { NodeGraph } from '../constraints/nodes.ts'
import type { EngineEvent } from '../contract/generation.ts'
import { Repetition, type RepetitionLimits } from '../contract/repetition.ts'
import type { Thought } from '../contract/work.ts'
import { Completion } from './completion.ts'
import { Printer } from './tokens/printer.ts'

/** Each byte is a token; 256 is a control token. */
const printer = new Printer(
  {
    bytes: Uint8Array.from({ length: 256 }, (_, byte) => byte),
    starts: Int32Array.from({ length: 258 }, (_, id) => Math.min(id, 256)),
    control: new Map([['<end>', 256]]),
    words: new Map(),
    beginToken: null,
  },
  [],
)
const THOUGHT: Thought = { end: '</think>', closing: '\n</think>\n\n', budget: 100 }
const bytes = (text: string) => [...Buffer.from(text)]

function start(maxTokens = 1000, limits?: RepetitionLimits) {
  const events: EngineEvent[] = []
  const repetition = limits === undefined ? null : new Repetition(limits)
  const completion = new Completion({ branch: 0, index: 0, maxTokens, repetition }, printer, (event) =>
    events.push(event),
  )
  const text = () => events.map((event) => (event.type === 'text' ? event.text : '')).join('')
  return { completion, events, text }
}

test('a text is the same however its tokens arrive, and none of its tokens is lost', () => {
  const pieces = fc.array(fc.string({ unit: 'grapheme', maxLength: 5 }), { maxLength: 20 })
  fc.assert(
    fc.property(pieces, fc.infiniteStream(fc.nat(4)), (words, sizes) => {
      const { completion, events, text } = start()
      const all = bytes(words.join('').toWellFormed()).flatMap((byte) => (byte % 7 === 0 ? [256, byte] : [byte]))
      for (let at = 0; at < all.length; ) {
        const size = 1 + sizes.next().value!
        completion.add(all.slice(at, at + size))
        at += size
      }
      completion.finish('stop')
      expect(text()).toBe(words.join('').toWellFormed())
      const finish = events.at(-1)!
      expect(finish).toMatchObject({ type: 'finish', reason: 'stop', completionTokens: all.length })
      const told = events.reduce((sum, event) => sum + (event.type === 'text' ? event.tokens : 0), 0)
      expect(told).toBeLessThanOrEqual(all.length)
    }),
  )
})

test.each([2, null])('the token that ended it is told where %s log-probabilities are asked for', (topLogProbs) => {
  const events: EngineEvent[] = []
  const place = { branch: 0, index: 0, maxTokens: 9, topLogProbs }
  const completion = new Completion(place, printer, (event) => events.push(event))
  completion.add(bytes('ab'))
  const half = Math.log(1 / 2)
  const top = [256, 99, 100].map((token) => ({ token, logProb: half }))
  completion.endWith({ token: 256, logProb: half, top })
  completion.finish('stop')
  const end = { text: '<end>', bytes: [], logProb: half }
  const told = { ...end, top: [end, { text: 'c', bytes: [99], logProb: half }] }
  expect(events.at(-1)).toMatchObject({ type: 'finish', completionTokens: 2 })
  expect(events.at(-1)).toEqual(expect.objectContaining(topLogProbs === null ? {} : { end: told }))
  expect('end' in events.at(-1)!).toBe(topLogProbs !== null)
})

const graph = (pattern: string) => new NodeGraph(grammarOf({ type: 'regex', pattern })).data

test('a text that leaves what its constraint allows ends there, as one that was cut', () => {
  const { completion, events, text } = start()
  completion.follow(graph('[a-z]{2,4}'))
  completion.add(bytes('abc'))
  completion.add(bytes('defg'))
  expect(text()).toBe('abcd')
  expect(events.at(-1)).toMatchObject({ type: 'finish', reason: 'length', completionTokens: 4 })
  completion.add(bytes('h'))
  completion.finish('stop')
  expect(events.filter(({ type }) => type === 'finish')).toHaveLength(1)
})

test.each([
  ['ab', 'stop'],
  ['a', 'length'],
])('%s, which ended by itself, ends with %s', (written, reason) => {
  const { completion, events } = start()
  completion.follow(graph('[a-z]{2,4}'))
  completion.add(bytes(written))
  completion.finish('stop')
  expect(events.at(-1)).toMatchObject({ reason })
})

test.each([
  ['ends its thought itself', 'I see.\n</think>', 'I see.\n</think>\n\n', undefined],
  ['has begun what follows', 'I see.\n</think>\n', 'I see.\n</think>\n\n', undefined],
  ['goes on at once', 'I see.\n</think>No', 'I see.\n</think>No', undefined],
  ['ends its turn within the thought', 'I see', 'I see\n</think>\n\n', undefined],
  ['uses up its budget', 'x'.repeat(100), `${'x'.repeat(100)}\n</think>\n\n`, true],
])('a model that %s', async (_, written, whole, interrupted) => {
  const { completion, events, text } = start()
  completion.add(bytes(written))
  await completion.endThought(THOUGHT, THOUGHT.budget, async (rest) => bytes(rest))
  completion.finish('stop')
  expect(text()).toBe(whole)
  const finish = events.at(-1) as { readonly thoughtInterrupted?: boolean }
  expect(finish.thoughtInterrupted).toBe(interrupted)
})

test('a thought that goes round in circles ends, and so does a reply', async () => {
  const { completion, events, text } = start(1000, { blockTokens: 2, repeats: 4, tokens: 10 })
  completion.think()
  completion.add(bytes('so so'))
  completion.add(bytes('xxxxxxxxxx'))
  expect(completion.isSatisfied).toBe(true)
  completion.add(bytes('not wanted'))
  await completion.endThought(THOUGHT, THOUGHT.budget, async (rest) => bytes(rest))
  expect([completion.isSatisfied, text()]).toEqual([false, 'so soxxxxxxxxxx\n</think>\n\n'])
  completion.add(bytes('ababababab not wanted'))
  expect(events.at(-1)).toMatchObject({ type: 'finish', reason: 'length' })
  expect(text()).toBe('so soxxxxxxxxxx\n</think>\n\nababababab')
})

test('the end of a thought has no more tokens than are left', async () => {
  const { completion, events } = start(12)
  completion.add(bytes('I see so'))
  await completion.endThought(THOUGHT, 8, async (rest) => bytes(rest))
  expect(completion.left).toBe(0)
  completion.finish('length')
  expect(events.at(-1)).toMatchObject({ reason: 'length', completionTokens: 12 })
})
