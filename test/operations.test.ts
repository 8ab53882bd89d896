import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { LocalEngine } from '../src/inference/local/host/local-engine.ts'
import { CARD } from './support/local-engine.ts'
import { errorOf, jsonOf, startTestServer, type TestServer } from './support/server.ts'

/** Several models with real engines in one service, as an operator runs them: the shipped weights with three cards. */
let server: TestServer
let directory: string
/** The last engine started for each card, by the name of the card. */
const engines = new Map<string, LocalEngine>()

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-operations-'))
  await writeCard('second', { load: 'first_use' })
  await writeCard('third', { load: 'first_use' })
  server = await startTestServer({
    environment: { LOOKOUT_MODELS: directory, LOOKOUT_MODEL_MEMORY: '1', LOOKOUT_METRICS_PORT: '0' },
    loadWaitMs: 60_000,
    startEngine: async (card, options) => {
      const engine = await LocalEngine.start(card, options)
      engines.set(card.name, engine)
      return engine
    },
  })
})

afterAll(async () => {
  await server?.close()
  await rm(directory, { recursive: true })
})

/** Writes a card. By estimate, two such models take less than 1 GiB and three take more. */
async function writeCard(id: string, fields: object): Promise<void> {
  const shipped = JSON.parse(await readFile(CARD, 'utf8'))
  const [model, projector] = [shipped.engine.model, shipped.engine.projector].map((file) => join(dirname(CARD), file))
  const card = {
    ...shipped,
    name: id,
    serves: [{ ...shipped.serves[0], id, name: id, aliases: [] }],
    engine: { ...shipped.engine, model, projector },
    ...fields,
  }
  await mkdir(join(directory, id))
  await writeFile(join(directory, id, 'card.json'), JSON.stringify(card))
}

/** A request for a reply of this many characters, which takes nearly as many tokens. */
const long = (model: string, characters: number, more: object = {}) => ({
  model,
  messages: [{ role: 'user', content: 'Hi' }],
  temperature: 1,
  // A negative penalty asks for repetition; without it, a reply that repeats itself would be ended.
  presence_penalty: -1,
  regex: `[ab]{${characters}}`,
  ...more,
})

const ask = (model: string) => server.post('/v1/chat/completions', long(model, 8))
const states = async () => {
  const text = await metrics()
  return Object.fromEntries([...text.matchAll(/^lookout_model_ready\{model="(.*)"\} (\d)$/gm)].map((m) => [m[1], m[2]]))
}
const metrics = async () => (await fetch(server.service.metricsUrl!)).text()

async function measured(name: string, labels: string): Promise<number> {
  const line = (await metrics()).split('\n').find((text) => text.startsWith(`lookout_${name}{${labels}} `))
  return line === undefined ? 0 : Number(line.split(' ').at(-1))
}

describe('several models', () => {
  test('are all listed, loaded or not', async () => {
    const { data } = await jsonOf<{ data: { id: string; max_context_tokens: number }[] }>(
      await server.get('/v1/models?extended=true'),
    )
    expect(data.map((model) => model.id)).toEqual(['service-mk1.5', 'service-mk1', 'second', 'third'])
    expect(new Set(data.map((model) => model.max_context_tokens))).toEqual(new Set([32_768]))
    expect(await states()).toEqual({ 'service-mk1.5': '1', second: '0', third: '0' })
    expect((await fetch(`${server.url}/readyz`)).status).toBe(200)
  })

  test('load when first requested, and the one idle longest is unloaded to make room', async () => {
    for (const model of ['service-mk1', 'second']) {
      const answer = await ask(model)
      expect(answer.status).toBe(200)
      expect(await answer.json()).toMatchObject({ model, choices: [{ finish_reason: 'stop' }] })
    }
    expect(await states()).toEqual({ 'service-mk1.5': '1', second: '1', third: '0' })
    const { pid } = engines.get('Lookout Nano')!
    expect((await ask('third')).status).toBe(200)
    expect(await states()).toEqual({ 'service-mk1.5': '0', second: '1', third: '1' })
    expect(() => process.kill(pid!, 0)).toThrow()
    expect((await fetch(`${server.url}/readyz`)).status).toBe(200)
    expect((await ask('service-mk1.5')).status).toBe(200)
    expect(await states()).toEqual({ 'service-mk1.5': '1', second: '0', third: '1' })
    expect(await measured('model_unloads_total', 'model="second"')).toBe(1)
  })
})

test('metrics count requests, tokens, cache hits and loads', async () => {
  const before = {
    decoded: await measured('decode_tokens_total', 'model="third"'),
    prefilled: await measured('prefill_tokens_total', 'model="third"'),
    requests: await measured('http_requests_total', requestLabels('200', 'third')),
    hits: await measured('prefix_cache_hits_total', 'model="third"'),
  }
  const first = await jsonOf<{ usage: { prompt_tokens: number; completion_tokens: number } }>(
    await server.post('/v1/chat/completions', long('third', 64)),
  )
  expect((await measured('decode_tokens_total', 'model="third"')) - before.decoded).toBe(first.usage.completion_tokens)
  expect(await measured('prefill_tokens_total', 'model="third"')).toBeGreaterThan(before.prefilled)
  const content = 'Tell me what is in this picture, please: '.repeat(8)
  for (let i = 0; i < 2; i++) {
    const body = { model: 'third', messages: [{ role: 'user', content }], max_completion_tokens: 4 }
    expect((await server.post('/v1/chat/completions', body)).status).toBe(200)
  }
  expect(await measured('prefix_cache_hits_total', 'model="third"')).toBeGreaterThan(before.hits)
  const requests = () => measured('http_requests_total', requestLabels('200', 'third'))
  await expect.poll(requests).toBe(before.requests + 3)
  expect(await measured('kv_cells', 'model="third"')).toBe(32_768)
  expect(await measured('kv_cells_used', 'model="third"')).toBe(0)
  expect(await measured('prefix_cache_cells', 'model="third"')).toBeGreaterThan(100)
  expect(await measured('engine_resident_memory_bytes', 'model="third"')).toBeGreaterThan(2 ** 26)

  for (const line of [
    /^lookout_time_to_first_token_seconds_count\{model="third"\} [1-9]/m,
    /^lookout_inter_token_seconds_bucket\{le="\+Inf",model="third"\} [1-9]/m,
    /^lookout_generations_total\{model="third",outcome="finished"\} [1-9]/m,
    /^lookout_running_sequences\{model="third"\} 0$/m,
    /^lookout_queue_length\{model="third"\} 0$/m,
    /^lookout_engine_restarts_total\{model="third"\} 0$/m,
    /^lookout_http_requests_in_progress 0$/m,
    /^process_resident_memory_bytes [1-9]/m,
  ]) {
    await expect.poll(metrics).toMatch(line)
  }
})

function requestLabels(status: string, model: string, endpoint = '/v1/chat/completions'): string {
  return `endpoint="${endpoint}",method="POST",status="${status}",model="${model}"`
}

test('metrics count a request without a model for the model that served it', async () => {
  const picture = await readFile(new URL('../docs/pictures/shapes.png', import.meta.url), 'base64')
  const media = { type: 'image', image_url: `data:image/png;base64,${picture}` }
  expect((await server.post('/v1/detect', { media, categories: ['star'] })).status).toBe(200)
  const labels = requestLabels('200', 'service-mk1.5', '/v1/detect')
  await expect.poll(() => measured('http_requests_total', labels)).toBe(1)
})

test('metrics are all described in docs/operations.md, and no others', async () => {
  const described = (await readFile('docs/operations.md', 'utf8')).match(/\blookout_[a-z_]+/g)
  const served = (await metrics()).match(/(?<=^# HELP )lookout_[a-z_]+/gm)
  expect([...new Set(described)].sort()).toEqual([...new Set(served)].sort())
})

test('metrics have few labels, for any requests, and are not served on the public port', async () => {
  for (const model of ['toString', '__proto__', 'x'.repeat(100)]) {
    await server.post('/v1/chat/completions', { ...long('third', 8), model })
  }
  for (const path of ['/no/such/path', '/v1/models/none', '/metrics']) expect((await server.get(path)).status).toBe(404)
  await server.post('/v1/chat/completions', '{"model": 7}')
  // A request is counted when its response has been sent, which a client may see before.
  for (const line of [
    /endpoint="unknown",method="GET",status="404",model=""\} 2$/m,
    /endpoint="\/v1\/models\/:model_id",method="GET",status="404",model=""\} 1$/m,
    /endpoint="\/v1\/chat\/completions",method="POST",status="400",model=""\} 4$/m,
  ]) {
    await expect.poll(metrics).toMatch(line)
  }
  expect(await metrics()).not.toMatch(/toString|__proto__|xxx|no\/such/)
  const elsewhere = await fetch(new URL('/', server.service.metricsUrl!))
  expect(elsewhere.status).toBe(404)
})

describe('an engine that is killed in the middle of 20 streams', () => {
  test('ends every stream with an error, spares other models, and serves again', async () => {
    const other = server.post('/v1/chat/completions', long('third', 1000, { stream: true }))
    await other
    const streams = await Promise.all(
      Array.from({ length: 20 }, () =>
        server.post('/v1/chat/completions', long('service-mk1.5', 6000, { stream: true })),
      ),
    )
    const readers = streams.map((stream) => stream.body!.pipeThrough(new TextDecoderStream()).getReader())
    // All streams have started.
    await Promise.all(readers.map((reader) => reader.read()))
    const engine = engines.get('Lookout Nano')!
    process.kill(engine.pid!, 'SIGKILL')

    const ends = await Promise.all(readers.map((reader) => rest(reader)))
    for (const text of ends) {
      const last = text.trim().split('\n\n').at(-1)!
      expect(JSON.parse(last.slice('data: '.length)).error).toMatchObject({
        type: 'server_error',
        code: 'model_overloaded',
      })
    }
    const refused = await ask('service-mk1.5')
    if (refused.status !== 200) {
      expect(refused.status).toBe(503)
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
      expect(await errorOf(refused)).toMatchObject({ type: 'server_error', code: 'model_overloaded' })
      // The other model is still ready.
      expect((await fetch(`${server.url}/readyz`)).status).toBe(200)
    }
    await expect.poll(async () => (await ask('service-mk1.5')).status, { interval: 100 }).toBe(200)
    expect((await fetch(`${server.url}/readyz`)).status).toBe(200)
    expect(await (await other).text()).toMatch(/"finish_reason":"stop"[\s\S]*data: \[DONE\]\n\n$/)
    expect(await measured('engine_restarts_total', 'model="service-mk1.5"')).toBe(1)
    expect(await measured('generations_total', 'model="service-mk1.5",outcome="failed"')).toBe(20)
    // No sequence of theirs is left.
    expect(await measured('running_sequences', 'model="service-mk1.5"')).toBe(0)
  })

  test('starts even when it is killed again while starting', async () => {
    const engine = engines.get('Lookout Nano')!
    const first = engine.pid!
    process.kill(first, 'SIGKILL')
    await expect.poll(() => engine.pid !== undefined && engine.pid !== first).toBe(true)
    process.kill(engine.pid!, 'SIGKILL')
    await expect.poll(async () => (await ask('service-mk1.5')).status, { interval: 100 }).toBe(200)
  })
})

async function rest(reader: ReadableStreamDefaultReader<string>): Promise<string> {
  let text = ''
  for (let next = await reader.read(); !next.done; next = await reader.read()) text += next.value
  return text
}

test('the error for cards that cannot be served together names the files or the setting at fault', async () => {
  const start = (environment: Record<string, string>) => startTestServer({ environment })
  await expect(start({ LOOKOUT_MODELS: `${directory}/none` })).rejects.toThrow(/No model card at \S+none/)
  await writeCard('twin', { load: 'first_use', serves: JSON.parse(await cardText('second')).serves })
  await expect(start({ LOOKOUT_MODELS: directory })).rejects.toThrow(
    /^Model card \S+twin.card\.json: serves\[0\]: 'second' is already served by \S+second.card\.json$/,
  )
  await rm(join(directory, 'twin'), { recursive: true })
  await expect(start({ LOOKOUT_MODEL_MEMORY: '0.1' })).rejects.toThrow(
    /LOOKOUT_MODEL_MEMORY is too low for service-mk1\.5: about 0\.\d\d GiB is needed, but the limit is 0\.10 GiB/,
  )
})

function cardText(id: string): Promise<string> {
  return readFile(join(directory, id, 'card.json'), 'utf8')
}

describe('an engine that is killed again and again', () => {
  test('does not affect other models, lists and files, and counts restarts', async () => {
    for (const model of ['third', 'service-mk1.5']) expect((await ask(model)).status).toBe(200)
    const engine = engines.get('Lookout Nano')!
    const restarts = () => measured('engine_restarts_total', 'model="service-mk1.5"')
    const before = await restarts()
    for (let kill = 1; kill <= 2; kill++) {
      await expect.poll(() => engine.state).toBe('ready')
      process.kill(engine.pid!, 'SIGKILL')
      await expect.poll(() => engine.state).toBe('restarting')
      expect((await ask('third')).status).toBe(200)
      for (const path of ['/v1/models', '/v1/files', '/readyz']) expect((await server.get(path)).status).toBe(200)
      expect(await restarts()).toBe(before + kill)
    }
    await expect.poll(async () => (await ask('service-mk1.5')).status, { interval: 100 }).toBe(200)
  })
})
