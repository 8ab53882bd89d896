import { createConfig, lintFromString } from '@redocly/openapi-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type OpenApi, routesOf, type Schema } from './support/openapi.ts'
import { jsonOf, startTestServer, type TestServer } from './support/server.ts'

const chat = '/v1/chat/completions'
let server: TestServer
let routes: string[]
let text: string
let document: OpenApi
beforeAll(async () => {
  routes = await routesOf(async () => {
    server = await startTestServer({ environment: { LOOKOUT_OLLAMA: 'on' } })
  })
  text = await (await fetch(`${server.url}/openapi.json`)).text()
  document = JSON.parse(text) as OpenApi
})
afterAll(() => server?.close())

/** Pages, and what only they call. */
const PAGES = /^\w+ \/(studio|docs)(\/|$)/
/** What Ollama has and this server refuses. */
const REFUSED = /^\w+ \/api\/(pull|push|create|copy|delete|blobs\/\{digest\})$/

const operations = ({ paths }: OpenApi) =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, operation })),
  )

/** Every schema below a node, with its path. */
function* schemasIn(value: unknown, at: string): Generator<{ schema: Schema; at: string }, void, void> {
  if (typeof value !== 'object' || value === null) return
  if (!Array.isArray(value)) yield { schema: value as Schema, at }
  for (const [key, inner] of Object.entries(value)) yield* schemasIn(inner, `${at}/${key}`)
}

test('describes every path that the server has, and no other', () => {
  expect(document.openapi).toBe('3.1.0')
  expect(document.info.version).toBe('1.0.0')
  const described = operations(document).map(({ name }) => name)
  expect(described.toSorted()).toEqual(routes.filter((route) => !PAGES.test(route) && !REFUSED.test(route)))
  expect(described).toContain('POST /api/chat')
  expect(described).toContain('DELETE /v1/files/{file_id}')
})

test('has Ollama’s paths only where they are', async () => {
  const usual = await startTestServer()
  try {
    const { paths, components } = await jsonOf<OpenApi & Record<string, unknown>>(
      await fetch(`${usual.url}/openapi.json`),
    )
    expect(Object.keys(paths).filter((path) => path.startsWith('/api/'))).toEqual([])
    expect(Object.keys(components.schemas).filter((name) => name.startsWith('Ollama'))).toEqual([])
  } finally {
    await usual.close()
  }
})

test('is valid, in the judgement of Redocly', async () => {
  const config = await createConfig({
    extends: ['recommended-strict'],
    rules: {
      // `GET /healthz` has no error, and `POST /v1/responses/{response_id}/cancel` nothing else.
      'operation-2xx-response': 'off',
      'operation-4xx-response': 'off',
    },
  })
  const problems = await lintFromString({ source: text, absoluteRef: '/openapi.json', config })
  expect(problems.map(({ message, location: [place] }) => `${place?.pointer}: ${message}`)).toEqual([])
})

test('requests have the rules of the contract', () => {
  const { required, properties } = document.components.schemas.ChatCompletionRequest!
  expect(required).toEqual(['messages', 'model'])
  expect(properties!.temperature!.anyOf).toContainEqual({ type: 'number', format: 'double', minimum: 0, maximum: 2 })
  expect(document.components.schemas.ChatCompletionRequest).not.toHaveProperty('additionalProperties')
  expect(document.components.schemas.ChatCompletion!.required).toEqual([
    'id',
    'created',
    'model',
    'object',
    'choices',
    'usage',
  ])
})

describe('for client generators', () => {
  test('every object has a name, because they make a class of each', () => {
    const { schemas } = document.components
    expect(Object.keys(schemas)).toEqual(
      expect.arrayContaining(['TextPart', 'ImageUrlPart', 'SystemMessage', 'ToolCall']),
    )
    for (const [name, schema] of Object.entries(schemas)) {
      for (const { schema: inner, at } of schemasIn(schema, name)) {
        if (at === name || /\/(properties|mapping)$/.test(at)) continue
        expect(inner.type === 'object' || 'properties' in inner, at).toBe(false)
      }
    }
    for (const { name, operation } of operations(document)) {
      for (const { schema } of Object.values(operation.requestBody?.content ?? {})) {
        expect(Object.keys(schema), name).toEqual(['$ref'])
      }
    }
  })

  test('every union of objects has a name', () => {
    for (const [name, schema] of Object.entries(document.components.schemas)) {
      for (const { schema: inner, at } of schemasIn(schema, name)) {
        const members = (inner.oneOf ?? inner.anyOf ?? []).filter(({ $ref }) => $ref !== undefined)
        if (at !== name) expect(members.length, at).toBeLessThan(2)
      }
    }
  })

  test('no field has a default, which TypeScript would require and Go cannot write as an object', () => {
    const { schemas } = document.components
    for (const [name, { properties = {} }] of Object.entries(schemas)) {
      for (const [key, field] of Object.entries(properties))
        expect(field, `${name}.${key}`).not.toHaveProperty('default')
    }
    expect(schemas.WatchRequest!.properties!.fps!.description).toBe('Most looks per second. Default: `1`.')
    expect(schemas.WatchRequest!.required).toEqual(['model', 'source', 'questions'])
  })

  test('no list has a named map or null, for which Go has no type', () => {
    const { schemas } = document.components
    const isMap = ({ $ref = '' }: Schema) => {
      const { additionalProperties, properties } = schemas[$ref.split('/').at(-1)!] ?? {}
      return properties === undefined && typeof additionalProperties === 'object'
    }
    for (const [name, schema] of Object.entries(schemas)) {
      for (const { schema: inner, at } of schemasIn(schema, name)) {
        if (at.endsWith('/items')) expect((inner.anyOf ?? []).some(isMap), at).toBe(false)
      }
    }
  })

  test('no name is one that generators give: to a union of a field, or to every response', () => {
    const { schemas } = document.components
    for (const [name, { properties = {} }] of Object.entries(schemas)) {
      for (const [key, { anyOf = [] }] of Object.entries(properties)) {
        if (anyOf.filter(({ type }) => type !== 'null').length < 2) continue
        const given = name + key.replaceAll(/(?:^|_)(\w)/g, (_, first: string) => first.toUpperCase())
        expect(schemas, `${name}.${key}`).not.toHaveProperty(given)
      }
    }
    expect(schemas).not.toHaveProperty('Response')
  })

  test('unions of what has a type say which type is which', () => {
    const { schemas } = document.components
    expect(schemas.UserPart!.discriminator).toMatchObject({
      propertyName: 'type',
      mapping: { text: '#/components/schemas/TextPart', image_url: '#/components/schemas/ImageUrlPart' },
    })
    for (const [name, { oneOf, discriminator }] of Object.entries(schemas)) {
      // Messages may leave their type out there.
      if (oneOf !== undefined && !['ResponseItem', 'DecisionItem'].includes(name)) {
        expect(discriminator, name).toBeDefined()
      }
    }
  })

  test('every operation has a name of its own, a group and an id of the client', () => {
    const ids = operations(document).map(({ operation }) => operation.operationId)
    expect(new Set(ids).size).toBe(ids.length)
    for (const { name, operation } of operations(document)) {
      expect(operation, name).toMatchObject({ tags: [expect.any(String)] })
      expect(operation.parameters, name).toContainEqual({ $ref: '#/components/parameters/RequestId' })
    }
  })

  test('numbers say how large they are', () => {
    const { File, Model } = document.components.schemas
    expect(File!.properties!.bytes).toEqual({ type: 'integer', format: 'int64' })
    expect(Model!.properties!.created).toEqual({ type: 'integer', format: 'int64' })
  })

  test('the content of a file is bytes', () => {
    const { responses } = document.paths['/v1/files/{file_id}/content']!.get!
    for (const status of ['200', '206']) {
      for (const { schema } of Object.values(responses[status]!.content!)) {
        expect(schema).toEqual({ type: 'string', format: 'binary' })
      }
    }
  })
})

test('a field of a JSON body that may be left out may be null', () => {
  const { schemas } = document.components
  const bodies = operations(document).map(({ operation }) => operation.requestBody?.content['application/json'])
  const named = (schema: Schema) => schemas[(schema.$ref ?? '').split('/').at(-1)!] ?? schema
  const takesNull = (schema: Schema): boolean => {
    const { anyOf, oneOf, type, enum: values, const: value } = named(schema)
    const inner = anyOf ?? oneOf
    if (inner !== undefined) return inner.some(takesNull)
    return type === undefined ? values === undefined && value === undefined : [type].flat().includes('null')
  }
  const seen = new Set<Schema>()
  const strict: string[] = []
  const visit = (node: unknown) => {
    for (const { schema, at } of schemasIn(node, '')) {
      if (/\/properties$/.test(at)) continue
      const { properties = {}, required = [] } = schema
      for (const [name, field] of Object.entries(properties)) {
        if (!required.includes(name) && !takesNull(field)) strict.push(name)
      }
      const next = named(schema)
      if (next === schema || seen.has(next)) continue
      seen.add(next)
      visit(next)
    }
  }
  visit(bodies)
  expect(seen.size).toBeGreaterThan(100)
  // Any other value counts as left out there, null too.
  expect([...new Set(strict)]).toEqual(['detail'])
})

test('describes the headers of responses', () => {
  for (const { name, operation } of operations(document)) {
    for (const [status, { headers }] of Object.entries(operation.responses)) {
      expect(Object.keys(headers), name).toEqual(expect.arrayContaining(['x-trace-id', 'x-request-id']))
      expect('retry-after' in headers, name).toBe(/^(429|503|529)$/.test(status) && name !== 'GET /readyz')
    }
  }
  const { headers } = document.paths[chat]!.post!.responses['200']!
  expect(headers).toHaveProperty('x-ratelimit-remaining-requests')
})
