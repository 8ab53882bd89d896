import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { encodeCameraVideo, plainImage } from './support/camera-video.ts'
import { FakeEngine } from './support/fake-engine.ts'
import { type FakeHub, startFakeHub } from './support/fake-hub.ts'
import type { OpenApi, Operation, Schema } from './support/openapi.ts'
import { RtspCamera } from './support/rtsp-camera.ts'
import { jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'
import { makeAudio } from './support/video.ts'

/** What the server answers is what `openapi.json` says: status, headers, type and body, of every operation. */
const MODEL = 'service-mk1.5'
const REPOSITORY = 'acme/nano-GGUF'
/** Headers of HTTP, of browsers' security, and of caches. */
const USUAL_HEADERS =
  /^(date|connection|keep-alive|transfer-encoding|vary|cache-control|content-(type|length|security-policy)|x-(content-type-options|frame-options|accel-buffering)|referrer-policy)$/

let hub: FakeHub
let home: string
let server: TestServer
let document: OpenApi
let validator: Ajv2020
let picture: string
let fileId: string
let batchId: string
let responseId: string
let watchId: string

beforeAll(async () => {
  hub = await startFakeHub()
  hub.repositories.set(
    REPOSITORY,
    new Map([['nano-Q4_K_M.gguf', await readFile('models/lookout-nano/model-f16.gguf')]]),
  )
  home = await mkdtemp(join(tmpdir(), 'lookout-openapi-'))
  picture = `data:image/png;base64,${(await readFile('docs/pictures/shapes.png')).toString('base64')}`
  for (const [id, capability] of [
    ['vectors', 'embeddings'],
    ['scores', 'rerank'],
  ] as const) {
    await mkdir(join(home, 'cards', id), { recursive: true })
    const behind = { type: 'openai', urls: ['http://127.0.0.1:9'], model: id, contextTokens: 512 }
    const card = { serves: [{ id, capabilities: [capability] }], engine: behind, embedding: {} }
    await writeFile(join(home, 'cards', id, 'card.json'), JSON.stringify(card))
  }
  const { video: _, ...nano } = JSON.parse(await readFile('models/lookout-nano/card.json', 'utf8'))
  const hears = { modalities: ['text', 'audio'], outputFormats: ['text'], capabilities: [], reasoning: false }
  const serves = [{ ...nano.serves[0], ...hears, id: 'translates', aliases: [] }]
  await mkdir(join(home, 'cards/translates'))
  await writeFile(join(home, 'cards/translates/card.json'), JSON.stringify({ ...nano, family: 'ultravox', serves }))
  const engine = new FakeEngine()
  server = await startTestServer({
    engine,
    // The model that is pulled has an engine of its own, which its examination closes in the end.
    startEngine: async ({ serves }) => (serves.some(({ id }) => id.startsWith(REPOSITORY)) ? new FakeEngine() : engine),
    environment: {
      LOOKOUT_OLLAMA: 'on',
      LOOKOUT_RATE_LIMITS: 'on',
      LOOKOUT_WATCHES: '40',
      LOOKOUT_CAMERA_HOSTS: '127.0.0.1',
      LOOKOUT_MODELS: `models/lookout-nano,${join(home, 'cards')}`,
    },
  })
  document = await jsonOf<OpenApi & Record<string, unknown>>(await fetch(`${server.url}/openapi.json`))
  validator = new Ajv2020({ strict: false, allErrors: true })
  addFormats.default(validator)
  validator.addSchema(document, 'openapi.json')
  fileId = await idOf(upload('vision', await readFile('docs/pictures/shapes.png'), 'shapes.png'))
  const line = { custom_id: 'one', method: 'POST', url: '/v1/chat/completions', body: chat }
  const input = await idOf(upload('batch', Buffer.from(`${JSON.stringify(line)}\n`), 'lines.jsonl'))
  batchId = await idOf(
    server.post('/v1/batches', { input_file_id: input, endpoint: line.url, completion_window: '24h' }),
  )
  responseId = await idOf(server.post('/v1/responses', { model: MODEL, input: 'Hi' }))
  watchId = await newWatch()
})
afterAll(async () => {
  await server?.close()
  await hub?.[Symbol.asyncDispose]()
  if (home) await rm(home, { recursive: true })
})

beforeEach(() => {
  vi.stubEnv('HF_ENDPOINT', hub.url)
  vi.stubEnv('HF_HOME', home)
})

const messages = [{ role: 'user', content: 'Hi' }]
const chat = { model: MODEL, messages }
const multilook = { model: MODEL, context: [], prompts: ['One?', 'Two?'] }
const questions = [
  { type: 'predicate', instructions: 'Is it red?' },
  { type: 'choice', instructions: 'Which?', choices: [{ value: 'a' }, { value: true }], name: 'which' },
  { type: 'score', instructions: 'How good?', levels: [{ label: 'bad' }, { label: 'good' }] },
]
const named = {
  red: { type: 'noul', instructions: 'Is it red?' },
  which: { type: 'choice', criteria: { a: 'One', b: null } },
  good: { type: 'score', criteria: ['bad', 'good'] },
}

async function upload(purpose: string, bytes: Buffer, name: string): Promise<Response> {
  const form = new FormData()
  form.set('purpose', purpose)
  form.set('file', new File([new Uint8Array(bytes)], name, { type: name.endsWith('.png') ? 'image/png' : '' }))
  // A form of which the length is known.
  const { body, type } = await encoded(form)
  return fetch(`${server.url}/v1/files`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': type },
    body,
  })
}

async function transcribed(fields: Readonly<Record<string, string>>, task = 'transcriptions'): Promise<Response> {
  const form = new FormData()
  const model = task === 'translations' ? 'translates' : MODEL
  for (const [name, value] of Object.entries({ model, ...fields })) form.set(name, value)
  const sound = await makeAudio({ format: 'wav', samples: new Float32Array(16_000), rate: 16_000 })
  form.set('file', new File([new Uint8Array(sound)], 'speech.wav'))
  const headers = { authorization: `Bearer ${KEY}` }
  return fetch(`${server.url}/v1/audio/${task}`, { method: 'POST', headers, body: form })
}

async function encoded(form: FormData): Promise<{ readonly body: Uint8Array<ArrayBuffer>; readonly type: string }> {
  const response = new Response(form)
  return { body: new Uint8Array(await response.arrayBuffer()), type: response.headers.get('content-type')! }
}

async function idOf(answer: Promise<Response>, status = 200): Promise<string> {
  const response = await answer
  expect(response.status, await response.clone().text()).toBe(status)
  return (await jsonOf<{ id: string }>(response)).id
}

const standing = {
  name: 'lamp',
  type: 'predicate',
  instructions: 'Is it on?',
  event: { above: 0.4, below: 0.1, for_seconds: 0 },
}
// A look may take as long as there is between two frames.
const watch = { model: MODEL, source: { type: 'push' }, fps: 0.05, questions: [standing] }

async function newWatch(): Promise<string> {
  return (await jsonOf<{ id: string }>(await server.post('/v1/watches', watch))).id
}

async function pushed(id: string, query: string, bytes?: Buffer): Promise<Response> {
  const frame = bytes ?? (await readFile('docs/pictures/shapes.png'))
  return server.post(`/v1/watches/${id}/frames${query}`, new Uint8Array(frame), { 'content-type': 'image/png' })
}

async function startEvent(id: string): Promise<void> {
  // By default, all replies together are not likely enough to count.
  server.engine.script = { read: ({ replies }) => replies.map(() => Math.log(0.9 / replies.length)) }
  // On a busy machine, looks come too late.
  await expect.poll(async () => (await pushed(id, '?wait=true')).status, { interval: 50 }).toBe(200)
  server.engine.script = {}
}

async function eventFrame(): Promise<Response> {
  const id = await newWatch()
  await startEvent(id)
  return server.get(`/v1/watches/${id}/events/1/frame`)
}

async function eventClip(): Promise<Response> {
  const frames = [plainImage(64, 64, [220, 30, 30])]
  await using camera = await RtspCamera.start(encodeCameraVideo({ codec: 'h264', frames, interval: 1 }))
  server.engine.script = { read: ({ replies }) => replies.map(() => Math.log(0.9 / replies.length)) }
  const source = { type: 'rtsp', url: camera.url }
  const id = await idOf(server.post('/v1/watches', { ...watch, source, fps: 1, record: { after_seconds: 0.1 } }), 201)
  const clip = () => server.get(`/v1/watches/${id}/events/1/clip`)
  await expect.poll(async () => (await clip()).status, { interval: 50 }).toBe(200)
  server.engine.script = {}
  const response = await clip()
  await remove(id)
  return response
}

/** All events of a watch, which ends when it is deleted. */
async function streamed(): Promise<Response> {
  const id = await newWatch()
  const stream = await server.get(`/v1/watches/${id}/stream?looks=true`)
  await startEvent(id)
  // It must have been sent before the watch is gone.
  const [mine, theirs] = stream.body!.tee()
  const reader = mine.getReader()
  for (let text = ''; !text.includes('watch.event.started'); ) text += Buffer.from((await reader.read()).value!)
  await remove(id)
  return new Response(theirs, stream)
}

const remove = (id: string) =>
  fetch(`${server.url}/v1/watches/${id}`, { method: 'DELETE', headers: { authorization: `Bearer ${KEY}` } })

interface Call {
  readonly status: number
  readonly body?: unknown
  readonly query?: string
  readonly id?: () => string
  readonly headers?: Readonly<Record<string, string>>
  /** Instead of a JSON body. */
  readonly send?: () => Promise<Response>
}

const events = { accept: 'text/event-stream' }
const anthropic = { 'anthropic-version': '2023-06-01' }
const png = async () => upload('vision', await readFile('docs/pictures/shapes.png'), 'shapes.png')

/** What each operation is asked. Those that a test has used up come last. */
const CALLS: Readonly<Record<string, readonly Call[]>> = {
  createChatCompletion: [
    { status: 200, body: { ...chat, logprobs: true, top_logprobs: 2 } },
    { status: 200, body: { ...chat, stream: true, stream_options: { include_usage: true } } },
    { status: 400, body: { ...chat, temperature: 3 } },
  ],
  countChatInputTokens: [
    { status: 200, body: chat },
    { status: 400, body: {} },
  ],
  createMultilook: [
    { status: 200, body: multilook },
    { status: 200, body: multilook, headers: events },
    { status: 400, body: { ...multilook, n: 9 } },
  ],
  countMultilookInputTokens: [
    { status: 200, body: multilook },
    { status: 400, body: {} },
  ],
  createResponse: [
    { status: 200, body: { model: MODEL, input: 'Hi' } },
    { status: 200, body: { model: MODEL, input: 'Hi', stream: true } },
    { status: 400, body: { model: MODEL } },
  ],
  countResponseInputTokens: [
    { status: 200, body: { model: MODEL, input: 'Hi' } },
    { status: 400, body: {} },
  ],
  retrieveResponse: [
    { status: 200, id: () => responseId },
    { status: 404, id: () => 'resp_none' },
  ],
  listResponseInputItems: [
    { status: 200, id: () => responseId },
    { status: 400, id: () => responseId, query: '?limit=0' },
  ],
  cancelResponse: [{ status: 400, id: () => responseId }],
  detect: [
    { status: 200, body: { media: { type: 'image', image_url: 'PICTURE' }, categories: ['lamp'] } },
    { status: 200, body: { media: { type: 'image', image_url: 'PICTURE' }, config: { tiles: [2, 1] } } },
    { status: 400, body: {} },
  ],
  countDetectInputTokens: [
    { status: 200, body: { media: { type: 'image', image_url: 'PICTURE' }, config: { tiles: 'auto' } } },
    { status: 400, body: {} },
  ],
  createCompletion: [
    { status: 200, body: { model: MODEL, prompt: 'Once', logprobs: 1 } },
    { status: 200, body: { model: MODEL, prompt: ['Once', 'Twice'], n: 2, stream: true } },
    { status: 400, body: {} },
  ],
  createTranscription: [
    { status: 200, send: () => transcribed({}) },
    { status: 200, send: () => transcribed({ response_format: 'text' }) },
    { status: 200, send: () => transcribed({ stream: 'true' }) },
    { status: 400, send: () => transcribed({ response_format: 'srt' }) },
  ],
  createTranslation: [
    { status: 200, send: () => transcribed({}, 'translations') },
    { status: 200, send: () => transcribed({ response_format: 'text' }, 'translations') },
    { status: 200, send: () => transcribed({ stream: 'true' }, 'translations') },
    { status: 400, send: () => transcribed({ response_format: 'srt' }, 'translations') },
  ],
  createDecision: [
    { status: 200, body: { model: MODEL, input: 'A story.', questions } },
    { status: 400, body: {} },
  ],
  createEmbedding: [
    { status: 200, body: { model: 'vectors', input: ['A story.', 'Another.'] } },
    { status: 200, body: { model: 'vectors', input: 'A story.', encoding_format: 'base64' } },
    { status: 400, body: {} },
  ],
  createRerank: [
    { status: 200, body: { model: 'scores', query: 'Who?', documents: ['A story.'], return_documents: true } },
    { status: 400, body: {} },
  ],
  createOllamaEmbeddings: [
    { status: 200, body: { model: 'vectors', input: ['A story.'] } },
    { status: 200, body: { model: 'vectors' } },
    { status: 400, body: { model: MODEL, input: 'A story.' } },
  ],
  createOllamaEmbedding: [
    { status: 200, body: { model: 'vectors', prompt: 'A story.' } },
    { status: 404, body: { model: 'none', prompt: 'A story.' } },
  ],
  createRerankV2: [{ status: 200, body: { model: 'scores', query: 'Who?', documents: ['A story.'] } }],
  createRerankAtRoot: [{ status: 200, body: { model: 'scores', query: 'Who?', documents: [{ text: 'A story.' }] } }],
  readDocument: [
    { status: 200, body: { model: MODEL, document: { type: 'image_url', image_url: 'PICTURE' } } },
    { status: 400, body: { model: MODEL, document: { type: 'image_url', image_url: 'PICTURE' }, pages: [1] } },
  ],
  createSystemOne: [
    { status: 200, body: { model: MODEL, state: 'A story.', questions: named } },
    { status: 422, body: {} },
  ],
  createSystemOneBelowPrefix: [{ status: 200, body: { model: MODEL, state: { any: 'thing' }, questions: named } }],
  listSystemOneModels: [{ status: 200 }],
  createMessage: [
    { status: 200, body: { ...chat, max_tokens: 9 } },
    { status: 200, body: { ...chat, max_tokens: 9, stream: true } },
    { status: 404, body: { ...chat, model: 'none', max_tokens: 9 } },
  ],
  countMessageTokens: [
    { status: 200, body: chat },
    { status: 400, body: {} },
  ],
  listModels: [
    { status: 200 },
    { status: 200, query: '?extended=true' },
    { status: 200, headers: anthropic },
    { status: 400, query: '?extended=maybe' },
    { status: 400, query: '?limit=0', headers: anthropic },
  ],
  retrieveModel: [
    { status: 200, id: () => MODEL },
    { status: 200, id: () => MODEL, query: '?extended=true' },
    { status: 200, id: () => MODEL, headers: anthropic },
    { status: 404, id: () => 'none' },
    { status: 404, id: () => 'none', headers: anthropic },
  ],
  listCatalogue: [{ status: 200 }, { status: 200, headers: anthropic }],
  pullModel: [
    { status: 200, body: { model: `${REPOSITORY}:Q4_K_M`, projector: 'none' } },
    { status: 400, body: { model: 'nobody/nothing:Q4_K_M' } },
  ],
  examineModel: [
    { status: 200, id: () => encodeURIComponent(`${REPOSITORY}:Q4_K_M`) },
    { status: 400, id: () => MODEL },
    { status: 404, id: () => 'none' },
  ],
  skipExamination: [
    { status: 200, id: () => encodeURIComponent(`${REPOSITORY}:Q4_K_M`) },
    { status: 400, id: () => MODEL },
    { status: 404, id: () => 'none' },
  ],
  deleteModel: [
    { status: 200, id: () => encodeURIComponent(`${REPOSITORY}:Q4_K_M`) },
    { status: 400, id: () => MODEL },
    { status: 404, id: () => 'none' },
  ],
  createFile: [
    { status: 200, send: png },
    { status: 400, send: () => upload('nothing', Buffer.from('a'), 'a.png') },
  ],
  listFiles: [{ status: 200 }, { status: 400, query: '?limit=0' }],
  retrieveFile: [
    { status: 200, id: () => fileId },
    { status: 404, id: () => 'file-none' },
  ],
  getFileUrl: [
    { status: 200, id: () => fileId },
    { status: 404, id: () => 'file-none' },
  ],
  downloadFile: [
    { status: 200, id: () => fileId },
    { status: 206, id: () => fileId, headers: { range: 'bytes=0-9' } },
    { status: 416, id: () => fileId, headers: { range: 'bytes=999999-' } },
  ],
  deleteFile: [
    { status: 200, id: () => fileId },
    { status: 404, id: () => fileId },
  ],
  createBatch: [{ status: 400, body: {} }],
  listBatches: [{ status: 200 }, { status: 400, query: '?limit=0' }],
  retrieveBatch: [
    { status: 200, id: () => batchId },
    { status: 404, id: () => 'batch_none' },
  ],
  cancelBatch: [
    { status: 200, id: () => batchId },
    { status: 404, id: () => 'batch_none' },
  ],
  createWatch: [
    { status: 201, body: watch },
    { status: 400, body: { ...watch, fps: 0 } },
  ],
  listCameras: [{ status: 200 }],
  listWatches: [{ status: 200 }, { status: 400, query: '?limit=0' }],
  retrieveWatch: [
    { status: 200, id: () => watchId },
    { status: 404, id: () => 'watch_none' },
  ],
  changeWatch: [
    { status: 200, id: () => watchId, body: { fps: 0.1, name: 'dock', metadata: { line: '1' } } },
    { status: 400, id: () => watchId, body: { source: {} } },
  ],
  pushWatchFrame: [
    { status: 200, send: () => pushed(watchId, '?wait=true') },
    { status: 202, send: async () => pushed(await newWatch(), '') },
    { status: 400, send: async () => pushed(await newWatch(), '', Buffer.from('no picture')) },
    { status: 404, send: () => pushed('watch_none', '') },
  ],
  listWatchEvents: [
    { status: 200, id: () => watchId },
    { status: 400, id: () => watchId, query: '?after=x' },
  ],
  streamWatch: [
    { status: 200, send: streamed },
    { status: 404, id: () => 'watch_none' },
  ],
  openResponseSocket: [{ status: 426 }],
  openWatchSocket: [
    { status: 426, id: () => watchId },
    { status: 404, id: () => 'watch_none' },
  ],
  retrieveWatchFrame: [
    { status: 200, id: () => watchId },
    { status: 404, id: () => 'watch_none' },
  ],
  retrieveWatchEventClip: [
    { status: 200, send: eventClip },
    { status: 404, send: () => server.get(`/v1/watches/${watchId}/events/0/clip`) },
  ],
  retrieveWatchEventFrame: [
    { status: 200, send: eventFrame },
    { status: 404, send: () => server.get(`/v1/watches/${watchId}/events/0/frame`) },
  ],
  pauseWatch: [{ status: 200, id: () => watchId }],
  resumeWatch: [{ status: 200, id: () => watchId }],
  deleteWatch: [
    { status: 200, id: () => watchId },
    { status: 404, id: () => watchId },
  ],
  deleteResponse: [
    { status: 200, id: () => responseId },
    { status: 404, id: () => responseId },
  ],
  retrieveOllamaVersion: [{ status: 200 }],
  listOllamaModels: [{ status: 200 }],
  listRunningOllamaModels: [{ status: 200 }],
  showOllamaModel: [
    { status: 200, body: { model: MODEL } },
    { status: 404, body: { model: 'none' } },
  ],
  createOllamaChat: [
    { status: 200, body: { ...chat, logprobs: true, top_logprobs: 2 } },
    { status: 200, body: { ...chat, stream: false } },
    { status: 404, body: { ...chat, model: 'none' } },
  ],
  createOllamaCompletion: [
    { status: 200, body: { model: MODEL, prompt: 'Hi' } },
    { status: 200, body: { model: MODEL, prompt: 'Hi', stream: false } },
    { status: 400, body: { model: MODEL, prompt: 1 } },
  ],
  describeServer: [{ status: 200 }],
  checkLiveness: [{ status: 200 }],
  checkReadiness: [{ status: 200 }],
  retrieveOpenApi: [{ status: 200 }],
  retrieveServer: [{ status: 200 }],
}

interface Described {
  readonly method: string
  readonly path: string
  readonly operation: Operation
}

const described = (id: string): Described => {
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      if (operation.operationId === id) return { method: method.toUpperCase(), path, operation }
    }
  }
  throw new Error(`openapi.json has no operation ${id}`)
}

function ask({ method, path }: Described, { body, query = '', id, headers, send }: Call, key = KEY): Promise<Response> {
  if (send) return send()
  const url = server.url + path.replace(/\{\w+\}/, () => id!()) + query
  const json = body === undefined ? undefined : JSON.stringify(body).replace('PICTURE', picture)
  return fetch(url, {
    method,
    redirect: 'manual',
    headers: {
      ...(key === '' ? {} : { authorization: `Bearer ${key}` }),
      ...(json === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(json === undefined ? {} : { body: json }),
  })
}

/** Fails unless the operation says that there is such a response. */
async function expectDescribed({ method, path, operation }: Described, response: Response): Promise<void> {
  const place = ['paths', path, method.toLowerCase(), 'responses', String(response.status)]
  const answer = operation.responses[response.status]
  expect(answer, `${place.join(' ')} ${await response.clone().text()}`).toBeDefined()
  const unknown = [...response.headers.keys()].filter((name) => !USUAL_HEADERS.test(name) && !(name in answer!.headers))
  expect(unknown, place.join(' ')).toEqual([])
  if (answer!.content === undefined) return
  const type = response.headers.get('content-type')!.split(';')[0]!
  const given = type in answer!.content ? type : '*/*'
  expect(answer!.content, place.join(' ')).toHaveProperty([given])
  for (const value of valuesOf(type, await response.text())) {
    const validate = schemaAt([...place, 'content', given, 'schema'])
    validate(value)
    expect(validate.errors, `${place.join(' ')}: ${JSON.stringify(value).slice(0, 300)}`).toBeNull()
  }
}

function schemaAt(place: readonly string[]): ValidateFunction<Schema> {
  const pointer = place.map((key) => encodeURIComponent(key.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')
  return validator.getSchema<Schema>(`openapi.json#/${pointer}`) as ValidateFunction<Schema>
}

function valuesOf(type: string, text: string): unknown[] {
  if (type === 'application/json') return [JSON.parse(text)]
  const lines = text.split('\n')
  if (type === 'application/x-ndjson') return lines.filter((line) => line !== '').map((line) => JSON.parse(line))
  if (type !== 'text/event-stream') return []
  const data = lines.flatMap((line) => (line.startsWith('data: ') ? [line.slice('data: '.length)] : []))
  expect(data.length).toBeGreaterThan(1)
  return data.filter((line) => line !== '[DONE]').map((line) => JSON.parse(line))
}

test('every operation is asked here', () => {
  const ids = Object.values(document.paths).flatMap((methods) => Object.values(methods).map((one) => one.operationId))
  expect(Object.keys(CALLS).toSorted()).toEqual(ids.toSorted())
})

describe.each(Object.entries(CALLS))('%s answers as it is described', (id, calls) => {
  test.each(calls)('$status', async (call) => {
    const response = await ask(described(id), call)
    expect(response.status, await response.clone().text()).toBe(call.status)
    await expectDescribed(described(id), response)
  })

  test('a wrong key', async () => {
    const { send: _, ...call } = calls[0]!
    const response = await ask(described(id), { id: () => 'any', ...call }, 'wrong')
    const { security } = described(id).operation as { readonly security?: readonly object[] }
    expect(response.status).toBe(security?.length === 0 ? 200 : 401)
    await expectDescribed(described(id), response)
  })
})

test.each([
  ['createChatCompletion', { ...chat, stream: true }],
  ['createMultilook', multilook],
  ['createResponse', { model: MODEL, input: 'Hi', stream: true }],
  ['createMessage', { ...chat, max_tokens: 9, stream: true }],
  ['createOllamaChat', chat],
])('%s ends a stream that fails as it is described', async (id, body) => {
  server.engine.script = { texts: ['Hello', ' there.'], failure: new Error('The engine failed') }
  const response = await ask(described(id), { status: 200, body, headers: events })
  server.engine.script = {}
  expect(response.status).toBe(200)
  expect(await response.clone().text()).toContain('Internal error')
  await expectDescribed(described(id), response)
})

test('the server answers a browser as it is described, with or without the Studio', async () => {
  const response = await ask(described('describeServer'), { status: 302, headers: { accept: 'text/html' } })
  expect([200, 302]).toContain(response.status)
  await expectDescribed(described('describeServer'), response)
})
