import fc from 'fast-check'
import sharp from 'sharp'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { errorBody } from '../src/api/http/wire/error.ts'
import { response } from '../src/api/surfaces/responses/wire/response.ts'
import { damaged, FUZZ } from './support/fuzz.ts'
import { startTestServer, type TestServer } from './support/server.ts'

/** The only permitted 500: what the engine of the test says may not have the structure that the damaged request asks for. */
const VALIDATION = 'output_validation_failed'

let server: TestServer
let url: string
beforeAll(async () => {
  const bytes = await sharp({ create: { width: 40, height: 40, channels: 3, background: '#3366cc' } })
    .png()
    .toBuffer()
  url = `data:image/png;base64,${bytes.toString('base64')}`
  server = await startTestServer({ environment: { LOOKOUT_LOG_LEVEL: 'silent' } })
})
afterAll(() => server?.close())

/** Each body that is accepted makes two requests more. */
const RUNS = { ...FUZZ, numRuns: Math.ceil(FUZZ.numRuns / 3) }

test(`any body gets a valid response or a valid error: ${RUNS.numRuns} bodies`, async () => {
  const model = 'service-mk1.5'
  const text = { type: 'input_text', text: 'Hi' }
  const call = {
    type: 'function_call',
    id: 'fc_1',
    call_id: 'c',
    name: 'f',
    arguments: '{"a": 1}',
    status: 'completed',
  }
  const tools = [{ type: 'function', name: 'f', parameters: { type: 'object' }, strict: true }, { type: 'web_search' }]
  const first = await server.post('/v1/responses', { model, input: 'Hi' })
  const { id, output } = response.parse(await first.json())
  const bodies = [
    { model, input: 'Hi', instructions: 'Be brief.', previous_response_id: id, metadata: { a: 'b' }, top_logprobs: 2 },
    {
      model,
      input: [
        { role: 'user', content: [text, { type: 'input_image', image_url: url, detail: 'low' }] },
        { type: 'reasoning', id: 'rs_1', summary: [], content: [{ type: 'reasoning_text', text: 'Hm.' }] },
        { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Yes.', annotations: [] }] },
        call,
        { type: 'function_call_output', call_id: 'c', output: [text, { type: 'input_image', image_url: url }] },
        { type: 'item_reference', id: output[0]!.id },
        { role: 'developer', content: [text] },
      ],
      tools,
      tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'f' }] },
      parallel_tool_calls: false,
      include: ['message.output_text.logprobs'],
    },
    {
      model: 'service-mk1',
      input: [{ role: 'user', content: [text, { type: 'input_file', file_data: url, filename: 'a.png' }] }],
      reasoning: { effort: 'low', summary: 'auto' },
      text: { format: { type: 'json_schema', name: 'a', schema: { type: 'object' }, strict: true }, verbosity: 'low' },
      max_output_tokens: 20,
      store: false,
      truncation: 'disabled',
    },
  ]
  server.engine.script = { texts: ['{', '}'] }
  const statuses = new Map<number, number>()
  await fc.assert(
    fc.asyncProperty(damaged(bodies), async (body) => {
      const answer = await server.post('/v1/responses', body)
      const said = await answer.text()
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
      if (answer.status === 200 && said.startsWith('event:')) expect(said).toMatch(/data: \[DONE\]\n\n$/)
      else if (answer.status === 200) {
        const { id, store } = response.parse(JSON.parse(said))
        // Every accepted response can be read back, and continued.
        const listed = await server.get(`/v1/responses/${id}/input_items`)
        expect(listed.status).toBe(store ? 200 : 404)
        const longer = await server.post('/v1/responses', { model, input: 'And?', previous_response_id: id })
        if (store) expect([200, 400]).toContain(longer.status)
      } else {
        const { error } = errorBody.parse(JSON.parse(said))
        expect(error.message).not.toBe('')
        expect(answer.status).toBeGreaterThanOrEqual(400)
        if (error.code !== VALIDATION) expect(answer.status, said).toBeLessThan(500)
      }
    }),
    RUNS,
  )
  // Some bodies were accepted and some rejected.
  expect(statuses.get(200)).toBeGreaterThan(0)
  expect(statuses.get(400)).toBeGreaterThan(0)
})
