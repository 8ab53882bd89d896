import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { chunksOf, messageOf, promptText, replyOf } from '../support/chat.ts'
import { errorOf, startTestServer, type TestServer } from '../support/server.ts'

/** Messages, fields and finish reasons of chat, row by row as in `docs/contributing/contract.md`. */
let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server?.close())
beforeEach(() => {
  server.engine.works.length = 0
  server.engine.script = { texts: ['Two', ' lamps.'] }
})

const user = { role: 'user', content: 'Hi' }
const post = (fields: object) =>
  server.post('/v1/chat/completions', { model: 'service-mk1.5', messages: [user], ...fields })
const text = (text: string) => ({ type: 'text', text })

async function rendered(...messages: object[]): Promise<string> {
  expect((await post({ messages })).status).toBe(200)
  return promptText(server.engine)
}

const ANSWER = '<|im_start|>assistant\n'
const turn = (role: string, content: string) => `<|im_start|>${role}\n${content}<|im_end|>\n`

describe('roles and forms of content', () => {
  test.each<[string, object[], string]>([
    ['system, as a string', [{ role: 'system', content: 'A' }, user], turn('system', 'A') + turn('user', 'Hi')],
    [
      'system, in parts',
      [{ role: 'system', content: [text('A'), text('B')] }, user],
      turn('system', 'AB') + turn('user', 'Hi'),
    ],
    ['developer is system', [{ role: 'developer', content: 'A' }, user], turn('system', 'A') + turn('user', 'Hi')],
    [
      'two systems are one turn',
      [{ role: 'system', content: 'A' }, { role: 'developer', content: 'B' }, user],
      turn('system', 'A\nB') + turn('user', 'Hi'),
    ],
    [
      'a later system keeps its place',
      [user, { role: 'developer', content: 'A' }],
      turn('user', 'Hi') + turn('system', 'A'),
    ],
    ['user, in parts', [{ role: 'user', content: [text('A'), text(''), text('B')] }], turn('user', 'AB')],
    [
      'assistant, as a string',
      [user, { role: 'assistant', content: 'A' }, user],
      turn('user', 'Hi') + turn('assistant', 'A') + turn('user', 'Hi'),
    ],
    [
      'assistant, in parts',
      [user, { role: 'assistant', content: [text('A'), text('B')] }, user],
      turn('user', 'Hi') + turn('assistant', 'AB') + turn('user', 'Hi'),
    ],
    [
      'assistant, an empty string',
      [user, { role: 'assistant', content: '' }, user],
      turn('user', 'Hi') + turn('assistant', '') + turn('user', 'Hi'),
    ],
    [
      'assistant, null beside a thought',
      [user, { role: 'assistant', content: null, reasoning_content: 'T' }, user],
      turn('user', 'Hi') + turn('assistant', '') + turn('user', 'Hi'),
    ],
    [
      'annotations of an earlier turn',
      [user, { role: 'assistant', content: '<point mention="a"> (1,2) </point>' }, user],
      turn('user', 'Hi') + turn('assistant', '<point mention="a"> (1,2) </point>') + turn('user', 'Hi'),
    ],
    ['unknown keys', [{ ...user, name: 'Ada', weight: 1, refusal: null }], turn('user', 'Hi')],
    [
      'a hint, wherever it stands in a system text',
      [{ role: 'system', content: 'Be <hint>BOX</hint>brief.' }, user],
      turn('system', '<hint>BOX</hint>Be brief.') + turn('user', 'Hi'),
    ],
    [
      'a system text that is a hint only',
      [{ role: 'system', content: '<hint>THINK</hint>' }, user],
      turn('user', 'Hi'),
    ],
  ])('%s', async (_, messages, expected) => {
    expect((await rendered(...messages)).replace(/<think>\n$/, '')).toBe(expected + ANSWER)
  })

  test('an assistant message with calls may omit its content or set it to null', async () => {
    const calls = [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }]
    const result = { role: 'tool', tool_call_id: 'a', content: 'x' }
    const without = await rendered(user, { role: 'assistant', tool_calls: calls }, result)
    expect(await rendered(user, { role: 'assistant', content: null, tool_calls: calls }, result)).toBe(without)
    expect(
      await rendered(user, { role: 'assistant', content: '', tool_calls: calls, reasoning_content: null }, result),
    ).toBe(without)
  })
})

describe('fields that the contract does not have', () => {
  test.each([
    'stop',
    'seed',
    'logprobs',
    'top_logprobs',
    'logit_bias',
    'user',
    'metadata',
    'store',
    'service_tier',
    'modalities',
    'audio',
    'prediction',
    'web_search_options',
    'verbosity',
    'prompt_cache_key',
    'safety_identifier',
    'functions',
    'function_call',
    'think',
    'chat_template_kwargs',
  ])('%s is ignored', async (field) => {
    expect((await post({ [field]: 'x', vision_config: { classes: ['x'] } })).status).toBe(200)
  })
})

describe('how a reply ends', () => {
  const call = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
  const tools = [{ type: 'function', function: { name: 'f' } }]
  const thought = 'Hm.\n</think>\n\n'
  const effort = { reasoning_effort: 'low' }

  test.each<[string, object, object, string, number]>([
    ['stop', {}, { texts: ['Two', ' lamps.'] }, 'stop', 2],
    ['stop without text', {}, { texts: [] }, 'stop', 0],
    ['length', {}, { texts: ['Two'], reason: 'length' }, 'length', 1],
    ['tool_calls', { tools }, { texts: [call] }, 'tool_calls', 1],
    ['length with a whole call', { tools }, { texts: [call], reason: 'length' }, 'length', 1],
    ['stop after a thought', effort, { texts: [thought, 'Two.'] }, 'stop', 2],
    ['interrupted', effort, { texts: [thought, 'Two.'], thoughtInterrupted: true }, 'interrupted', 2],
    [
      'interrupted, then length',
      effort,
      { texts: [thought, 'Tw'], thoughtInterrupted: true, reason: 'length' },
      'length',
      2,
    ],
    [
      'interrupted, then calls',
      { ...effort, tools },
      { texts: [thought, call], thoughtInterrupted: true },
      'tool_calls',
      2,
    ],
  ])('%s: the same streamed and not, with the same usage', async (_, fields, script, reason, tokens) => {
    server.engine.script = script
    const whole = await replyOf(await post(fields))
    const promptTokens = promptText(server.engine).length
    const usage = {
      prompt_tokens: promptTokens,
      completion_tokens: tokens,
      total_tokens: promptTokens + tokens,
      prompt_tokens_details: { audio_tokens: 0 },
    }
    expect([whole.choices[0]!.finish_reason, whole.usage]).toEqual([reason, usage])
    const chunks = await chunksOf(await post({ ...fields, stream: true, stream_options: { include_usage: true } }))
    const last = chunks.at(-1)!
    expect([last.choices[0]!.finish_reason, last.choices[0]!.delta, last.usage]).toEqual([reason, {}, usage])
    expect(chunks.slice(0, -1).every((chunk) => chunk.usage === null && chunk.choices[0]!.finish_reason === null)).toBe(
      true,
    )
    const strip = (message: ReturnType<typeof messageOf>) =>
      JSON.parse(JSON.stringify(message).replaceAll(/call_[0-9a-f]{24}/g, 'id'))
    expect(strip(messageOf(chunks))).toEqual(strip(whole.choices[0]!.message))
  })
})

test.each([
  [{ n: 2 }, 'n'],
  [{ n: 2, stream: true }, 'n'],
  [{ tools: [{ type: 'function', function: { name: 'f' } }], tool_choice: 'required' }, 'tool_choice'],
])('a rejected value has no code: %o', async (fields, param) => {
  const response = await post(fields)
  expect(response.status).toBe(400)
  expect(await errorOf(response)).toMatchObject({ type: 'invalid_request_error', param, code: null })
})
