import Ajv from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { accepts, BYTE_VOCABULARY, generator, randomText } from '../../../test/support/byte-automaton.ts'
import { Automaton } from './automaton.ts'
import { GrammarBuilder, GrammarSizeError } from './grammar.ts'
import { FORMATS } from './schema/formats.ts'
import { type StringKeywords, StringTexts } from './string-texts.ts'
import { TokenTrie } from './tokens/token-trie.ts'
import { UnsupportedConstraint } from './unsupported-constraint.ts'
import { JSON_STYLE, ValueText } from './value-text.ts'

const trie = new TokenTrie(BYTE_VOCABULARY)

/** @param without texts that no string holds. */
function automatonOf(keywords: StringKeywords, without: readonly string[] = []): Automaton {
  const builder = new GrammarBuilder()
  const text = new ValueText({ ...JSON_STYLE, without }, builder)
  return new Automaton(builder.build(new StringTexts().write(keywords, text, [])), trie)
}

/** Null where no string satisfies the keywords. */
function automatonOrNull(keywords: StringKeywords, without?: readonly string[]): Automaton | null {
  try {
    return automatonOf(keywords, without)
  } catch (error) {
    if (error instanceof UnsupportedConstraint && error.message.startsWith('no string satisfies')) return null
    throw error
  }
}

const holds = (automaton: Automaton, text: string) => accepts(automaton, JSON.stringify(text))

function isSatisfied(keywords: StringKeywords, text: string): boolean {
  const { patterns = [], notPatterns = [], minLength = 0, maxLength, excluded = [] } = keywords
  const { length } = [...text]
  return (
    patterns.every((pattern) => new RegExp(pattern, 'u').test(text)) &&
    notPatterns.every((pattern) => !new RegExp(pattern, 'u').test(text)) &&
    length >= minLength &&
    length <= (maxLength ?? length) &&
    !excluded.includes(text)
  )
}

const texts = fc.string({ unit: fc.constantFrom('a', 'b', 'A', '1', '-', '"', '\n', 'é', '😀'), maxLength: 7 })
const patterns = fc.constantFrom(
  ...['a', '^a', 'b$', '^[ab]+$', '^[^b]*$', 'a.b', '^(a|b1?)*$', 'a+b*', '^.{2,4}$', '(a|1)-', '\\d', '\\S$', '"|\\n'],
  ...['^(?!a)', '(?=.*1)^', '^(?=.*[A-Z])(?=.*\\d)', '(?<!a)b', '\\ba\\b', '^\\p{L}+$', '[^\\p{Ll}]', '^(?:(?!ab).)*$'],
  ...['^(?i)a+', '\\Aa', '(?i:B)\\z', '^[\\w-]+$', '^$|1', 'x.{0,200}y|a', '(?<=^a)b', 'a(?!.*b$)'],
)
const javaScript = (pattern: string) =>
  pattern.replace('(?i)a', '[aA]').replace('\\A', '^').replace('(?i:B)\\z', '[bB]$').replace('[\\w-]', '[\\w\\-]')
const keywords = fc.record({
  patterns: fc.array(patterns, { maxLength: 2 }),
  // All that may come behind an `x` would have to be remembered.
  notPatterns: fc.array(
    patterns.filter((pattern) => !pattern.includes('{0,200}')),
    { maxLength: 1 },
  ),
  minLength: fc.nat(3),
  maxLength: fc.option(fc.integer({ min: 3, max: 7 })),
  excluded: fc.array(texts, { maxLength: 2 }),
})

describe('keywords of one string', () => {
  test('are intersected: a text is let through when, and only when, it satisfies them all', () => {
    fc.assert(
      fc.property(keywords, fc.array(texts, { minLength: 1, maxLength: 10 }), fc.nat(), (said, samples, seed) => {
        const automaton = automatonOrNull(said)
        const expected = {
          ...said,
          patterns: said.patterns.map(javaScript),
          notPatterns: said.notPatterns.map(javaScript),
        }
        for (const text of samples) {
          const verdict = automaton !== null && holds(automaton, text)
          // A match of different lengths is not found everywhere in a text of bounded length.
          const isCounted = said.patterns.length === 1 && said.notPatterns.length + said.excluded.length === 0
          const isExact = !isCounted && !said.patterns.some((pattern) => pattern.includes('{0,200}'))
          const fits = isSatisfied(expected, text)
          if (isExact || verdict) expect([said, text, verdict]).toEqual([said, text, fits])
        }
        const text = automaton === null ? null : randomText(automaton, generator(seed), 200)
        if (text !== null) expect([said, text, isSatisfied(expected, JSON.parse(text))]).toEqual([said, text, true])
      }),
      { numRuns: 60 },
    )
  })

  test('keep out texts that no string holds', () => {
    const marks = ['</a>', 'ab', 'n1']
    fc.assert(
      fc.property(patterns, texts, fc.nat(), (pattern, sample, seed) => {
        const automaton = automatonOrNull({ patterns: [pattern, '[^z]'] }, marks)
        if (automaton === null) return
        const written = JSON.stringify(sample)
        if (marks.some((mark) => written.includes(mark))) expect(accepts(automaton, written)).toBe(false)
        const text = randomText(automaton, generator(seed), 200)
        for (const mark of marks) expect(text ?? '').not.toContain(mark)
      }),
      { numRuns: 40 },
    )
  })

  test.each<[what: string, StringKeywords, found: string[], other: string[]]>([
    [
      'the common rule for passwords',
      { patterns: ['^(?=.*\\d)(?=.*[a-z])(?=.*[A-Z])(?=.*[^A-Za-z0-9]).{8,}$'], maxLength: 64 },
      ['Passw0rd!', '!Aa1!Aa1'],
      ['Password!', 'Pa0!', 'passw0rd!', `Aa1!${'a'.repeat(61)}`],
    ],
    [
      'a name that is not reserved',
      { patterns: ['^(?!(?:con|nul)$)[a-z]+$'], minLength: 2, maxLength: 5 },
      ['co', 'cons', 'ab'],
      ['con', 'nul', 'a', 'abcdef'],
    ],
    [
      'an e-mail address of zod',
      {
        formats: ['email'],
        patterns: [
          "^(?:[A-Za-z0-9_'+\\-]+\\.)*[A-Za-z0-9_'+\\-]*[A-Za-z0-9_+-]@(?:[A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$",
        ],
        maxLength: 254,
      },
      ["o'neil+x@Mail.example.co.uk", 'a@b.cc'],
      ['a@b', '.a@b.cc', `${'a'.repeat(250)}@b.cc`],
    ],
    [
      'a UUID of zod',
      {
        formats: ['uuid'],
        patterns: ['^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12})$'],
        minLength: 36,
        maxLength: 36,
      },
      ['123e4567-e89b-42d3-a456-426614174000', '123E4567-E89B-42D3-A456-426614174000'],
      ['123e4567-e89b-12d3-a456-426614174000'],
    ],
    [
      'a URL of pydantic',
      { formats: ['uri'], minLength: 1, maxLength: 2083 },
      ['https://example.com/a/b?c=d#e', 'http://localhost:8080', `https://a.b/${'a'.repeat(1000)}`],
      ['example.com', '', 'https://'],
    ],
    [
      'URLs of one place',
      { formats: ['uri'], patterns: ['^https://.*\\.png$'] },
      ['https://example.com/a%20b.png'],
      ['https://example.com/a.gif', 'http://example.com/a.png', 'https://example.com/a b.png'],
    ],
    [
      'a leap day',
      { formats: ['date'], patterns: ['-02-29$'] },
      ['2024-02-29', '2000-02-29'],
      ['2023-02-29', '1900-02-29'],
    ],
    [
      'a pattern of two parts and a length',
      { patterns: ['^[a-z]+(?:-[a-z]+)*$'], maxLength: 63 },
      ['a', 'a-b', 'a'.repeat(63)],
      ['a-', '-a', 'a'.repeat(64)],
    ],
    [
      'escapes that count as one character',
      { patterns: ['^["\\n]', 'x$'], minLength: 4, maxLength: 4 },
      ['""\nx', '\n\n\nx'],
      ['"x', '""""x'],
    ],
    [
      'letters of both cases',
      { patterns: ['^(?i)straße[^sé]$'] },
      ['STRAßEk', 'straßeÜ'],
      ['straßeS', 'straßeſ', 'straßeÉ'],
    ],
    ['several formats', { formats: ['hostname', 'ipv4'] }, ['10.0.0.1'], ['a.b', '999.0.0.1']],
    ['an unknown format', { formats: ['colour'], maxLength: 3 }, ['abc'], ['abcd']],
    ['a long text', { patterns: ['^[a-z]+$'], maxLength: 100_000 }, ['a'.repeat(10_000)], ['A', 'a'.repeat(10_001)]],
    [
      'a URL as it is often searched for',
      {
        patterns: [
          '^https?:\\/\\/(www\\.)?[-a-zA-Z0-9@:%._\\+~#=]{1,256}\\.[a-zA-Z0-9()]{1,6}\\b([-a-zA-Z0-9()@:%_\\+.~#?&//=]*)$',
        ],
      },
      ['https://www.example.com/a?b=c', 'http://example.org'],
      ['https://example', 'ftp://example.com'],
    ],
  ])('%s', (_what, said, found, other) => {
    const automaton = automatonOf(said)
    for (const text of found) expect([text, holds(automaton, text)]).toEqual([text, true])
    for (const text of other) expect([text, holds(automaton, text)]).toEqual([text, false])
  })

  test.each<[said: StringKeywords, at: string, message: RegExp]>([
    [{ patterns: ['^a$', '^b$'] }, 'pattern', /no string satisfies 'pattern'/],
    [{ patterns: ['^b'], formats: ['date'] }, 'pattern', /no string satisfies 'pattern' beside 'format'/],
    [{ patterns: ['^a{4}$'], maxLength: 3 }, 'maxLength', /no string satisfies 'maxLength' beside 'pattern'/],
    [{ patterns: ['^a{4}$'], minLength: 5 }, 'minLength', /no string satisfies 'minLength' beside 'pattern'/],
    [{ patterns: ['^a$'], excluded: ['a'] }, 'not', /no string satisfies 'not' beside 'pattern'/],
    [{ patterns: ['a', '(a)\\1'] }, 'pattern', /backreference/],
    [{ patterns: ['(?<=a(?=b))c'] }, 'pattern', /'\(\?=' within a lookbehind/],
    [{ minLength: 2, maxLength: 1 }, 'maxLength', /less than 'minLength'/],
  ])('%j is refused', (said, at, message) => {
    const attempt = () => automatonOf(said)
    expect(attempt).toThrow(UnsupportedConstraint)
    expect(attempt).toThrow(message)
    expect(attempt).toThrow(expect.objectContaining({ path: [at] }))
  })

  test('take bounded work: some of the strings where all would take too many states, or a refusal', () => {
    const builder = new GrammarBuilder()
    const text = new ValueText(JSON_STYLE, builder)
    const strings = new StringTexts()
    const written = (said: StringKeywords) => {
      try {
        return strings.write(said, text, []) !== null
      } catch (error) {
        expect(error instanceof UnsupportedConstraint || error instanceof GrammarSizeError).toBe(true)
        return false
      }
    }
    // Each would take 2 ** 200 states.
    expect(written({ patterns: ['x.{0,200}y'], minLength: 3, maxLength: 300 })).toBe(true)
    expect(written({ patterns: ['(a|b)*a(a|b){200}', 'c'] })).toBe(false)
    expect(written({ notPatterns: ['x.{200}y'] })).toBe(false)
    for (let i = 0; i < 500; i++) written({ patterns: [`x${i}.{0,200}y`], minLength: 3, maxLength: 300 })
    // The others have used up what is allowed.
    expect(written({ patterns: ['^(?!a).{0,200}y'], maxLength: 300 })).toBe(false)
  })
})

describe('a format', () => {
  const ajv = addFormats.default(new Ajv.default({ strict: false, logger: false }))

  test.each(Object.keys(FORMATS))('%s: what is let through is valid, alone and beside other keywords', (format) => {
    const valid = ajv.compile({ type: 'string', format })
    const beside: StringKeywords[] = [
      {},
      { patterns: [''], minLength: 1 },
      { minLength: 1, maxLength: 40 },
      { maxLength: 200 },
    ]
    for (const more of beside) {
      const said = { ...more, formats: [format] }
      const automaton = automatonOrNull(said)
      expect([said, automaton]).not.toEqual([said, null])
      const draw = generator(1)
      for (let i = 0; i < 10; i++) {
        const text = randomText(automaton!, draw, 1000)
        if (text === null) continue
        const value = JSON.parse(text)
        expect([said, value, valid(value)]).toEqual([said, value, true])
        expect([...value].length).toBeLessThanOrEqual(more.maxLength ?? Number.POSITIVE_INFINITY)
      }
    }
  })

  test.each<[format: string, found: string[], other: string[]]>([
    ['date', ['2025-11-26', '2024-02-29'], ['2023-02-29', '0000-01-01', '2025-13-01']],
    ['date-time', ['2025-11-26T10:20:30Z', '2025-11-26T10:20:30.123+02:00'], ['2025-11-26 10:20:30Z', '2025-11-26']],
    ['duration', ['P1D', 'PT1H30M', 'P1Y2M3DT4H5M6S', 'P2W'], ['P', 'PT', '1D', 'P1DT']],
    ['email', ['jane.doe+x@mail.example.co.uk'], ['jane', '@example.com', 'a@b']],
    ['hostname', ['example.com', 'localhost', 'a-b.c'], ['-a', 'a..b', 'a_b', '']],
    ['idn-hostname', ['пример.рф', 'münchen.de', '例え.jp'], ['a b', '']],
    ['ipv6', ['::', '::1', '2001:db8::1', '1:2:3:4:5:6:7:8', 'fe80::1:2'], [':::', '1::2::3', '1:2:3', '12345::']],
    [
      'uri',
      ['https://example.com', 'mailto:a@b.c', 'urn:isbn:0', 'https://a.b:80/c%20d?e=f#g'],
      ['www.a.b', '/a', 'x y'],
    ],
    ['uri-reference', ['', '/a/b', '../a', '#x', '?a=b', 'https://a.b'], ['a b', '\\a']],
    ['iri', ['https://example.com/münchen'], ['münchen']],
    ['uri-template', ['https://a.b/{id}{?q,r}', '/x/{+y}'], ['{', '{a', 'a b']],
    ['json-pointer', ['', '/a/b~1c', '/'], ['a', '/~2']],
    ['relative-json-pointer', ['0', '1/a', '2#'], ['/a', '01', '']],
    ['regex', ['^[a-z]+$', '\\d{3}', '(?:ab|c)*', 'a\\.b'], ['(', '[', '*', 'a**']],
    ['byte', ['', 'aGk=', 'YWJj'], ['a', 'aGk']],
  ])('%s', (format, found, other) => {
    const automaton = automatonOf({ formats: [format] })
    for (const text of found) expect([text, holds(automaton, text)]).toEqual([text, true])
    for (const text of other) expect([text, holds(automaton, text)]).toEqual([text, false])
  })
})
