import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import OpenAI from 'openai'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { changedCard } from './support/changed-card.ts'
import { CARD } from './support/local-engine.ts'
import { writeHeader } from './support/model-header.ts'
import { errorOf, jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'

let server: TestServer
let client: OpenAI
beforeAll(async () => {
  server = await startTestServer()
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: KEY, maxRetries: 0 })
})
afterAll(() => server?.close())

const plain = { id: 'service-mk1.5', object: 'model', created: 1790035200, owned_by: 'lookout' }

test('lists the models in the order of the card', async () => {
  const { data } = await client.models.list()
  expect(data.map(({ id }) => id)).toEqual(['service-mk1.5', 'service-mk1'])
  expect(data[0]).toEqual(plain)
  expect(await (await server.get('/v1/models?extended=false')).json()).toMatchObject({ object: 'list', data })
})

test('retrieves one', async () => {
  expect(await client.models.retrieve('service-mk1.5')).toEqual(plain)
  expect(await (await server.get('/v1/models/service%2Dmk1%2E5')).json()).toEqual(plain)
})

test('the extended form adds fields to the same object, in the order that clients know', async () => {
  const model = await jsonOf(await server.get('/v1/models/service-mk1.5?extended=true'))
  expect(model).toMatchObject({
    ...plain,
    name: 'Lookout Nano',
    sampling_parameters: ['temperature', 'top_p', 'top_k', 'frequency_penalty', 'presence_penalty'],
    reasoning: { supported: true, always_enabled: false },
    max_context_tokens: 32768,
    max_output_tokens: 8192,
    early_access: false,
  })
  expect(Object.keys(model)).toEqual([
    'id',
    'object',
    'created',
    'owned_by',
    'name',
    'capabilities',
    'modalities',
    'output_formats',
    'sampling_parameters',
    'reasoning',
    'max_context_tokens',
    'max_output_tokens',
    'description',
    'credits_per_million_input_tokens',
    'credits_per_million_output_tokens',
    'credits_per_million_cache_read_tokens',
    'early_access',
  ])
  const list = await jsonOf<{ data: unknown[] }>(await server.get('/v1/models?extended=true'))
  expect(list.data[0]).toEqual(model)
})

test.each(['no-such', 'a%2Fb', 'x'.repeat(300), '%F0%9F%91%80'])('an unknown model: %s', async (id) => {
  const response = await server.get(`/v1/models/${id}`)
  expect(response.status).toBe(404)
  expect(await response.json()).toEqual({
    error: {
      message: `The model '${decodeURIComponent(id).slice(0, 200)}' does not exist`,
      type: 'invalid_request_error',
      param: 'model',
      code: 'model_not_found',
    },
  })
})

test('a path may end with a slash', async () => {
  const { data } = await jsonOf<{ data: unknown[] }>(await server.get('/v1/models/'))
  expect(data).toHaveLength(2)
  expect(await (await server.get('/v1/models/service-mk1.5/')).json()).toEqual(plain)
})

test('an id with a slash is found with the slash bare and encoded', async () => {
  const other = await startTestServer({ environment: { LOOKOUT_ALIASES: 'user/repo:Q4=service-mk1.5' } })
  try {
    const paths = ['user%2Frepo%3AQ4', 'user%2Frepo:Q4', 'user/repo:Q4', 'user/repo%3AQ4', 'user/repo:Q4/']
    for (const path of paths) {
      const found = await other.get(`/v1/models/${path}`)
      expect([path, found.status, (await jsonOf(found)).id]).toEqual([path, 200, 'service-mk1.5'])
      const headers = { 'anthropic-version': '2023-06-01' }
      expect(await jsonOf(await other.get(`/v1/models/${path}`, headers))).toMatchObject({ type: 'model' })
      const deleted = await fetch(`${other.url}/v1/models/${path}`, {
        method: 'DELETE',
        headers: { authorization: `Bearer ${KEY}` },
      })
      expect((await errorOf(deleted)).message).toMatch(/is one of the server's settings and cannot be deleted/)
    }
    const none = await other.get('/v1/models/user/other:Q4?extended=true')
    expect([none.status, await errorOf(none)]).toEqual([
      404,
      expect.objectContaining({ code: 'model_not_found', message: "The model 'user/other:Q4' does not exist" }),
    ])
  } finally {
    await other.close()
  }
})

test.each(['1', 'yes', 'TRUE', 'True', 'on', 'T', 'y'])('extended=%s means true', async (value) => {
  for (const path of ['/v1/models', '/v1/models/service-mk1.5']) {
    const said = await jsonOf(await server.get(`${path}?extended=${value}`))
    expect(said).toEqual(await jsonOf(await server.get(`${path}?extended=true`)))
  }
})

test.each(['0', 'no', 'FALSE', 'False', 'off'])('extended=%s means false', async (value) => {
  expect(await jsonOf(await server.get(`/v1/models/service-mk1.5?extended=${value}`))).not.toHaveProperty('name')
})

test.each(['2', 'maybe', '', 'true&extended=true'])('extended=%s is rejected', async (value) => {
  for (const path of ['/v1/models', '/v1/models/service-mk1']) {
    const response = await server.get(`${path}?extended=${value}`)
    expect(response.status).toBe(400)
    expect(await errorOf(response)).toMatchObject({ type: 'invalid_request_error', param: 'extended' })
  }
})

test('a card with the old name of a field is served, and the log says what to rename', async () => {
  const card = await changedCard(({ extensions: _, ...card }) => ({ ...card, ownModel: true }))
  const other = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: card.path } })
  try {
    expect((await other.get('/v1/models/service-mk1.5')).status).toBe(200)
    expect(other.logs.join('')).toContain("card.json: ownModel: is now called 'extensions'")
  } finally {
    await other.close()
    await card.remove()
  }
})

test('an alias of the settings is the model that it stands for, and is not listed', async () => {
  const aliased = await startTestServer({ environment: { LOOKOUT_ALIASES: 'gpt-4o=service-mk1' } })
  try {
    const messages = [{ role: 'user', content: 'Hi' }]
    const reply = await aliased.post('/v1/chat/completions', { model: 'gpt-4o', messages })
    expect(reply.status).toBe(200)
    expect(await jsonOf(reply)).toMatchObject({ model: 'gpt-4o' })
    expect(await jsonOf(await aliased.get('/v1/models/gpt-4o'))).toMatchObject({ id: 'service-mk1' })
    const { data } = await jsonOf<{ data: { id: string }[] }>(await aliased.get('/v1/models'))
    expect(data.map(({ id }) => id)).toEqual(['service-mk1.5', 'service-mk1'])
  } finally {
    await aliased.close()
  }
})

test.each([
  ['a=none', "The alias 'a' stands for 'none', which is not a model; the models are service-mk1.5, service-mk1"],
  ['service-mk1=service-mk1.5', "The alias 'service-mk1' is already a name of the model 'service-mk1'"],
])('an alias that cannot be is refused before a model is loaded: %s', async (aliases, message) => {
  let loads = 0
  const starting = startTestServer({
    environment: { LOOKOUT_ALIASES: aliases },
    startEngine: async () => {
      loads++
      throw new Error('loaded')
    },
  })
  await expect(starting).rejects.toThrow(message)
  expect(loads).toBe(0)
})

test('a card that says neither family nor dialect grounds as the family of its files does', async () => {
  const files = await mkdtemp(join(tmpdir(), 'lookout-files-'))
  onTestFinished(() => rm(files, { recursive: true }))
  const model = join(files, 'model.gguf')
  const projector = join(files, 'mmproj.gguf')
  await writeHeader(model, { 'general.architecture': 'qwen3vl' })
  await writeHeader(projector, { 'clip.has_vision_encoder': true, 'clip.projector_type': 'qwen3vl_merger' })
  const card = await changedCard(({ family: _, ...card }) => {
    const serves = card.serves.map((served) => ({ ...served, outputFormats: ['text', 'box'] }))
    return { ...card, engine: { ...card.engine, model, projector }, serves }
  })
  const other = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: card.path } })
  try {
    other.engine.script = { texts: ['{"bbox_2d": [1, 2, 3, 4], "label": "cat"}'] }
    const body = { model: 'service-mk1.5', messages: [{ role: 'user', content: 'Where is the cat?' }] }
    const reply = await other.post('/v1/chat/completions', { ...body, vision_config: { annotation_format: 'box' } })
    const { choices } = await jsonOf<{ choices: { message: { content: string } }[] }>(reply)
    expect(choices[0]!.message.content).toBe('<point_box mention="cat"> (1,2) (3,4) </point_box>')
  } finally {
    await other.close()
    await card.remove()
  }
})

test("the shipped model's files are served without a card, with all that the contract offers", async () => {
  const other = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: join(dirname(CARD), 'model-f16.gguf') } })
  onTestFinished(() => other.close())
  expect(await jsonOf(await other.get('/v1/models/model-f16?extended=true'))).toMatchObject({
    name: 'Lookout Nano',
    capabilities: ['response_format_json_schema', 'regex', 'tool_calling'],
    modalities: ['text', 'image', 'video', 'audio'],
    output_formats: ['text', 'point', 'box', 'polygon', 'clip'],
    reasoning: { supported: true },
  })
  const prompts = ['What is this?', 'Where?']
  const looked = await other.post('/v1/chat/completions/multilook', { model: 'model-f16', context: [], prompts })
  expect(looked.status).toBe(200)
})
