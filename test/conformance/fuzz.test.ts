import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { z } from 'zod'
import { errorBody } from '../../src/api/http/wire/error.ts'
import { multilookCompletion } from '../../src/api/native/wire/multilook-response.ts'
import { chatCompletion } from '../../src/api/openai/wire/chat-response.ts'
import { damaged, FUZZ } from '../support/fuzz.ts'
import { CHATS, MULTILOOKS } from '../support/fuzz-bodies.ts'
import { startTestServer, type TestServer } from '../support/server.ts'

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

/** The only 500 that is allowed: the fake engine's text may not have the requested structure. */
const VALIDATION = 'output_validation_failed'

test.each<[string, string, object[], z.ZodType]>([
  ['chat', '/v1/chat/completions', CHATS, chatCompletion],
  ['multilook', '/v1/chat/completions/multilook', MULTILOOKS, multilookCompletion],
])(`${FUZZ.numRuns} damaged bodies get a valid response or a valid error: %s`, async (_, path, bodies, answer) => {
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
