import Ajv from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CARD, GREEDY } from '../../../../test/support/local-engine.ts'
import { loadCard } from '../../../models/card.ts'
import type { Constraint } from '../../contract/constraint.ts'
import type { Branch, Sampling } from '../../contract/work.ts'
import { LocalEngine } from '../host/local-engine.ts'

const WARM: Sampling = { ...GREEDY, temperature: 1 }
const PROMPT = '<|im_start|>user\nWhat do you see?<|im_end|>\n<|im_start|>assistant\n'

const detection = {
  type: 'object',
  properties: {
    label: { enum: ['circle', 'square'] },
    box: { type: 'array', items: { type: 'integer', minimum: 0, maximum: 1000 }, minItems: 4, maxItems: 4 },
    note: { type: 'string', maxLength: 10 },
  },
  required: ['label', 'box'],
}

let engine: LocalEngine
beforeAll(async () => {
  engine = await LocalEngine.start(await loadCard(CARD), { seed: 1 })
})
afterAll(() => engine?.close())

function branch(constraint: Constraint | null, fields: Partial<Branch> = {}): Branch {
  const base = { suffix: [], n: 1, maxTokens: 200, sampling: WARM, ...fields }
  return constraint === null ? base : { ...base, constraint }
}

interface Completion {
  text: string
  reason: 'stop' | 'length' | null
  tokens: number
  /** Text of the first event, which is sent at once; the size of later ones depends on timing. */
  first: string | null
}

async function run(...branches: Branch[]): Promise<Completion[][]> {
  const work = { organisation: 'test', prefix: [{ type: 'text', text: PROMPT, trusted: true } as const], branches }
  const generation = await engine.generate(work, new AbortController().signal)
  const results = branches.map(({ n }) =>
    Array.from({ length: n }, (): Completion => ({ text: '', reason: null, tokens: 0, first: null })),
  )
  for await (const event of generation.events) {
    if (event.type === 'error') throw event.error
    const completion = results[event.branch]![event.completion]!
    if (event.type === 'text') {
      completion.text += event.text
      completion.first ??= event.text
    } else Object.assign(completion, { reason: event.reason, tokens: event.completionTokens })
  }
  return results
}

async function complete(constraint: Constraint, fields: Partial<Branch> = {}): Promise<Completion> {
  return (await run(branch(constraint, fields)))[0]![0]!
}

function refusalOf(constraint: Constraint): Promise<unknown> {
  return run(branch(constraint)).then(
    () => null,
    (error) => error,
  )
}

const json = (schema: unknown): Constraint => ({ type: 'json_schema', schema, param: 'schema' })
const regex = (pattern: string): Constraint => ({ type: 'regex', pattern, param: 'regex' })
const valid = (schema: object, text: string) => new Ajv.default({ strict: false }).validate(schema, JSON.parse(text))

test.each([
  ['greedy', GREEDY],
  ['at temperature 1', WARM],
  ['among few tokens', { ...WARM, topK: 3, topP: 0.5 }],
  ['with penalties', { ...WARM, frequencyPenalty: 1, presencePenalty: 1 }],
])('a JSON schema holds, %s', async (_, sampling) => {
  const { text, reason } = await complete(json(detection), { sampling })
  expect(reason).toBe('stop')
  expect([text, valid(detection, text)]).toEqual([text, true])
})

test('length limits hold, even in the thousands, without a delay', async () => {
  const schema = {
    type: 'object',
    properties: {
      title: { type: 'string', minLength: 60, maxLength: 64 },
      id: { anyOf: [{ type: 'string', pattern: '^[a-f0-9]{40}$' }, { type: 'null' }] },
      tags: { type: 'array', items: { type: 'string', maxLength: 200 }, maxItems: 500 },
      text: { type: 'string', maxLength: 9000 },
    },
    required: ['title', 'id'],
  }
  const { text, reason } = await complete(json(schema), { maxTokens: 600 })
  if (reason === 'stop') expect([text, valid(schema, text)]).toEqual([text, true])
  else expect(text).toMatch(/^\{"title": "(?:[^"\\]|\\.){60,64}", "id": (?:null|"[a-f0-9]{40}")/u)
})

test('a pattern holds from end to end', async () => {
  const { text, reason } = await complete(regex('(?:yes|no), \\d{1,3} "> \\((?:\\d{1,4},){2}\\)'))
  expect(reason).toBe('stop')
  expect(text).toMatch(/^(?:yes|no), \d{1,3} "> \((?:\d{1,4},){2}\)$/)
})

test('forced text costs its tokens and nothing else', async () => {
  const forced = 'The quick brown fox: 漢字 🦊'
  const { text, reason, tokens } = await complete(regex(forced), { sampling: GREEDY })
  expect({ text, reason }).toEqual({ text: forced, reason: 'stop' })
  expect(tokens).toBeGreaterThan(0)
})

test('a constraint may allow only the empty text', async () => {
  expect(await complete(regex('()'))).toMatchObject({ text: '', reason: 'stop', tokens: 0 })
})

test('text is free up to a trigger, which only its tags may follow', async () => {
  const tag = (name: string) => ({
    begin: `<${name}>`,
    content: regex('\\d{1,3}') as Constraint & { type: 'regex' },
    end: `</${name}>`,
  })
  const { text, reason } = await complete({
    type: 'triggered_tags',
    triggers: ['<'],
    tags: [tag('x'), tag('y')],
    atLeastOne: true,
    stopAfterFirst: true,
  })
  expect(reason).toBe('stop')
  expect(text).toMatch(/^<([xy])>\d{1,3}<\/\1>$/)
})

test('maxTokens cuts a constrained text', async () => {
  const { text, reason, tokens } = await complete(json(detection), { maxTokens: 3 })
  expect({ reason, tokens }).toEqual({ reason: 'length', tokens: 3 })
  expect('{"label": "circle", "box": ['.startsWith(text) || '{"label": "square", "box": ['.startsWith(text)).toBe(true)
})

test('a constraint applies to each completion of its own branch, and to no other branch', async () => {
  const free = branch(null, { sampling: GREEDY, maxTokens: 12 })
  const { first: _, ...alone } = (await run(free))[0]![0]!
  const [before, digits, letters, after] = await run(
    free,
    // So hot that no model is sure of its digits.
    branch(regex('\\d{8}'), { n: 3, sampling: { ...GREEDY, temperature: 2 } }),
    branch(regex('[a-f]{8}'), { n: 2 }),
    free,
  )
  expect(before).toEqual([expect.objectContaining(alone)])
  expect(after).toEqual([expect.objectContaining(alone)])
  for (const { text } of digits!) expect(text).toMatch(/^\d{8}$/)
  for (const { text } of letters!) expect(text).toMatch(/^[a-f]{8}$/)
  expect(new Set(digits!.map(({ text }) => text)).size).toBeGreaterThan(1)
})

test('unsupported parts are rejected by name', async () => {
  expect(
    await refusalOf(json({ type: 'object', properties: { a: { pattern: '(a)\\1' } }, required: ['a'] })),
  ).toMatchObject({
    status: 400,
    code: 'invalid_response_format',
    param: 'schema.properties.a.pattern',
    message: expect.stringMatching(/not supported/),
  })
  expect(await refusalOf(regex('a(?=b)'))).toMatchObject({ status: 400, code: 'invalid_regex', param: 'regex' })
})

test('the engine serves requests while an expensive constraint is compiled', async () => {
  // Short, and rejected only when the automata have reached their limit.
  const password = { pattern: '^(?=.*a)(?=.*[b-d]{2})(?!.*x).{20,90}$', format: 'email' }
  const schema = { type: 'object', properties: { a: { type: 'string', ...password } }, required: ['a'] }
  const refused = refusalOf(json(schema))
  const free = (await run(branch(null, { maxTokens: 2 })))[0]![0]!
  expect(free.reason).not.toBeNull()
  expect(await refused).toMatchObject({
    status: 400,
    message: expect.stringMatching(/too many states|longer than 3 s/),
  })
  expect((await complete(regex('ok'))).text).toBe('ok')
})

test('text that a constraint forces is computed in one step, and counted', async () => {
  const forced = 'The circle is in the upper left corner, and the square is in the lower right: '
  const { text, tokens, first } = await complete(regex(`${forced}(yes|no)`))
  expect(text).toMatch(new RegExp(`^${forced}(yes|no)$`))
  expect(tokens).toBeGreaterThan(15)
  expect(first!.length).toBeGreaterThan(forced.length / 2)
  for (const maxTokens of [1, 2, 5, 9]) {
    const cut = await complete(regex(`${forced}(yes|no)`), { maxTokens })
    expect(cut).toMatchObject({ reason: 'length', tokens: maxTokens })
    expect(forced.startsWith(cut.text)).toBe(true)
  }
})

test('forced text may contain any characters', async () => {
  const schema = { type: 'object', properties: { 'größe "😀"': { const: 'naïve 東京\n' } }, required: ['größe "😀"'] }
  const { text } = await complete(json(schema))
  expect(JSON.parse(text)).toEqual({ 'größe "😀"': 'naïve 東京\n' })
})

test('repetitions that ruin a backtracking engine do no harm', async () => {
  const { text } = await complete(regex('(a+)+(a|aa)+b?'), { maxTokens: 30 })
  expect(text).toMatch(/^a+b?$/)
})

test('an abort while the constraint is compiled is no error', async () => {
  const controller = new AbortController()
  const work = { organisation: 'test', prefix: [{ type: 'text', text: PROMPT, trusted: true } as const] }
  // Long enough to be compiled on another thread.
  const pending = engine.generate({ ...work, branches: [branch(regex('ab?'.repeat(1000)))] }, controller.signal)
  controller.abort(new Error('gone'))
  await expect(pending).rejects.toThrow('gone')
  expect((await complete(regex('ok'))).text).toBe('ok')
})

const leaves = fc.constantFrom<object>(
  { type: 'boolean' },
  { type: 'integer', minimum: -50, maximum: 999 },
  { type: 'number', minimum: 0, maximum: 1 },
  { type: 'string', maxLength: 8 },
  { type: 'string', pattern: '^[A-Z][a-z]{1,6}$' },
  { enum: ['circle', 'red "square"', 3, null] },
  { type: ['string', 'null'], minLength: 1, maxLength: 3 },
)
const schemas = fc.letrec<{ any: object }>((tie) => ({
  any: fc.oneof(
    { maxDepth: 2 },
    leaves,
    fc.record({ type: fc.constant('array'), items: tie('any'), minItems: fc.nat(1), maxItems: fc.constant(3) }),
    fc
      .tuple(fc.dictionary(fc.constantFrom('a', 'label', 'é'), tie('any'), { minKeys: 1, maxKeys: 3 }), fc.boolean())
      .map(([properties, all]) => ({ type: 'object', properties, required: all ? Object.keys(properties) : [] })),
    fc.array(tie('any'), { minLength: 1, maxLength: 2 }).map((anyOf) => ({ anyOf })),
  ),
})).any

test('random texts of random schemas are valid', async () => {
  const drawn = fc.sample(schemas, { numRuns: 24, seed: 7 })
  const results = await run(...drawn.map((schema) => branch(json(schema), { maxTokens: 120 })))
  let finished = 0
  for (const [index, schema] of drawn.entries()) {
    const { text, reason } = results[index]![0]!
    if (reason !== 'stop') continue
    finished++
    expect([schema, text, valid(schema, text)]).toEqual([schema, text, true])
  }
  expect(finished).toBeGreaterThan(12)
})
