import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import OpenAI from 'openai'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { changedCard } from './support/changed-card.ts'
import { errorOf, jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'
import { startShippedServer } from './support/shipped-model.ts'
import { PROCESSORS, writeProcessorFolder } from './support/vllm/processors.ts'

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
      prompt_tokens_details: { audio_tokens: 0, image_tokens: 0, cached_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
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

// As lm-eval's task humaneval sends them.
test('more stop sequences than OpenAI takes count', async () => {
  server.engine.script = { texts: ['go on', '<|im_end|>', ' no'] }
  const stop = ['\nclass', '\ndef', '\n#', '\nif', '\nprint', '<|im_end|>']
  expect((await client.completions.create({ model, prompt: 'a', stop })).choices[0]!.text).toBe('go on')
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

test('of tokens that print the same, the likeliest counts', async () => {
  const alternatives = () => [
    { text: ' a', mass: 0.2 },
    { text: ' there', mass: 0.1 },
  ]
  server.engine.script = { texts: [' there'], alternatives }
  const { logprobs } = (await client.completions.create({ model, prompt: 'x', logprobs: 3 })).choices[0]!
  expect(logprobs!.token_logprobs![0]).toBeCloseTo(Math.log(0.7))
  expect(Object.entries(logprobs!.top_logprobs![0]!)).toEqual([
    [' there', logprobs!.token_logprobs![0]],
    [' a', Math.log(0.2)],
  ])
})

test.each([
  [{ prompt: [1, 'a'] }, 'prompt', 'only texts, or only token ids'],
  [{ prompt: [[1], [2.5]] }, 'prompt[1][0]', 'expected an integer'],
  [{ prompt: [[]] }, 'prompt[0]', 'at least 1 item'],
  [{ prompt: [true] }, 'prompt[0]', 'a text or token ids'],
  [{ prompt: 5 }, 'prompt', 'expected string or array'],
  [{ prompt: [] }, 'prompt', 'at least 1 item'],
  [{ prompt: Array.from({ length: 17 }, () => 'x') }, 'prompt', 'at most 16 items'],
  [{ prompt: 'x', suffix: 'end' }, 'suffix', 'not supported'],
  [{ prompt: 'x', n: 2, best_of: 4 }, 'best_of', 'same number as n'],
  [{ prompt: 'x', echo: true, logprobs: 21 }, 'logprobs', 'at most 20'],
  [{ prompt: 'x', stop: Array.from({ length: 33 }, () => 'x') }, 'stop', 'at most 32 items'],
  [{ prompt: 'x', logit_bias: { 5: 1 } }, 'logit_bias.5', 'only an empty one'],
  [{ prompt: 'x', guided_json: { type: 'object' } }, 'guided_json', 'use structured_outputs'],
  [{ prompt: 'x', structured_outputs: { grammar: 'root ::= "a"' } }, 'structured_outputs.grammar', 'not supported'],
  [{ prompt: 'x', structured_outputs: { regex: '\ud800' } }, 'structured_outputs.regex', 'lone surrogate'],
  [{ prompt: 'x', regex: 'a', response_format: { type: 'json_object' } }, 'regex', 'cannot be combined'],
  [{ prompt: ['x', 'y'.repeat(40_000)] }, 'prompt[1]', 'too long'],
  [{ prompt: 'x', max_tokens: 8193 }, 'max_tokens', 'max_tokens is 8193, but'],
])('%j is refused by the name of its field', async (body, param, message) => {
  const response = await server.post(URL, { model, ...body })
  expect(response.status).toBe(400)
  const error = await errorOf(response)
  expect(error).toMatchObject({ type: 'invalid_request_error', param })
  expect(error.message).toContain(message)
})

test('a completion that an engine lets out of its structure is an error', async () => {
  server.engine.script = { texts: ['no'] }
  const response = await server.post(URL, { model, prompt: 'x', structured_outputs: { choice: ['a', 'b'] } })
  expect(response.status).toBe(500)
  expect(await errorOf(response)).toMatchObject({
    code: 'output_validation_failed',
    param: 'structured_outputs.choice',
  })
})

describe('with the shipped model', () => {
  let shipped: TestServer
  beforeAll(async () => {
    shipped = await startShippedServer()
  })
  afterAll(() => shipped?.close())

  const complete = async (body: object) => {
    const response = await shipped.post(URL, { model, ...body })
    expect(response.status).toBe(200)
    return jsonOf<OpenAI.Completion>(response)
  }
  const rated = async (body: object) => (await complete(body)).choices[0]!.logprobs!
  const PROMPT = '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n'

  test('the tokens of an echo are as likely as when the model wrote them, up to the end of its turn', async () => {
    const { choices } = await complete({ prompt: PROMPT, max_tokens: 20, logprobs: 3 })
    const { text, logprobs } = choices[0]!
    const echo = await complete({ prompt: PROMPT + text, max_tokens: 1, echo: true, logprobs: 3 })
    expect(echo.choices[0]!.text).toBe(PROMPT + text)
    expect(echo.usage).toMatchObject({ completion_tokens: 0 })
    const { tokens, token_logprobs, top_logprobs, text_offset } = echo.choices[0]!.logprobs!
    expect([tokens![0], token_logprobs![0], top_logprobs![0]]).toEqual(['<|im_start|>', null, null])
    expect(tokens!.slice(-logprobs!.tokens!.length - 1)).toEqual([...logprobs!.tokens!, '<|im_end|>'])
    expect(token_logprobs!.slice(-logprobs!.tokens!.length - 1, -1)).toEqual(logprobs!.token_logprobs)
    expect(top_logprobs!.slice(-logprobs!.tokens!.length - 1, -1)).toEqual(logprobs!.top_logprobs)
    for (const [index, offset] of text_offset!.slice(0, -1).entries())
      expect((PROMPT + text).startsWith(tokens![index]!, offset)).toBe(true)
    // How likely the reply is as a whole, a decision reads too.
    const sum = token_logprobs!.slice(-logprobs!.tokens!.length - 1).reduce((all, one) => all + one!, 0)
    expect(Math.exp(sum)).toBeGreaterThan(0.99)
  })

  test('so are those of a text that takes several calls, anywhere in it', async () => {
    const prompt = Array.from(
      { length: 700 },
      (_, at) => ['the red', 'circle', 'is a star', 'and'][((at * at) % 7) % 4],
    ).join(' ')
    const { tokens, top_logprobs } = await rated({ prompt, max_tokens: 0, echo: true, logprobs: 5 })
    expect(tokens!.join('')).toBe(prompt)
    for (const at of [1, 255, 256, 257, 511, 512, tokens!.length - 1]) {
      const next = await rated({ prompt: tokens!.slice(0, at).join(''), max_tokens: 1, logprobs: 5, echo: false })
      expect(next.top_logprobs).toEqual([top_logprobs![at]])
    }
  })

  const schema = { type: 'object', properties: { n: { enum: [1, 2] } }, required: ['n'], additionalProperties: false }
  test.each([
    [{ structured_outputs: { choice: ['left', 'right'] } }, /^(?:left|right)$/],
    [{ structured_outputs: { regex: '[ab]{3}!' } }, /^[ab]{3}!$/],
    [{ structured_outputs: { json: schema } }, /^\{\s*"n"\s*:\s*[12]\s*\}$/],
    [{ regex: '\\d{4}' }, /^\d{4}$/],
    [{ response_format: { type: 'json_schema', json_schema: { name: 'n', schema } } }, /^\{\s*"n"\s*:\s*[12]\s*\}$/],
  ])('completions have the structure that %j asks for', async (structure, pattern) => {
    const asked = { prompt: ['Hi', PROMPT], n: 2, temperature: 1, max_tokens: 40, ...structure }
    const { choices } = await complete(asked)
    expect(choices).toHaveLength(4)
    for (const { text } of choices) expect(text).toMatch(pattern)
    const echoes = (await complete({ ...asked, echo: true })).choices
    expect(echoes.every(({ text }) => pattern.test(text.replace(/^Hi|^.*assistant\n/s, '')))).toBe(true)
  })

  test('min_p leaves only the likeliest tokens, and a repetition penalty avoids those of the prompt', async () => {
    const textOf = async (body: object) => (await complete({ max_tokens: 12, seed: 5, ...body })).choices[0]!.text
    const prompt = `${PROMPT}A red circle and`
    const likeliest = await textOf({ prompt })
    expect(await textOf({ prompt, temperature: 2 })).not.toBe(likeliest)
    expect(await textOf({ prompt, temperature: 2, min_p: 1 })).toBe(likeliest)
    expect(await textOf({ prompt: '0000000000' })).toBe('000000000000')
    expect(await textOf({ prompt: '0000000000', repetition_penalty: 1.5 })).not.toMatch(/^0/)
  })

  test('an invalid schema is refused by the name of its field', async () => {
    const body = { model, prompt: 'x', structured_outputs: { json: { minLength: 'a' } } }
    const response = await shipped.post(URL, body)
    expect([response.status, (await errorOf(response)).param]).toEqual([400, 'structured_outputs.json.minLength'])
  })

  test('token ids are taken as they are, one list or several', async () => {
    const ids = [...'Hi'].map((one) => one.charCodeAt(0))
    const one = await complete({ prompt: ids, max_tokens: 2, echo: true })
    expect(one).toMatchObject({ usage: { prompt_tokens: 2 }, choices: [{ text: expect.stringMatching(/^Hi/) }] })
    const { choices } = await complete({ prompt: [[72], ids], max_tokens: 0, echo: true, logprobs: 0, n: 2 })
    expect(choices.map(({ text, logprobs }) => [text, logprobs!.token_logprobs!.length])).toEqual([
      ...[
        ['H', 1],
        ['H', 1],
      ],
      ...[
        ['Hi', 2],
        ['Hi', 2],
      ],
    ])
    const unknown = await shipped.post(URL, { model, prompt: [[1], [2, 1_000_000]] })
    expect([unknown.status, (await errorOf(unknown)).param]).toEqual([400, 'prompt[1]'])
    const long = await shipped.post(URL, { model, prompt: Array(40_000).fill(1), echo: true, logprobs: 1 })
    expect([long.status, (await errorOf(long)).param]).toEqual([400, 'prompt'])
  })

  test('an echo is streamed with its tokens, which may be parts of a character', async () => {
    const openai = new OpenAI({ baseURL: `${shipped.url}/v1`, apiKey: KEY, maxRetries: 0 })
    const asked = { model, prompt: 'a\u20ac\u{1f44d}b c', max_tokens: 2, echo: true, logprobs: 1 }
    const whole = (await openai.completions.create(asked)).choices[0]!
    expect(whole.logprobs!.text_offset!.slice(0, 9)).toEqual([0, 1, 1, 1, 2, 2, 2, 2, 4])
    expect(whole.logprobs!.tokens!.slice(8, 10).join('')).toBe('b c')
    const pieces = { text: '', tokens: [] as string[], offsets: [] as number[] }
    for await (const { choices } of await openai.completions.create({ ...asked, stream: true })) {
      pieces.text += choices[0]!.text
      pieces.tokens.push(...choices[0]!.logprobs!.tokens!)
      pieces.offsets.push(...choices[0]!.logprobs!.text_offset!)
    }
    expect(pieces).toEqual({ text: whole.text, tokens: whole.logprobs!.tokens, offsets: whole.logprobs!.text_offset })
  })
})

test('servers elsewhere take no token ids and rate no prompts', async () => {
  const tokenizer = await mkdtemp(join(tmpdir(), 'lookout-tokenizer-'))
  await writeProcessorFolder(tokenizer, PROCESSORS[0]!)
  const engine = { type: 'vllm', urls: ['http://127.0.0.1:9'], model: 'm', tokenizer, contextTokens: 4096 }
  const card = await changedCard(() => ({ serves: [{ id: model }], engine }))
  const remote = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: card.path } })
  try {
    for (const [param, body] of Object.entries({
      prompt: { prompt: [1, 2] },
      logprobs: { prompt: 'x', echo: true, logprobs: 1 },
    })) {
      const response = await remote.post(URL, { model, ...body })
      expect([response.status, (await errorOf(response)).param]).toEqual([400, param])
    }
    expect((await remote.post(URL, { model, prompt: 'x', echo: true })).status).toBe(200)
  } finally {
    await remote.close()
    await card.remove()
    await rm(tokenizer, { recursive: true })
  }
})

test('a model is asked by its id, and a key is needed', async () => {
  const unknown = await server.post(URL, { model: 'none', prompt: 'x' })
  expect(unknown.status).toBe(400)
  expect((await errorOf(unknown)).message).toContain("'none'")
  const response = await fetch(`${server.url}${URL}`, { method: 'POST', body: '{}' })
  expect(response.status).toBe(401)
})
