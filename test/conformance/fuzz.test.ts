import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { z } from 'zod'
import { errorBody } from '../../src/api/http/wire/error.ts'
import { multilookCompletion } from '../../src/api/native/wire/multilook-response.ts'
import { message, messageError } from '../../src/api/surfaces/anthropic/wire/message-response.ts'
import { chatCompletion } from '../../src/api/surfaces/openai/wire/chat-response.ts'
import { damaged, FUZZ } from '../support/fuzz.ts'
import { CHATS, MESSAGES, MULTILOOKS, OLLAMA_CHATS, OLLAMA_PROMPTS } from '../support/fuzz-bodies.ts'
import { startTestServer, type TestServer } from '../support/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await startTestServer({ environment: { LOOKOUT_LOG_LEVEL: 'silent', LOOKOUT_OLLAMA: 'on' } })
})
afterAll(() => server?.close())
beforeEach(() => {
  server.engine.script = {
    texts: ['Hm.\n</think>\n\n', 'Two. <tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'],
  }
})

/** The only 500 that is allowed: the fake engine's text may not have the requested structure. */
const VALIDATION = /^The reply does not match the (response_format|output_config\.format|format|regex)\b/

const contract = errorBody.transform(({ error }) => error.message)
const anthropic = messageError.transform(({ error }) => error.message)
const ollama = z.strictObject({ error: z.string() }).transform(({ error }) => error)
const ended = z.object({
  model: z.string(),
  created_at: z.iso.datetime(),
  done: z.literal(true),
  done_reason: z.string(),
})
const ollamaChat = ended.extend({ message: z.object({ role: z.literal('assistant'), content: z.string() }) })
const ollamaPrompt = ended.extend({ response: z.string() })

test.each<[string, string, object[], z.ZodType, z.ZodType<string>]>([
  ['chat', '/v1/chat/completions', CHATS, chatCompletion, contract],
  ['multilook', '/v1/chat/completions/multilook', MULTILOOKS, multilookCompletion, contract],
  ['messages', '/v1/messages', MESSAGES, message, anthropic],
  ['Ollama’s chat', '/api/chat', OLLAMA_CHATS, ollamaChat, ollama],
  ['Ollama’s generate', '/api/generate', OLLAMA_PROMPTS, ollamaPrompt, ollama],
])(
  `${FUZZ.numRuns} damaged bodies get a valid response or a valid error: %s`,
  async (_, path, bodies, answer, error) => {
    const statuses = new Map<number, number>()
    await fc.assert(
      fc.asyncProperty(damaged(bodies), async (body) => {
        const response = await server.post(path, body)
        const text = await response.text()
        statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1)
        if (response.status === 200) {
          const type = response.headers.get('content-type')
          if (type?.startsWith('text/event-stream')) expect(text).toMatch(/^(event: message_start\n)?data: /)
          else if (type === 'application/x-ndjson') expect(text).toMatch(/^\{"model":.*\n$/s)
          else answer.parse(JSON.parse(text))
          return
        }
        const message = error.parse(JSON.parse(text))
        expect(message).not.toBe('')
        if (VALIDATION.test(message)) return
        expect([response.status >= 400 && response.status < 500, text]).toEqual([true, text])
      }),
      FUZZ,
    )
    expect(statuses.get(200)).toBeGreaterThan(0)
    expect(statuses.get(400)).toBeGreaterThan(0)
  },
)
