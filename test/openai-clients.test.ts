import { createReadStream, readFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import OpenAI from 'openai'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { invalidRequest } from '../src/lib/errors/errors.ts'
import { chunksOf, promptText } from './support/chat.ts'
import { makePdf } from './support/pdf.ts'
import { errorOf, jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'

/** What OpenAI's clients, and those that imitate them, send beside the essentials. */
const model = 'service-mk1.5'
const SHAPES = 'docs/pictures/shapes.png'
const PDF = makePdf([{}]).toString('base64')

let server: TestServer
let strict: TestServer
let client: OpenAI

beforeAll(async () => {
  server = await startTestServer({ environment: { LOOKOUT_COMPATIBILITY: 'openai', LOOKOUT_OLLAMA: 'on' } })
  strict = await startTestServer()
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: KEY, maxRetries: 0 })
})
afterAll(async () => {
  await server?.close()
  await strict?.close()
})
beforeEach(() => {
  server.engine.works.length = 0
  server.engine.script = { texts: ['One', ' two.'] }
})

describe('bodies without a Content-Length', () => {
  const boundary = 'b'
  const part = (name: string, value: string | Buffer, filename?: string) =>
    Buffer.concat([
      Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="${name}"`),
      Buffer.from(`${filename === undefined ? '' : `; filename="${filename}"`}\r\n\r\n`),
      Buffer.from(value),
      Buffer.from('\r\n'),
    ])

  /** Sends pieces as chunks, as long as the server takes them. */
  async function send(to: TestServer, path: string, type: string, pieces: Iterable<Buffer>) {
    const { promise, resolve, reject } = Promise.withResolvers<{ status: number; body: string }>()
    const outgoing = httpRequest(to.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}`, 'content-type': type },
    })
    outgoing.on('response', async (response) => {
      resolve({ status: response.statusCode!, body: await text(response) })
    })
    outgoing.on('error', reject)
    Readable.from(pieces).pipe(outgoing)
    return promise
  }
  const upload = (to: TestServer, pieces: Iterable<Buffer>) =>
    send(to, '/v1/files', `multipart/form-data; boundary=${boundary}`, pieces)

  test('the official client uploads a stream of a file', async () => {
    const file = await client.files.create({ file: createReadStream(SHAPES), purpose: 'vision' })
    expect(file).toMatchObject({ object: 'file', filename: 'shapes.png', purpose: 'vision' })
    const content = await client.files.content(file.id)
    expect(content.headers.get('content-type')).toBe('image/png')
    await client.files.delete(file.id)
  })

  test('a form in chunks is kept, and its quota counts what arrived', async () => {
    const png = Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), Buffer.alloc(300_000)])
    const pieces = [part('purpose', 'vision'), part('file', png, 'a.png'), Buffer.from(`--${boundary}--\r\n`)]
    const { status, body } = await upload(server, pieces)
    expect([status, JSON.parse(body)]).toEqual([200, expect.objectContaining({ bytes: png.length, filename: 'a.png' })])
    await client.files.delete(JSON.parse(body).id)
  })

  test('the contract requires the length', async () => {
    const { status, body } = await upload(strict, [part('purpose', 'vision'), Buffer.from(`--${boundary}--\r\n`)])
    expect([status, JSON.parse(body).error.message]).toEqual([411, 'The Content-Length header is required for uploads'])
  })

  test.each([
    [
      'a file',
      part('file', Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), 'a.png').subarray(0, -2),
      /larger than 128 MiB/,
    ],
    ['a preamble', Buffer.from('before the form\r\n'), /larger than 200 MiB/],
  ])('%s that never ends is refused at its limit', async (_name, head, message) => {
    function* endless() {
      yield head
      for (;;) yield Buffer.alloc(2 ** 20)
    }
    const { status, body } = await upload(server, endless())
    expect([status, JSON.parse(body).error.message]).toEqual([413, expect.stringMatching(message)])
  })

  test.each(['contract', 'openai'])('a chat in chunks is answered (%s), and refused at its limit', async (mode) => {
    const to = mode === 'openai' ? server : strict
    const body = Buffer.from(JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }] }))
    const pieces = Array.from({ length: 10 }, (_, i) =>
      body.subarray((i * body.length) / 10, ((i + 1) * body.length) / 10),
    )
    expect((await send(to, '/v1/chat/completions', 'application/json', pieces)).status).toBe(200)
    function* endless() {
      for (;;) yield Buffer.alloc(2 ** 20, ' ')
    }
    expect((await send(to, '/v1/chat/completions', 'application/json', endless())).status).toBe(413)
  })
})

const hello = { model, messages: [{ role: 'user', content: 'Hi' }] }
const named = (name: string, parameters: object = { type: 'object' }) => ({
  type: 'function',
  function: { name, parameters },
})
const paths = { chat: '/v1/chat/completions', responses: '/v1/responses', messages: '/v1/messages' } as const
const bodies = {
  chat: hello,
  responses: { model, input: 'Hi', store: false },
  messages: { ...hello, max_tokens: 20 },
}

/** What clients of the field send beside the essentials: OpenAI's SDKs, the AI SDK, LangChain, LiteLLM, Open WebUI, Cline. */
const TAKEN: [api: keyof typeof paths, fields: object][] = [
  ['chat', { store: false }],
  ['chat', { store: null, metadata: null, user: null, seed: null, stop: null, logit_bias: null, service_tier: null }],
  ['chat', { metadata: { trace: 'a' }, user: 'u', safety_identifier: 's' }],
  ['chat', { prompt_cache_key: 'k', prompt_cache_retention: '24h', prompt_cache_options: { mode: 'implicit' } }],
  ['chat', { service_tier: 'auto' }],
  ['chat', { service_tier: 'standard_only' }],
  ['chat', { service_tier: 'default', verbosity: 'medium', modalities: ['text'], logit_bias: {} }],
  ['chat', { stream: true, stream_options: { include_usage: true, include_obfuscation: false } }],
  ['chat', { parallel_tool_calls: false }],
  ['chat', { tools: [], tool_choice: 'auto', parallel_tool_calls: true }],
  ['chat', { tools: [{ type: 'function', function: { name: 'f', strict: true } }], tool_choice: 'auto' }],
  ['chat', { response_format: { type: 'text' }, n: 1, presence_penalty: 0, frequency_penalty: 0, top_p: 1 }],
  ['chat', { logprobs: false, max_tokens: 10, max_completion_tokens: 10 }],
  ['chat', { reasoning_effort: 'none' }],
  ['chat', { reasoning_effort: 'minimal' }],
  ['chat', { reasoning_effort: 'xhigh' }],
  ['chat', { reasoning_effort: 'max' }],
  ['chat', { chat_id: 'c', session_id: 's', id: 'i', background_tasks: {}, features: {}, variables: {} }],
  [
    'chat',
    { extra_body: {}, extra_headers: {}, drop_params: true, provider: {}, transforms: [], usage: { include: true } },
  ],
  ['chat', { keep_alive: -1, num_ctx: 4096, min_p: 0.1, repetition_penalty: 1, chat_template_kwargs: {} }],
  [
    'chat',
    {
      messages: [
        { role: 'developer', content: 'Be brief.', name: 'd' },
        { role: 'user', content: [{ type: 'text', text: 'Hi', cache_control: { type: 'ephemeral' } }], name: 'n' },
        {
          role: 'assistant',
          content: 'Ho',
          refusal: null,
          audio: null,
          function_call: null,
          tool_calls: null,
          annotations: [],
        },
        { role: 'user', content: 'Hi' },
      ],
    },
  ],
  [
    'responses',
    { metadata: {}, user: 'u', safety_identifier: 's', prompt_cache_key: 'k', prompt_cache_retention: '24h' },
  ],
  ['responses', { service_tier: 'flex', text: { verbosity: 'low' }, truncation: 'disabled', include: [] }],
  ['responses', { stream: true, stream_options: { include_obfuscation: true } }],
  ['responses', { reasoning: { effort: 'xhigh', summary: 'auto' }, max_tool_calls: 3, parallel_tool_calls: false }],
  ['responses', { background: false, previous_response_id: null, conversation: null, prompt: null, top_logprobs: 0 }],
  ['messages', { metadata: { user_id: 'u' }, service_tier: 'auto', stop_sequences: [], betas: ['a'], container: null }],
  ['messages', { system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral', ttl: '1h' } }] }],
]

test.each(TAKEN)('%s takes %j', async (api, fields) => {
  const response = await server.post(paths[api], { ...bodies[api], ...fields })
  expect(response.status, await response.text()).toBe(200)
})

test.each([
  ['chat', { store: true }, 'store', /only false is supported/],
  ['chat', { service_tier: 'flex' }, 'service_tier', /only auto, default, and standard_only are supported/],
  ['chat', { verbosity: 'low' }, 'verbosity', /only medium is supported/],
  ['chat', { logit_bias: { 50256: -100 } }, 'logit_bias.50256', /only an empty one is supported/],
  ['chat', { prediction: { type: 'content', content: 'a' } }, 'prediction', /not supported/],
  ['chat', { functions: [{ name: 'f' }] }, 'functions', /use tools/],
  ['chat', { reasoning_effort: 'extreme' }, 'reasoning_effort', /one of 'none'/],
  ['chat', { seed: 1.5 }, 'seed', /expected an integer/],
  ['chat', { seed: '7' }, 'seed', /expected number, received string/],
  ['chat', `{"seed": ${'9'.repeat(400)}}`, 'seed', /number|integer/],
  ['chat', `{"seed": ${'9'.repeat(100)}}`, 'seed', /integer|at most/],
  ['responses', { background: true }, 'background', /not supported/],
  ['responses', { truncation: 'auto' }, 'truncation', /only disabled is supported/],
] as const)('%s refuses %j with a reason', async (api, fields, param, message) => {
  const own = JSON.stringify(bodies[api]).slice(1)
  const body = typeof fields === 'string' ? `${fields.slice(0, -1)}, ${own}` : { ...bodies[api], ...fields }
  const response = await server.post(paths[api], body)
  expect([response.status, await errorOf(response)]).toEqual([
    400,
    expect.objectContaining({ param, message: expect.stringMatching(message) }),
  ])
})

describe('seeds', () => {
  const seedOf = () => server.engine.works.at(-1)!.branches[0]!.sampling.seed
  const drawn = async (path: string, seed: string, name = 'seed') => {
    const body = JSON.stringify({ ...hello, temperature: 1, stream: false, options: { temperature: 1 } })
    const own =
      path === '/api/chat'
        ? body.replace('"options":{', `"options":{"seed":${seed},`)
        : `{"${name}":${seed},${body.slice(1)}`
    const response = await server.post(path, own)
    expect(response.status, await response.text()).toBe(200)
    return seedOf()
  }

  test.each(['0', '1', '-1', '4294967295', '4294967296', '9007199254740991', '-9007199254740991', '9007199254740993'])(
    '%s is reduced from its digits',
    async (seed) => {
      const reduced = Number(BigInt.asUintN(32, BigInt(seed)))
      for (const path of [paths.chat, '/api/chat']) expect([path, await drawn(path, seed)]).toEqual([path, reduced])
      expect(await drawn(paths.chat, seed, 'random_seed')).toBe(reduced)
    },
  )

  test('neighbours that a number cannot tell apart differ', async () => {
    const seeds = ['18446744073709551614', '18446744073709551615', '-9223372036854775807', '-9223372036854775808']
    const kept = []
    for (const seed of seeds) kept.push(await drawn(paths.chat, seed))
    expect(kept).toEqual([2 ** 32 - 2, 2 ** 32 - 1, 1, 0])
  })
})

describe('allowed_tools', () => {
  const tools = [
    named('weather', { type: 'object', properties: { city: { type: 'string' } } }),
    named('clock'),
    named('mail'),
  ]
  const allow = (mode: string, ...names: string[]) => ({
    type: 'allowed_tools',
    allowed_tools: { mode, tools: names.map((name) => ({ type: 'function', function: { name } })) },
  })
  const post = (tool_choice: object, to = server) => to.post(paths.chat, { ...hello, tools, tool_choice })
  const constraint = () => server.engine.works.at(-1)!.branches[0]!.constraint

  test.each(['auto', 'required'])('%s: only these may be called', async (mode) => {
    server.engine.script = { texts: ['<tool_call>\n{"name": "mail", "arguments": {}}\n</tool_call>'] }
    const response = await post(allow(mode, 'mail', 'weather'))
    expect(response.status, await response.clone().text()).toBe(200)
    const begins = (constraint() as unknown as { tags: { begin: string }[] }).tags.map(({ begin }) => begin)
    expect(begins.map((begin) => /"name": "(\w+)"/.exec(begin)?.[1])).toEqual(['weather', 'mail'])
    expect((constraint() as { atLeastOne?: boolean }).atLeastOne === true).toBe(mode === 'required')
    expect(promptText(server.engine)).not.toContain('clock')
  })

  test.each([
    [allow('auto', 'fly'), 'tool_choice.allowed_tools.tools[0]', /allows 'fly', which is not in tools/],
    [allow('auto', 'mail', 'fly'), 'tool_choice.allowed_tools.tools[1]', /'fly'/],
    [allow('auto'), 'tool_choice.allowed_tools.tools', /at least 1 item/],
    [allow('always', 'mail'), 'tool_choice.allowed_tools.mode', /one of 'auto', 'required'/],
    [{ type: 'custom', custom: { name: 'mail' } }, 'tool_choice.type', /'function', 'allowed_tools'/],
  ])('%j is refused', async (choice, param, message) => {
    const response = await post(choice)
    expect([response.status, await errorOf(response)]).toEqual([
      400,
      expect.objectContaining({ param, message: expect.stringMatching(message) }),
    ])
  })

  test('an error about a tool names it by its place in the request', async () => {
    server.engine.script = { refusal: () => invalidRequest('It is wrong', ['tools', 0, 'function', 'parameters']) }
    const response = await post(allow('required', 'mail'))
    expect([response.status, (await errorOf(response)).param]).toEqual([400, 'tools[2].function.parameters'])
  })

  test('the contract has no such choice', async () => {
    const response = await post(allow('auto', 'mail'), strict)
    expect([response.status, (await errorOf(response)).param]).toEqual([400, 'tool_choice.type'])
  })
})

describe('JSON of calls stays as the client wrote it', () => {
  const written = '{ "10": 12345678901234567890, "2" : 1.0e2, "__proto__": "\\u00e9", "a": [1.50, {"z": 0, "1": 1}] }'
  const shown = '{"10":12345678901234567890,"2":1.0e2,"__proto__":"é","a":[1.50,{"z":0,"1":1}]}'
  const parameters = { type: 'object' }
  const cases: [string, string, string][] = [
    [
      'a message',
      paths.messages,
      `{"max_tokens": 9, "tools": [{"name": "f", "input_schema": {"type": "object"}}], "messages": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "text", "text": "So."}, {"input": ${written}, "type": "tool_use", "id": "t", "name": "f"}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "1"}]}], "model": "${model}"}`,
    ],
    [
      'an Ollama chat',
      '/api/chat',
      `{"model": "${model}", "stream": false, "tools": [${JSON.stringify({ type: 'function', function: { name: 'f', parameters } })}],
        "messages": [{"role": "user", "content": "Hi"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": ${written}}}]},
        {"role": "tool", "tool_name": "f", "content": "1"}]}`,
    ],
  ]

  test.each(cases)('%s', async (_name, path, body) => {
    const response = await server.post(path, body)
    expect(response.status, await response.text()).toBe(200)
    expect(promptText(server.engine)).toContain(shown)
  })

  test('and so does JSON that a decision is about', async () => {
    const input = `[{"role": "user", "content": [{"type": "input_json", "data": ${written}}]}]`
    const questions = '[{"type": "predicate", "instructions": "Is it so?"}]'
    const response = await server.post(
      '/v1/decisions',
      `{"model": "${model}", "input": ${input}, "questions": ${questions}}`,
    )
    expect(response.status, await response.text()).toBe(200)
    expect(JSON.stringify(server.engine.readWorks.at(-1))).toContain(JSON.stringify(shown).slice(1, -1))
  })
})

describe('in the shape of Mistral’s clients', () => {
  const png = `data:image/png;base64,${readFileSync(SHAPES, 'base64')}`
  const ask = (content: unknown[], fields: object = {}, to = server) =>
    to.post(paths.chat, { model, messages: [{ role: 'user', content }], ...fields })
  const question = { type: 'text', text: 'What is it?' }

  test.each([
    ['an image', { type: 'image_url', image_url: png }, 'image'],
    [
      'a page',
      { type: 'document_url', document_url: `data:application/pdf;base64,${PDF}`, document_name: 'a' },
      'image',
    ],
  ])('%s needs no object around its URL', async (_name, part, kind) => {
    for (const to of [server, strict]) {
      const response = await ask([part, question], {}, to)
      expect(response.status, await response.text()).toBe(200)
      expect(to.engine.works.at(-1)!.prefix.map(({ type }) => type)).toContain(kind)
    }
  })

  test.each([
    [{ type: 'image_url', image_url: 'data:image/png;base64,aGk=' }, 'image_url'],
    [{ type: 'document_url', document_url: 'data:application/pdf;base64,aGk=' }, 'document_url'],
    [{ type: 'file', file_id: 'file-none' }, 'file_id'],
    [{ type: 'file' }, 'file'],
    [{ type: 'input_audio', input_audio: 'aGk=' }, 'input_audio'],
    [{ type: 'input_audio', input_audio: 'data:audio/wav;base64,aGk=' }, 'input_audio'],
    [{ type: 'document_url' }, 'document_url'],
  ])('an error names the field that was sent: %j', async (part, field) => {
    const response = await ask([question, part])
    expect([response.status, (await errorOf(response)).param]).toEqual([400, `messages[0].content[1].${field}`])
  })

  test('a call is forced with `any`, and comes back without a type and with an object', async () => {
    const tools = [named('look')]
    const forced = await ask([question], { tools, tool_choice: 'any', random_seed: 7 })
    expect(forced.status, await forced.text()).toBe(200)
    const [branch] = server.engine.works.at(-1)!.branches
    expect(branch).toMatchObject({ constraint: { atLeastOne: true }, sampling: { seed: 7 } })
    const call = { id: 'a', function: { name: 'look', arguments: { '10': 1.5, '2': 'b' } } }
    const messages = [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: '', tool_calls: [call] },
      { role: 'tool', name: 'look', tool_call_id: 'a', content: 'ok' },
    ]
    const response = await server.post(paths.chat, { model, tools, messages })
    expect(response.status, await response.text()).toBe(200)
    expect(promptText(server.engine)).toContain('"2":"b"')
    expect((await errorOf(await ask([question], { tools, tool_choice: 'any' }, strict))).param).toBe('tool_choice')
  })

  test.each(['mistral-client-python/3.7.0', 'mistral-client-typescript/2.7.0'])(
    'a stream for %s has each call in one chunk, and usage in its finish',
    async (client) => {
      const called = (name: string) => `<tool_call>\n{"name": "${name}", "arguments": {"a": 1}}\n</tool_call>`
      for (const to of [server, strict]) {
        to.engine.script = {
          texts: [...'Well. '.split(''), ...called('look').split(/(?=")/), ...called('see').split(/(?=")/)],
        }
        const body = {
          model,
          messages: [{ role: 'user', content: 'Hi' }],
          tools: [named('look'), named('see')],
          stream: true,
        }
        const chunks = await chunksOf(await to.post(paths.chat, body, { 'user-agent': client }))
        const calls = chunks.flatMap(({ choices: [choice] }) => choice!.delta.tool_calls ?? [])
        expect(calls).toEqual(
          ['look', 'see'].map((name, index) => {
            const id = expect.stringMatching(/^call_/)
            return { index, id, type: 'function', function: { name, arguments: '{"a": 1}' } }
          }),
        )
        expect(chunks.map((chunk) => 'usage' in chunk)).toEqual([...chunks.slice(1).map(() => false), true])
        expect(chunks.at(-1)).toMatchObject({
          choices: [{ delta: {}, finish_reason: 'tool_calls' }],
          usage: { prompt_tokens: expect.any(Number), completion_tokens: expect.any(Number) },
        })
      }
    },
  )

  test('a stream of several replies has the usage of all in its last chunk', async () => {
    server.engine.script = { texts: ['Well.', ' Yes.'] }
    const body = { model, messages: [{ role: 'user', content: 'Hi' }], n: 2 }
    const { usage } = await jsonOf<OpenAI.ChatCompletion>(await server.post(paths.chat, body))
    const streamed = await server.post(
      paths.chat,
      { ...body, stream: true },
      { 'user-agent': 'mistral-client-python/3.7.0' },
    )
    const chunks = await chunksOf(streamed)
    expect(chunks.filter((chunk) => 'usage' in chunk)).toEqual([chunks.at(-1)])
    expect(chunks.at(-1)!.usage!.completion_tokens).toBe(usage!.completion_tokens)
  })

  test('thoughts in parts are thoughts, those of a system message its text, and citations are left out', async () => {
    const cited = { type: 'reference', reference_ids: [1, 'b'] }
    const thinking = {
      type: 'thinking',
      thinking: [{ type: 'text', text: 'I had' }, cited, { type: 'text', text: ' to.' }],
    }
    const call = { id: 'a', function: { name: 'look', arguments: '{}' } }
    const messages = [
      { role: 'system', content: [{ type: 'text', text: 'Think: ' }, thinking, { type: 'text', text: ' Answer.' }] },
      { role: 'user', content: 'Hi' },
      {
        role: 'assistant',
        content: [{ ...thinking, signature: null, closed: true }, { type: 'text', text: 'Yes' }, cited],
      },
      { role: 'user', content: 'Look' },
      {
        role: 'assistant',
        reasoning_content: '',
        content: [{ type: 'thinking', thinking: 'As Anthropic has it.' }],
        tool_calls: [call],
      },
      { role: 'tool', name: 'look', tool_call_id: 'a', content: 'ok' },
    ]
    for (const to of [server, strict]) {
      const response = await to.post(paths.chat, { model, messages, tools: [named('look')] })
      expect(response.status, await response.text()).toBe(200)
      const prompt = promptText(to.engine)
      expect(prompt).toContain('Think: I had to. Answer.')
      expect(prompt).toContain('assistant\n<think>\nI had to.\n</think>\n\nYes<|im_end|>')
      expect(prompt).toContain('<think>\nAs Anthropic has it.\n</think>\n\n<tool_call>')
    }
    expect((await server.post(paths.chat, { model, messages: messages.slice(0, 4) })).status).toBe(200)
    expect(promptText(server.engine)).not.toContain('<think>\nI had')
  })

  test('a prefix that the reply should begin with is refused, not ignored', async () => {
    const said = { role: 'assistant', content: 'The picture shows', prefix: true }
    const messages = [...hello.messages, said]
    const refused = await server.post(paths.chat, { model, messages })
    expect([refused.status, await errorOf(refused)]).toEqual([
      400,
      expect.objectContaining({ param: 'messages[1].prefix', message: expect.stringContaining('not continued') }),
    ])
    for (const [to, turns] of [
      [strict, messages],
      [server, [...messages, ...hello.messages]],
      [server, [...hello.messages, { ...said, prefix: false }]],
    ] as const)
      expect((await to.post(paths.chat, { model, messages: turns })).status).toBe(200)
  })

  test('models say what they do, and bytes have no type where only such are accepted', async () => {
    const listed = await jsonOf(await server.get(`/v1/models/${model}`))
    expect(listed).toMatchObject({ id: model, type: 'base', capabilities: { completion_chat: true, vision: true } })
    const { max_context_tokens: tokens } = await jsonOf<Record<string, unknown>>(
      await server.get(`/v1/models/${model}?extended=true`),
    )
    expect(listed).toMatchObject({ max_context_length: tokens, max_model_len: tokens })
    const { id } = await client.files.create({ file: createReadStream(SHAPES), purpose: 'vision' })
    const bytes = await server.get(`/v1/files/${id}/content`, { accept: 'application/octet-stream' })
    expect(bytes.headers.get('content-type')).toBe('application/octet-stream')
    await client.files.delete(id)
  })
})
