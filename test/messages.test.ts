import { readFile } from 'node:fs/promises'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI, { toFile } from 'openai'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { internalError, modelOverloaded } from '../src/lib/errors/errors.ts'
import { promptText } from './support/chat.ts'
import { jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'

const MODEL = 'service-mk1.5'
const PATH = '/v1/messages'

let server: TestServer
let client: Anthropic
let png: string

beforeAll(async () => {
  png = await readFile('docs/pictures/shapes.png', 'base64')
  server = await startTestServer()
  client = new Anthropic({ baseURL: server.url, apiKey: KEY, maxRetries: 0 })
})
afterAll(() => server?.close())
beforeEach(() => {
  server.engine.script = { texts: ['Two', ' lamps.'] }
  server.engine.works.length = 0
  server.engine.aborts.length = 0
})

const user = (content: Anthropic.MessageParam['content']): Anthropic.MessageParam => ({ role: 'user', content })
const fields = { model: MODEL, max_tokens: 100, messages: [user('Hi')] }
const picture: Anthropic.ImageBlockParam = {
  type: 'image',
  source: {
    type: 'base64',
    media_type: 'image/png',
    get data() {
      return png
    },
  },
}
const weather: Anthropic.Tool = {
  name: 'weather',
  description: 'Tells the weather.',
  input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
}
const clock: Anthropic.Tool = { name: 'clock', input_schema: { type: 'object' } }
const found: Anthropic.SearchResultBlockParam = {
  type: 'search_result',
  title: 'Title',
  source: 'https://a.example',
  content: [
    { type: 'text', text: 'One.' },
    { type: 'text', text: 'Two.' },
  ],
}
const called = (...names: string[]) =>
  names.map((name) => `<tool_call>\n{"name": "${name}", "arguments": {"city": "Bern"}}\n</tool_call>`)

const turn = (role: string, content: string) => `<|im_start|>${role}\n${content}<|im_end|>\n`
const branch = () => server.engine.works.at(-1)!.branches[0]!

async function rendered(request: Partial<Anthropic.MessageCreateParamsNonStreaming>): Promise<string> {
  await client.messages.create({ ...fields, ...request })
  return promptText(server.engine)
}

/** The types of the events of a stream, in order; of the deltas, their own. */
async function eventsOf(request: object): Promise<string[]> {
  const response = await server.post(PATH, { ...fields, ...request, stream: true })
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream; charset=utf-8'])
  const frames = (await response.text()).split('\n\n').filter((frame) => frame !== '')
  return frames.map((frame) => {
    const [, name, data] = /^event: (\w+)\ndata: (.*)$/.exec(frame)!
    const event = JSON.parse(data!)
    expect(event.type).toBe(name)
    return event.delta?.type ?? event.content_block?.type ?? name
  })
}

describe('a message', () => {
  test('has the fields of the official client, and what it took', async () => {
    server.engine.script = { texts: ['Two', ' lamps.'], cachedTokens: 7 }
    const { data, response } = await client.messages.create({ ...fields, system: 'Be brief.' }).withResponse()
    const prompt = promptText(server.engine)
    expect(data).toEqual({
      id: expect.stringMatching(/^msg_[0-9a-f]{32}$/),
      type: 'message',
      role: 'assistant',
      model: MODEL,
      // Without citations: versions 5 and 6 of the AI SDK refuse a null.
      content: [{ type: 'text', text: 'Two lamps.' } as Anthropic.TextBlock],
      stop_reason: 'end_turn',
      stop_sequence: null,
      stop_details: null,
      container: null,
      diagnostics: null,
      usage: {
        input_tokens: prompt.length - 7,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 7,
        output_tokens: 2,
        output_tokens_details: { thinking_tokens: 0 },
        server_tool_use: null,
        cache_creation: null,
        inference_geo: null,
        service_tier: 'standard',
        speed: null,
      },
    } satisfies Anthropic.Message)
    expect(response.headers.get('request-id')).toMatch(/^[0-9a-f]{32}$/)
    expect(prompt).toContain(turn('system', 'Be brief.') + turn('user', 'Hi'))
  })

  test('is metered as chats are', async () => {
    server.logs.length = 0
    await client.messages.create({ ...fields, metadata: { user_id: 'somebody' } })
    const logged = () => server.logs.map((line) => JSON.parse(line)).find(({ path }) => path === PATH)
    await expect.poll(logged).toMatchObject({ status: 200, organisation: expect.any(String) })
  })

  test('takes the options of sampling, and leaves out what it has no use for', async () => {
    const options = { temperature: 0.7, top_p: 0.9, top_k: 40, service_tier: 'auto', context_management: { edits: [] } }
    const headers = { 'anthropic-beta': 'context-1m-2025-08-07,unknown' }
    await client.messages.create({ ...fields, ...options } as never, { headers })
    expect(branch()).toMatchObject({ maxTokens: 100, sampling: { temperature: 0.7, topP: 0.9, topK: 40 } })
  })

  test('max_tokens is a bound: a model that writes fewer at most is not an error', async () => {
    await client.messages.create({ ...fields, max_tokens: 64_000 }, { timeout: 60_000 })
    expect(branch().maxTokens).toBe(8192)
    server.engine.script = { texts: ['Two'], reason: 'length' }
    expect(await client.messages.create(fields)).toMatchObject({ stop_reason: 'max_tokens' })
    const long = [user('x'.repeat(32_000))]
    server.engine.script = { texts: ['Two'], tokensPerText: 10_000, reason: 'length' }
    const message = await client.messages.create({ ...fields, messages: long, max_tokens: 8000 })
    expect(message.stop_reason).toBe('model_context_window_exceeded')
    expect(branch().maxTokens).toBe(32_768 - promptText(server.engine).length)
  })
})

describe('the conversation', () => {
  test.each<[string, Partial<Anthropic.MessageCreateParamsNonStreaming>, string]>([
    [
      'instructions in blocks, without the line that Claude Code changes with each request',
      {
        system: [
          { type: 'text', text: 'x-anthropic-billing-header: cc_version=2; cch=a1b2c;' },
          { type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } },
        ],
      },
      turn('system', 'Be brief.') + turn('user', 'Hi'),
    ],
    [
      'turns of both, and instructions between them',
      {
        messages: [
          user('A'),
          { role: 'assistant', content: 'B' },
          { role: 'system', content: 'C' },
          user([
            { type: 'text', text: 'D', cache_control: { type: 'ephemeral' } },
            { type: 'text', text: 'E' },
          ]),
        ],
      },
      turn('user', 'A') + turn('assistant', 'B') + turn('system', 'C') + turn('user', 'DE'),
    ],
    ['messages of the user in a row', { messages: [user('A'), user('B')] }, turn('user', 'A\n\nB')],
    [
      'a document of plain text',
      {
        messages: [
          user([
            { type: 'document', title: 'T', source: { type: 'text', media_type: 'text/plain', data: 'D' } },
            { type: 'text', text: '?' },
          ]),
        ],
      },
      turn('user', 'T\n\nD?'),
    ],
    [
      'documents with a context, of texts and of blocks',
      {
        messages: [
          user([
            {
              type: 'document',
              title: 'T',
              context: 'C',
              source: { type: 'text', media_type: 'text/plain', data: 'D' },
            },
            { type: 'document', context: 'C', source: { type: 'content', content: 'E' } },
            {
              type: 'document',
              title: 'U',
              source: {
                type: 'content',
                content: [
                  { type: 'text', text: 'F' },
                  { type: 'text', text: 'G' },
                ],
              },
            },
          ]),
        ],
      },
      turn('user', 'T\n\nC\n\nDC\n\nEU\n\nF\nG'),
    ],
    [
      'results of a search, of a tool',
      {
        tools: [clock],
        messages: [
          user('?'),
          { role: 'assistant', content: [{ type: 'tool_use', id: 't1', name: 'clock', input: {} }] },
          user([{ type: 'tool_result', tool_use_id: 't1', content: [found, found] }]),
        ],
      },
      'Title\nhttps://a.example\n\nOne.\nTwo.'.repeat(2),
    ],
    [
      'a result of a search, of the user',
      { messages: [user([found, { type: 'text', text: '?' }])] },
      turn('user', 'Title\nhttps://a.example\n\nOne.\nTwo.?'),
    ],
  ])('%s', async (_, request, expected) => {
    expect(await rendered(request)).toContain(expected)
  })

  test('pictures: base64, a URL and a file', async () => {
    const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: KEY, maxRetries: 0 })
    const bytes = Buffer.from(png, 'base64')
    const { id } = await openai.files.create({ file: await toFile(bytes, 'shapes.png'), purpose: 'vision' })
    const data = `data:image/png;base64,${png}`
    await client.messages.create({
      ...fields,
      messages: [
        user([
          picture,
          { type: 'image', source: { type: 'url', url: data } },
          { type: 'image', source: { type: 'file', file_id: id } },
          { type: 'text', text: 'Compare them.' },
        ]),
      ],
    })
    const images = server.engine.works.at(-1)!.prefix.filter((part) => part.type === 'image')
    expect(images).toHaveLength(3)
    expect(images[1]).toEqual(images[0])
    expect(images[2]).toEqual(images[0])
  })

  test('large pictures, which a thread decodes, also those of tools', async () => {
    const { default: sharp } = await import('sharp')
    const { randomBytes } = await import('node:crypto')
    const raw = { width: 256, height: 256, channels: 3 } as const
    const noise = await sharp(randomBytes(256 * 256 * 3), { raw })
      .png()
      .toBuffer()
    const source = { type: 'base64', media_type: 'image/png', data: noise.toString('base64') } as const
    expect(source.data.length).toBeGreaterThan(200_000)
    const chunks: Anthropic.ContentBlockSource = { type: 'content', content: [{ type: 'image', source }] }
    const pictured: Anthropic.DocumentBlockParam = { type: 'document', source: chunks }
    await client.messages.create({
      ...fields,
      tools: [clock],
      messages: [
        user([{ type: 'image', source }]),
        { role: 'assistant', content: [{ type: 'tool_use', id: 't1', name: 'clock', input: {} }] },
        user([{ type: 'tool_result', tool_use_id: 't1', content: [{ type: 'image', source }, pictured] }, pictured]),
      ],
    })
    const images = server.engine.works.at(-1)!.prefix.filter((part) => part.type === 'image')
    expect(images).toHaveLength(4)
    for (const image of images) expect(image).toEqual(images[0])
  })

  test('earlier thoughts come back with their signature, and what servers of Anthropic did is skipped', async () => {
    const prompt = await rendered({
      tools: [clock],
      messages: [
        user('When?'),
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'A clock.', signature: 'anything' },
            { type: 'redacted_thinking', data: 'secret' },
            { type: 'server_tool_use', id: 's1', name: 'web_search', input: { query: 'q' } },
            { type: 'text', text: 'Let me see.' },
            { type: 'tool_use', id: 't1', name: 'clock', input: { b: 1, a: [2] } },
          ],
        },
        user([
          { type: 'text', text: 'Well?' },
          { type: 'tool_result', tool_use_id: 't1', is_error: true, content: 'Stopped.' },
        ]),
      ],
    })
    expect(prompt).toContain('A clock.')
    expect(prompt).toContain('Let me see.')
    expect(prompt).toContain('{"b":1,"a":[2]}')
    expect(prompt).not.toMatch(/secret|web_search|anything/)
    // The result comes first, as the model expects it.
    expect(prompt).toMatch(/Error: Stopped\..*Well\?/s)
  })
})

describe('tools', () => {
  test('are called with the digits of long integers', async () => {
    const text = '<tool_call>\n{"name": "weather", "arguments": {"ids": [1097253424567890123]}}\n</tool_call>'
    server.engine.script = { texts: [text] }
    const response = await server.post('/v1/messages', { ...fields, tools: [weather] })
    expect(await response.text()).toContain('"input":{"ids":[1097253424567890123]}')
  })

  test('are called, and answered with a picture', async () => {
    server.engine.script = { texts: ['Let me look. ', ...called('weather')] }
    const tools = [weather, { type: 'web_search_20250305', name: 'web_search' } as const, clock]
    const first = await client.messages.create({ ...fields, tools })
    expect(first).toMatchObject({
      content: [
        { type: 'text', text: 'Let me look.' },
        { type: 'tool_use', id: expect.stringMatching(/^toolu_/), name: 'weather', input: { city: 'Bern' } },
      ],
      stop_reason: 'tool_use',
    })
    const prompt = promptText(server.engine)
    expect(prompt).toContain('"weather"')
    expect(prompt).toContain('"clock"')
    expect(prompt).not.toContain('web_search')

    const call = first.content[1] as Anthropic.ToolUseBlock
    server.engine.script = { texts: ['Sunny.'] }
    const seen: Anthropic.ToolResultBlockParam['content'] = [picture, { type: 'text', text: 'See.' }]
    const result = { type: 'tool_result' as const, tool_use_id: call.id, content: seen }
    const messages = [...fields.messages, { role: 'assistant' as const, content: first.content }, user([result])]
    expect((await client.messages.create({ ...fields, tools, messages })).content).toMatchObject([{ text: 'Sunny.' }])
    expect(promptText(server.engine)).toMatch(/<tool_response>\n\[picture\]See\.\n<\/tool_response>/)
  })

  test.each<[string, Anthropic.ToolChoice | undefined, object]>([
    ['auto', undefined, { advisory: true, stopAfterFirst: false }],
    [
      'auto, one at a time',
      { type: 'auto', disable_parallel_tool_use: true },
      { advisory: true, stopAfterFirst: true },
    ],
    ['any', { type: 'any' }, { atLeastOne: true, stopAfterFirst: false }],
    ['any, one', { type: 'any', disable_parallel_tool_use: true }, { atLeastOne: true, stopAfterFirst: true }],
    ['one by its name', { type: 'tool', name: 'clock' }, { atLeastOne: true, stopAfterFirst: true }],
  ])('%s: the grammar sees to it', async (_, tool_choice, expected) => {
    await client.messages.create({ ...fields, tools: [weather, clock], ...(tool_choice && { tool_choice }) })
    const { constraint } = branch()
    expect(constraint).toMatchObject({ type: 'triggered_tags', ...expected })
    const named = tool_choice?.type === 'tool'
    expect(constraint).toMatchObject({ tags: { length: named ? 1 : 2 } })
  })

  test('are shown as the client wrote them', async () => {
    const schema = '{"type":"object","properties":{"2":{"maximum":1.0},"city":{},"1":{}}}'
    const body = JSON.stringify({ ...fields, tools: [{ name: 'weather', input_schema: 0 }] }).replace(
      ':0}',
      `:${schema}}`,
    )
    expect((await server.post(PATH, body)).status).toBe(200)
    expect(promptText(server.engine)).toContain(schema)
  })

  test('none: the model sees no tools', async () => {
    expect(await rendered({ tools: [weather], tool_choice: { type: 'none' } })).not.toContain('weather')
  })

  test('the client’s own loop calls the functions until the model answers', async () => {
    const asked: unknown[] = []
    server.engine.script = {
      branch: () => ({ texts: server.engine.works.length === 1 ? called('weather') : ['It is sunny.'] }),
    }
    const run = async (input: unknown) => {
      asked.push(input)
      return [picture, { type: 'text' as const, text: 'Sunny' }]
    }
    const tool = { ...weather, run, parse: (input: unknown) => input } as never
    const message = await client.beta.messages.toolRunner({ ...fields, tools: [tool] })
    expect(asked).toEqual([{ city: 'Bern' }])
    expect(message.content).toMatchObject([{ type: 'text', text: 'It is sunny.' }])
    expect(server.engine.works).toHaveLength(2)
    expect(server.engine.works[1]!.prefix.some(({ type }) => type === 'image')).toBe(true)
  })
})

describe('stop sequences', () => {
  test('end the reply and its computation, wherever they are cut', async () => {
    server.engine.script = { texts: ['One EN', 'D two'], endless: true }
    const message = await client.messages.create({ ...fields, stop_sequences: ['END', 'never'] })
    expect(message).toMatchObject({
      content: [{ type: 'text', text: 'One ' }],
      stop_reason: 'stop_sequence',
      stop_sequence: 'END',
      usage: { output_tokens: 2 },
    })
    await expect.poll(() => server.engine.generating).toBe(0)
  })

  test('that are not complete stay text', async () => {
    server.engine.script = { texts: ['One E', 'N'] }
    const message = await client.messages.create({ ...fields, stop_sequences: ['END'] })
    expect(message).toMatchObject({ content: [{ text: 'One EN' }], stop_reason: 'end_turn', stop_sequence: null })
  })

  test('apply neither to thoughts nor to calls', async () => {
    server.engine.script = { texts: ['ci', '</think>', 'A ', ...called('weather')] }
    const message = await client.messages.create({
      ...fields,
      thinking: { type: 'adaptive' },
      tools: [weather],
      stop_sequences: ['ci', 'Bern'],
    })
    expect(message.content.map(({ type }) => type)).toEqual(['thinking', 'text', 'tool_use'])
    expect(message.stop_reason).toBe('tool_use')
  })

  test('may cut a structured reply', async () => {
    server.engine.script = { texts: ['{"a": ', '1}'] }
    const format = { type: 'json_schema', schema: { type: 'object' } } as const
    const message = await client.messages.create({ ...fields, output_config: { format }, stop_sequences: [':'] })
    expect(message).toMatchObject({ content: [{ text: '{"a"' }], stop_reason: 'stop_sequence' })
  })
})

describe('thinking', () => {
  const thought = ['Count.', '</think>\n\n', 'Two.']

  test.each<[string, object, number | null]>([
    ['nothing', {}, null],
    ['disabled', { thinking: { type: 'disabled' } }, null],
    ['a budget', { thinking: { type: 'enabled', budget_tokens: 1500 } }, 1500],
    ['adaptive', { thinking: { type: 'adaptive' } }, 2048],
    ['an effort', { thinking: { type: 'adaptive' }, output_config: { effort: 'xhigh' } }, 4096],
  ])('%s', async (_, request, budget) => {
    server.engine.script = { texts: budget === null ? ['Two.'] : thought }
    const message = await client.messages.create({ ...fields, max_tokens: 8000, ...request })
    expect(branch().thought?.budget ?? null).toBe(budget)
    const answer = { type: 'text', text: 'Two.' }
    const signature = expect.stringMatching(/./)
    expect(message.content).toEqual(
      budget === null ? [answer] : [{ type: 'thinking', thinking: 'Count.', signature }, answer],
    )
    expect(message.usage.output_tokens_details).toEqual({ thinking_tokens: budget === null ? 0 : 2 })
  })

  test('can be left out of the reply', async () => {
    server.engine.script = { texts: thought }
    const message = await client.messages.create({ ...fields, thinking: { type: 'adaptive', display: 'omitted' } })
    expect(message.content).toMatchObject([{ type: 'thinking', thinking: '' }, { type: 'text' }])
  })

  test('a model that cannot think answers at once, unless it must', async () => {
    server.engine.script = { texts: ['Two.'] }
    const plain = { ...fields, model: 'service-mk1' }
    const message = await client.messages.create({ ...plain, thinking: { type: 'adaptive' } })
    expect(message.content).toMatchObject([{ type: 'text', text: 'Two.' }])
    const forced = client.messages.create({ ...plain, thinking: { type: 'enabled', budget_tokens: 50 } })
    await expect(forced).rejects.toThrow("thinking: Model 'service-mk1' does not support reasoning")
  })
})

const nested = (levels: number): object => (levels === 0 ? {} : { not: nested(levels - 1) })

describe('a structured reply', () => {
  const schema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }
  const format = { type: 'json_schema', schema } as const

  test('is constrained, and parsed by the client', async () => {
    server.engine.script = { texts: ['{"n": ', '2}'] }
    const message = await client.messages.create({ ...fields, output_config: { format } })
    expect(branch().constraint).toMatchObject({ type: 'json_schema', schema })
    expect(JSON.parse((message.content[0] as Anthropic.TextBlock).text)).toEqual({ n: 2 })
  })

  test('may be asked for by its older name, in counts too', async () => {
    server.engine.script = { texts: ['{"n": ', '2}'] }
    const older = { ...fields, output_format: format }
    for (const headers of [{}, { 'anthropic-beta': 'structured-outputs-2025-11-13' }]) {
      const message = await client.messages.create(older as never, { headers })
      expect(branch().constraint).toMatchObject({ type: 'json_schema', schema })
      expect(message.content).toMatchObject([{ text: '{"n": 2}' }])
    }
    await client.messages.create({ ...older, output_config: { format, effort: 'low' } } as never)
    expect(branch().constraint).toMatchObject({ type: 'json_schema', schema })
    const { max_tokens: _, ...prompt } = older
    const counted = await client.beta.messages.countTokens(prompt)
    const plain = await client.beta.messages.countTokens({ model: fields.model, messages: fields.messages })
    expect(counted.input_tokens).toBeGreaterThan(plain.input_tokens)
  })

  test('is named in errors as the client names it', async () => {
    const deep = { type: 'json_schema', schema: nested(200) }
    await expect(client.messages.create({ ...fields, output_format: deep } as never)).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining("Invalid 'output_format': it is nested"),
    })
    const both = { ...fields, output_format: format, output_config: { format: { ...format, schema: {} } } }
    await expect(client.messages.create(both as never)).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining('output_format is an older name of output_config.format, and the two differ'),
    })
    const wrong = { ...fields, output_format: { type: 'json_object' } }
    await expect(client.messages.create(wrong as never)).rejects.toThrow(/output_format\.type/)
    server.engine.script = { texts: ['[]'] }
    await expect(
      client.messages.create({ ...fields, output_format: format } as never, { maxRetries: 0 }),
    ).rejects.toMatchObject({ status: 500, message: expect.stringContaining('output_format') })
  })

  test('may be a call of a tool instead', async () => {
    const both = { ...fields, output_config: { format }, tools: [clock] }
    server.engine.script = { texts: ['{"n": ', '2}'] }
    expect((await client.messages.create(both)).content).toEqual([expect.objectContaining({ text: '{"n": 2}' })])
    expect(branch().constraint).toMatchObject({ type: 'triggered_tags', otherwise: { type: 'json_schema', schema } })
    server.engine.script = { texts: ['<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>'] }
    expect(await client.messages.create(both)).toMatchObject({
      content: [{ type: 'tool_use', name: 'clock' }],
      stop_reason: 'tool_use',
    })
  })
})

describe('streams', () => {
  test('have their events in the order of the convention', async () => {
    server.engine.script = { texts: ['Count.', '</think>\n\n', 'Two', ' lamps. ', ...called('weather', 'clock')] }
    const request = { thinking: { type: 'adaptive' }, tools: [weather, clock] }
    const events = await eventsOf(request)
    // Calls are written in as many pieces as the engine makes of them.
    const calls = ['tool_use', 'input_json_delta', 'content_block_stop']
    const merged = events.filter((type, index) => type !== 'input_json_delta' || events[index - 1] !== type)
    expect(merged).toEqual([
      'message_start',
      ...['thinking', 'thinking_delta', 'signature_delta', 'content_block_stop'],
      ...['text', 'text_delta', 'text_delta', 'content_block_stop'],
      ...calls,
      ...calls,
      ...['message_delta', 'message_stop'],
    ])
  })

  test('the client’s helper makes the message of them that it gets at once', async () => {
    server.engine.script = { texts: ['Count.', '</think>\n\n', 'Two', ' lamps. ', ...called('weather', 'clock')] }
    const request = { ...fields, thinking: { type: 'adaptive' as const }, tools: [weather, clock] }
    const stream = client.messages.stream(request)
    const texts: string[] = []
    stream.on('text', (text) => texts.push(text))
    const message = await stream.finalMessage()
    const whole = await client.messages.create(request)
    const signed = (content: Anthropic.ContentBlock[]) =>
      content.map((block) => ({
        ...block,
        ...('signature' in block && { signature: '' }),
        ...('id' in block && { id: '' }),
      }))
    expect(signed(message.content)).toEqual(signed(whole.content))
    expect([message.stop_reason, message.usage]).toEqual([whole.stop_reason, whole.usage])
    expect(texts.join('')).toBe('Two lamps.')
    expect(stream.request_id).toMatch(/^[0-9a-f]{32}$/)
  })

  test('say at their beginning what the prompt took', async () => {
    const stream = client.messages.stream({ ...fields, stop_sequences: ['lamps'] })
    let begun: Anthropic.Usage | null = null
    stream.on('streamEvent', (event) => {
      if (event.type === 'message_start') begun = { ...event.message.usage }
    })
    const message = await stream.finalMessage()
    expect(message).toMatchObject({ stop_reason: 'stop_sequence', stop_sequence: 'lamps' })
    expect(begun).toMatchObject({ input_tokens: promptText(server.engine).length, output_tokens: 0 })
  })

  test('end with an event when they fail, and with nothing when the client leaves', async () => {
    server.engine.script = { texts: ['Two'], failure: internalError(new Error('broken')) }
    const failed = client.messages.stream(fields)
    await expect(failed.finalMessage()).rejects.toThrow(/Internal error/)
    expect(server.logs.some((line) => line.includes('broken'))).toBe(true)

    server.engine.script = { texts: ['Two'], endless: true, delayMs: 1 }
    const stream = client.messages.stream(fields)
    await new Promise<void>((resolve) => void stream.once('text', () => resolve()))
    stream.abort()
    await expect(stream.done()).rejects.toThrow(Anthropic.APIUserAbortError)
    await expect.poll(() => server.engine.aborts.length).toBe(1)
  })
})

describe('counting', () => {
  test('takes the same request, and generates nothing', async () => {
    const request = {
      system: 'Be brief.',
      tools: [weather],
      messages: [user([picture, { type: 'text', text: 'What?' }])],
    }
    const { usage } = await client.messages.create({ ...fields, ...request })
    const works = server.engine.works.length
    const counted = await client.messages.countTokens({ model: MODEL, ...request })
    expect(counted).toEqual({ input_tokens: usage.input_tokens })
    expect(server.engine.works).toHaveLength(works)
  })
})

describe('errors', () => {
  const refused = (request: object) => client.messages.create({ ...fields, ...request } as never)

  test('have the classes and the words of the official client', async () => {
    const wrong = new Anthropic({ baseURL: server.url, apiKey: 'nobody', maxRetries: 0 })
    await expect(wrong.messages.create(fields)).rejects.toThrow(Anthropic.AuthenticationError)
    const unknown = await refused({ model: 'claude-9' }).catch((error: unknown) => error)
    expect(unknown).toBeInstanceOf(Anthropic.NotFoundError)
    expect(unknown).toMatchObject({
      status: 404,
      type: 'not_found_error',
      requestID: expect.stringMatching(/^[0-9a-f]{32}$/),
      error: {
        type: 'error',
        error: { type: 'not_found_error', message: "Model 'claude-9' does not exist" },
        request_id: expect.stringMatching(/^[0-9a-f]{32}$/),
      },
    })
    server.engine.script = { refusal: modelOverloaded('Too many requests are waiting', 3) }
    const busy = await refused({}).catch((error: unknown) => error)
    expect(busy).toMatchObject({ status: 529, type: 'overloaded_error', headers: expect.any(Headers) })
    expect((busy as InstanceType<typeof Anthropic.APIError>).headers?.get('retry-after')).toBe('3')
    server.engine.script = { refusal: internalError(new Error('broken')) }
    expect(await refused({}).catch((error: unknown) => error)).toMatchObject({ status: 500, type: 'api_error' })
  })

  test.each<[string, object, RegExp]>([
    ['no max_tokens', { max_tokens: undefined }, /max_tokens/],
    ['no messages', { messages: [] }, /messages/],
    ['an unknown block', { messages: [user([{ type: 'video' } as never])] }, /messages\[0\]\.content\[0\]\.type/],
    ['a reply to continue', { messages: [user('Hi'), { role: 'assistant', content: 'Yes' }] }, /messages\[1\]\.role/],
    [
      'a document without a source that is known',
      { messages: [user([{ type: 'document', source: { type: 'search', content: 'Hi' } as never }])] },
      /messages\[0\]\.content\[0\]\.source\.type/,
    ],
    [
      'a document with a broken image',
      {
        messages: [
          user([
            { type: 'text', text: 'See:' },
            {
              type: 'document',
              title: 'T',
              source: {
                type: 'content',
                content: [
                  { type: 'text', text: 'a' },
                  { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'aGk=' } },
                ],
              },
            },
          ]),
        ],
      },
      /messages\[0\]\.content\[1\]\.source\.content\[1\]\.source/,
    ],
    ['a tool without a schema', { tools: [{ name: 'a' }] }, /tools\[0\]\.input_schema/],
    ['a tool twice', { tools: [clock, clock] }, /tools\[1\]\.name/],
    ['an unknown tool', { tools: [clock], tool_choice: { type: 'tool', name: 'fly' } }, /tool_choice/],
    [
      'only tools of servers',
      { tools: [{ type: 'web_search_20250305', name: 'web_search' }], tool_choice: { type: 'any' } },
      /tools/,
    ],
    ['an empty stop sequence', { stop_sequences: [''] }, /stop_sequences\[0\]/],
    [
      'a schema that is too deep',
      { output_config: { format: { type: 'json_schema', schema: nested(200) } } },
      /output_config/,
    ],
    [
      'a picture that is none',
      {
        messages: [
          user('Hi'),
          user([
            { type: 'text', text: 'A' },
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } },
          ]),
        ],
      },
      /messages\[1\]\.content\[1\]\.source/,
    ],
    [
      'a file that is none',
      { messages: [user([{ type: 'image', source: { type: 'file', file_id: 'file-x' } }])] },
      /source/,
    ],
  ])('%s: status 400, and the place', async (_, request, message) => {
    const error = (await refused(request).catch((error: unknown) => error)) as InstanceType<typeof Anthropic.APIError>
    expect(error).toBeInstanceOf(Anthropic.BadRequestError)
    expect(error.type).toBe('invalid_request_error')
    expect(error.apiMessage).toMatch(message)
  })

  test('a path that is not served: in Anthropic’s shape, with its header for keys', async () => {
    await expect(client.messages.batches.list()).rejects.toMatchObject({
      status: 404,
      error: { type: 'error', error: { type: 'not_found_error', message: 'Unknown path: GET /v1/messages/batches' } },
    })
    await expect(client.get('/v1/skills')).rejects.toThrow(Anthropic.NotFoundError)
    const other = await server.post(`${PATH}/x/y`, fields)
    expect([other.status, other.headers.get('request-id')]).toEqual([404, other.headers.get('x-trace-id')])
    const stranger = await fetch(`${server.url}${PATH}/batches`, { headers: { 'x-api-key': 'nobody' } })
    expect([stranger.status, await stranger.json()]).toMatchObject([401, { error: { type: 'authentication_error' } }])
    expect(Object.keys(await jsonOf(await server.get('/v1/skills')))).toEqual(['error'])
  })

  test('other methods, and what is no JSON', async () => {
    const get = await server.get(PATH)
    expect([get.status, get.headers.get('allow')]).toEqual([405, 'POST'])
    expect(await get.json()).toMatchObject({ type: 'error', error: { type: 'invalid_request_error' } })
    const text = await server.post(PATH, '{', { 'anthropic-version': '2023-06-01' })
    expect([text.status, (await jsonOf(text)).type]).toEqual([400, 'error'])
  })
})

describe('keys', () => {
  const send = (headers: Record<string, string>, path = PATH) =>
    fetch(server.url + path, {
      method: path === PATH ? 'POST' : 'GET',
      headers: { ...headers, ...(path === PATH && { 'content-type': 'application/json' }) },
      ...(path === PATH && { body: JSON.stringify(fields) }),
    })

  test('are taken from x-api-key too, only where Anthropic’s clients call', async () => {
    expect((await send({ 'x-api-key': KEY })).status).toBe(200)
    expect((await send({ authorization: `Bearer ${KEY}` })).status).toBe(200)
    expect((await send({ 'x-api-key': 'nobody' })).status).toBe(401)
    expect((await send({})).status).toBe(401)
    expect((await send({ 'x-api-key': KEY }, '/v1/models')).status).toBe(401)
    expect((await send({ 'x-api-key': KEY, 'anthropic-version': '2023-06-01' }, '/v1/models')).status).toBe(200)
    expect((await send({ 'x-api-key': KEY, 'anthropic-version': '2023-06-01' }, '/v1/files')).status).toBe(200)
    expect((await send({ 'x-api-key': KEY, 'anthropic-version': '2023-06-01' }, '/v1/batches')).status).toBe(401)
  })
})

describe('models', () => {
  test('are listed page by page, and found', async () => {
    const ids: string[] = []
    for await (const { id, created_at, ...model } of client.models.list({ limit: 1 })) {
      ids.push(id)
      expect(model).toEqual({
        type: 'model',
        display_name: expect.any(String),
        max_input_tokens: 32_768,
        max_tokens: 8192,
        lifecycle: 'active',
        capabilities: null,
        deprecated_at: null,
        line: null,
        retires_at: null,
      } satisfies Omit<Anthropic.ModelInfo, 'id' | 'created_at'>)
      expect(new Date(created_at).getTime()).toBeGreaterThan(0)
    }
    expect(ids).toEqual([MODEL, 'service-mk1'])
    expect(await client.models.retrieve(MODEL)).toMatchObject({ type: 'model', id: MODEL })
    await expect(client.models.retrieve('claude-9')).rejects.toThrow(Anthropic.NotFoundError)
    await expect(client.models.list({ limit: 0 })).rejects.toThrow(Anthropic.BadRequestError)
    const { data } = await client.models.list({ before_id: 'service-mk1' })
    expect(data.map(({ id }) => id)).toEqual([MODEL])
  })

  test('have the contract’s shape for all others', async () => {
    const list = await jsonOf(await server.get('/v1/models'))
    expect(Object.keys(list)).toEqual(['object', 'data'])
    expect((await server.get('/v1/models/claude-9')).status).toBe(404)
  })
})
