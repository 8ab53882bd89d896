import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { imageOnlyCard } from './support/changed-card.ts'
import { errorOf, startTestServer, type TestServer } from './support/server.ts'

const PATH = '/v1/chat/completions/multilook'

let server: TestServer
let card: Awaited<ReturnType<typeof imageOnlyCard>>
beforeAll(async () => {
  card = await imageOnlyCard()
  server = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: card.path } })
})
afterAll(async () => {
  await server?.close()
  await card?.remove()
})

const user = { role: 'user', content: 'Hi' }
const url = { url: 'https://example.com/a' }
const image = { type: 'image_url', image_url: url }
const frames = (count: number) => ({
  type: 'video_frames',
  video_frames: { frames: Array.from({ length: count }, (_, i) => ({ image_url: url, timestamp_ms: i })) },
})
const call = { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } }
const tool = { type: 'function', function: { name: 'f' } }

const fields = (body: object) => ({ model: 'service-mk1.5', context: [user], prompts: ['Who?'], ...body })
/** The older id does not support reasoning. */
const plain = (body: object) => fields({ model: 'service-mk1', ...body })
const prompts = (...list: unknown[]) => fields({ prompts: list })
const context = (...list: unknown[]) => fields({ context: list })
const many = (count: number) => Array.from({ length: count }, String)

type Case = [name: string, body: unknown, param: string | null, message: RegExp, code?: string]

const RANGE = /^Invalid 'n': expected an integer between 1 and 8$/

const CASES: Case[] = [
  ['no model', { context: [], prompts: ['a'] }, 'model', /required/],
  ['an unknown model', fields({ model: 'no-such' }), null, /^Model 'no-such' does not exist$/],
  ['no context', { model: 'service-mk1.5', prompts: ['a'] }, 'context', /required/],
  ['a context of another type', fields({ context: 'Hi' }), 'context', /expected array/],
  ['an unknown role in the context', context({ role: 'robot', content: 'x' }), 'context[0].role', /expected one of/],
  ['a context message without content', context(user, { role: 'user' }), 'context[1].content', /required/],
  [
    'a broken part in the context',
    context({ role: 'user', content: [{ type: 'text' }] }),
    'context[0].content[0].text',
    /required/,
  ],
  ['no prompts', { model: 'service-mk1.5', context: [] }, 'prompts', /required/],
  ['prompts of another type', fields({ prompts: 'Who?' }), 'prompts', /expected array/],
  ['no prompt at all', prompts(), 'prompts', /at least 1 item/],
  ['17 prompts', prompts(...many(17)), 'prompts', /at most 16 items/],
  ['a prompt that is a number', prompts('a', 5), 'prompts[1]', /string or object, received number/],
  ['a prompt that is null', prompts(null), 'prompts[0]', /string or object/],
  ['a prompt that is a list of parts', prompts([{ type: 'text', text: 'a' }]), 'prompts[0]', /string or object/],
  ['a prompt without content', prompts({}), 'prompts[0].content', /required/],
  ['a prompt whose content is a string', prompts({ content: 'a' }), 'prompts[0].content', /expected array/],
  ['a prompt without parts', prompts({ content: [] }), 'prompts[0].content', /at least 1 item/],
  ['an unknown part', prompts('a', { content: [{ type: 'smell' }] }), 'prompts[1].content[0].type', /expected one of/],
  [
    'a picture without URL',
    prompts({
      content: [
        { type: 'text', text: 'a' },
        { type: 'image_url', image_url: {} },
      ],
    }),
    'prompts[0].content[1].image_url.url',
    /required/,
  ],
  ['n 0', fields({ n: 0 }), 'n', RANGE],
  ['n 9', fields({ n: 9, temperature: 1 }), 'n', RANGE],
  ['n with a fraction', fields({ n: 1.5, temperature: 1 }), 'n', RANGE],
  ['n as text', fields({ n: '2', temperature: 1 }), 'n', RANGE],
  ['n as boolean', fields({ n: true }), 'n', RANGE],
  ['n as list', fields({ n: [2] }), 'n', RANGE],
  ['n above 1 without temperature', fields({ n: 2 }), 'n', /n > 1 requires temperature > 0/],
  ['n above 1 with temperature 0', fields({ n: 2, temperature: 0 }), 'n', /n > 1 requires temperature > 0/],
  [
    'more than 64 completions',
    fields({ prompts: many(9), n: 8, temperature: 1 }),
    'n',
    /at most 64 completions, got 9 prompts with 8 each/,
  ],
  ['temperature above 2', fields({ temperature: 2.5 }), 'temperature', /at most 2/, 'invalid_temperature'],
  ['top_p above 1', fields({ top_p: 1.5 }), 'top_p', /at most 1/],
  ['top_k below 0', fields({ top_k: -1 }), 'top_k', /at least 0/],
  ['frequency_penalty out of range', fields({ frequency_penalty: 3 }), 'frequency_penalty', /at most 2/],
  ['presence_penalty out of range', fields({ presence_penalty: -3 }), 'presence_penalty', /at least -2/],
  ['max_completion_tokens below 0', fields({ max_completion_tokens: -1 }), 'max_completion_tokens', /at least 0/],
  [
    'max_completion_tokens above 8192',
    fields({ max_completion_tokens: 8193 }),
    'max_completion_tokens',
    /at most 8192/,
  ],
  ['max_completion_tokens with a fraction', fields({ max_completion_tokens: 1.5 }), 'max_completion_tokens', /integer/],
  ['an unknown effort', fields({ reasoning_effort: 'extreme' }), 'reasoning_effort', /one of 'none'/],
  ['reasoning', plain({ reasoning_effort: 'low' }), 'reasoning_effort', /does not support reasoning/],
  ['thinking', plain({ vision_config: { enable_thinking: true } }), 'vision_config.enable_thinking', /reasoning/],
  [
    'a THINK hint',
    plain({ context: [{ role: 'system', content: '<hint>THINK</hint>' }] }),
    'context[0].content',
    /reasoning/,
  ],
  [
    'audio in video',
    fields({ vision_config: { enable_audio_in_video: true } }),
    'vision_config.enable_audio_in_video',
    /audio/,
  ],
  [
    'an annotation format that the model has not',
    fields({ vision_config: { annotation_format: 'clip' } }),
    'vision_config.annotation_format',
    /'clip'/,
  ],
  [
    'the focus tool',
    fields({ vision_config: { internal_tools: { focus: true } } }),
    'vision_config.internal_tools.focus',
    /focus/,
  ],
  ['stream', fields({ stream: true }), 'stream', /not supported by multilook/],
  ['response_format', fields({ response_format: { type: 'text' } }), 'response_format', /not supported by multilook/],
  ['stop', fields({ stop: ['a'] }), 'stop', /not supported by multilook/],
  ['stop as text', fields({ stop: 'a' }), 'stop', /not supported by multilook/],
  ['regex', fields({ regex: 'a+' }), 'regex', /not supported by multilook/],
  ['tools', fields({ tools: [tool] }), 'tools', /not supported by multilook/],
  [
    'a tool message',
    context(user, { role: 'tool', tool_call_id: 'call_1', content: 'x' }),
    'context[1]',
    /tool/,
    'unsupported_parameter',
  ],
  [
    'tool calls',
    context(user, user, { role: 'assistant', content: null, tool_calls: [call] }),
    'context[2]',
    /tool/,
    'unsupported_parameter',
  ],
  [
    'video in the context',
    context({ role: 'user', content: [frames(2)] }),
    'context[0].content[0].video_frames',
    /video/,
  ],
  [
    '257 inputs, each frame counting',
    fields({
      context: [{ role: 'user', content: [image] }],
      prompts: [{ content: [frames(155)] }, 'a', { content: [frames(101)] }],
    }),
    null,
    /at most 256 images and video frames, got 257/,
  ],
]

test.each(CASES)(
  '400: %s',
  async (_name: string, body: unknown, param: string | null, message: RegExp, code?: string) => {
    const response = await server.post(PATH, body)
    expect(await errorOf(response)).toEqual({
      message: expect.stringMatching(message),
      type: 'invalid_request_error',
      param,
      code: code ?? null,
    })
    expect(response.status).toBe(400)
    expect(server.engine.works).toHaveLength(0)
  },
)

test('256 inputs are accepted', async () => {
  const response = await server.post(PATH, prompts({ content: [frames(155)] }, { content: [frames(101)] }))
  // This model rejects them for their type, not for their number.
  expect(await errorOf(response)).toMatchObject({ message: expect.stringMatching(/does not support video/) })
})

test('audio does not count as an image or video', async () => {
  const audio = { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }
  const audioInputs = (count: number) => ({ content: Array.from({ length: count }, () => audio) })
  const response = await server.post(PATH, prompts(audioInputs(256), { content: [frames(256)] }))
  expect(await errorOf(response)).toMatchObject({ message: expect.stringMatching(/does not support audio/) })
  const tooMany = await server.post(PATH, prompts(audioInputs(256), audioInputs(1)))
  expect(await errorOf(tooMany)).toMatchObject({ message: expect.stringMatching(/at most 256 audio inputs, got 257/) })
})

describe('spellings of a JSON number', () => {
  test.each(['2', '2.0', '2e0'])('n %s', async (n) => {
    const body = `{"model":"service-mk1.5","context":[],"prompts":["a"],"temperature":1,"n":${n}}`
    const response = await server.post(PATH, body)
    expect(response.status).toBe(200)
    expect(server.engine.works.at(-1)!.branches[0]!.n).toBe(2)
  })
})

test('more than 20 MB is 413, almost 20 MB is fine', async () => {
  const pad = (megabytes: number) => fields({ pad: 'x'.repeat(megabytes * 2 ** 20) })
  expect((await server.post(PATH, pad(21))).status).toBe(413)
  expect((await server.post(PATH, pad(19))).status).toBe(200)
})

test('other methods are 405', async () => {
  expect((await server.get(PATH)).status).toBe(405)
})

test('without a key 401', async () => {
  const response = await fetch(server.url + PATH, { method: 'POST' })
  expect(response.status).toBe(401)
})
