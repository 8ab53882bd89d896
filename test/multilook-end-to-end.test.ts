import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { readEvents } from '../src/client/event-stream.ts'
import { readConfig } from '../src/config/config.ts'
import { Service } from '../src/service.ts'
import { shippedCard } from './support/shipped-model.ts'

/** Multilook with the real engine and the shipped model. The tests compare replies, but do not judge them. */
const MODEL = 'service-mk1.5'
/** Tokens per completion. */
const SHORT = 16

let service: Service
let directory: string
let picture: object
let context: object[]

beforeAll(async () => {
  const png = await readFile(new URL('../docs/pictures/shapes.png', import.meta.url))
  picture = { type: 'image_url', image_url: { url: `data:image/png;base64,${png.toString('base64')}` } }
  context = [{ role: 'user', content: [picture] }]
  directory = await mkdtemp(join(tmpdir(), 'lookout-end-to-end-'))
  service = await Service.start(
    readConfig({
      LOOKOUT_PORT: '0',
      LOOKOUT_MODEL_CARD: shippedCard(),
      LOOKOUT_API_KEY: 'lk-test',
      LOOKOUT_DATA_DIR: directory,
      DATABASE_URL: inject('databaseUrl'),
      LOOKOUT_LOG_LEVEL: 'silent',
      LOOKOUT_RATE_LIMITS: 'off',
    }),
  )
})
afterAll(async () => {
  await service?.close()
  await rm(directory, { recursive: true, force: true })
})

interface Usage {
  prompt_tokens: number
  completion_tokens: number
  total_tokens: number
  prompt_tokens_details: { cached_tokens: number; audio_tokens: number }
}

interface Completion {
  index: number
  message: { role: string; content: string }
  finish_reason: string
}

interface Answer {
  results: { prompt_index: number; completions: Completion[]; usage: { completion_tokens: number } }[]
  usage: Usage
}

async function post<Body>(path: string, body: object): Promise<Body> {
  const response = await fetch(service.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: MODEL, max_completion_tokens: SHORT, ...body }),
  })
  expect(response.status).toBe(200)
  return (await response.json()) as Body
}

function look(body: object): Promise<Answer> {
  return post('/v1/chat/completions/multilook', { context, ...body })
}

/** The same question in a chat of its own. */
function ask(question: string | object[]): Promise<{ choices: Completion[]; usage: Usage }> {
  return post('/v1/chat/completions', { messages: [...context, { role: 'user', content: question }] })
}

const QUESTIONS = [
  'What colour is the star?',
  'Is there a red circle?',
  'How many squares are there?',
  'Describe the image.',
]

test('each answer equals that of the same question in a chat of its own', async () => {
  const own = [picture, { type: 'text', text: 'Is it the same?' }]
  const { results, usage } = await look({ prompts: [...QUESTIONS, { content: own }] })
  let promptTokens = 0
  let completionTokens = 0
  for (const [index, question] of [...QUESTIONS, own].entries()) {
    const alone = await ask(question)
    const { completions } = results[index]!
    expect(completions).toHaveLength(1)
    expect(completions[0]!.message).toEqual(alone.choices[0]!.message)
    expect(completions[0]!.finish_reason).toBe(alone.choices[0]!.finish_reason)
    expect(results[index]!.usage.completion_tokens).toBe(alone.usage.completion_tokens)
    promptTokens += alone.usage.prompt_tokens
    completionTokens += alone.usage.completion_tokens
  }
  // The context counts once per prompt, so together they have as many prompt tokens as separate questions.
  expect(usage.prompt_tokens).toBe(promptTokens)
  expect(usage.completion_tokens).toBe(completionTokens)
  expect(usage.total_tokens).toBe(promptTokens + completionTokens)
  expect(usage.prompt_tokens_details.audio_tokens).toBe(0)
})

test('the context is reused within a call, but not across calls', async () => {
  const first = await look({ prompts: QUESTIONS })
  const { cached_tokens: cached } = first.usage.prompt_tokens_details
  // The 512 x 384 image has 16 x 12 tokens, which all prompts but one reuse.
  expect(cached % (QUESTIONS.length - 1)).toBe(0)
  expect(cached / (QUESTIONS.length - 1)).toBeGreaterThan(16 * 12)
  expect(cached).toBeLessThan(first.usage.prompt_tokens)
  expect(await look({ prompts: QUESTIONS })).toMatchObject({ results: first.results, usage: first.usage })
  const one = await look({ prompts: QUESTIONS.slice(0, 1) })
  expect(one.usage.prompt_tokens_details.cached_tokens).toBe(0)
  expect(one.results[0]).toEqual(first.results[0])
})

test('as events, it has the same results and usage', async () => {
  const whole = await look({ prompts: QUESTIONS })
  const response = await fetch(`${service.url}/v1/chat/completions/multilook`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${service.apiKey}`,
      'content-type': 'application/json',
      accept: 'text/event-stream',
    },
    body: JSON.stringify({ model: MODEL, max_completion_tokens: SHORT, context, prompts: QUESTIONS }),
  })
  const results: Answer['results'] = []
  const texts = QUESTIONS.map(() => '')
  const ends: object[] = []
  for await (const data of readEvents(response.body!)) {
    if (data === '[DONE]') continue
    const event = JSON.parse(data)
    if ('delta' in event) texts[event.prompt_index] += event.delta.content
    else if ('completions' in event) results[event.prompt_index] = event
    else ends.push(event)
  }
  expect(results).toEqual(whole.results)
  expect(texts).toEqual(whole.results.map(({ completions }) => completions[0]!.message.content))
  expect(ends).toEqual([expect.objectContaining({ object: 'chat.completion.multilook', usage: whole.usage })])
})

test('no prompt sees another', async () => {
  const { results } = await look({ prompts: Array(16).fill(QUESTIONS[0]) })
  expect(results.map(({ prompt_index }) => prompt_index)).toEqual(Array.from({ length: 16 }, (_, i) => i))
  expect(new Set(results.map(({ completions }) => completions[0]!.message.content)).size).toBe(1)
})

test('8 completions of 8 prompts, sampled', async () => {
  const prompts = [...QUESTIONS, ...QUESTIONS]
  const { results, usage } = await look({ prompts, n: 8, temperature: 2 })
  for (const { completions, usage } of results) {
    expect(completions.map(({ index }) => index)).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
    for (const { finish_reason } of completions) expect(['stop', 'length']).toContain(finish_reason)
    expect(usage.completion_tokens).toBeLessThanOrEqual(8 * SHORT)
  }
  expect(usage.completion_tokens).toBe(results.reduce((sum, result) => sum + result.usage.completion_tokens, 0))
  expect(usage.prompt_tokens_details.cached_tokens).toBeGreaterThan(0)
  // Even at a temperature of 1, a confident model may give the same answer eight times.
  const said = results.map(({ completions }) => new Set(completions.map(({ message }) => message.content)).size)
  expect(Math.max(...said)).toBeGreaterThan(1)
})

test('several completions at the lowest temperature are the same', async () => {
  const { results, usage } = await look({ prompts: QUESTIONS.slice(0, 2), n: 3, temperature: 1e-6 })
  for (const { completions } of results) {
    expect(completions.map(({ index }) => index)).toEqual([0, 1, 2])
    expect(new Set(completions.map(({ message }) => message.content)).size).toBe(1)
  }
  const once = await look({ prompts: QUESTIONS.slice(0, 2) })
  expect(results.map(({ completions }) => completions[0])).toEqual(
    once.results.map(({ completions }) => completions[0]),
  )
  expect(usage.completion_tokens).toBe(3 * once.usage.completion_tokens)
})

test('without a context, without output, and with an empty prompt', async () => {
  const { results } = await look({ context: [], prompts: ['', 'Hello'], max_completion_tokens: 0 })
  for (const { completions } of results) {
    expect(completions[0]).toEqual({
      index: 0,
      message: { role: 'assistant', content: '' },
      finish_reason: 'length',
    })
  }
  const answered = await look({ context: [], prompts: ['', 'Hello'] })
  expect(answered.results.map(({ completions }) => completions.length)).toEqual([1, 1])
})

test('a prompt that is too long fails alone', async () => {
  const { results } = await look({ prompts: ['square '.repeat(40_000), QUESTIONS[0]!] })
  expect(results[0]).toMatchObject({ error: { type: 'invalid_request_error' } })
  expect(results[1]!.completions).toHaveLength(1)
})
