import { readFile } from 'node:fs/promises'
import { request } from 'node:http'
import { Ollama } from 'ollama'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { readConfig } from '../src/config/config.ts'
import { internalError } from '../src/lib/errors/errors.ts'
import { promptText } from './support/chat.ts'
import { errorOf, jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'

const model = 'service-mk1.5'
let server: TestServer
let client: Ollama
let png: string

beforeAll(async () => {
  png = await readFile('docs/pictures/shapes.png', 'base64')
  server = await startTestServer({ environment: { LOOKOUT_OLLAMA: 'on' } })
  client = new Ollama({ host: server.url })
})
afterAll(() => server?.close())
beforeEach(() => {
  server.engine.script = { texts: ['Two', ' lamps.'] }
  server.engine.works.length = 0
  server.engine.aborts.length = 0
})

const turn = (role: string, content: string) => `<|im_start|>${role}\n${content}<|im_end|>\n`
const branch = () => server.engine.works.at(-1)!.branches[0]!
const messages = [{ role: 'user', content: 'Hi' }]
const weather = {
  type: 'function',
  function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
}
const call = '<tool_call>\n{"name": "weather", "arguments": {"city": "Bern"}}\n</tool_call>'
const end = {
  done: true,
  done_reason: 'stop',
  prompt_eval_count: expect.any(Number),
  eval_count: 2,
  total_duration: expect.any(Number),
  load_duration: 0,
  prompt_eval_duration: expect.any(Number),
  eval_duration: expect.any(Number),
}

async function linesOf(path: string, body: object): Promise<Record<string, unknown>[]> {
  const response = await fetch(server.url + path, { method: 'POST', body: JSON.stringify({ model, ...body }) })
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/x-ndjson'])
  const text = await response.text()
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line))
}

describe('chat', () => {
  test('by the official client, whole and streamed', async () => {
    const asked = { model, messages: [{ role: 'system', content: 'Be brief.' }, ...messages] }
    const whole = await client.chat(asked)
    expect(whole).toEqual({
      model,
      created_at: expect.stringMatching(/^\d{4}-.*Z$/),
      message: { role: 'assistant', content: 'Two lamps.' },
      ...end,
    })
    const prompt = promptText(server.engine)
    expect(prompt).toContain(turn('system', 'Be brief.') + turn('user', 'Hi'))
    expect(whole.prompt_eval_count).toBe(prompt.length)
    const chunks = []
    for await (const chunk of await client.chat({ ...asked, stream: true })) chunks.push(chunk)
    expect(chunks.map(({ message, done }) => [message.content, done])).toEqual([
      ['Two', false],
      [' lamps.', false],
      ['', true],
    ])
    expect(chunks.at(-1)).toMatchObject(end)
  })

  test('is streamed unless the request says otherwise, with any type of the body', async () => {
    const lines = await linesOf('/api/chat', { messages })
    expect(lines.map(({ done }) => done)).toEqual([false, false, true])
    expect(lines[0]).toEqual({
      model,
      created_at: expect.any(String),
      message: { role: 'assistant', content: 'Two' },
      done: false,
    })
  })

  test('takes options, and those that it has no use for', async () => {
    const options = { num_predict: 50, temperature: 0.7, top_k: 5, top_p: 0.9, seed: 1, num_ctx: 4096, stop: ['lamps'] }
    const penalised = { ...options, min_p: 0.05, repeat_penalty: 1.1 }
    const reply = await client.chat({ model: `${model}:latest`, messages, options: penalised, keep_alive: '5m' })
    expect(branch()).toMatchObject({ maxTokens: 50, sampling: { temperature: 0.7, topK: 5, topP: 0.9, seed: 1 } })
    expect(branch().sampling).toMatchObject({ minP: 0.05, repetitionPenalty: 1.1 })
    expect(reply).toMatchObject({ message: { content: 'Two ' }, done_reason: 'stop' })
    const script = server.engine.script
    server.engine.script = { texts: ['Two', ' red', ' lamps', '.'], textsPerEvent: 4, endless: true }
    expect(await client.chat({ model, messages, options: { stop: ['lamps'] } })).toMatchObject({ eval_count: 3 })
    server.engine.script = script
    await client.chat({ model, messages, options: { top_k: -1, top_p: 0 } })
    expect(branch().sampling.topK).toBe(0)
    expect(branch().sampling.topP).toBeCloseTo(0)
    expect(branch().sampling.topP).toBeGreaterThan(0)
    server.engine.script = { texts: ['Two'], reason: 'length' }
    const cut = await client.chat({ model, messages, options: { num_predict: -1 } })
    expect([cut.done_reason, branch().maxTokens]).toEqual(['length', 8192])
  })

  test('shows images, also large ones', async () => {
    const { default: sharp } = await import('sharp')
    const { randomBytes } = await import('node:crypto')
    const raw = { width: 256, height: 256, channels: 3 } as const
    const noise = await sharp(randomBytes(256 * 256 * 3), { raw })
      .png()
      .toBuffer()
    await client.chat({
      model,
      messages: [{ role: 'user', content: 'Compare.', images: [noise, Buffer.from(png, 'base64')] }],
    })
    const [, first, second, ...rest] = server.engine.works.at(-1)!.prefix
    expect([first, second, ...rest].map((part) => part?.type).join(' ')).toMatch(/^image image text/)
    await client.chat({ model, messages: [{ role: 'user', content: 'What?', images: [png] }] })
    expect(server.engine.works.at(-1)!.prefix[1]).toEqual(second)
  })

  test('arguments keep the digits of long integers', async () => {
    const text = '<tool_call>\n{"name": "weather", "arguments": {"ids": [1097253424567890123]}}\n</tool_call>'
    server.engine.script = { texts: [text] }
    for (const stream of [false, true]) {
      const response = await server.post('/api/chat', { model, messages, tools: [weather], stream })
      expect(await response.text()).toContain('"arguments":{"ids":[1097253424567890123]}')
    }
  })

  test('calls tools with arguments that are objects, and takes their results', async () => {
    server.engine.script = { texts: ['Let me see. ', call, call] }
    const { message } = await client.chat({ model, messages, tools: [weather] })
    const called = (index: number) => ({
      id: expect.stringMatching(/^call_/),
      function: { index, name: 'weather', arguments: { city: 'Bern' } },
    })
    expect(message).toEqual({ role: 'assistant', content: 'Let me see.', tool_calls: [called(0), called(1)] })
    const lines = await linesOf('/api/chat', { messages, tools: [weather] })
    expect(lines.map(({ message }) => (message as { tool_calls?: unknown }).tool_calls)).toEqual([
      undefined,
      [called(0)],
      [called(1)],
      undefined,
    ])

    server.engine.script = { texts: ['Sunny.'] }
    const bare = message.tool_calls!.map(({ function: { name, arguments: values } }) => ({
      function: { name, arguments: values },
    }))
    for (const tool_calls of [message.tool_calls!, bare]) {
      const results = ['Sunny.', 'Rainy.'].map((content) => ({ role: 'tool', tool_name: 'weather', content }))
      await client.chat({ model, tools: [weather], messages: [...messages, { ...message, tool_calls }, ...results] })
      expect(promptText(server.engine)).toMatch(/"city":"Bern".*"city":"Bern".*Sunny\..*Rainy\./s)
    }
  })

  test('takes what is left of a conversation whose beginning was cut off, as Home Assistant does', async () => {
    server.engine.script = { texts: ['You are welcome.'] }
    const results = ['{"light":"on"}', '{"fan":"off"}'].map((content) => ({ role: 'tool', content, tool_name: 'turn' }))
    const left = [...results, { role: 'assistant', content: 'Done.' }, { role: 'user', content: 'Thanks.' }]
    for (const told of [[], [{ role: 'system', content: 'You control a house.' }]]) {
      const { message } = await client.chat({ model, tools: [weather], messages: [...told, ...left] })
      expect(message.content).toBe('You are welcome.')
      expect(promptText(server.engine)).toMatch(/\{"light":"on"\}.*\{"fan":"off"\}.*Done\..*Thanks\./s)
    }
    await expect(client.chat({ model, messages: results })).rejects.toThrow(/messages\[0\]/)
  })

  test('thinks when it is told to', async () => {
    server.engine.script = { texts: ['Count.', '</think>\n\n', 'Two.'] }
    const { message } = await client.chat({ model, messages, think: 'low' })
    expect([message, branch().thought?.budget]).toEqual([
      { role: 'assistant', content: 'Two.', thinking: 'Count.' },
      1024,
    ])
    const lines = await linesOf('/api/chat', { messages, think: true })
    expect(lines[0]).toMatchObject({ message: { content: '', thinking: 'Count.' } })
    await expect(client.chat({ model: 'service-mk1', messages, think: true })).rejects.toThrow(
      /think.*does not support reasoning/,
    )
  })

  test('gives the thought of a model that promises none', async () => {
    server.engine.script = { texts: ['<think>Count.', '</think>\n\n', 'Two.'] }
    const { message } = await client.chat({ model: 'service-mk1', messages })
    expect(message).toEqual({ role: 'assistant', content: 'Two.', thinking: 'Count.' })
  })

  test('keeps to a format', async () => {
    server.engine.script = { texts: ['{"n": 2}'] }
    await client.chat({ model, messages, format: 'json' })
    expect(branch().constraint).toMatchObject({ type: 'json_schema', schema: { type: 'object' } })
    const schema = { type: 'object', properties: { n: { type: 'integer' } } }
    expect((await client.chat({ model, messages, format: schema })).message.content).toBe('{"n": 2}')
    expect(branch().constraint).toMatchObject({ type: 'json_schema', schema })
  })

  test('has log-probabilities', async () => {
    const { logprobs } = await client.chat({ model, messages, logprobs: true, top_logprobs: 2 })
    const token = (token: string) => ({ token, logprob: expect.any(Number), bytes: [...Buffer.from(token)] })
    const top = (text: string) => [token('other'), token(text)]
    expect(logprobs).toEqual(['Two', ' lamps.'].map((text) => ({ ...token(text), top_logprobs: top(text) })))
    const lines = await linesOf('/api/chat', { messages, logprobs: true })
    expect(lines.flatMap(({ logprobs }) => logprobs ?? [])).toEqual([token('Two'), token(' lamps.')])
  })

  test('without messages says that the model is there', async () => {
    expect(await client.chat({ model })).toMatchObject({ done: true, done_reason: 'load' })
    expect(server.engine.works).toHaveLength(0)
  })
})

describe('generate', () => {
  test('by the official client, whole and streamed', async () => {
    const asked = { model, prompt: 'Hi', system: 'Be brief.', images: [png] }
    expect(await client.generate(asked)).toEqual({
      model,
      created_at: expect.any(String),
      response: 'Two lamps.',
      ...end,
    })
    expect(promptText(server.engine)).toContain(turn('system', 'Be brief.') + turn('user', '[picture]Hi'))
    let text = ''
    for await (const { response } of await client.generate({ ...asked, stream: true })) text += response
    expect(text).toBe('Two lamps.')
  })

  test.each(['suffix', 'template', 'raw', 'context'])('%s is refused, not ignored', async (name) => {
    const value = { suffix: 'end', template: '{{ .Prompt }}', raw: true, context: [1] }[name]
    await expect(client.generate({ model, prompt: 'Hi', [name]: value })).rejects.toThrow(
      new RegExp(`'${name}'.*not supported`),
    )
  })
})

describe('models', () => {
  test('are listed and shown as Ollama does', async () => {
    const { models } = await client.list()
    expect(models.map(({ name }) => name)).toEqual([model, 'service-mk1'])
    expect(models[0]).toMatchObject({
      model,
      digest: expect.stringMatching(/^[0-9a-f]{64}$/),
      details: { format: 'gguf' },
    })
    expect(models[0]!.size).toBeGreaterThan(1e6)
    const shown = await client.show({ model })
    expect(shown.capabilities).toEqual(['completion', 'vision', 'audio', 'tools', 'thinking'])
    const info = shown.model_info as unknown as Record<string, unknown>
    expect(info[`${info['general.architecture']}.context_length`]).toBe(32_768)
    expect(info[`${info['general.architecture']}.embedding_length`]).toBe(384)
    expect((await client.ps()).models.map(({ name }) => name)).toEqual([model, 'service-mk1'])
    expect(await client.version()).toEqual({ version: '0.12.11' })
  })

  test('are not managed, and those that write embed nothing', async () => {
    await expect(client.pull({ model: 'llava' })).rejects.toThrow(/lookout pull/)
    await expect(client.delete({ model })).rejects.toThrow(/lookout pull/)
    const blob = { method: 'POST', body: 'weights' }
    const sent = await fetch(`${server.url}/api/blobs/sha256:${'0'.repeat(64)}`, blob)
    expect([sent.status, await sent.json()]).toEqual([400, { error: expect.stringContaining('lookout pull') }])
    expect((await fetch(`${server.url}/api/blobs/sha256:0`, { method: 'HEAD' })).status).toBe(400)
    await expect(client.embed({ model, input: 'Hi' })).rejects.toThrow(/writes text and makes no embeddings/)
  })
})

describe('errors', () => {
  test('are a text, with the status', async () => {
    for (const none of [client.chat({ model: '', messages }), client.show({ model: '' })]) {
      await expect(none).rejects.toMatchObject({ status_code: 400, error: 'model is required' })
    }
    const failed = client.chat({ model: 'llava', messages })
    await expect(failed).rejects.toMatchObject({ status_code: 404, error: "model 'llava' not found" })
    const wrong = client.chat({ model, messages: [{ role: 'user', content: 'A', images: ['AAAA'] }] })
    await expect(wrong).rejects.toMatchObject({
      status_code: 400,
      error: expect.stringContaining('messages[0].images[0]'),
    })
    await expect(client.chat({ model, messages: [{ role: 'robot', content: '' }] })).rejects.toThrow(
      /messages\[0\]\.role/,
    )
    const results: [object, string][] = [
      [{ tool_name: 'f' }, "messages[1].tool_name: No earlier assistant message has a call of 'f' without a result"],
      [{}, 'messages[1]: No earlier assistant message has a tool call without a result'],
      [{ tool_call_id: 'a' }, "messages[1].tool_call_id: No earlier assistant message has a tool call with the id 'a'"],
    ]
    for (const [named, error] of results) {
      const result = { role: 'tool', content: '', ...named }
      const stray = client.chat({ model, messages: [...messages, result] })
      await expect(stray).rejects.toMatchObject({ status_code: 400, error })
    }
    server.engine.script = { refusal: internalError(new Error('broken')) }
    await expect(client.chat({ model, messages })).rejects.toMatchObject({ status_code: 500 })
    const broken = await fetch(`${server.url}/api/chat`, { method: 'POST', body: '{' })
    expect([broken.status, await broken.json()]).toEqual([400, { error: expect.stringContaining('JSON') }])
  })

  test('end a stream, and a client that leaves ends its reply', async () => {
    server.engine.script = { texts: ['Two'], failure: internalError(new Error('broken')) }
    expect((await linesOf('/api/chat', { messages })).at(-1)).toEqual({ error: 'Internal error' })
    server.engine.script = { texts: ['Two'], endless: true, delayMs: 1 }
    const stream = await client.chat({ model, messages, stream: true })
    await expect(async () => {
      for await (const _ of stream) stream.abort()
    }).rejects.toThrow(/abort/)
    await expect.poll(() => server.engine.aborts.length).toBe(1)
  })
})

describe('who is let in', () => {
  /** Sends what `fetch` does not let a program send. */
  const statusOf = (headers: Record<string, string>, path = '/api/tags') =>
    new Promise<number>((resolve, reject) => {
      request(server.url + path, { headers }, (response) => {
        response.resume()
        resolve(response.statusCode!)
      })
        .on('error', reject)
        .end()
    })

  test.each<[string, Record<string, string>, number]>([
    ['a program of this machine', {}, 200],
    ['one that says localhost', { host: 'localhost:11434' }, 200],
    ['a page of this machine', { origin: 'http://localhost:3000' }, 200],
    ['a page of another', { origin: 'https://example.org' }, 401],
    ['a page without an address', { origin: 'null' }, 401],
    [
      'a page of this machine, as browsers tell',
      { origin: 'http://localhost:3000', 'sec-fetch-site': 'same-site' },
      200,
    ],
    ['what a page of another shows or links to', { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' }, 401],
    ['what a page of a neighbour shows', { 'sec-fetch-site': 'same-site' }, 401],
    ['what a page of this server shows', { 'sec-fetch-site': 'same-origin' }, 200],
    ['an address that the user types', { 'sec-fetch-site': 'none', 'sec-fetch-mode': 'navigate' }, 200],
    ['a browser that says something else', { 'sec-fetch-site': 'elsewhere' }, 401],
    ['a name that leads here', { host: 'example.org' }, 401],
    [
      'a name that leads here, of a page that came from it',
      { host: 'example.org', 'sec-fetch-site': 'same-origin' },
      401,
    ],
    ['a request through a proxy', { 'x-forwarded-for': '203.0.113.7' }, 401],
    ['a key', { authorization: `Bearer ${KEY}`, 'x-forwarded-for': '203.0.113.7' }, 200],
    ['a wrong key', { authorization: 'Bearer wrong' }, 401],
  ])('%s', async (_, headers, status) => {
    expect(await statusOf(headers)).toBe(status)
  })

  test('no path of it is open to pages of others, by any method', async () => {
    const headers = { 'sec-fetch-site': 'cross-site' }
    for (const path of ['version', 'tags', 'ps', 'show', 'chat', 'generate', 'embed', 'pull', 'blobs/sha256:0']) {
      for (const method of ['GET', 'HEAD', 'POST', 'DELETE', 'PUT', 'OPTIONS']) {
        const response = await fetch(`${server.url}/api/${path}`, { method, headers })
        expect([path, method, response.status]).toEqual([path, method, 401])
      }
    }
  })

  test('nothing else is open', async () => {
    expect(await statusOf({}, '/v1/models')).toBe(401)
    const unknown = await fetch(`${server.url}/api/unknown`)
    expect([unknown.status, await jsonOf(unknown)]).toEqual([404, { error: 'Unknown path: GET /api/unknown' }])
    expect(await statusOf({ 'x-forwarded-for': '203.0.113.7' }, '/api/unknown')).toBe(401)
    const refused = await fetch(`${server.url}/api/tags`, { headers: { 'x-real-ip': '203.0.113.7' } })
    expect(await jsonOf(refused)).toEqual({ error: expect.stringContaining('proxy') })
    const madeUp = await fetch(`${server.url}/api/tags`, { headers: { authorization: 'Bearer ollama' } })
    expect(await jsonOf(madeUp)).toEqual({ error: 'Invalid API key; leave it out, or send a key of this server' })
    expect(await errorOf(await fetch(`${server.url}/v1/models`))).toMatchObject({ message: 'Invalid API key' })
  })

  test('what is asked belongs to the organisation default', async () => {
    await client.chat({ model, messages })
    const lines = server.logs.map((line) => JSON.parse(line))
    expect(lines.findLast(({ path }) => path === '/api/chat')).toMatchObject({ organisation: 'default', status: 200 })
  })

  test('the root tells Ollama’s clients what they look for, and others what they ask for', async () => {
    expect(await (await fetch(server.url)).text()).toBe('Ollama is running')
    expect(await jsonOf(await fetch(server.url, { headers: { accept: 'application/json' } }))).toHaveProperty('links')
    const page = await fetch(server.url, { headers: { accept: 'text/html,*/*' }, redirect: 'manual' })
    expect(await page.text()).not.toContain('Ollama')
  })
})

test('is off by default, and only for a loopback address', async () => {
  const plain = await startTestServer()
  try {
    expect((await fetch(`${plain.url}/api/tags`)).status).toBe(401)
    expect((await plain.get('/api/tags')).status).toBe(404)
    expect(await jsonOf(await fetch(plain.url))).toHaveProperty('links')
  } finally {
    await plain.close()
  }
  expect(() => readConfig({ LOOKOUT_OLLAMA: 'on', LOOKOUT_HOST: '0.0.0.0' })).toThrow(/^LOOKOUT_OLLAMA: /)
  expect(readConfig({ LOOKOUT_OLLAMA: 'on', LOOKOUT_HOST: '::1' }).ollama).toBe(true)
})
