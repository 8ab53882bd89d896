import { afterAll, beforeAll, expect, test } from 'vitest'
import { jsonOf, startTestServer, type TestServer } from './support/server.ts'

interface Schema {
  readonly [keyword: string]: unknown
}

interface Answer {
  readonly headers: Readonly<Record<string, { readonly $ref: string }>>
  readonly content: Readonly<Record<string, { readonly schema: Schema }>>
}

interface Operation {
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: Schema }>> }
  readonly responses: Readonly<Record<string, Answer>>
}

interface OpenApi {
  readonly openapi: string
  readonly info: { readonly version: string }
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema & { properties: Record<string, { anyOf: Schema[] }> }>>
    readonly headers: Readonly<Record<string, unknown>>
  }
}

const chat = '/v1/chat/completions'
let server: TestServer
let document: OpenApi
beforeAll(async () => {
  server = await startTestServer()
  document = await jsonOf<OpenApi & Record<string, unknown>>(await fetch(`${server.url}/openapi.json`))
})
afterAll(() => server?.close())

/** Every schema below a node, with its path. */
function* schemasIn(value: unknown, at: string): Generator<{ schema: Schema; at: string }, void, void> {
  if (typeof value !== 'object' || value === null) return
  if (!Array.isArray(value)) yield { schema: value as Schema, at }
  for (const [key, inner] of Object.entries(value)) yield* schemasIn(inner, `${at}/${key}`)
}

test('describes every path, and resolves every reference', () => {
  expect(document.openapi).toBe('3.1.0')
  expect(document.info.version).toBe('1.0.0')
  expect(document.paths[chat]!.post!.responses).toHaveProperty('403')
  expect(Object.keys(document.paths)).toEqual([
    chat,
    `${chat}/input_tokens`,
    `${chat}/multilook`,
    `${chat}/multilook/input_tokens`,
    '/v1/responses',
    '/v1/responses/input_tokens',
    '/v1/responses/{response_id}',
    '/v1/responses/{response_id}/input_items',
    '/v1/responses/{response_id}/cancel',
    '/v1/detect',
    '/v1/decisions',
    '/v1/systemone',
    '/typesafe/v1/systemone',
    '/typesafe/v1/models',
    '/v1/messages',
    '/v1/messages/count_tokens',
    '/v1/models',
    '/v1/models/{model_id}',
    '/v1/models/pull',
    '/v1/files',
    '/v1/files/{file_id}',
    '/v1/files/{file_id}/content',
    '/v1/batches',
    '/v1/batches/{batch_id}',
    '/v1/batches/{batch_id}/cancel',
    '/v1/server',
  ])
  const references = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]*)"/g)].map((match) => match[1]!)
  expect(references.length).toBeGreaterThan(10)
  for (const reference of references) {
    const [, kind, name] = /^#\/components\/(schemas|headers)\/(\w+)$/.exec(reference) ?? []
    expect(document.components).toHaveProperty([kind!, name!])
  }
  const request = document.components.schemas.ChatCompletionRequest!
  expect(request.required).toEqual(['messages', 'model'])
  expect(request.properties.temperature!.anyOf[0]).toEqual({ type: 'number', minimum: 0, maximum: 2 })
  expect(request).not.toHaveProperty('additionalProperties')
  expect(document.components.schemas.ChatCompletion!.required).toEqual([
    'id',
    'created',
    'model',
    'object',
    'choices',
    'usage',
  ])
})

test('every object has a name, because client generators make a class of each', () => {
  const { schemas } = document.components
  expect(Object.keys(schemas)).toEqual(
    expect.arrayContaining(['TextPart', 'ImageUrlPart', 'SystemMessage', 'ToolCall']),
  )
  for (const [name, schema] of Object.entries(schemas)) {
    for (const { schema: inner, at } of schemasIn(schema, name)) {
      if (at === name || /\/properties$/.test(at)) continue
      expect(inner.type === 'object' || 'properties' in inner, at).toBe(false)
    }
  }
  for (const [path, operations] of Object.entries(document.paths)) {
    for (const { requestBody } of Object.values(operations)) {
      for (const { schema } of Object.values(requestBody?.content ?? {})) {
        expect(Object.keys(schema), path).toEqual(['$ref'])
      }
    }
  }
})

test('describes the headers of responses', () => {
  for (const { responses } of Object.values(document.paths).flatMap((operations) => Object.values(operations))) {
    for (const [status, { headers }] of Object.entries(responses)) {
      expect(Object.keys(headers)).toEqual(
        expect.arrayContaining(['x-trace-id', 'x-request-id', 'x-ratelimit-remaining-requests']),
      )
      expect('retry-after' in headers).toBe(status === '429' || status === '503')
    }
  }
})

test('describes the content of a file as bytes', () => {
  const { responses } = document.paths['/v1/files/{file_id}/content']!.get!
  for (const status of ['200', '206']) {
    for (const { schema } of Object.values(responses[status]!.content)) {
      expect(schema).toEqual({ type: 'string', format: 'binary' })
    }
  }
})
