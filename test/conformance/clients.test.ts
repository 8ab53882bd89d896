import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText, isStepCount, jsonSchema, Output, streamText, tool } from 'ai'
import OpenAI from 'openai'
import { zodResponseFormat } from 'openai/helpers/zod'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { Work } from '../../src/inference/contract/work.ts'
import { promptText, textOf } from '../support/chat.ts'
import { KEY, startTestServer, type TestServer } from '../support/server.ts'

/** Popular clients, unchanged. */
const MODEL = 'service-mk1.5'
const PICTURE =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Bern"}}\n</tool_call>'
const hasResult = (work: Work) => work.prefix.map(textOf).join('').includes('<tool_response>')

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server?.close())
beforeEach(() => {
  server.engine.works.length = 0
  server.engine.script = { texts: ['Two', ' lamps.'] }
})

/** Makes the engine call a tool once, then reply with its result. */
function callThenAnswer(call = CALL): void {
  server.engine.script = {
    branch: () => ({ texts: hasResult(server.engine.works.at(-1)!) ? ['It is ', 'sunny.'] : [...call].map(String) }),
  }
}

describe('the official client of OpenAI', () => {
  let client: OpenAI
  beforeAll(() => {
    client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: KEY, maxRetries: 0 })
  })
  const messages: OpenAI.ChatCompletionMessageParam[] = [
    { role: 'developer', content: 'Be brief.' },
    {
      role: 'user',
      content: [
        { type: 'image_url', image_url: { url: PICTURE, detail: 'high' } },
        { type: 'text', text: 'What is here?' },
      ],
    },
  ]
  const tools: OpenAI.ChatCompletionTool[] = [
    {
      type: 'function',
      function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
    },
  ]

  test('chats', async () => {
    const reply = await client.chat.completions.create({ model: MODEL, messages })
    expect(reply.choices[0]).toMatchObject({ message: { content: 'Two lamps.' }, finish_reason: 'stop' })
    expect(promptText(server.engine)).toContain('system\nBe brief.<|im_end|>\n<|im_start|>user\n[picture]What is here?')
  })

  test('streams, with its helper', async () => {
    const stream = client.chat.completions.stream({ model: MODEL, messages, stream_options: { include_usage: true } })
    const texts: string[] = []
    stream.on('content', (delta) => texts.push(delta))
    expect(await stream.finalContent()).toBe('Two lamps.')
    expect(texts.join('')).toBe('Two lamps.')
    expect((await stream.totalUsage()).completion_tokens).toBe(2)
  })

  test('reads log-probabilities, whole and with its helper for streams', async () => {
    const asked = { model: MODEL, messages, logprobs: true, top_logprobs: 2 }
    const whole = (await client.chat.completions.create(asked)).choices[0]!.logprobs!
    const streamed = (await client.chat.completions.stream(asked).finalChatCompletion()).choices[0]!.logprobs!
    for (const { content } of [whole, streamed]) {
      expect(content!.map(({ token }) => token)).toEqual(['Two', ' lamps.'])
      expect(Buffer.from(content!.flatMap(({ bytes }) => bytes ?? [])).toString()).toBe('Two lamps.')
      expect(content![0]!.top_logprobs.map(({ logprob }) => Math.exp(logprob))).toEqual([
        expect.closeTo(2 / 3),
        expect.closeTo(1 / 3),
      ])
    }
  })

  test('calls functions, streamed and not, with its helper', async () => {
    callThenAnswer()
    const cities: string[] = []
    const runnable = {
      ...tools[0]!,
      function: {
        ...(tools[0] as OpenAI.ChatCompletionFunctionTool).function,
        parse: JSON.parse,
        function: ({ city }: { city: string }) => {
          cities.push(city)
          return 'sunny'
        },
      },
    }
    const plain = client.chat.completions.runTools({ model: MODEL, messages, tools: [runnable as never] })
    expect(await plain.finalContent()).toBe('It is sunny.')
    const streamed = client.chat.completions.runTools({
      model: MODEL,
      messages,
      tools: [runnable as never],
      stream: true,
    })
    expect(await streamed.finalContent()).toBe('It is sunny.')
    expect(cities).toEqual(['Bern', 'Bern'])
    expect(promptText(server.engine)).toContain('<tool_response>\nsunny\n</tool_response>')
  })

  test('gets structured output, with its helper', async () => {
    server.engine.script = { texts: ['{"count"', ': 2}'] }
    const schema = z.object({ count: z.number() })
    const reply = await client.chat.completions.parse({
      model: MODEL,
      messages,
      response_format: zodResponseFormat(schema, 'count'),
    })
    expect(reply.choices[0]!.message.parsed).toEqual({ count: 2 })
  })

  test('sees the id of a response and of an error', async () => {
    const reply = await client.chat.completions.create({ model: MODEL, messages })
    expect(reply._request_id).toMatch(/^[0-9a-f]{32}$/)
    await expect(client.models.retrieve('none')).rejects.toMatchObject({
      requestID: expect.stringMatching(/^[0-9a-f]{32}$/),
    })
  })

  test('works in a page, with all the headers that it sends', async () => {
    const origin = 'https://example.org'
    const open = await startTestServer({ environment: { LOOKOUT_CORS_ORIGINS: origin } })
    const sent = new Set<string>()
    const browser = new OpenAI({
      baseURL: `${open.url}/v1`,
      apiKey: KEY,
      organization: 'org',
      project: 'project',
      dangerouslyAllowBrowser: true,
      fetch: (url, init) => {
        for (const name of new Headers(init?.headers).keys()) sent.add(name)
        return fetch(url, init)
      },
    })
    await browser.chat.completions.create({ model: MODEL, messages }, { idempotencyKey: 'once' })
    await browser.files.create({
      file: new File([Buffer.from(PICTURE.split(',')[1]!, 'base64')], 'a.png'),
      purpose: 'vision',
    })
    expect([...sent]).toEqual(expect.arrayContaining(['authorization', 'x-stainless-lang', 'openai-organization']))
    const preflight = await fetch(`${open.url}/v1/chat/completions`, {
      method: 'OPTIONS',
      headers: {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': [...sent].sort().join(','),
      },
    })
    expect(preflight.status).toBe(204)
    const allowed = preflight.headers
      .get('access-control-allow-headers')!
      .split(',')
      .map((name) => name.trim())
    expect(allowed).toEqual(expect.arrayContaining([...sent]))
    expect(preflight.headers.get('vary')).toBe('Origin, access-control-request-headers')
    await open.close()
  })

  test('throws its own error classes', async () => {
    const attempt = client.chat.completions.create({ model: MODEL, messages, tools, tool_choice: 'required' })
    await expect(attempt).rejects.toMatchObject({ status: 400, param: 'tool_choice', type: 'invalid_request_error' })
    await expect(attempt).rejects.toBeInstanceOf(OpenAI.BadRequestError)
  })
})

describe('the AI SDK', () => {
  const model = () =>
    createOpenAICompatible({
      name: 'lookout',
      baseURL: `${server.url}/v1`,
      apiKey: KEY,
      includeUsage: true,
      supportsStructuredOutputs: true,
    })(MODEL)
  const weather = tool({
    description: 'How it is outside.',
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => `${city}: sunny`,
  })

  test('chats about an image', async () => {
    const { text, finishReason, usage } = await generateText({
      model: model(),
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What is here?' },
            { type: 'file', mediaType: 'image/png', data: PICTURE },
          ],
        },
      ],
    })
    expect([text, finishReason, usage.outputTokens]).toEqual(['Two lamps.', 'stop', 2])
    expect(promptText(server.engine)).toContain('What is here?[picture]')
  })

  test('streams text and reasoning', async () => {
    server.engine.script = { texts: ['Hm.\n</thi', 'nk>\n\n', 'Two', ' lamps.'] }
    const result = streamText({
      model: model(),
      prompt: 'What?',
      providerOptions: { lookout: { reasoningEffort: 'low' } },
    })
    let text = ''
    for await (const piece of result.textStream) text += piece
    expect(text).toBe('Two lamps.')
    expect(await result.reasoningText).toBe('Hm.')
    expect((await result.usage).outputTokens).toBe(4)
  })

  test.each(['generateText', 'streamText'])('runs a tool loop: %s', async (kind) => {
    callThenAnswer()
    const options = { model: model(), prompt: 'Weather?', tools: { weather }, stopWhen: isStepCount(3) }
    const result = kind === 'generateText' ? await generateText(options) : streamText(options)
    expect(await result.text).toBe('It is sunny.')
    const steps = await result.steps
    expect(steps.map(({ finishReason }) => finishReason)).toEqual(['tool-calls', 'stop'])
    expect(steps[0]!.toolCalls).toMatchObject([{ toolName: 'weather', input: { city: 'Bern' } }])
    expect(promptText(server.engine)).toContain('<tool_response>\nBern: sunny\n</tool_response>')
  })

  test('returns structured output', async () => {
    server.engine.script = { texts: ['{"count"', ': 2}'] }
    const schema = jsonSchema<{ count: number }>({
      type: 'object',
      properties: { count: { type: 'integer' } },
      required: ['count'],
    })
    const { output } = await generateText({ model: model(), prompt: 'How many?', output: Output.object({ schema }) })
    expect(output).toEqual({ count: 2 })
    expect(server.engine.works[0]!.branches[0]!.constraint).toMatchObject({ type: 'json_schema' })
    const streamed = streamText({
      model: model(),
      prompt: 'How many?',
      output: Output.object({ schema: z.object({ count: z.number() }) }),
    })
    expect(await streamed.output).toEqual({ count: 2 })
  })

  test('throws its own error classes', async () => {
    const attempt = generateText({ model: model(), prompt: 'x', temperature: 9, maxRetries: 0 })
    await expect(attempt).rejects.toMatchObject({ statusCode: 400, message: expect.stringContaining('temperature') })
  })
})
