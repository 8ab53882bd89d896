/** Traces, as a collector receives them from a server with the shipped model, and from one in front of it. */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { LocalEngine } from '../src/inference/local/host/local-engine.ts'
import { startTextEngine } from '../src/inference/remote/start-text.ts'
import { openAiCard } from '../src/models/card.ts'
import { ID, KEY_ENV, writeOpenAiCard } from './support/openai/card.ts'
import { OtlpCollector, type ReceivedSpan } from './support/otlp-collector.ts'
import { jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'

const MODEL = 'service-mk1.5'
const CHAT = '/v1/chat/completions'
const SECRET = 'Oxymoron7'

let folder: string
let png: Buffer
let collector: OtlpCollector
let server: TestServer
let front: TestServer
let pictures: Server
/** Headers of the requests for pictures, in order. */
const fetches: NodeJS.Dict<string | string[]>[] = []

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lookout-traces-'))
  png = await readFile(new URL('../docs/pictures/shapes.png', import.meta.url))
  collector = await OtlpCollector.start()
  pictures = createServer((request, response) => {
    fetches.push(request.headers)
    if (request.url?.startsWith('/missing')) response.writeHead(404).end()
    else response.end(png)
  }).listen(0, '127.0.0.1')
  await once(pictures, 'listening')
  const traced = {
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_EXPORTER_OTLP_HEADERS: 'x-tenant=robots%20and%20co',
    OTEL_BSP_SCHEDULE_DELAY: '20',
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
  }
  server = await startTestServer({
    startEngine: (card, options) => LocalEngine.start(card, options),
    environment: { ...traced, LOOKOUT_MEDIA_HOSTS: pictureHost(), OTEL_SERVICE_NAME: 'back' },
  })
  process.env[KEY_ENV] = KEY
  front = await startTestServer({
    startEngine: (card, options) => startTextEngine(openAiCard(card), options),
    environment: {
      ...traced,
      OTEL_SERVICE_NAME: 'front',
      LOOKOUT_MODEL_CARD: await writeOpenAiCard(folder, [`${server.url}/v1`]),
    },
  })
})
afterAll(async () => {
  delete process.env[KEY_ENV]
  await front?.close()
  await server?.close()
  await collector?.close()
  pictures?.close()
  await rm(folder, { recursive: true })
})

const pictureHost = () => `127.0.0.1:${(pictures.address() as AddressInfo).port}`
const pictureAt = (path: string) => ({ type: 'image_url', image_url: { url: `http://${pictureHost()}${path}` } })
const inline = () => ({ type: 'image_url', image_url: { url: `data:image/png;base64,${png.toString('base64')}` } })
const text = (words: string) => ({ type: 'text', text: words })
const user = (...content: readonly object[]) => [{ role: 'user', content }]

/** The spans of a request from the time that they include its server's. */
const traceOf = (id: string, name: string) =>
  collector.trace(id, (spans) => spans.some((span) => span.name === name && span.kind === 'server'))

/** The tree of a trace as lines, each span below its parent, in order of their beginnings. */
function treeOf(spans: readonly ReceivedSpan[], parentId = '', depth = 0): string[] {
  return spans
    .filter((span) => span.parentId === parentId)
    .toSorted((a, b) => Number(a.start - b.start))
    .flatMap((span) => [`${'  '.repeat(depth)}${span.name}`, ...treeOf(spans, span.spanId, depth + 1)])
}

const named = (spans: readonly ReceivedSpan[], name: string) => spans.find((span) => span.name === name)!

function expectNothingSecret(spans: readonly ReceivedSpan[]): void {
  const told = JSON.stringify(spans, (_key, value) => (typeof value === 'bigint' ? String(value) : value))
  for (const secret of [SECRET, KEY, 'data:image', 'circle']) expect(told).not.toContain(secret)
}

describe('a chat with a picture', () => {
  test('has a span for each stage, with its counts, under the id of its response', async () => {
    const response = await server.post(CHAT, {
      model: MODEL,
      messages: user(pictureAt(`/shapes.png?signature=${SECRET}`), text(`${SECRET}: what is in this image?`)),
    })
    const { usage } = await jsonOf<{ usage: { prompt_tokens: number; completion_tokens: number } }>(response)
    const id = response.headers.get('x-trace-id')!
    const spans = await traceOf(id, `POST ${CHAT}`)
    expect(treeOf(spans)).toEqual([
      `POST ${CHAT}`,
      '  media.fetch',
      '  media.decode',
      '  engine.queue',
      '  engine.prefill',
      '    engine.encode',
      '  engine.decode',
    ])
    const [root] = spans.filter(({ parentId }) => parentId === '')
    expect(root).toMatchObject({ kind: 'server', hasError: false })
    expect(root!.attributes).toMatchObject({
      'http.request.method': 'POST',
      'http.route': CHAT,
      'url.path': CHAT,
      'http.response.status_code': 200,
      'lookout.request.id': id,
      'lookout.organisation': 'default',
      'gen_ai.operation.name': 'chat',
      'gen_ai.request.model': MODEL,
      'gen_ai.usage.input_tokens': usage.prompt_tokens,
      'gen_ai.usage.output_tokens': usage.completion_tokens,
      'gen_ai.response.finish_reasons': ['stop'],
    })
    expect(root!.resource).toMatchObject({ 'service.name': 'back', 'deployment.environment.name': 'test' })
    expect(collector.headers.at(-1)).toMatchObject({ 'x-tenant': 'robots and co' })
    const fetched = named(spans, 'media.fetch')
    expect(fetched).toMatchObject({ kind: 'client', attributes: { 'server.address': '127.0.0.1' } })
    expect(fetches.at(-1)?.traceparent).toBe(`00-${id}-${fetched.spanId}-01`)
    expect(named(spans, 'engine.prefill').attributes).toMatchObject({
      'gen_ai.usage.input_tokens': usage.prompt_tokens,
      'lookout.completions': 1,
    })
    expect(named(spans, 'engine.encode').attributes['lookout.encode.count']).toBeGreaterThan(0)
    expect(named(spans, 'engine.decode').attributes).toMatchObject({
      'gen_ai.usage.output_tokens': usage.completion_tokens,
      'gen_ai.response.finish_reasons': ['stop'],
    })
    for (const span of spans) expect(span.end).toBeGreaterThanOrEqual(span.start)
    // One stage follows the other.
    const stages = ['engine.queue', 'engine.prefill', 'engine.decode'].map((name) => named(spans, name))
    for (const [i, stage] of stages.slice(1).entries()) expect(stage.start).toBeGreaterThanOrEqual(stages[i]!.end - MS)
    expectNothingSecret(spans)
  })

  test('that cannot be fetched fails with the kind of its error', async () => {
    const response = await server.post(CHAT, {
      model: MODEL,
      messages: user(pictureAt(`/missing?signature=${SECRET}`), text('What is this?')),
    })
    expect(response.status).toBe(400)
    const spans = await traceOf(response.headers.get('x-trace-id')!, `POST ${CHAT}`)
    expect(treeOf(spans)).toEqual([`POST ${CHAT}`, '  media.fetch'])
    const { attributes, hasError } = named(spans, `POST ${CHAT}`)
    expect(attributes).toMatchObject({ 'http.response.status_code': 400, 'error.type': 'invalid_request_error' })
    // It is the client's mistake, not the server's.
    expect(hasError).toBe(false)
    expect(named(spans, 'media.fetch').attributes['error.type']).toBe('invalid_request_error')
    expectNothingSecret(spans)
  })
})

test('a multilook has its prompts counted', async () => {
  const response = await server.post(`${CHAT}/multilook`, {
    model: MODEL,
    context: user(inline()),
    prompts: ['How many squares?', 'Where is the heart?', 'What is it?'],
    n: 2,
    temperature: 1,
  })
  expect(response.status, await response.clone().text()).toBe(200)
  const spans = await traceOf(response.headers.get('x-trace-id')!, `POST ${CHAT}/multilook`)
  for (const name of ['engine.queue', 'engine.prefill', 'engine.decode']) expect(named(spans, name)).toBeDefined()
  const { attributes } = named(spans, 'engine.decode')
  expect(attributes).toMatchObject({ 'lookout.branches': 3, 'lookout.completions': 6 })
  expect(attributes['gen_ai.response.finish_reasons']).toHaveLength(6)
  expect(named(spans, `POST ${CHAT}/multilook`).attributes['gen_ai.operation.name']).toBe('multilook')
})

test.each([
  ['/v1/responses', { input: 'Hi' }, 'chat'],
  ['/v1/messages', { messages: user(text('Hi')), max_tokens: 9 }, 'chat'],
  ['/v1/completions', { prompt: 'Hi', max_tokens: 9 }, 'text_completion'],
])('%s is an operation that the conventions name', async (path, body, operation) => {
  const response = await server.post(path, { model: MODEL, ...body })
  const spans = await traceOf(response.headers.get('x-trace-id')!, `POST ${path}`)
  expect(named(spans, `POST ${path}`).attributes['gen_ai.operation.name']).toBe(operation)
})

test('a detection has its searches counted', async () => {
  const media = { type: 'image', image_url: inline().image_url.url }
  const response = await server.post('/v1/detect', { media, categories: ['circle', 'heart'] })
  expect(response.status, JSON.stringify(await response.clone().json())).toBe(200)
  const spans = await traceOf(response.headers.get('x-trace-id')!, 'POST /v1/detect')
  expect(named(spans, 'engine.prefill').attributes['lookout.branches']).toBe(2)
  expect(named(spans, 'POST /v1/detect').attributes['gen_ai.operation.name']).toBe('detect')
  expectNothingSecret(spans)
})

test('a client that leaves during a stream ends its spans', async () => {
  const leaving = new AbortController()
  const response = await fetch(server.url + CHAT, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: MODEL,
      stream: true,
      max_completion_tokens: 8000,
      messages: user(text('Say a b c.')),
      // It goes on until it is stopped.
      response_format: {
        type: 'json_schema',
        json_schema: {
          name: 'long',
          strict: true,
          schema: { type: 'array', minItems: 1000, items: { type: 'integer', minimum: 100000 } },
        },
      },
    }),
    signal: leaving.signal,
  })
  expect(response.status, response.ok ? '' : await response.text()).toBe(200)
  const id = response.headers.get('x-trace-id')!
  const reader = response.body!.getReader()
  // The role comes before the model has begun.
  for (let received = ''; !received.includes('"content":"['); ) received += Buffer.from((await reader.read()).value!)
  leaving.abort()
  const spans = await collector.trace(id, (spans) =>
    [`POST ${CHAT}`, 'engine.decode'].every((name) => spans.some((span) => span.name === name)),
  )
  const root = named(spans, `POST ${CHAT}`)
  expect(root).toMatchObject({ hasError: false, attributes: { 'error.type': 'ClientDisconnected' } })
  expect(root.attributes['gen_ai.response.finish_reasons']).toEqual(['aborted'])
  expect(named(spans, 'engine.decode')).toMatchObject({
    hasError: false,
    attributes: { 'error.type': 'ClientDisconnected' },
  })
  expect(named(spans, 'engine.decode').attributes['gen_ai.usage.output_tokens']).toBeGreaterThan(0)
})

describe('traceparent', () => {
  const TRACE = '0af7651916cd43dd8448eb211c80319c'
  const PARENT = 'b7ad6b7169203331'

  test('continues the trace of a client; the response has an id of its own, which the span names', async () => {
    const headers = { traceparent: `00-${TRACE}-${PARENT}-01`, tracestate: 'vendor=1' }
    const [first, second] = await Promise.all([
      server.get('/v1/models', headers),
      server.get(`/v1/models/${MODEL}`, headers),
    ])
    const spans = await collector.trace(TRACE, (spans) => spans.length === 2)
    const id = first.headers.get('x-trace-id')!
    expect(id).toMatch(/^[0-9a-f]{32}$/)
    expect(second.headers.get('x-trace-id')).not.toBe(id)
    expect(named(spans, 'GET /v1/models')).toMatchObject({
      parentId: PARENT,
      traceState: 'vendor=1',
      attributes: { 'lookout.request.id': id },
    })
    expect(named(spans, 'GET /v1/models/:model_id').parentId).toBe(PARENT)
    const line = server.logs.map((logged) => JSON.parse(logged)).find(({ traceId }) => traceId === id)
    expect(line).toMatchObject({ clientTraceId: TRACE })
  })

  test('the span has the id that the client gives its request', async () => {
    const response = await server.get('/v1/models', { 'x-request-id': 'order-7' })
    const spans = await traceOf(response.headers.get('x-trace-id')!, 'GET /v1/models')
    expect(named(spans, 'GET /v1/models').attributes).toMatchObject({ 'lookout.client_request.id': 'order-7' })
  })

  test('that is not sampled leaves no trace, and is passed on as not sampled', async () => {
    const trace = '1af7651916cd43dd8448eb211c80319c'
    const response = await server.post(
      CHAT,
      { model: MODEL, messages: user(pictureAt('/not-sampled.png'), text('What is this?')) },
      { traceparent: `00-${trace}-${PARENT}-00` },
    )
    expect(response.status).toBe(200)
    expect(fetches.at(-1)?.traceparent).toMatch(new RegExp(`^00-${trace}-[0-9a-f]{16}-00$`))
    const later = await server.get('/v1/models')
    await traceOf(later.headers.get('x-trace-id')!, 'GET /v1/models')
    expect(collector.spans.filter(({ traceId }) => traceId === trace)).toEqual([])
  })

  test.each(['', 'nonsense', `00-${'0'.repeat(32)}-${PARENT}-01`, `ff-${TRACE}-${PARENT}-01`])(
    'that is invalid is ignored: %j',
    async (traceparent) => {
      const response = await server.get('/v1/models', { traceparent })
      const spans = await traceOf(response.headers.get('x-trace-id')!, 'GET /v1/models')
      expect(named(spans, 'GET /v1/models').parentId).toBe('')
    },
  )

  test('is sent to the servers of a model, whose spans are in the same trace', async () => {
    const response = await front.post(CHAT, { model: ID, messages: user(inline(), text('What is in this image?')) })
    expect(response.status).toBe(200)
    // Each of the two sends its own.
    const spans = await collector.trace(response.headers.get('x-trace-id')!, (spans) =>
      ['front', 'back'].every((name) =>
        spans.some(({ kind, resource }) => kind === 'server' && resource['service.name'] === name),
      ),
    )
    const asked = spans.find(({ name, kind }) => name === 'POST' && kind === 'client')!
    expect(asked.attributes).toMatchObject({
      'server.address': '127.0.0.1',
      'server.port': Number(new URL(server.url).port),
    })
    const behind = spans.find((span) => span.parentId === asked.spanId)!
    expect(behind).toMatchObject({ name: `POST ${CHAT}`, kind: 'server' })
    expect(behind.resource['service.name']).toBe('back')
    expect(treeOf(spans, behind.spanId).map((line) => line.trim())).toContain('engine.prefill')
  })
})

test('without an endpoint, nothing of OpenTelemetry is loaded', async () => {
  const rooms = ['service', 'state', 'api/api', 'conversation/conversations', 'media/media-loader']
  const program = `
    const loaded = []
    require('node:module').registerHooks({ load: (url, context, next) => (loaded.push(url), next(url, context)) })
    Promise.all(${JSON.stringify(rooms)}.map((room) => import('./src/' + room + '.ts'))).then(() =>
      process.stdout.write(JSON.stringify(loaded), () => process.exit(0)))`
  const root = new URL('..', import.meta.url)
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', program], { cwd: root, maxBuffer: 2 ** 24 })
  const loaded: string[] = JSON.parse(stdout)
  expect(loaded.some((url) => url.includes('/fastify/'))).toBe(true)
  expect(loaded.filter((url) => /opentelemetry|src\/tracing/.test(url))).toEqual([])
})

test('who has no valid key leaves no trace', async () => {
  const response = await fetch(`${server.url}/v1/models`, { headers: { authorization: 'Bearer wrong' } })
  expect(response.status).toBe(401)
  const later = await server.get('/v1/models')
  await traceOf(later.headers.get('x-trace-id')!, 'GET /v1/models')
  expect(collector.spans.some(({ traceId }) => traceId === response.headers.get('x-trace-id'))).toBe(false)
})

describe('a collector', () => {
  const hello = { model: MODEL, messages: [{ role: 'user', content: 'Hello' }] }

  test('that cannot be reached costs no request, and is mentioned once', async () => {
    const gone = await OtlpCollector.start()
    const { url } = gone
    await gone.close()
    const alone = await startTestServer({
      environment: { OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_BSP_SCHEDULE_DELAY: '20' },
    })
    try {
      for (let i = 0; i < 3; i++) expect((await alone.post(CHAT, hello)).status).toBe(200)
    } finally {
      await alone.close()
    }
    const warnings = alone.logs.filter((line) => line.includes('Traces cannot be sent'))
    expect(warnings.length).toBeLessThanOrEqual(1)
  })

  test('that never answers does not hold up the end beyond its time', async () => {
    // The exporter itself waits far longer than the test.
    for (const name of ['OTEL_EXPORTER_OTLP_TIMEOUT', 'OTEL_BSP_EXPORT_TIMEOUT']) vi.stubEnv(name, '3600000')
    const silent = createServer(() => {}).listen(0, '127.0.0.1')
    await once(silent, 'listening')
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`
    const alone = await startTestServer({ environment: { OTEL_EXPORTER_OTLP_ENDPOINT: url } })
    try {
      expect((await alone.post(CHAT, hello)).status).toBe(200)
      await alone.close()
    } finally {
      silent.closeAllConnections()
      silent.close()
    }
  })

  test('gets the last spans when the server ends', async () => {
    const alone = await startTestServer({ environment: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url } })
    const response = await alone.post(CHAT, hello)
    const id = response.headers.get('x-trace-id')
    await response.text()
    await alone.close()
    expect(collector.spans.filter(({ traceId }) => traceId === id).map(({ name }) => name)).toContain(`POST ${CHAT}`)
  })

  test.each([
    [{ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, /OTEL_EXPORTER_OTLP_PROTOCOL is grpc; expected http\/protobuf/],
    [{ OTEL_TRACES_SAMPLER: 'sometimes' }, /OTEL_TRACES_SAMPLER is sometimes/],
    [{ OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '7' }, /OTEL_TRACES_SAMPLER_ARG is 7/],
    [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'collector:4317' }, /OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is not an http/],
  ])('that is asked for in another way than is known costs a warning: %j', async (variables, warning) => {
    const alone = await startTestServer({ environment: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...variables } })
    try {
      expect((await alone.post(CHAT, hello)).status).toBe(200)
      expect(alone.logs.join('')).toMatch(warning)
    } finally {
      await alone.close()
    }
  })

  test('is sent only the share of the traces that is asked for', async () => {
    const alone = await startTestServer({
      environment: {
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
        OTEL_TRACES_SAMPLER: 'traceidratio',
        OTEL_TRACES_SAMPLER_ARG: '0',
      },
    })
    const response = await alone.post(CHAT, hello)
    expect(response.status).toBe(200)
    await alone.close()
    expect(collector.spans.some(({ traceId }) => traceId === response.headers.get('x-trace-id'))).toBe(false)
  })
})

const MS = 1_000_000n
