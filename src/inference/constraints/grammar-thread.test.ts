import { expect, test } from 'vitest'
import type { GrammarVocabulary } from '../local/sampling/vocabulary.ts'
import { Trial } from './compile-probe.ts'
import { ebnfOf } from './grammar-source.ts'
import { type Matcher, XGrammar } from './xgrammar.ts'

const words = ['red', 'circle', '": ', '{"', '"}', ', "', 'na', 'me', 'name', '12', 'é', '\u6771\u4eac']
const vocabulary: GrammarVocabulary = {
  tokens: ['', ...Array.from({ length: 256 }, (_, i) => String.fromCharCode(i)), ...words.map(latin1)],
  stopTokens: [0],
}
const text = ebnfOf({
  type: 'json_schema',
  schema: {
    type: 'object',
    properties: { name: { type: 'string', maxLength: 20 }, size: { enum: ['\u6771\u4eac', 'small'] } },
    required: ['name', 'size'],
  },
})
const source = { type: 'ebnf', text } as const

function latin1(text: string): string {
  return Buffer.from(text).toString('latin1')
}

/** Follows one matcher with another, by a repeatable choice among the tokens that may come. */
function follow(one: Matcher, other: Matcher, seed: number): string {
  let text = ''
  for (let step = 0; step < 60; step++) {
    const mask = one.nextTokens()
    expect(other.nextTokens()).toEqual(mask)
    expect(other.forcedText()).toBe(one.forcedText())
    const all = [...vocabulary.tokens.keys()]
    const choices = all.filter((token) => ((mask[token >> 5]! >>> (token & 31)) & 1) === 1)
    if (choices.length === 0 || choices[0] === 0) break
    const forbidden = all.find((token) => !choices.includes(token))!
    expect([one.accept(forbidden), other.accept(forbidden)]).toEqual([false, false])
    const token = choices[(seed * 31 + step * 7) % choices.length]!
    expect([one.accept(token), other.accept(token)]).toEqual([true, true])
    text += vocabulary.tokens[token]
  }
  return text
}

test('a grammar is followed in its thread as in the engine, by several texts at once', async () => {
  const trial = new Trial(vocabulary, { limitMs: 20_000, slowMs: 0 })
  const thread = (await trial.run(source))!
  try {
    const xgrammar = await XGrammar.create(vocabulary)
    const grammar = await xgrammar.compile(source)
    const disturbing = thread.createMatcher()
    disturbing.accept(vocabulary.tokens.indexOf('{"'))
    for (let seed = 0; seed < 4; seed++) {
      const own = thread.createMatcher()
      expect(follow(xgrammar.createMatcher(grammar), own, seed)).toMatch(/^\{"name": "/)
      own.dispose()
    }
    expect(thread.openMatchers).toBe(1)
    // The trial has started another thread meanwhile, or will.
    const second = (await trial.run(source))!
    expect(second).not.toBe(thread)
    second.close()
    disturbing.dispose()
  } finally {
    thread.close()
    await trial.close()
  }
  expect(() => thread.createMatcher()).toThrow(/displaced/)
})

test('a grammar that compiles fast has no thread of its own', async () => {
  const trial = new Trial(vocabulary, { limitMs: 20_000, slowMs: 20_000 })
  expect(await trial.run(source)).toBeNull()
  await trial.close()
})
