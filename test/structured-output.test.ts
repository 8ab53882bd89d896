import Ajv from 'ajv/dist/2020.js'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { errorOf, jsonOf, startTestServer, type TestServer } from './support/server.ts'
import { startShippedServer } from './support/shipped-model.ts'

const hello = { model: 'service-mk1.5', messages: [{ role: 'user', content: 'Hi' }] }
const schema = {
  $schema: 'http://json-schema.org/draft-07/schema#',
  type: 'object',
  properties: { label: { enum: ['circle', 'square'] }, count: { $ref: '#/definitions/count' } },
  required: ['label', 'count'],
  definitions: { count: { type: 'integer', minimum: 0, maximum: 20 } },
}
const format = (inner: unknown) => ({ type: 'json_schema', json_schema: { name: 'answer', schema: inner } })

interface Completion {
  choices: { message: { content: string }; finish_reason: string }[]
}

async function contentOf(response: Response): Promise<string> {
  expect(response.status).toBe(200)
  const { choices } = await jsonOf<Completion>(response)
  expect(choices[0]!.finish_reason).toBe('stop')
  return choices[0]!.message.content
}

let server: TestServer
const post = (fields: object) => server.post('/v1/chat/completions', { ...hello, ...fields })

describe('with a fake engine', () => {
  beforeAll(async () => {
    server = await startTestServer()
  })
  afterAll(() => server.close())
  afterEach(() => {
    server.engine.works.length = 0
    server.engine.script = {}
  })

  test('a schema constrains the engine', async () => {
    server.engine.script = { texts: ['{"label": "circle",', ' "count": 3}'] }
    expect(await contentOf(await post({ response_format: format(schema) }))).toBe('{"label": "circle", "count": 3}')
    expect(server.engine.works[0]!.branches[0]!.constraint).toEqual({
      type: 'json_schema',
      schema,
      param: 'response_format.json_schema.schema',
    })
  })

  test.each<[draft: string, schema: object, valid: string, invalid: string]>([
    ['bounds of draft 4', { id: 'a', type: 'number', minimum: 3, exclusiveMinimum: true }, '4', '3'],
    [
      'identifiers of draft 4',
      {
        $schema: 'http://json-schema.org/draft-04/schema#',
        id: 'http://example.com/a',
        properties: { a: { $ref: 'b' }, c: { $ref: 'http://example.com/a#/definitions/b' } },
        definitions: { b: { id: 'b', type: 'integer' } },
      },
      '{"a": 1, "c": 2}',
      '{"a": 1, "c": "2"}',
    ],
    [
      'items that an alternative describes',
      {
        type: 'array',
        anyOf: [{ items: { type: 'integer' } }, { prefixItems: [{ const: 1 }] }],
        unevaluatedItems: false,
      },
      '[6, 2]',
      '["6"]',
    ],
    [
      'tuples of draft 7',
      {
        items: [{ type: 'integer' }, { $ref: '#/items/0' }, { $ref: '#/additionalItems' }],
        additionalItems: { type: 'string' },
        type: 'array',
      },
      '[1, 2, "a"]',
      '[1, "a", "a"]',
    ],
    ['nullable of OpenAPI', { properties: { a: { type: 'string', nullable: true } } }, '{"a": null}', '{"a": 1}'],
    ['formats that are not known', { items: { type: 'string', format: 'semver' } }, '["a"]', '[1]'],
    ['formats of one validator', { items: { type: 'string', format: 'password' } }, '["a"]', '[1]'],
    [
      'what validators take for theirs',
      { $async: true, properties: { a: { type: 'null' } } },
      '{"a": null}',
      '{"a": 1}',
    ],
    ['anchors', { $ref: '#b', $defs: { b: { $anchor: 'b', type: 'integer' } } }, '1', '"a"'],
    ['names with signs', { $ref: '#/$defs/a~1b%25', $defs: { 'a/b%': { type: 'integer' } } }, '1', '"a"'],
  ])('%s are checked as the draft says', async (_, schema, valid, invalid) => {
    const response_format = format(schema)
    server.engine.script = { texts: [valid] }
    expect(await contentOf(await post({ response_format }))).toBe(valid)
    server.engine.script = { texts: [invalid] }
    expect((await post({ response_format })).status).toBe(500)
  })

  test('each pattern of a schema is checked, not only the first', async () => {
    const properties = { code: { type: 'string', pattern: '^[0-9]+$' }, link: { type: 'string', pattern: '^pkg:' } }
    const response_format = format({ type: 'object', properties })
    const text = '{"code": "12", "link": "pkg:npm"}'
    server.engine.script = { texts: [text] }
    expect(await contentOf(await post({ response_format }))).toBe(text)
    server.engine.script = { texts: ['{"code": "12", "link": "34"}'] }
    const response = await post({ response_format })
    expect([response.status, (await errorOf(response)).code]).toEqual([500, 'output_validation_failed'])
  })

  test.each([
    [{ name: 'answer' }, {}],
    [{ name: 'answer', strict: null, schema: null }, {}],
    [{ name: 'answer', strict: true, schema: {} }, {}],
    [{ name: 'answer', schema: true }, true],
  ])('%j allows any JSON, and nothing else', async (json_schema, schema) => {
    const response_format = { type: 'json_schema', json_schema }
    for (const text of ['[1, "a", null]', '"yes"', '{}']) {
      server.engine.script = { texts: [text] }
      expect(await contentOf(await post({ response_format }))).toBe(text)
    }
    const param = 'response_format.json_schema.schema'
    expect(server.engine.works[0]!.branches[0]!.constraint).toEqual({ type: 'json_schema', schema, param })
    server.engine.script = { texts: ['yes'] }
    const broken = await post({ response_format })
    expect([broken.status, (await errorOf(broken)).code]).toEqual([500, 'output_validation_failed'])
  })

  test('the schema follows the question in the shipped model’s prompt, and its tokens count', async () => {
    server.engine.script = { texts: ['{"label": "circle", "count": 3}'] }
    const response = await post({ response_format: format(schema) })
    const said = server.engine.works[0]!.prefix.map((part) => (part.type === 'text' ? part.text : '')).join('')
    expect(said).toContain(`Hi\nAnswer as JSON with this schema: ${JSON.stringify(schema)}<|im_end|>`)
    const { usage } = await jsonOf<{ usage: { prompt_tokens: number } }>(response)
    const plain = await jsonOf<{ usage: { prompt_tokens: number } }>(await post({}))
    expect(usage.prompt_tokens).toBeGreaterThan(plain.usage.prompt_tokens)
  })

  test('a regex constrains the engine, and may be combined with tools: []', async () => {
    server.engine.script = { texts: ['12'] }
    expect(await contentOf(await post({ regex: '\\d+', tools: [] }))).toBe('12')
    expect(server.engine.works[0]!.branches[0]!.constraint).toEqual({ type: 'regex', pattern: '\\d+', param: 'regex' })
  })

  test('response_format text sets no constraint', async () => {
    await contentOf(await post({ response_format: { type: 'text' } }))
    expect(server.engine.works[0]!.branches[0]!.constraint).toBeUndefined()
  })

  test.each([
    ['response_format', { response_format: format(schema) }, '{"label": "circle", "count": 21}'],
    ['response_format', { response_format: format(schema) }, '{"label": '],
    ['regex', { regex: '\\d+' }, '12a'],
    // A backtracking matcher would not terminate.
    ['regex', { regex: '(a+)+b|x' }, 'a'.repeat(60)],
  ])('a text that violates %s is an error', async (param, fields, text) => {
    server.engine.script = { texts: [text] }
    const response = await post(fields)
    expect(response.status).toBe(500)
    expect(await errorOf(response)).toMatchObject({ type: 'server_error', code: 'output_validation_failed', param })

    const stream = await (await post({ ...fields, stream: true })).text()
    const events = stream.split('\n\n').filter((event) => event.startsWith('data: '))
    expect(JSON.parse(events.at(-1)!.slice(6))).toMatchObject({ error: { code: 'output_validation_failed', param } })
    expect(stream).not.toContain('"finish_reason":"stop"')
  })

  test('a pattern of a schema is searched for in the text', async () => {
    const place = format({ type: 'object', properties: { place: { type: 'string', pattern: '^[A-Z]' } } })
    server.engine.script = { texts: ['{"place": "Paris"}'] }
    expect(await contentOf(await post({ response_format: place }))).toBe('{"place": "Paris"}')
    server.engine.script = { texts: ['{"place": "in Paris"}'] }
    expect(await errorOf(await post({ response_format: place }))).toMatchObject({ code: 'output_validation_failed' })
  })

  test('a truncated text is not checked', async () => {
    server.engine.script = { texts: ['{"label": '], reason: 'length' }
    const response = await post({ response_format: format(schema) })
    expect((await jsonOf<Completion>(response)).choices[0]!.finish_reason).toBe('length')
  })

  test('a schema nested too deeply never reaches the engine', async () => {
    const deep = `${'{"type":"array","items":'.repeat(5_000)}{}${'}'.repeat(5_000)}`
    const body = JSON.stringify({ ...hello, response_format: format('DEEP') }).replace('"DEEP"', deep)
    const response = await server.post('/v1/chat/completions', body)
    expect(response.status).toBe(400)
    expect(await errorOf(response)).toMatchObject({ code: 'invalid_response_format' })
    expect(server.engine.works).toHaveLength(0)
  })

  test('neither can be combined with tools', async () => {
    const tools = [{ type: 'function', function: { name: 'f' } }]
    expect((await post({ tools, regex: 'a' })).status).toBe(400)
    expect((await post({ tools, response_format: format(schema) })).status).toBe(400)
  })

  test('models list what they support', async () => {
    const { data } = await jsonOf<{ data: unknown[] }>(await server.get('/v1/models?extended=true'))
    expect(JSON.stringify(data)).toContain('response_format_json_schema')
  })
})

describe('with the built-in model', () => {
  beforeAll(async () => {
    server = await startShippedServer()
  })
  afterAll(() => server.close())

  test.each([0, 1])('a schema holds at temperature %i', async (temperature) => {
    const content = await contentOf(await post({ response_format: format(schema), temperature }))
    const { $schema: _, ...plain } = schema
    expect(new Ajv.default().validate(plain, JSON.parse(content))).toBe(true)
  })

  test.each([0, 1])('without a schema, the reply is JSON at temperature %i', async (temperature) => {
    const response_format = { type: 'json_schema', json_schema: { name: 'answer' } }
    const response = await post({ response_format, temperature, max_completion_tokens: 2000 })
    const { choices } = await jsonOf<Completion>(response)
    const [{ message, finish_reason }] = choices as [Completion['choices'][0]]
    // What the model has to say may be longer; only its end is missing then.
    if (finish_reason === 'stop') expect(() => JSON.parse(message.content)).not.toThrow()
    expect(message.content).toMatch(/^\s*(["{[\-\dtfn]|$)/)
  })

  test('a regex holds, also in a stream', async () => {
    expect(await contentOf(await post({ regex: '(?:yes|no)!{1,3}' }))).toMatch(/^(yes|no)!{1,3}$/)
    const stream = await (await post({ regex: '\\d{4}', stream: true })).text()
    const text = stream
      .split('\n')
      .filter((line) => line.startsWith('data: {'))
      .map((line) => JSON.parse(line.slice(6)).choices[0].delta.content ?? '')
      .join('')
    expect(text).toMatch(/^\d{4}$/)
    expect(stream.trimEnd().endsWith('data: [DONE]')).toBe(true)
  })

  test.each([
    [{ type: 'string', not: {} }, '.not', /'not'/],
    [{ type: 'string', minLength: 1e9 }, '.minLength', /10000/],
    [{ type: 'strong' }, '.type', /expected one or more of/],
    [{ properties: 5 }, '.properties', /expected an object of schemas/],
  ])('%j is rejected before generation', async (bad, path, message) => {
    for (const stream of [false, true]) {
      const response = await post({ response_format: format(bad), stream })
      expect(response.status).toBe(400)
      expect(await errorOf(response)).toEqual({
        type: 'invalid_request_error',
        code: 'invalid_response_format',
        param: `response_format.json_schema.schema${path}`,
        message: expect.stringMatching(message),
      })
    }
  })

  test('an invalid or non-regular pattern is rejected', async () => {
    for (const regex of ['(a', 'a(?!b)', '(a)\\1', '(a{9999}){9999}']) {
      const response = await post({ regex })
      expect(response.status).toBe(400)
      expect(await errorOf(response)).toMatchObject({ code: 'invalid_regex', param: 'regex' })
    }
    expect(await contentOf(await post({ regex: 'ok' }))).toBe('ok')
  })
})
