import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { tokensOf as allowedBy } from '../../../test/support/byte-automaton.ts'
import { toRegExp } from '../../../test/support/reg-exp.ts'
import { schemaValidator } from '../../conversation/reply/structure/schema-validator.ts'
import type { Constraint, TagContent, TriggeredTagsConstraint } from '../contract/constraint.ts'
import { Automaton } from './automaton.ts'
import { grammarOf } from './constraint-grammar.ts'
import type { Matcher } from './matcher.ts'
import { parsePattern } from './regex/anchors.ts'
import { TokenTrie, type Vocabulary } from './tokens/token-trie.ts'
import { isPartOfUtf8 } from './utf8.ts'

const END = 0
const PIECES = [
  '"',
  '", "',
  '": ',
  '{"',
  '"}',
  '"]',
  '["',
  '\\n',
  '\\',
  'n',
  ' ',
  '  ',
  'é',
  '漢字',
  '😀',
  'ab',
  'the',
  'A',
]

/** All bytes, and words made of pieces of JSON and text: many twice, some cut within a character. */
function vocabularyOf(size: number, seed: number): Vocabulary {
  const draw = generator(seed)
  const words = Array.from({ length: size - 257 }, () => {
    const pieces = Array.from({ length: 1 + Math.floor(draw() * 6) }, () =>
      draw() < 0.5 ? PIECES[Math.floor(draw() * PIECES.length)]! : String.fromCharCode(97 + Math.floor(draw() * 26)),
    )
    const bytes = Buffer.from(pieces.join('')).toString('latin1')
    return draw() < 0.1 ? bytes.slice(1) : draw() < 0.1 ? bytes.slice(0, -1) : bytes
  })
  const tokens = ['', ...Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte)), ...words]
  return { tokens: tokens.map((bytes) => (isPartOfUtf8(bytes) ? bytes : '')), stopTokens: [END] }
}

/** Repeatable, so that a failure can be looked at. */
function generator(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
}

function automatonOf(constraint: Constraint, trie: TokenTrie): Automaton {
  return new Automaton(grammarOf(constraint), trie)
}

const holds = (mask: Int32Array, token: number) => ((mask[token >> 5]! >>> (token & 31)) & 1) === 1
const decode = (bytes: string) => new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(bytes, 'latin1'))

/** A text by a way to choose among the tokens that may come; null when it is longer than the limit. */
function write(
  matcher: Matcher,
  { tokens }: Vocabulary,
  choose: (allowed: readonly number[]) => number,
  limit = 1500,
): string | null {
  let bytes = ''
  for (let step = 0; step < limit; step++) {
    const allowed = allowedBy(matcher.nextTokens())
    expect(allowed).not.toEqual([])
    const token = choose(allowed)
    expect(matcher.accept(token)).toBe(true)
    if (token === END) return decode(bytes)
    bytes += tokens[token]
  }
  return null
}

const json = (schema: unknown): TagContent => ({ type: 'json_schema', schema })
const regex = (pattern: string): TagContent => ({ type: 'regex', pattern })
const at = <Item>(items: readonly Item[], draw: () => number): Item => items[Math.floor(draw() * items.length)]!

describe('with 15,000 tokens', () => {
  let vocabulary: Vocabulary
  let trie: TokenTrie
  beforeAll(() => {
    vocabulary = vocabularyOf(15_000, 1)
    trie = new TokenTrie(vocabulary)
  })

  test.each([
    [0, 20],
    [3, 50],
    [60, 60],
    [100, 200],
    [0, 400],
    [990, 1000],
  ])('strings of %i to %i characters are as short and as long as they may be', (minLength, maxLength) => {
    const schema = { type: 'string', minLength, maxLength }
    const automaton = automatonOf(json(schema), trie)
    const draw = generator(minLength + maxLength)
    const tokenOf = (text: string) => vocabulary.tokens.indexOf(text)
    const lengthOf = (choose: (mask: Int32Array) => number) => {
      const matcher = automaton.createMatcher()
      let text = ''
      for (let token = tokenOf('"'); token !== END; token = choose(matcher.nextTokens())) {
        expect(matcher.accept(token)).toBe(true)
        text += vocabulary.tokens[token]
      }
      expect(matcher.accept(END)).toBe(true)
      return [...(JSON.parse(decode(text)) as string)].length
    }
    const shortest = lengthOf((mask) => [END, tokenOf('"'), tokenOf('x')].find((token) => holds(mask, token))!)
    const longest = lengthOf((mask) => {
      for (let tries = 0; tries < 1000; tries++) {
        const token = Math.floor(draw() * vocabulary.tokens.length)
        if (holds(mask, token) && !vocabulary.tokens[token]!.includes('"')) return token
      }
      const allowed = allowedBy(mask)
      return allowed.find((token) => token !== END && !vocabulary.tokens[token]!.includes('"')) ?? allowed[0]!
    })
    expect([shortest, longest]).toEqual([minLength, maxLength])
  })

  const lengths = fc
    .tuple(fc.constantFrom(0, 1, 3, 40, 120), fc.constantFrom(0, 1, 7, 60, 150, null))
    .map(([minLength, more]) => ({ type: 'string', minLength, ...(more !== null && { maxLength: minLength + more }) }))
  const schemas = fc.letrec<{ any: object }>((tie) => ({
    any: fc.oneof(
      { maxDepth: 3 },
      lengths,
      lengths.map((schema) => ({ anyOf: [schema, { type: 'null' }] })),
      fc.tuple(lengths, lengths).map((anyOf) => ({ anyOf })),
      fc.constantFrom('^[a-f0-9]{40,64}$', '^(?:[A-Za-z]{1,30} ){2,12}[^"]{0,90}\\.$').map((pattern) => ({
        type: 'string',
        pattern,
      })),
      fc.constantFrom('uuid', 'email', 'uri').map((format) => ({ type: 'string', format })),
      fc
        .tuple(tie('any'), fc.nat(3), fc.constantFrom(0, 2, 60))
        .map(([items, minItems, more]) => ({ type: 'array', items, minItems, maxItems: minItems + more })),
      fc
        .tuple(
          fc.dictionary(fc.constantFrom('a', 'toString', '__proto', 'length', 'é"'), tie('any'), { maxKeys: 3 }),
          fc.infiniteStream(fc.boolean()),
        )
        .map(([properties, draws]) => ({
          type: 'object',
          properties,
          required: Object.keys(properties).filter(() => draws.next().value),
          additionalProperties: false,
        })),
    ),
  })).any

  test('every text that is let through is valid, and ends', () => {
    let finished = 0
    const isEnding = vocabulary.tokens.map((bytes) => /^(?:|.*[\]}])$/.test(bytes))
    fc.assert(
      fc.property(schemas, fc.nat(), (schema, seed) => {
        const draw = generator(seed)
        const text = write(automatonOf(json(schema), trie).createMatcher(), vocabulary, (allowed) => {
          const ending = allowed.filter((token) => isEnding[token])
          return at(ending.length > 0 && draw() < 0.2 ? ending : allowed, draw)
        })
        if (text === null) return
        finished++
        const valid = schemaValidator(schema)
        expect([text, valid(JSON.parse(text)), valid.errors]).toEqual([text, true, null])
      }),
      { numRuns: 25 },
    )
    expect(finished).toBeGreaterThan(12)
  })

  test('a pattern that can be read in very many ways is kept', () => {
    const pattern = '(a{1,9}[a-z ]{0,90}){0,60}a\\.'
    const automaton = automatonOf(regex(pattern), trie)
    const expression = toRegExp(parsePattern(pattern))
    for (let seed = 0; seed < 3; seed++) {
      const draw = generator(seed)
      let steps = 0
      // A backtracking engine checks it, so it may not be long.
      const text = write(automaton.createMatcher(), vocabulary, (allowed) => {
        const ends = allowed.filter((token) => token === END || /^a?\.$/.test(vocabulary.tokens[token]!))
        const preferred = steps++ < 12 || ends.length === 0 ? allowed.filter((token) => !ends.includes(token)) : ends
        const a = allowed.filter((token) => vocabulary.tokens[token] === 'a')
        return at(
          steps > 12 && ends.length === 0 && a.length > 0 ? a : preferred.length > 0 ? preferred : allowed,
          draw,
        )
      })
      expect(text).toMatch(expression)
    }
  })
})

describe('with few tokens', () => {
  const vocabulary = vocabularyOf(900, 2)
  const trie = new TokenTrie(vocabulary)

  const constraints = fc.oneof(
    fc
      .constantFrom(
        '[^b]{2,5}x?',
        '(?:ab|a)*b{0,3}',
        '(a?){3,9}(é|漢|[a-z]{2})*',
        '(?:[ab]{0,2}){0,4}"',
        '(the|there|then|é|è){2,}',
        '[\\s\\S]{0,12}',
      )
      .map(regex),
    fc
      .constantFrom<object>(
        { type: 'string', minLength: 2, maxLength: 9 },
        { type: 'array', items: { type: ['string', 'null'], maxLength: 3 }, minItems: 2, maxItems: 4 },
        { enum: ['a', 'ab', 'the', 'thea', 'é', '漢字'] },
        { type: 'object', properties: { a: { type: 'string' }, ab: { maxItems: 2, items: { type: 'integer' } } } },
        {
          anyOf: [
            { type: 'string', maxLength: 2 },
            { type: 'string', minLength: 5 },
          ],
        },
        { type: 'object' },
      )
      .map(json),
  )

  test('the tokens that may come are those that are taken', () => {
    fc.assert(
      fc.property(constraints, fc.nat(), (constraint, seed) => {
        const draw = generator(seed)
        const automaton = automatonOf(constraint, trie)
        const matcher = automaton.createMatcher()
        const history: number[] = []
        for (let step = 0; step < 12; step++) {
          const allowed = allowedBy(matcher.nextTokens())
          for (let tries = 0; tries < 20; tries++) {
            const token = Math.floor(draw() * vocabulary.tokens.length)
            const again = automaton.createMatcher()
            for (const past of history) again.accept(past)
            expect([token, again.accept(token)]).toEqual([token, allowed.includes(token)])
          }
          const token = at(allowed, draw)
          expect(matcher.accept(token)).toBe(true)
          if (token === END) break
          history.push(token)
        }
      }),
      { numRuns: 60 },
    )
  })

  /** A pattern with all the texts that it matches. */
  interface Language {
    readonly pattern: string
    readonly texts: readonly string[]
  }
  const MOST_TEXTS = 300
  const { language: languages } = fc.letrec<{ language: Language }>((tie) => ({
    language: fc.oneof(
      { maxDepth: 4 },
      fc
        .constantFrom('a', 'b', 'ab', 'the', 'é', 'è', '漢', '"', ' ')
        .map((text) => ({ pattern: text, texts: [text] })),
      fc.constantFrom('[ab]', '[éèa]').map((pattern) => ({ pattern, texts: [...pattern.slice(1, -1)] })),
      fc.array(tie('language'), { maxLength: 4 }).map((parts) => ({
        pattern: `(?:${parts.map(({ pattern }) => pattern).join('|')})`,
        texts: parts.length === 0 ? [''] : parts.flatMap(({ texts }) => texts),
      })),
      fc.tuple(tie('language'), tie('language')).map(([one, two]) => ({
        pattern: one.pattern + two.pattern,
        texts: one.texts.flatMap((text) => two.texts.map((other) => text + other)),
      })),
      fc.tuple(tie('language'), fc.nat(2), fc.nat(1)).map(([{ pattern, texts }, min, more]) => ({
        pattern: `(?:${pattern}){${min},${min + more}}`,
        texts: [...Array(more + 1).keys()].flatMap((extra) => powerOf(texts, min + extra)),
      })),
    ),
  }))
  const powerOf = (texts: readonly string[], count: number): readonly string[] =>
    count === 0
      ? ['']
      : [...new Set(powerOf(texts, count - 1).flatMap((text) => texts.map((other) => text + other)))].slice(
          0,
          MOST_TEXTS + 1,
        )

  test('the tokens that may come are those that some text of the language goes on with', () => {
    const finite = languages
      .map(({ pattern, texts }) => ({ pattern, texts: [...new Set(texts)] }))
      .filter(({ texts }) => texts.length <= MOST_TEXTS)
    fc.assert(
      fc.property(finite, fc.boolean(), fc.nat(), ({ pattern, texts }, inJson, seed) => {
        const constraint = inJson ? json({ type: 'string', pattern: `^(?:${pattern})$` }) : regex(pattern)
        const written = texts.map((text) => Buffer.from(inJson ? JSON.stringify(text) : text).toString('latin1'))
        const draw = generator(seed)
        const matcher = automatonOf(constraint, trie).createMatcher()
        for (let bytes = ''; ; ) {
          const allowed = allowedBy(matcher.nextTokens())
          const pieces = new Set<string>()
          for (const text of written) {
            if (!text.startsWith(bytes)) continue
            for (let end = bytes.length + 1; end <= text.length; end++) pieces.add(text.slice(bytes.length, end))
          }
          const expected = [...vocabulary.tokens.keys()].filter((token) =>
            token === END ? written.includes(bytes) : pieces.has(vocabulary.tokens[token]!),
          )
          expect([bytes, allowed]).toEqual([bytes, expected])
          const token = at(allowed, draw)
          expect(matcher.accept(token)).toBe(true)
          if (token === END) break
          bytes += vocabulary.tokens[token]
        }
      }),
      { numRuns: 200 },
    )
  })

  test('forced text ends where there is a choice, and where a text may end', () => {
    const forcedIn = (constraint: TagContent, ...bytes: string[]) => {
      const matcher = automatonOf(constraint, trie).createMatcher()
      for (const byte of bytes) expect(matcher.accept(vocabulary.tokens.indexOf(byte))).toBe(true)
      return matcher.forcedText()
    }
    const schema = { type: 'object', properties: { é: { enum: ['漢a', '漢b'] } }, required: ['é'] }
    expect(forcedIn(json(schema))).toBe('{"é": "漢')
    expect(forcedIn(json(schema), '{')).toBe('"é": "漢')
    expect(forcedIn(regex('a{3,10}'))).toBe('aaa')
    expect(forcedIn(regex('[é-ë]x'))).toBe('')
    expect(forcedIn(regex('éa'), '\xc3')).toBe('')
    expect(forcedIn(regex('x{5000}')).length).toBeGreaterThan(1000)
  })

  test('what was forgotten is found again', () => {
    const schema = {
      type: 'array',
      items: { type: 'string', minLength: 90, maxLength: 100 },
      minItems: 20,
      maxItems: 25,
    }
    const automaton = automatonOf(json(schema), trie)
    const waiting = automaton.createMatcher()
    waiting.accept(vocabulary.tokens.indexOf('['))
    const before = allowedBy(waiting.nextTokens())
    const draw = generator(5)
    const text = write(automaton.createMatcher(), vocabulary, (allowed) => at(allowed, draw), 20_000)
    expect(schemaValidator(schema)(JSON.parse(text!))).toBe(true)
    expect(allowedBy(waiting.nextTokens())).toEqual(before)
    expect(waiting.accept(vocabulary.tokens.indexOf('"'))).toBe(true)
  })

  test('grammars with very long texts, very many labels or deep nesting are followed', () => {
    const long = 'x'.repeat(30_000)
    const labels = Array.from({ length: 5000 }, (_, i) => `a label, number ${i}`)
    for (const values of [[long, `${long}y`], labels]) {
      const matcher = automatonOf(json({ enum: values }), trie).createMatcher()
      const last = Buffer.from(JSON.stringify(values.at(-1))).toString('latin1')
      expect([...last].findIndex((byte) => !matcher.accept(vocabulary.tokens.indexOf(byte)))).toBe(-1)
      expect(allowedBy(matcher.nextTokens())).toEqual([END])
    }
    const nested = automatonOf(json({ $ref: '#/$defs/a', $defs: { a: { items: { $ref: '#/$defs/a' } } } }), trie)
    const matcher = nested.createMatcher()
    for (let i = 0; i < 20_000; i++) matcher.accept(vocabulary.tokens.indexOf('['))
    expect(allowedBy(matcher.nextTokens())).toContain(vocabulary.tokens.indexOf(']'))
  })

  const tagged = fc.record({ atLeastOne: fc.boolean(), stopAfterFirst: fc.boolean() })
  const tag = (begin: string, pattern: string, end: string) => ({ begin, content: regex(pattern), end })

  /** Whether a text follows the policy: by every way to read its tags. */
  function isTagged(text: string, { triggers, tags, atLeastOne, stopAfterFirst }: TriggeredTagsConstraint): boolean {
    const behindTag = (at: number): boolean =>
      tags.some(({ begin, content, end }) => {
        if (!text.startsWith(begin, at) || content.type !== 'regex') return false
        const expression = new RegExp(`^(?:${content.pattern})$`, 'u')
        const from = at + begin.length
        return Array.from({ length: text.length - from + 1 }, (_, length) => from + length).some(
          (to) => expression.test(text.slice(from, to)) && text.startsWith(end, to) && free(to + end.length, true),
        )
      })
    const free = (at: number, hasTag: boolean): boolean => {
      if (hasTag && stopAfterFirst) return at === text.length
      for (let end = at; end <= text.length; end++) {
        const trigger = triggers.find((other) => text.slice(at, end).endsWith(other))
        if (trigger !== undefined) return behindTag(end - trigger.length)
      }
      return true
    }
    return atLeastOne ? behindTag(0) : free(0, false)
  }

  test('tags are where a trigger is', () => {
    const tags = [tag('ab(', '[a-c]{1,3}', ')'), tag('abc', 'a*', ''), tag('é', '(b|漢)', 'a')]
    const texts = fc.array(fc.constantFrom('a', 'b', 'c', 'ab', 'ab(', ')', 'abc', 'é', '漢', 'x'), { maxLength: 9 })
    fc.assert(
      fc.property(tagged, fc.array(texts, { minLength: 20, maxLength: 20 }), (policy, drawn) => {
        const constraint: TriggeredTagsConstraint = { type: 'triggered_tags', triggers: ['ab', 'é'], tags, ...policy }
        const automaton = automatonOf(constraint, trie)
        for (const text of drawn.map((parts) => parts.join(''))) {
          const matcher = automaton.createMatcher()
          const bytes = [...Buffer.from(text).toString('latin1')]
          const accepted = bytes.every((byte) => matcher.accept(vocabulary.tokens.indexOf(byte))) && matcher.accept(END)
          expect([text, accepted]).toEqual([text, isTagged(text, constraint)])
        }
      }),
      { numRuns: 60 },
    )
  })

  test('tags may stand in place of a structure, and nothing else', () => {
    const tags = [tag('ab(', '[a-c]{1,3}', ')'), tag('abc', 'a*', 'é')]
    const call = '(?:ab\\([a-c]{1,3}\\)|abca*é)'
    const texts = fc.array(fc.constantFrom('a', 'b', 'ab(', 'a)', 'abc', 'é', ' ', '\n', '漢'), { maxLength: 9 })
    fc.assert(
      fc.property(tagged, fc.array(texts, { minLength: 20, maxLength: 20 }), (policy, drawn) => {
        const otherwise = regex('[ab漢]{2,}')
        const constraint: Constraint = { type: 'triggered_tags', triggers: ['ab'], tags, otherwise, ...policy }
        const calls = policy.stopAfterFirst ? call : `${call}(?:[ \\n]{0,2}${call})*`
        const expected = new RegExp(`^(?:${calls}${policy.atLeastOne ? '' : '|[ab漢]{2,}'})$`, 'u')
        const automaton = automatonOf(constraint, trie)
        for (const text of [...drawn.map((parts) => parts.join('')), 'ab(c)\n\nabcé', 'ab', 'ab漢']) {
          const matcher = automaton.createMatcher()
          const bytes = [...Buffer.from(text).toString('latin1')]
          const accepted = bytes.every((byte) => matcher.accept(vocabulary.tokens.indexOf(byte))) && matcher.accept(END)
          expect([text, accepted]).toEqual([text, expected.test(text)])
        }
      }),
      { numRuns: 60 },
    )
  })
})
