import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { imageOnlyCard } from './support/changed-card.ts'
import { errorOf, startTestServer, type TestServer } from './support/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server?.close())

const user = { role: 'user', content: 'Hi' }
const url = { url: 'https://example.com/a' }
const file = { file_id: 'file-0123456789012345678901' }
const frame = (timestamp_ms: unknown) => ({ image_url: url, timestamp_ms })
const call = { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } }
const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object' } } }

const fields = (body: object) => ({ model: 'service-mk1.5', messages: [user], ...body })
const messages = (...list: unknown[]) => fields({ messages: list })
/** The older model supports neither reasoning nor tools. */
const plain = (body: object) => fields({ model: 'service-mk1', ...body })
const part = (value: unknown) => messages({ role: 'user', content: [value] })

type Case = [name: string, body: unknown, param: string | null, message: RegExp, code?: string]

const MALFORMED: Case[] = [
  ['no messages', { model: 'service-mk1.5' }, 'messages', /required/],
  ['empty messages', messages(), 'messages', /at least 1 item$/],
  ['messages of another type', fields({ messages: 'Hi' }), 'messages', /expected array, received string/],
  ['a message of another type', messages('Hi'), 'messages[0]', /expected object/],
  ['no model', { messages: [user] }, 'model', /required/],
  ['a model of another type', fields({ model: 5 }), 'model', /expected string, received number/],
  ['no role', messages({ content: 'Hi' }), 'messages[0].role', /'system', 'developer', 'user'/],
  ['an unknown role', messages(user, { role: 'robot', content: 'Hi' }), 'messages[1].role', /expected one of/],
  ['no content', messages({ role: 'user' }), 'messages[0].content', /required/],
  ['null content', messages({ role: 'user', content: null }), 'messages[0].content', /string or array/],
  [
    'content of another type',
    messages({ role: 'user', content: 5 }),
    'messages[0].content',
    /string or array, received number/,
  ],
  ['content without parts', messages({ role: 'user', content: [] }), 'messages[0].content', /at least 1/],
  ['no part type', part({ text: 'Hi' }), 'messages[0].content[0].type', /expected one of 'text'/],
  [
    'an unknown part type',
    part({ type: 'smell' }),
    'messages[0].content[0].type',
    /expected one of 'text', 'image_url'/,
  ],
  ['a text part without text', part({ type: 'text' }), 'messages[0].content[0].text', /required/],
  ['an image part without object', part({ type: 'image_url' }), 'messages[0].content[0].image_url', /required/],
  [
    'an image as a number',
    part({ type: 'image_url', image_url: 5 }),
    'messages[0].content[0].image_url',
    /expected object or string, received number/,
  ],
  [
    'an image without URL',
    part({ type: 'image_url', image_url: {} }),
    'messages[0].content[0].image_url.url',
    /required/,
  ],
  [
    'an image with an empty URL',
    part({ type: 'image_url', image_url: { url: '' } }),
    'messages[0].content[0].image_url.url',
    /URL/,
  ],
  [
    'a broken data URL',
    part({ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }),
    'messages[0].content[0].image_url.url',
    /./,
  ],
  [
    'an image in a system message',
    messages({ role: 'system', content: [{ type: 'image_url', image_url: url }] }, user),
    'messages[0].content[0].type',
    /expected one of 'text', 'thinking'/,
  ],
  [
    'an image in an assistant message',
    messages(user, { role: 'assistant', content: [{ type: 'image_url', image_url: url }] }),
    'messages[1].content[0].type',
    /expected one of 'text', 'refusal'/,
  ],
  [
    'an assistant turn with nothing in it',
    messages(user, { role: 'assistant' }),
    'messages[1].content',
    /needs content/,
  ],
  [
    'an assistant turn of nulls',
    messages(user, { role: 'assistant', content: null, reasoning_content: null, tool_calls: [] }),
    'messages[1].content',
    /needs content/,
  ],
  [
    'a tool call without id',
    messages(user, { role: 'assistant', tool_calls: [{ ...call, id: undefined }] }),
    'messages[1].tool_calls[0].id',
    /required/,
  ],
  ['a tool result without id', messages(user, { role: 'tool', content: 'x' }), 'messages[1].tool_call_id', /required/],
  ['temperature above 2', fields({ temperature: 2.1 }), 'temperature', /at most 2/, 'invalid_temperature'],
  ['temperature below 0', fields({ temperature: -0.1 }), 'temperature', /at least 0/, 'invalid_temperature'],
  ['temperature as text', fields({ temperature: '1' }), 'temperature', /expected number/, 'invalid_temperature'],
  ['top_p 0', fields({ top_p: 0 }), 'top_p', /more than 0/],
  ['top_p above 1', fields({ top_p: 1.01 }), 'top_p', /at most 1/],
  ['top_k below 0', fields({ top_k: -1 }), 'top_k', /at least 0/],
  ['top_k with a fraction', fields({ top_k: 1.5 }), 'top_k', /integer/],
  ['frequency_penalty out of range', fields({ frequency_penalty: 2.5 }), 'frequency_penalty', /at most 2/],
  ['presence_penalty out of range', fields({ presence_penalty: -2.5 }), 'presence_penalty', /at least -2/],
  ['max_completion_tokens below 0', fields({ max_completion_tokens: -1 }), 'max_completion_tokens', /at least 0/],
  ['max_tokens with a fraction', fields({ max_tokens: 1.5 }), 'max_tokens', /integer/],
  ['n above 1', fields({ n: 2 }), 'n', /only 1/],
  ['n 0', fields({ n: 0 }), 'n', /at least 1/],
  ['stream as text', fields({ stream: 'yes' }), 'stream', /expected boolean/],
  [
    'include_usage as number',
    fields({ stream: true, stream_options: { include_usage: 1 } }),
    'stream_options.include_usage',
    /boolean/,
  ],
  ['an unknown effort', fields({ reasoning_effort: 'extreme' }), 'reasoning_effort', /one of 'none'/],
  ['an empty regex', fields({ regex: '' }), 'regex', /at least 1/, 'invalid_regex'],
  ['a regex of another type', fields({ regex: 5 }), 'regex', /expected string/, 'invalid_regex'],
  [
    'regex beside response_format',
    fields({ regex: 'a+', response_format: { type: 'text' } }),
    'regex',
    /cannot be combined/,
    'conflicting_structured_output_controls',
  ],
  [
    'json_object',
    fields({ response_format: { type: 'json_object' } }),
    'response_format.type',
    /'text', 'json_schema'/,
    'unsupported_response_format',
  ],
  [
    'json_schema without a name',
    fields({ response_format: { type: 'json_schema', json_schema: {} } }),
    'response_format.json_schema.name',
    /required/,
    'invalid_response_format',
  ],
  ['an unknown tool type', fields({ tools: [{ type: 'focus' }] }), 'tools[0].type', /'function'/],
  [
    'a tool without name',
    fields({ tools: [{ type: 'function', function: {} }] }),
    'tools[0].function.name',
    /required/,
  ],
  [
    'two tools of one name',
    fields({ tools: [tool, { type: 'function', function: { name: ' functions.f ' } }] }),
    'tools[1].function.name',
    /another tool has the name/,
    'duplicate_tool_name',
  ],
  [
    'a reserved name',
    fields({ tools: [tool, { type: 'function', function: { name: 'parallel' } }] }),
    'tools[1].function.name',
    /reserved/,
    'reserved_tool_name',
  ],
  [
    'parameters that are no object',
    fields({ tools: [{ type: 'function', function: { name: 'f', parameters: ['x'] } }] }),
    'tools[0].function.parameters',
    /expected object, received array$/,
  ],
  [
    '257 tools',
    fields({ tools: Array.from({ length: 257 }, (_, i) => ({ type: 'function', function: { name: `f${i}` } })) }),
    'tools',
    /at most 256 items/,
  ],
  ['parallel_tool_calls as text', fields({ parallel_tool_calls: 'no' }), 'parallel_tool_calls', /expected boolean/],
  [
    'an unknown tool_choice',
    fields({ tools: [tool], tool_choice: 'some' }),
    'tool_choice',
    /one of 'none', 'auto', 'required'/,
  ],
  ['a regex with half of a character', fields({ regex: 'a\ud800b' }), 'regex', /lone surrogate/, 'invalid_regex'],
  [
    'an unknown annotation format',
    fields({ vision_config: { annotation_format: 'mask' } }),
    'vision_config.annotation_format',
    /one of 'point'/,
  ],
  [
    'internal_tools as a list',
    fields({ vision_config: { internal_tools: ['focus'] } }),
    'vision_config.internal_tools',
    /expected object/,
  ],
  [
    'one frame',
    part({ type: 'video_frames', video_frames: { frames: [frame(0)] } }),
    'messages[0].content[0].video_frames.frames',
    /at least 2 items/,
  ],
  [
    '257 frames',
    part({ type: 'video_frames', video_frames: { frames: Array.from({ length: 257 }, () => frame(0)) } }),
    'messages[0].content[0].video_frames.frames',
    /at most 256 items/,
  ],
  [
    'frames back in time',
    part({ type: 'video_frames', video_frames: { frames: [frame(5), frame(4)] } }),
    'messages[0].content[0].video_frames.frames[1].timestamp_ms',
    /not decrease/,
  ],
  [
    'a frame with a fraction',
    part({ type: 'video_frames', video_frames: { frames: [frame(0), frame(0.5)] } }),
    'messages[0].content[0].video_frames.frames[1].timestamp_ms',
    /integer/,
  ],
  [
    'audio of an unknown format',
    part({ type: 'input_audio', input_audio: { data: 'AAAA', format: 'aiff' } }),
    'messages[0].content[0].input_audio.format',
    /one of 'wav', 'mp3', 'flac'/,
  ],
]

const UNSUPPORTED: Case[] = [
  ['an unknown model', fields({ model: 'no-such' }), null, /^Model 'no-such' does not exist$/],
  ['an empty model', fields({ model: '' }), null, /^Model '' does not exist$/],
  ['tools', plain({ tools: [tool] }), 'tools', /does not support tool calling/, 'unsupported_parameter'],
  ['a tool that must be called', fields({ tools: [tool], tool_choice: 'required' }), 'tool_choice', /'auto' or 'none'/],
  [
    'a tool that must be called, by name',
    fields({ tools: [tool], tool_choice: { type: 'function', function: { name: 'f' } } }),
    'tool_choice',
    /'auto' or 'none'/,
  ],
  [
    'a result of no call',
    messages(user, { role: 'tool', tool_call_id: 'call_1', content: 'x' }),
    'messages[1].tool_call_id',
    /No earlier assistant message/,
    'invalid_tool_result',
  ],
  [
    'tools with a forced choice',
    plain({ tools: [tool], tool_choice: 'required' }),
    'tools',
    /tool calling/,
    'unsupported_parameter',
  ],
  [
    'tool calls',
    plain({ messages: [user, { role: 'assistant', tool_calls: [call] }] }),
    'tools',
    /tool calling/,
    'unsupported_parameter',
  ],
  [
    'a tool result',
    plain({ messages: [user, { role: 'tool', tool_call_id: 'call_1', content: 'x' }] }),
    'tools',
    /tool calling/,
    'unsupported_parameter',
  ],
  ['reasoning', plain({ reasoning_effort: 'low' }), 'reasoning_effort', /does not support reasoning/],
  ['thinking', plain({ vision_config: { enable_thinking: true } }), 'vision_config.enable_thinking', /reasoning/],
  [
    'a THINK hint',
    plain({ messages: [{ role: 'system', content: 'a <hint>THINK</hint>' }, user] }),
    'messages[0].content',
    /reasoning/,
  ],
  [
    'a CLIP hint',
    messages(user, { role: 'developer', content: [{ type: 'text', text: '<hint>CLIP</hint>' }] }),
    'messages[1].content[0]',
    /'clip'/,
  ],
  ['clips', fields({ vision_config: { annotation_format: 'clip' } }), 'vision_config.annotation_format', /'clip'/],
  [
    'an image file that is not there',
    part({ type: 'image_file_id', image_file_id: file }),
    'messages[0].content[0].image_file_id.file_id',
    /^No such File object: file-/,
  ],
  [
    '257 images',
    messages({ role: 'user', content: Array.from({ length: 257 }, () => ({ type: 'image_url', image_url: url })) }),
    'messages',
    /at most 256/,
  ],
  [
    'more output than the model gives',
    fields({ max_completion_tokens: 8193 }),
    'max_completion_tokens',
    /at most 8192/,
  ],
  [
    'more output than the model gives, by the old name',
    fields({ max_tokens: 100_000 }),
    'max_tokens',
    /^max_tokens is 100000, but .* at most 8192/,
  ],
  [
    'more output than the context leaves, by the old name',
    fields({ max_tokens: 8000, messages: [{ role: 'user', content: 'x'.repeat(25_000) }] }),
    'max_tokens',
    /no room for max_tokens 8000: .* 32768/,
    'context_length_exceeded',
  ],
  [
    'more output than the context leaves',
    fields({ max_completion_tokens: 8000, messages: [{ role: 'user', content: 'x'.repeat(25_000) }] }),
    'max_completion_tokens',
    /maximum context length is 32768/,
    'context_length_exceeded',
  ],
  [
    'a prompt beyond the context',
    messages({ role: 'user', content: 'x'.repeat(33_000) }),
    'messages',
    /too long: .* 32768/,
    'context_length_exceeded',
  ],
  [
    'more turns than tokens',
    messages(...Array.from({ length: 32_769 }, () => user)),
    'messages',
    /too long/,
    'context_length_exceeded',
  ],
]

/** Requests with media for a model that takes only images. */
const UNSEEN: Case[] = [
  [
    'audio in video',
    fields({ vision_config: { enable_audio_in_video: true } }),
    'vision_config.enable_audio_in_video',
    /audio/,
  ],
  [
    'video',
    part({ type: 'video_url', video_url: url }),
    'messages[0].content[0].video_url',
    /does not support video input/,
  ],
  [
    'video frames',
    part({ type: 'video_frames', video_frames: { frames: [frame(0), frame(0)] } }),
    'messages[0].content[0].video_frames',
    /video/,
  ],
  [
    'a video file',
    part({ type: 'video_file_id', video_file_id: file }),
    'messages[0].content[0].video_file_id',
    /video/,
  ],
  [
    'audio',
    part({ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }),
    'messages[0].content[0].input_audio',
    /audio/,
  ],
  ['audio by URL', part({ type: 'audio_url', audio_url: url }), 'messages[0].content[0].audio_url', /audio/],
  [
    'an audio file',
    part({ type: 'audio_file_id', audio_file_id: file }),
    'messages[0].content[0].audio_file_id',
    /audio/,
  ],
]

describe.each([
  { kind: 'malformed', cases: MALFORMED },
  { kind: 'unsupported', cases: UNSUPPORTED },
])('400: $kind', ({ cases }) => {
  test.each(cases)('%s', async (_case: string, body: unknown, param: string | null, message: RegExp, code?: string) => {
    const response = await server.post('/v1/chat/completions', body)
    expect(await errorOf(response)).toEqual({
      message: expect.stringMatching(message),
      type: 'invalid_request_error',
      param,
      code: code ?? null,
    })
    expect(response.status).toBe(400)
    expect(response.headers.get('x-trace-id')).toMatch(/^[0-9a-f]{32}$/)
  })
})

test.each([
  ['a tool_choice of any kind without tools', { tool_choice: 1 }],
  ['a tool_choice of any kind with null for tools', { tools: null, tool_choice: ['x'] }],
  ['tool_choice without tools', { tool_choice: 'required', parallel_tool_calls: false }],
  ['tool_choice with an empty tools list', { tools: [], tool_choice: { type: 'function', function: { name: 'f' } } }],
  ['a tier that enable_thinking overrides', { reasoning_effort: 'high', vision_config: { enable_thinking: false } }],
  ['controls set to false', { vision_config: { enable_audio_in_video: false, internal_tools: { focus: false } } }],
  [
    'reasoning of an earlier turn',
    { messages: [user, { role: 'assistant', content: null, reasoning_content: 'Hm.' }, user] },
  ],
])('200: %s', async (_name, body) => {
  const response = await server.post('/v1/chat/completions', fields(body))
  expect(await response.json()).toMatchObject({ object: 'chat.completion' })
})

describe('calls of one turn', () => {
  const call = { call_id: 'c', name: 'f', arguments: '{}' }
  const asked = { role: 'user', content: 'Hi' }
  const calls = <Call>(item: Call, count: number): Call[] => Array.from({ length: count }, () => item)
  const questions = [{ type: 'predicate', instructions: 'Is it?' }]
  const model = 'service-mk1.5'
  const most = 'expected at most 1024 calls in one turn'

  test.each([
    [
      '/v1/responses',
      'input[1025]',
      most,
      (count: number) => ({ model, input: [asked, ...calls({ type: 'function_call', ...call }, count)] }),
    ],
    [
      '/v1/responses, thoughts between them',
      'input[2049]',
      most,
      (count: number) => ({
        model,
        input: calls([{ type: 'reasoning' }, { type: 'function_call', ...call }], count).flat(),
      }),
    ],
    [
      '/v1/decisions',
      'input[1024]',
      most,
      (count: number) => ({
        model,
        questions,
        input: calls({ type: 'custom_tool_call', call_id: 'c', name: 'f', input: '' }, count),
      }),
    ],
    [
      '/v1/messages',
      'messages[1].content[1025]',
      most,
      (count: number) => {
        const content = [
          { type: 'text', text: 'Hm.' },
          ...calls({ type: 'tool_use', id: 'c', name: 'f', input: {} }, count),
        ]
        return { model, max_tokens: 5, messages: [asked, { role: 'assistant', content }, asked] }
      },
    ],
    [
      '/v1/chat/completions',
      'messages[1].tool_calls',
      'expected at most 1024 items',
      (count: number) => {
        const made = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }
        return { model, messages: [asked, { role: 'assistant', tool_calls: calls(made, count) }, asked] }
      },
    ],
  ])('%s', async (path, param, message, body) => {
    const [url] = path.split(',')
    const refused = await server.post(url!, body(1025))
    expect(await refused.text()).toContain(`Invalid '${param}': ${message}`)
    expect(refused.status).toBe(400)
    expect(await (await server.post(url!, body(1024))).text()).not.toContain(message)
  })
})

test('a field that objects have by themselves is an unknown field without a code', async () => {
  const body = { model: 'service-mk1.5', input: 'Hi', questions: [{ type: 'predicate', instructions: 'Is it?' }] }
  for (const name of ['constructor', 'toString', '__proto__']) {
    const response = await server.post('/v1/decisions', `{"${name}": 1, ${JSON.stringify(body).slice(1)}`)
    expect(await response.json()).toEqual({
      error: {
        message: `Invalid '${name}': there is no such field`,
        type: 'invalid_request_error',
        param: name,
        code: null,
      },
    })
  }
})

test('a name of any length makes no long error', async () => {
  const response = await server.post('/v1/responses', {
    model: 'service-mk1.5',
    input: 'Hi',
    metadata: { ['k'.repeat(1e5)]: 'v' },
  })
  const { message } = await errorOf(response)
  expect(message).toMatch(/^Invalid 'metadata\.k{200}…': expected keys of at most 64 characters$/)
})

describe('invalid bodies', () => {
  const json = { 'content-type': 'application/json' }
  const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`
  test.each([
    ['broken JSON', 400, '{"model":', json, /not valid JSON/],
    ['an empty body', 400, '', json, /empty/],
    ['a list', 400, '[]', json, /must be a JSON object/],
    ['a string', 400, '"x"', json, /must be a JSON object/],
    ['null', 400, 'null', json, /must be a JSON object/],
    ['deep nesting', 400, deep, json, /^The request body is nested deeper than 100 levels$/],
    ['invalid UTF-8', 400, new Uint8Array([0x7b, 0xff, 0x7d]), json, /not valid UTF-8/],
    ['text', 415, 'Hi', { 'content-type': 'text/plain' }, /application\/json/],
    ['a compressed body', 415, 'x', { ...json, 'content-encoding': 'gzip' }, /'gzip' is not supported/],
    ['a form', 415, 'a=b', { 'content-type': 'application/x-www-form-urlencoded' }, /application\/json/],
  ])('%s', async (_name, status, body, headers, message) => {
    const response = await server.post('/v1/chat/completions', body, headers)
    expect(await errorOf(response)).toEqual({
      message: expect.stringMatching(message),
      type: 'invalid_request_error',
      param: null,
      code: null,
    })
    expect(response.status).toBe(status)
  })

  test('deep nesting inside', async () => {
    const response = await server.post('/v1/chat/completions', `{"model":"service-mk1.5","messages":${deep}}`)
    expect(await errorOf(response)).toMatchObject({ param: 'messages[0]' })
    expect(response.status).toBe(400)
  })

  test.each([
    ['an unknown key', 'x', (value: string) => `"x": ${value}`],
    [
      'parameters of a tool',
      'tools[1].function.parameters',
      (value: string) =>
        `"tools": [{}, {"type": "function", "function": {"name": "\\"f]", "parameters": {"a": ${value}}}}]`,
    ],
    [
      'a schema',
      'response_format.json_schema.schema',
      (value: string) => `"response_format": {"type": "json_schema", "json_schema": {"schema": ${value}}}`,
    ],
  ])('deep nesting in %s', async (_name, param, field) => {
    const body = `{"model":"service-mk1.5","messages":[{"role":"user","content":"Hi"}],${field(deep)}}`
    const response = await server.post('/v1/chat/completions', body)
    expect(await errorOf(response)).toMatchObject({
      param,
      message: `Invalid '${param}': it is nested deeper than 100 levels`,
    })
    expect(response.status).toBe(400)
  })

  test('more than 20 MB', async () => {
    const body = JSON.stringify(fields({ pad: 'x'.repeat(21 * 2 ** 20) }))
    for (let i = 0; i < 5; i++) {
      const response = await server.post('/v1/chat/completions', body)
      expect(response.status).toBe(413)
      expect(await errorOf(response)).toEqual({
        message: 'The request body is larger than 20 MB',
        type: 'invalid_request_error',
        param: null,
        code: null,
      })
    }
  })

  test('a body of almost 20 MB is accepted', async () => {
    const body = JSON.stringify(fields({ pad: 'x'.repeat(19 * 2 ** 20) }))
    expect((await server.post('/v1/chat/completions', body)).status).toBe(200)
  })
})

describe('400: media that the model does not take', () => {
  let stills: TestServer
  let card: Awaited<ReturnType<typeof imageOnlyCard>>
  beforeAll(async () => {
    card = await imageOnlyCard()
    stills = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: card.path } })
  })
  afterAll(async () => {
    await stills?.close()
    await card?.remove()
  })

  test.each(UNSEEN)('%s', async (_case, body, param, message) => {
    const response = await stills.post('/v1/chat/completions', body)
    expect(response.status).toBe(400)
    expect(await errorOf(response)).toEqual({
      message: expect.stringMatching(message),
      type: 'invalid_request_error',
      param,
      code: null,
    })
  })
})
