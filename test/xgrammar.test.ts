import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TOOL_SYNTAXES } from '../src/conversation/tools/syntaxes.ts'
import { DIALECTS } from '../src/grounding/dialects/dialects.ts'
import { Automaton } from '../src/inference/constraints/automaton.ts'
import { grammarOf } from '../src/inference/constraints/constraint-grammar.ts'
import { toEbnf } from '../src/inference/constraints/ebnf.ts'
import { TokenTrie } from '../src/inference/constraints/tokens/token-trie.ts'
import type { Constraint } from '../src/inference/contract/constraint.ts'
import { BYTE_VOCABULARY, generator } from './support/byte-automaton.ts'
import { randomPatterns, randomSchemas } from './support/random-constraints.ts'
import { randomArguments, toolsFor } from './support/random-tools.ts'
import { XGrammar } from './support/xgrammar.ts'

/** A Python with `xgrammar`, of the version that vLLM uses. Without it, only recorded verdicts are compared. */
const python = process.env.LOOKOUT_TEST_XGRAMMAR_PYTHON
/** Written by XGrammar 0.2.8: run this test with a Python and `-u`. */
const VERDICTS = 'fixtures/xgrammar-verdicts.txt'

const { tokens, stopTokens } = BYTE_VOCABULARY
const END = stopTokens[0]!
const trie = new TokenTrie(BYTE_VOCABULARY)
const regex = (pattern: string): Constraint => ({ type: 'regex', pattern })
const json = (schema: unknown): Constraint => ({ type: 'json_schema', schema })

const holds = (mask: ArrayLike<number>, token: number) => ((mask[token >> 5]! >>> (token & 31)) & 1) === 1
const tokensIn = (mask: ArrayLike<number>) => [...tokens.keys()].filter((token) => holds(mask, token))

/** The tokens that may come: at the start of the text, and after each of its bytes until one is refused. */
function follow(automaton: Automaton, text: string): Int32Array[] {
  const matcher = automaton.createMatcher()
  const masks = [matcher.nextTokens()]
  for (const byte of Buffer.from(text, 'latin1')) {
    if (!matcher.accept(byte)) break
    masks.push(matcher.nextTokens())
  }
  return masks
}

/** Texts of the constraint, or beginnings of such where they are long, each with two that have a change somewhere. Bytes. */
function textsOf(automaton: Automaton, draw: () => number): string[] {
  return Array.from({ length: 3 }, () => {
    const text = beginningOf(automaton, draw)
    return [text, changed(text, draw), changed(text, draw)]
  }).flat()
}

function beginningOf(automaton: Automaton, draw: () => number): string {
  const matcher = automaton.createMatcher()
  const pick = (from: readonly number[]) => from[Math.floor(draw() * from.length)]!
  for (let text = ''; ; ) {
    const allowed = tokensIn(matcher.nextTokens())
    const ends = allowed.includes(END) && draw() < 0.3
    if (ends || allowed.length === 0 || text.length > LONGEST_TEXT) return text
    const known = allowed.filter((token) => token < 0x80 || token > END)
    const others = allowed.filter((token) => token !== END)
    if (others.length === 0) return text
    const token = pick(known.length > 0 && draw() < 0.8 ? known : others)
    matcher.accept(token)
    text += tokens[token]
  }
}

const LONGEST_TEXT = 300
const INSERTED = ['"', 'a', '\\', ' ', ',', '}', '<', 'é', '\n', '0'].map((text) =>
  Buffer.from(text).toString('latin1'),
)

function changed(text: string, draw: () => number): string {
  const at = Math.floor(draw() * (text.length + 1))
  const inserted = INSERTED[Math.floor(draw() * INSERTED.length)]!
  const [removed, added] = [
    [1, ''],
    [0, inserted],
    [1, inserted],
  ][Math.floor(draw() * 3)] as [number, string]
  return text.slice(0, at) + added + text.slice(at + removed)
}

const ARGUMENTS = {
  type: 'object',
  properties: {
    place: { type: 'string' },
    unit: { enum: ['°C', 'K', null] },
    days: { type: 'array', items: { type: 'integer', minimum: 1, maximum: 31 }, maxItems: 3 },
  },
  required: ['place'],
}
const SCENE = { assets: 2, timed: true, image: { width: 640, height: 480 } }
const LABELS = ['red circle', 'red "box"', '漢字', '[a-z]*']

/** The constraints that requests bring about, by name. */
const KNOWN: Readonly<Record<string, Constraint>> = {
  ...Object.fromEntries(
    Object.entries(TOOL_SYNTAXES).flatMap(([name, syntax]) => [
      [`tools of ${name}`, syntax.constraint(toolsFor(ARGUMENTS), false)],
      [`a tool of ${name}`, { ...syntax.constraint(toolsFor({}), true), atLeastOne: true }],
    ]),
  ),
  ...Object.fromEntries(
    Object.entries(DIALECTS).flatMap(([name, dialect]) => {
      const { triggers, tags } = dialect.tags(dialect.formats[0]!, SCENE)
      const written = tags.map(({ begin, pattern, end }) => ({ begin, content: regex(pattern), end }))
      return [
        [`annotations of ${name}`, { type: 'triggered_tags', triggers, tags: written }],
        [`detections of ${name}`, regex(dialect.detection.pattern('box', LABELS, SCENE))],
        [`all objects of ${name}`, regex(dialect.detection.pattern('box', null, SCENE))],
      ]
    }),
  ),
  'any object': json({ type: 'object' }),
  'a schema': json(ARGUMENTS),
  'a recursive schema': json({
    $ref: '#/$defs/tree',
    $defs: { tree: { properties: { name: { type: 'string', minLength: 1 }, inner: { $ref: '#/$defs/tree' } } } },
  }),
  'a schema without a finite value': json({ properties: { next: { $ref: '#' } }, required: ['next'] }),
  'short strings': json({ type: 'array', items: { type: 'string', minLength: 2, maxLength: 5 } }),
  formats: json({ anyOf: ['date', 'uuid', 'email', 'ipv6', 'uri'].map((format) => ({ type: 'string', format })) }),
  'strings of several keywords': json({
    anyOf: [
      { type: 'string', format: 'email', pattern: '^[a-z.]+@[a-z.]+$', maxLength: 30 },
      { type: 'string', pattern: '^(?=.*\\d)(?=.*["\n])(?!.*é).{4,12}$' },
      { type: 'string', pattern: '^\\p{Lu}+( \\p{Lu}+)*$', maxLength: 9 },
    ],
  }),
  'labels with common beginnings': json({ enum: ['re', 'red', 'redo', 'undo', 'un', 'é', 'éé', ''] }),
  'controls and ends of ranges': regex('[\\0-\\x1f\\x7f]|[\\x80-\\u07ff]|[\\u0800-\\uffff]|[\\u{10000}-\\u{10ffff}]'),
  'quotes, brackets and hyphens': regex('["\\\\\\]\\[^-]{3}"\\\\\\]#\\{\\}'),
  'repeated repetitions': regex('(?:(?:a*)*b?){2,}(?:c?){0,100}d{0,3000}'),
  'a schema or calls': {
    ...TOOL_SYNTAXES.hermes.constraint(toolsFor(ARGUMENTS), false),
    otherwise: json(ARGUMENTS),
  },
}

const name = `what the automaton lets through, XGrammar does${python ? '' : ' (recorded; LOOKOUT_TEST_XGRAMMAR_PYTHON compares again)'}`
describe(name, () => {
  let xgrammar: XGrammar | undefined
  beforeAll(() => {
    if (python) xgrammar = new XGrammar(python, BYTE_VOCABULARY)
  })
  afterAll(() => xgrammar?.close())

  test('in every kind of constraint that requests bring about', async () => {
    const verdicts = Object.entries(KNOWN).map(async ([name, constraint], seed) => {
      const { text: ebnf, exact } = toEbnf(grammarOf(constraint))
      expect([name, exact]).toEqual([name, true])
      const automaton = new Automaton(grammarOf(constraint), trie)
      const texts = textsOf(automaton, generator(seed))
      const masks = xgrammar ? await xgrammar.follow(ebnf, texts) : texts.map((text) => follow(automaton, text))
      // How much of each text is let through, and whether it may end there.
      const results = texts.map((text, index) => {
        const taken = masks[index]!.length - 1
        return `${taken} of ${text.length}${holds(masks[index]!.at(-1)!, END) ? ' ends' : ''} ${JSON.stringify(text)}`
      })
      return [`# ${name}`, ebnf, ...results, ''].join('\n')
    })
    await expect((await Promise.all(verdicts)).join('\n')).toMatchFileSnapshot(VERDICTS)
  })

  const tools = fc
    .record({
      schema: randomArguments.map(({ schema }) => schema),
      syntax: fc.constantFrom(...Object.values(TOOL_SYNTAXES)),
      single: fc.boolean(),
      atLeastOne: fc.boolean(),
    })
    .map(({ schema, syntax, single, atLeastOne }) => ({ ...syntax.constraint(toolsFor(schema), single), atLeastOne }))

  test.skipIf(!python).each([
    ['patterns', randomPatterns.map(regex)],
    ['schemas', randomSchemas.map(json)],
    ['tools', tools],
  ])('token by token, in random %s', { timeout: 600_000 }, async (_, constraints: fc.Arbitrary<Constraint>) => {
    await fc.assert(
      fc.asyncProperty(constraints, fc.nat(), async (constraint, seed) => {
        const automaton = new Automaton(grammarOf(constraint), trie)
        const texts = textsOf(automaton, generator(seed))
        const { text: ebnf, exact } = toEbnf(grammarOf(constraint))
        expect(exact).toBe(true)
        const found = await xgrammar!.follow(ebnf, texts)
        for (const [index, text] of texts.entries()) {
          const expected = follow(automaton, text).map(tokensIn)
          expect([text, found[index]!.map(tokensIn)]).toEqual([text, expected])
        }
      }),
      { numRuns: 300 },
    )
  })

  test.skipIf(!python)('a longer string, where a count is left out', async () => {
    const schema = { type: 'string', minLength: 150, maxLength: 160 }
    const { text: ebnf, exact } = toEbnf(grammarOf(json(schema)))
    const [masks] = await xgrammar!.follow(ebnf, [`"${'a'.repeat(200)}"`])
    const closes = masks!.flatMap((mask, at) => (holds(mask, '"'.charCodeAt(0)) && at > 0 ? [at - 1] : []))
    expect([exact, closes[0], closes.at(-1)]).toEqual([false, 127, 200])
  })
})
