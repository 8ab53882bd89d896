import OpenAI from 'openai'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { errorOf, KEY, startTestServer, type TestServer } from './support/server.ts'

const URL = '/v1/completions'
const model = 'service-mk1.5'

let server: TestServer
let client: OpenAI

beforeAll(async () => {
  server = await startTestServer()
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: KEY, maxRetries: 0 })
})
afterAll(() => server?.close())
beforeEach(() => {
  server.engine.script = { texts: [' there', ' was', ' a robot.'] }
  server.engine.works.length = 0
})

test('the model goes on with the text itself, control tokens and all', async () => {
  const prompt = '<|im_start|>user\nOnce upon a time'
  const reply = await client.completions.create({ model, prompt, temperature: 0.5, seed: 7, max_tokens: 3 })
  expect(reply).toEqual({
    id: expect.stringMatching(/^cmpl-[0-9a-f]{32}$/),
    object: 'text_completion',
    created: expect.any(Number),
    model,
    choices: [{ index: 0, text: ' there was a robot.', logprobs: null, finish_reason: 'stop' }],
    usage: {
      prompt_tokens: prompt.length,
      completion_tokens: 3,
      total_tokens: prompt.length + 3,
      prompt_tokens_details: { audio_tokens: 0 },
    },
  })
  const { prefix, branches } = server.engine.works[0]!
  expect(prefix).toEqual([])
  expect(branches).toEqual([
    {
      param: 'prompt',
      suffix: [{ type: 'text', text: prompt, trusted: true }],
      n: 1,
      maxTokens: 3,
      sampling: { temperature: 0.5, topP: 1, topK: 0, frequencyPenalty: 0, presencePenalty: 0, seed: 7 },
    },
  ])
  await client.completions.create({ model, prompt })
  expect(server.engine.works[1]!.branches[0]).toMatchObject({ maxTokens: 16, sampling: { temperature: 0 } })
})

test('marks of thoughts and calls stay in the text', async () => {
  const texts = ['<think>', 'so', '</think>', '<tool_call>', '{}']
  server.engine.script = { texts }
  const reply = await client.completions.create({ model, prompt: 'x' })
  expect(reply.choices[0]!.text).toBe(texts.join(''))
})

test('several texts have several completions each, numbered in order', async () => {
  server.engine.script = {
    branch: (_, index) => ({ texts: (completion) => [`${index}`, `.${completion}`], reason: 'length' }),
  }
  const asked = { model, prompt: ['a', 'bc'], n: 2, echo: true }
  const { choices, usage } = await client.completions.create(asked)
  expect(choices.map(({ index, text, finish_reason }) => [index, text, finish_reason])).toEqual([
    [0, 'a0.0', 'length'],
    [1, 'a0.1', 'length'],
    [2, 'bc1.0', 'length'],
    [3, 'bc1.1', 'length'],
  ])
  expect(usage).toMatchObject({ prompt_tokens: 3, completion_tokens: 8, total_tokens: 11 })
  expect(server.engine.works).toHaveLength(1)

  const texts = ['', '', '', '']
  const reasons: unknown[] = []
  const stream = await client.completions.create({ ...asked, stream: true, stream_options: { include_usage: true } })
  for await (const chunk of stream) {
    for (const { index, text, finish_reason } of chunk.choices) {
      texts[index] += text
      reasons.push(finish_reason)
    }
    if (chunk.choices.length === 0) expect(chunk.usage).toMatchObject({ prompt_tokens: 3, completion_tokens: 8 })
  }
  expect(texts).toEqual(['a0.0', 'a0.1', 'bc1.0', 'bc1.1'])
  expect(reasons.filter(Boolean)).toEqual(['length', 'length', 'length', 'length'])
})

test('a stop sequence ends its own completion only', async () => {
  server.engine.script = { branch: (_, index) => ({ texts: index === 0 ? ['go', ' on', ' END', ' no'] : ['b', 'y'] }) }
  const { choices } = await client.completions.create({ model, prompt: ['a', 'b'], stop: ' END' })
  expect(choices.map(({ text, finish_reason }) => [text, finish_reason])).toEqual([
    ['go on', 'stop'],
    ['by', 'stop'],
  ])
})

test('log-probabilities have the old shape, whole and in pieces', async () => {
  const asked = { model, prompt: 'x', logprobs: 1 }
  const whole = (await client.completions.create(asked)).choices[0]!.logprobs!
  expect(whole.tokens?.slice(0, 3)).toEqual([' there', ' was', ' a robot.'])
  expect(whole.text_offset?.slice(0, 3)).toEqual([0, 6, 10])
  expect(whole.token_logprobs).toHaveLength(whole.tokens!.length)
  expect(whole.top_logprobs?.every((top) => Object.values(top).every((one) => one <= 0))).toBe(true)
  const pieces: unknown[][] = [[], [], [], []]
  for await (const { choices } of await client.completions.create({ ...asked, stream: true })) {
    const { tokens, token_logprobs, top_logprobs, text_offset } = choices[0]!.logprobs!
    for (const [i, more] of [tokens, token_logprobs, top_logprobs, text_offset].entries()) pieces[i]!.push(...more!)
  }
  expect(pieces).toEqual([whole.tokens, whole.token_logprobs, whole.top_logprobs, whole.text_offset])
})

test.each([
  [{ prompt: [1, 2] }, 'prompt[0]', 'token ids are not supported'],
  [{ prompt: [[1], [2]] }, 'prompt[0]', 'token ids are not supported'],
  [{ prompt: 5 }, 'prompt', 'expected string or array'],
  [{ prompt: [] }, 'prompt', 'at least 1 item'],
  [{ prompt: Array.from({ length: 17 }, () => 'x') }, 'prompt', 'at most 16 items'],
  [{ prompt: 'x', suffix: 'end' }, 'suffix', 'not supported'],
  [{ prompt: 'x', n: 2, best_of: 4 }, 'best_of', 'same number as n'],
  [{ prompt: 'x', echo: true, logprobs: 0 }, 'logprobs', 'not supported with echo'],
  [{ prompt: 'x', logit_bias: { 5: 1 } }, 'logit_bias.5', 'only an empty one'],
  [{ prompt: ['x', 'y'.repeat(40_000)] }, 'prompt[1]', 'exceeds the context'],
  [{ prompt: 'x', max_tokens: 40_000 }, 'max_tokens', 'max_tokens 40000'],
])('%j is refused by the name of its field', async (body, param, message) => {
  const response = await server.post(URL, { model, ...body })
  expect(response.status).toBe(400)
  const error = await errorOf(response)
  expect(error).toMatchObject({ type: 'invalid_request_error', param })
  expect(error.message).toContain(message)
})

test('a model is asked by its id, and a key is needed', async () => {
  const unknown = await server.post(URL, { model: 'none', prompt: 'x' })
  expect(unknown.status).toBe(400)
  expect((await errorOf(unknown)).message).toContain("'none'")
  const response = await fetch(`${server.url}${URL}`, { method: 'POST', body: '{}' })
  expect(response.status).toBe(401)
})
