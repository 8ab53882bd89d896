import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { z } from 'zod'
import { chatCompletion } from '../../src/api/wire/chat-response.ts'
import { errorBody } from '../../src/api/wire/error.ts'
import { multilookCompletion } from '../../src/api/wire/multilook-response.ts'
import { damaged, FUZZ } from '../support/fuzz.ts'
import { startTestServer, type TestServer } from '../support/server.ts'

const PICTURE =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

let server: TestServer
beforeAll(async () => {
  server = await startTestServer({ environment: { LOOKOUT_LOG_LEVEL: 'silent' } })
})
afterAll(() => server?.close())
beforeEach(() => {
  server.engine.script = {
    texts: ['Hm.\n</think>\n\n', 'Two. <tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'],
  }
})

const parts = [
  { type: 'text', text: 'x' },
  { type: 'image_url', image_url: { url: PICTURE } },
]
const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{"a": 1}' } }
const conversation = [
  { role: 'system', content: '<hint>BOX THINK</hint>Be brief.' },
  { role: 'user', content: parts },
  { role: 'assistant', content: null, reasoning_content: 'Hm.', tool_calls: [call] },
  { role: 'tool', tool_call_id: 'a', content: parts },
]
const model = 'service-mk1.5'
const options = {
  temperature: 0.5,
  top_p: 0.9,
  top_k: 5,
  frequency_penalty: 0.1,
  presence_penalty: 0.1,
  max_completion_tokens: 50,
  reasoning_effort: 'low',
  vision_config: { annotation_format: 'box', enable_thinking: true, internal_tools: { focus: false } },
}
const schema = {
  type: 'object',
  properties: { a: { type: 'integer', minimum: 1 }, b: { enum: ['x', 1], description: 'd' } },
  required: ['a'],
}

const CHATS = [
  { model, messages: [{ role: 'user', content: 'Hi' }] },
  {
    model,
    messages: conversation,
    ...options,
    tools: [{ type: 'function', function: { name: 'f', description: 'd', parameters: schema, strict: true } }],
    tool_choice: 'auto',
    parallel_tool_calls: false,
    n: 1,
  },
  {
    model,
    messages: conversation.slice(0, 2),
    response_format: { type: 'json_schema', json_schema: { name: 'x', schema } },
  },
  {
    model: 'service-mk1',
    messages: conversation.slice(1, 2),
    regex: 'a+',
    stream: false,
    stream_options: { include_usage: true },
  },
]
const MULTILOOKS = [
  { model, context: conversation.slice(0, 2), prompts: ['a', { content: parts }], n: 2, ...options },
  { model: 'service-mk1', context: [], prompts: ['a'] },
]

/** What the engine says may not have the structure that was asked for: the one 500 that is an answer. */
const VALIDATION = 'output_validation_failed'

test.each<[string, string, object[], z.ZodType]>([
  ['chat', '/v1/chat/completions', CHATS, chatCompletion],
  ['multilook', '/v1/chat/completions/multilook', MULTILOOKS, multilookCompletion],
])(`${FUZZ.numRuns} damaged bodies get an answer or an error in its shape: %s`, async (_, path, bodies, answer) => {
  const statuses = new Map<number, number>()
  await fc.assert(
    fc.asyncProperty(damaged(bodies), async (body) => {
      const response = await server.post(path, body)
      const text = await response.text()
      statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1)
      if (response.status === 200) {
        if (response.headers.get('content-type')?.startsWith('text/event-stream')) expect(text).toMatch(/^data: /)
        else answer.parse(JSON.parse(text))
        return
      }
      const { error } = errorBody.parse(JSON.parse(text))
      expect(error.message).not.toBe('')
      if (error.code === VALIDATION) return
      expect([response.status >= 400 && response.status < 500, text]).toEqual([true, text])
    }),
    FUZZ,
  )
  expect(statuses.get(200)).toBeGreaterThan(0)
  expect(statuses.get(400)).toBeGreaterThan(0)
})
