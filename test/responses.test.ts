import { readFile } from 'node:fs/promises'
import OpenAI from 'openai'
import { zodTextFormat } from 'openai/helpers/zod'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { internalError, modelOverloaded } from '../src/lib/errors/errors.ts'
import { promptText, textOf } from './support/chat.ts'
import { errorOf, jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'

type Response = OpenAI.Responses.Response
type Event = OpenAI.Responses.ResponseStreamEvent

const MODEL = 'service-mk1.5'
const CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Bern"}}\n</tool_call>'

let server: TestServer
let client: OpenAI
let picture: string
beforeAll(async () => {
  server = await startTestServer()
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: KEY, maxRetries: 0 })
  picture = `data:image/png;base64,${(await readFile('docs/pictures/shapes.png')).toString('base64')}`
})
afterAll(() => server?.close())
beforeEach(() => {
  server.engine.works.length = 0
  server.engine.script = { texts: ['Hello', ' there.'] }
})

const post = (fields: object) => server.post('/v1/responses', { model: MODEL, input: 'Hi', ...fields })
const respond = async (fields: object) => jsonOf<unknown>(await post(fields)) as Promise<Response>
const branch = () => server.engine.works.at(-1)!.branches[0]!

/** The events of a stream. Checks their names and numbers, and that it ends with `[DONE]`. */
async function eventsOf(response: globalThis.Response): Promise<Event[]> {
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
  const frames = (await response.text()).split('\n\n').filter((frame) => frame !== '' && !frame.startsWith(':'))
  expect(frames.pop()).toBe('data: [DONE]')
  return frames.map((frame, index) => {
    const [, name, data] = /^event: (\S+)\ndata: (.*)$/.exec(frame)!
    const event = JSON.parse(data!) as Event
    expect(event.type).toBe(name)
    expect(event.sequence_number).toBe(index)
    return event
  })
}

const tools = [
  {
    type: 'function',
    name: 'weather',
    description: 'The weather of a city',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    strict: null,
  },
] satisfies OpenAI.Responses.FunctionTool[]

describe('a whole response', () => {
  test('has every field, for any request', async () => {
    const prompt = '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n'
    const id = expect.stringMatching(/^resp_[0-9A-Za-z]{22}$/)
    const created_at = expect.any(Number)
    expect(await respond({ instructions: 'Be brief.', metadata: { a: 'b' }, store: false })).toEqual({
      id,
      object: 'response',
      created_at,
      completed_at: created_at,
      status: 'completed',
      background: false,
      error: null,
      incomplete_details: null,
      instructions: 'Be brief.',
      max_output_tokens: null,
      max_tool_calls: null,
      model: MODEL,
      output: [
        {
          id: expect.stringMatching(/^msg_/),
          type: 'message',
          status: 'completed',
          role: 'assistant',
          content: [{ type: 'output_text', text: 'Hello there.', annotations: [], logprobs: [] }],
        },
      ],
      parallel_tool_calls: true,
      previous_response_id: null,
      prompt_cache_key: null,
      reasoning: { effort: null, summary: null },
      safety_identifier: null,
      service_tier: 'default',
      store: false,
      temperature: 0,
      text: { format: { type: 'text' }, verbosity: 'medium' },
      tool_choice: 'auto',
      tools: [],
      top_logprobs: 0,
      top_p: 1,
      presence_penalty: 0,
      frequency_penalty: 0,
      truncation: 'disabled',
      usage: {
        input_tokens: prompt.length,
        input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0, image_tokens: 0, audio_tokens: 0 },
        output_tokens: 2,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: prompt.length + 2,
      },
      user: null,
      metadata: { a: 'b' },
    })
    expect(promptText(server.engine)).toBe(prompt)
  })

  test('works with the official client', async () => {
    const response = await client.responses.create({ model: MODEL, input: 'Hi', max_output_tokens: 7, top_p: 0.5 })
    expect(response.output_text).toBe('Hello there.')
    expect(branch()).toMatchObject({ maxTokens: 7, sampling: { topP: 0.5, temperature: 0 } })
  })

  test('that is cut off is incomplete', async () => {
    server.engine.script = { texts: ['Hel'], reason: 'length' }
    expect(await respond({ max_output_tokens: 1 })).toMatchObject({
      status: 'incomplete',
      completed_at: null,
      incomplete_details: { reason: 'max_output_tokens' },
      output: [{ type: 'message', status: 'incomplete', content: [{ text: 'Hel' }] }],
    })
  })

  test.each([1, 3, 10])(
    'has its reasoning as an item, and counts its tokens (%i come at once)',
    async (textsPerEvent) => {
      server.engine.script = { texts: ['It is', ' a greeting.', '\n</think>\n\n', 'Hello.'], textsPerEvent }
      const { output, usage, reasoning } = await respond({ reasoning: { effort: 'low' } })
      expect(output).toMatchObject([
        { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'It is a greeting.' }] },
        { type: 'message', content: [{ text: 'Hello.' }] },
      ])
      expect(usage!.output_tokens_details.reasoning_tokens).toBe(3)
      expect(reasoning).toEqual({ effort: 'low', summary: null })
    },
  )

  test.each(['auto', 'concise', 'detailed'])(
    'has its reasoning as a summary where one is asked for (%s), on which a response goes on',
    async (summary) => {
      server.engine.script = { texts: ['It is a greeting.', '\n</think>\n\n', CALL] }
      const { id, output } = await respond({ reasoning: { effort: 'low', summary }, tools })
      const thought = { type: 'reasoning', content: [], summary: [{ type: 'summary_text', text: 'It is a greeting.' }] }
      expect(output).toMatchObject([thought, { type: 'function_call' }])
      expect(output[0]).not.toHaveProperty('encrypted_content')
      const { call_id } = output[1] as OpenAI.Responses.ResponseFunctionToolCall
      const result = { type: 'function_call_output', call_id, output: 'Sun' }
      await respond({ previous_response_id: id, input: [result], tools })
      expect(promptText(server.engine)).toContain('It is a greeting.')
    },
  )

  test('has encrypted_content where it is asked for, which brings a thought back by itself', async () => {
    server.engine.script = { texts: ['A greeting in Zürich.', '\n</think>\n\n', CALL] }
    const fields = { store: false, include: ['reasoning.encrypted_content'], tools }
    const { output } = await respond({ ...fields, reasoning: { effort: 'low' } })
    const [{ encrypted_content, ...thought }, call] = output as [
      OpenAI.Responses.ResponseReasoningItem,
      OpenAI.Responses.ResponseFunctionToolCall,
    ]
    expect(thought).toMatchObject({ type: 'reasoning', content: [{ text: 'A greeting in Zürich.' }] })
    const result = { type: 'function_call_output', call_id: call.call_id, output: 'Sun' }
    const turn = (content: unknown) => [
      { role: 'user', content: 'Hi' },
      { type: 'reasoning', id: thought.id, summary: [], encrypted_content: content },
      call,
      result,
    ]
    await respond({ ...fields, input: turn(encrypted_content) })
    expect(promptText(server.engine)).toContain('A greeting in Zürich.')
    for (const unreadable of ['gAAAAABm', 'thought:%%%', null]) {
      await respond({ ...fields, input: turn(unreadable) })
      expect(promptText(server.engine)).not.toContain('Zürich')
    }
  })

  test('has log-probabilities where they are asked for', async () => {
    server.engine.script = { texts: ['Two', ' lamps'] }
    const two = { token: 'Two', logprob: Math.log(1 / 3), bytes: [84, 119, 111] }
    for (const fields of [{ include: ['message.output_text.logprobs'] }, { top_logprobs: 1 }]) {
      const { output } = await respond(fields)
      expect(output).toMatchObject([{ content: [{ logprobs: [two, { token: ' lamps' }] }] }])
    }
    expect(branch().topLogProbs).toBe(1)
  })
})

describe('a stream', () => {
  test('tells of each item as it is written, event by event', async () => {
    server.engine.script = { texts: ['A greeting.', '\n</think>\n\n', 'Hi', '.', CALL] }
    const events = await eventsOf(await post({ stream: true, tools, reasoning: { effort: 'low' } }))
    const items = events.flatMap((event) => (event.type === 'response.output_item.added' ? [event.item.id!] : []))
    const [thought, message, call] = items
    const [at, first, second] = [0, 1, 2].map((output_index) => ({ output_index, item_id: items[output_index] }))
    expect(events.map(({ type }) => type)).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      'response.reasoning_text.delta',
      'response.reasoning_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.output_item.added',
      'response.function_call_arguments.delta',
      'response.function_call_arguments.done',
      'response.output_item.done',
      'response.completed',
    ])
    expect(events[0]).toMatchObject({ response: { status: 'in_progress', output: [], usage: null } })
    expect(events[2]).toMatchObject({
      output_index: 0,
      item: { type: 'reasoning', id: thought, summary: [], content: [], status: 'in_progress' },
    })
    expect(events[4]).toMatchObject({ ...at, content_index: 0, delta: 'A greeting.' })
    expect(events[9]).toMatchObject({
      ...first,
      content_index: 0,
      part: { type: 'output_text', text: '', annotations: [], logprobs: [] },
    })
    expect(events[10]).toMatchObject({ ...first, content_index: 0, delta: 'Hi', logprobs: [] })
    expect(events[12]).toMatchObject({ ...first, content_index: 0, text: 'Hi.', logprobs: [] })
    expect(events[14]).toMatchObject({ output_index: 1, item: { id: message, status: 'completed' } })
    expect(events[15]).toMatchObject({
      output_index: 2,
      item: { id: call, type: 'function_call', name: 'weather', arguments: '', status: 'in_progress' },
    })
    expect(events[17]).toMatchObject({ ...second, name: 'weather', arguments: '{"city": "Bern"}' })
    const { response } = events.at(-1) as OpenAI.Responses.ResponseCompletedEvent
    expect(response).toMatchObject({ status: 'completed', usage: { output_tokens: 5 } })
    expect(response.output.map(({ id }) => id)).toEqual(items)
  })

  test('streams a summary with the events of OpenAI’s API', async () => {
    server.engine.script = { texts: ['A greeting', '.', '\n</think>\n\n', 'Hi.'] }
    const events = await eventsOf(await post({ stream: true, reasoning: { effort: 'low', summary: 'auto' } }))
    const at = { output_index: 0, item_id: expect.stringMatching(/^rs_/), summary_index: 0 }
    const summary = { type: 'summary_text', text: 'A greeting.' }
    expect(events.slice(2, 10)).toMatchObject([
      { type: 'response.output_item.added', item: { type: 'reasoning', summary: [], content: [] } },
      { type: 'response.reasoning_summary_part.added', ...at, part: { type: 'summary_text', text: '' } },
      { type: 'response.reasoning_summary_text.delta', ...at, delta: 'A greeting' },
      { type: 'response.reasoning_summary_text.delta', ...at, delta: '.' },
      { type: 'response.reasoning_summary_text.done', ...at, text: 'A greeting.' },
      { type: 'response.reasoning_summary_part.done', ...at, part: summary },
      { type: 'response.output_item.done', item: { type: 'reasoning', summary: [summary], status: 'completed' } },
      { type: 'response.output_item.added', item: { type: 'message' } },
    ])
    expect(events.some(({ type }) => type.startsWith('response.reasoning_text'))).toBe(false)
  })

  test('has the same items as the whole response', async () => {
    server.engine.script = { texts: ['Hello', ' there.'] }
    const whole = await respond({})
    const stream = client.responses.stream({ model: MODEL, input: 'Hi' })
    const deltas: string[] = []
    stream.on('response.output_text.delta', ({ delta }) => deltas.push(delta))
    const last = await stream.finalResponse()
    expect(deltas).toEqual(['Hello', ' there.'])
    expect(last.output_text).toBe('Hello there.')
    expect({ ...last.output[0], id: '' }).toEqual({ ...whole.output[0], id: '', content: expect.anything() })
    expect(last.usage).toEqual(whole.usage)
  })

  test('that is cut off ends with response.incomplete', async () => {
    server.engine.script = { texts: ['Hel'], reason: 'length' }
    const events = await eventsOf(await post({ stream: true }))
    expect(events.at(-1)).toMatchObject({
      type: 'response.incomplete',
      response: { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } },
    })
  })

  test('an error before it is an HTTP error', async () => {
    server.engine.script = { refusal: modelOverloaded('Busy', 7) }
    const response = await post({ stream: true })
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '7'])
    expect((await errorOf(response)).code).toBe('model_overloaded')
  })

  test('an error within it is an event, and then the response has failed', async () => {
    server.engine.script = { texts: ['Hel'], failure: internalError(new Error('a test')) }
    const events = await eventsOf(await post({ stream: true }))
    expect(events.at(-2)).toMatchObject({ type: 'error', message: 'Internal error', code: null, param: null })
    expect(events.at(-1)).toMatchObject({
      type: 'response.failed',
      response: { status: 'failed', error: { code: 'server_error', message: 'Internal error' } },
    })
    await expect(client.responses.stream({ model: MODEL, input: 'Hi' }).finalResponse()).rejects.toThrow(
      'Internal error',
    )
  })

  test('a client that leaves frees the engine, and nothing is stored', async () => {
    server.engine.script = { texts: ['tick'], delayMs: 5, endless: true }
    const stream = await client.responses.create({ model: MODEL, input: 'Hi', stream: true })
    let id = ''
    for await (const event of stream) {
      if (event.type === 'response.created') id = event.response.id
      if (event.type === 'response.output_text.delta') break
    }
    await expect.poll(() => server.engine.aborts.length).toBeGreaterThan(0)
    expect((await server.get(`/v1/responses/${id}`)).status).toBe(404)
  })
})

describe('the input', () => {
  test('of all kinds is what the model reads', async () => {
    await respond({
      instructions: 'Be brief.',
      input: [
        { role: 'developer', content: [{ type: 'input_text', text: 'And kind.' }] },
        {
          type: 'message',
          role: 'user',
          content: [
            { type: 'input_text', text: 'Look: ' },
            { type: 'input_image', image_url: picture, detail: 'low' },
          ],
        },
        { type: 'reasoning', id: 'rs_1', summary: [], content: [{ type: 'reasoning_text', text: 'Where is it?' }] },
        { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'I ask.', annotations: [] }] },
        { type: 'function_call', call_id: 'c1', name: 'weather', arguments: '{"city": "Bern"}' },
        { type: 'function_call', call_id: 'c2', name: 'weather', arguments: '{"city": "Thun"}' },
        {
          type: 'function_call_output',
          call_id: 'c1',
          output: [
            { type: 'input_text', text: 'Sun' },
            { type: 'input_image', image_url: picture },
          ],
        },
        { type: 'function_call_output', call_id: 'c2', output: 'Rain' },
        { role: 'user', content: 'So?' },
      ],
      tools,
    })
    const prompt = promptText(server.engine)
    const turns = prompt.split('<|im_start|>').map((turn) => turn.replace('<|im_end|>\n', ''))
    expect(turns[1]).toContain('Be brief.')
    expect(turns[1]).toContain('And kind.')
    expect(turns[2]).toBe('user\nLook: [picture]')
    expect(turns[3]).toContain('Where is it?')
    expect(turns[3]).toContain('I ask.')
    expect(turns[3]!.match(/<tool_call>/g)).toHaveLength(2)
    expect(prompt).toContain('Sun[picture]')
    expect(prompt.indexOf('Rain')).toBeGreaterThan(prompt.indexOf('Sun'))
    expect(turns.at(-2)).toBe('user\nSo?')
  })

  test('a picture in a file, as an image or as a file', async () => {
    const bytes = await readFile('docs/pictures/shapes.png')
    const form = new FormData()
    form.append('file', new Blob([bytes]), 'a.png')
    form.append('purpose', 'vision')
    const upload = await fetch(`${server.url}/v1/files`, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}` },
      body: form,
    })
    const { id } = await jsonOf<{ id: string }>(upload)
    const content = [
      { type: 'input_image', file_id: id },
      { type: 'input_file', file_id: id },
      { type: 'input_file', file_data: picture, filename: 'shapes.png' },
    ]
    expect((await post({ input: [{ role: 'user', content }] })).status).toBe(200)
    expect(server.engine.works.at(-1)!.prefix.filter(({ type }) => type === 'image')).toHaveLength(3)
  })

  test('tools of other types are skipped', async () => {
    const others = [{ type: 'web_search' }, { type: 'file_search', vector_store_ids: ['a'] }, { type: 'shell' }]
    const response = await respond({ tools: [others[0], ...tools, others[1], others[2]] })
    expect(response.tools).toEqual(tools.map((tool) => ({ ...tool, strict: false })))
    expect(promptText(server.engine)).toContain('"weather"')
    expect(promptText(server.engine)).not.toContain('search')
    // Without a function, it does not matter what the choice is.
    expect((await post({ tools: others, tool_choice: { type: 'web_search' } })).status).toBe(400)
    expect((await post({ tools: others, tool_choice: 'required' })).status).toBe(200)
  })

  test('allowed tools are the only ones that the model sees, and the response has all as sent', async () => {
    const clock = { type: 'function', name: 'clock' } as const
    const allowed = [clock, { type: 'mcp', server_label: 'wiki' }, { type: 'web_search' }]
    const choice = { type: 'allowed_tools', mode: 'auto', tools: allowed } as const
    const asked = { tools: [...tools, clock], tool_choice: choice }
    const response = await respond(asked)
    expect(response.tool_choice).toEqual(choice)
    expect(response.tools).toMatchObject([{ name: 'weather', parameters: tools[0]!.parameters }, { name: 'clock' }])
    expect(promptText(server.engine)).toContain('clock')
    expect(promptText(server.engine)).not.toContain('weather')
    expect(await client.responses.retrieve(response.id)).toMatchObject({ tool_choice: choice, tools: response.tools })
    const [begun] = await eventsOf(await post({ ...asked, stream: true }))
    expect(begun).toMatchObject({ response: { tool_choice: choice, tools: response.tools } })
  })

  test('allowed tools must be there', async () => {
    const choice = (...allowed: object[]) => ({ type: 'allowed_tools', mode: 'auto', tools: allowed })
    const fly = { type: 'function', name: 'fly' }
    for (const [given, allowed, param] of [
      [tools, choice(tools[0]!, fly), 'tool_choice.tools[1]'],
      [tools, choice(fly), 'tool_choice.tools[0]'],
      [[{ type: 'web_search' }], choice({ type: 'web_search' }, fly), 'tool_choice.tools[1]'],
      [tools, choice({ type: 'web_search' }), 'tool_choice.tools'],
    ] as const) {
      const refused = await post({ tools: given, tool_choice: allowed })
      expect([refused.status, (await errorOf(refused)).param]).toEqual([400, param])
    }
    await respond({ tools, tool_choice: choice({ type: 'web_search' }, tools[0]!) })
  })

  test('functions in namespaces are called by both names', async () => {
    const { strict: _, ...weather } = tools[0]!
    const named = {
      type: 'namespace',
      name: 'mcp__sky',
      description: 'The sky',
      tools: [
        { type: 'custom', name: 'grammar' },
        { ...weather, defer_loading: true },
      ],
    }
    const asked = { tools: [{ type: 'web_search' }, named, ...tools] }
    const namespace = 'mcp__sky'
    server.engine.script = { texts: [CALL.replace('weather', 'mcp__sky__weather'), CALL] }
    const response = await respond(asked)
    expect(response.output).toMatchObject([{ namespace, name: 'weather', arguments: '{"city": "Bern"}' }, {}])
    expect(response.output[1]).toMatchObject({ name: 'weather' })
    expect(response.output[1]).not.toHaveProperty('namespace')
    expect(response.tools).toEqual([
      { ...named, tools: [{ ...weather, strict: false }] },
      { ...weather, strict: false },
    ])
    expect(promptText(server.engine)).toContain('"mcp__sky__weather"')
    expect(await client.responses.retrieve(response.id)).toMatchObject({
      tools: response.tools,
      output: response.output,
    })
    const events = await eventsOf(await post({ ...asked, stream: true }))
    expect(events.find(({ type }) => type === 'response.output_item.added')).toMatchObject({ item: { namespace } })

    server.engine.script = { texts: ['Sunny.'] }
    const results = response.output.map((item) => {
      const { call_id } = item as OpenAI.Responses.ResponseFunctionToolCall
      return { type: 'function_call_output', call_id, output: 'Sun' }
    })
    await respond({ input: results, previous_response_id: response.id, ...asked })
    const whole = promptText(server.engine)
    expect(whole).toContain('{"name": "mcp__sky__weather", "arguments": {"city": "Bern"}}')
    await respond({ input: [{ role: 'user', content: 'Hi' }, ...response.output, ...results], ...asked })
    expect(promptText(server.engine)).toBe(whole)
  })

  test('functions in namespaces are chosen as OpenAI’s clients name them', async () => {
    const named = { type: 'namespace', name: 'sky', tools }
    const open = await startTestServer({ environment: { LOOKOUT_COMPATIBILITY: 'openai' } })
    const seen = async (tool_choice: object, given: object[] = [...tools, named]) => {
      open.engine.script = { texts: [CALL] }
      const answer = await open.post('/v1/responses', { model: MODEL, input: 'Hi', tools: given, tool_choice })
      if (answer.status !== 200) return (await errorOf(answer)).param
      return promptText(open.engine).match(/"name": "[^"]+"/g)
    }
    for (const name of ['sky.weather', 'sky__weather']) {
      const chosen = { type: 'function', name }
      expect(await seen(chosen)).toContain('"name": "sky__weather"')
      expect(await seen(chosen)).not.toContain('"name": "weather"')
      const allowed = await seen({ type: 'allowed_tools', mode: 'required', tools: [chosen] })
      expect(allowed).toContain('"name": "sky__weather"')
      expect(allowed).not.toContain('"name": "weather"')
    }
    expect(await seen({ type: 'function', name: 'undefined.weather' })).toBe('tool_choice')
    expect(await seen({ type: 'function', name: 'weather' }, [named])).toBe('tool_choice')
    const alike = { ...tools[0]!, name: 'sky.weather' }
    expect(await seen({ type: 'function', name: 'sky.weather' }, [named, alike])).toContain('"name": "sky.weather"')
    await open.close()
  })

  test('parameters of tools are shown as they are written', async () => {
    const f =
      '{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {"2": {}, "1": {"const": 1.0}}}}'
    for (const tool of [
      f,
      `{"type": "namespace", "name": "n", "tools": [{"type": "custom", "parameters": {}}, ${f}]}`,
    ]) {
      const body = `{"model": "${MODEL}", "input": "Hi", "tools": [{"type": "web_search", "parameters": {}}, ${tool}]}`
      expect((await server.post('/v1/responses', body)).status).toBe(200)
      expect(promptText(server.engine)).toContain('{"2": {}, "1": {"const": 1.0}}')
    }
  })
})

describe('structured output', () => {
  const schema = {
    type: 'object',
    properties: { n: { type: 'integer' } },
    required: ['n'],
    additionalProperties: false,
  }

  test('follows a schema', async () => {
    server.engine.script = { texts: ['{"n": 3}'] }
    const format = { type: 'json_schema', name: 'count', schema, strict: true }
    const response = await respond({ text: { format, verbosity: 'low' } })
    expect(branch().constraint).toMatchObject({ type: 'json_schema', schema })
    expect(response.text).toEqual({ format: { ...format, description: null }, verbosity: 'low' })
  })

  test('is parsed by the official client', async () => {
    server.engine.script = { texts: ['{"n": 3}'] }
    const format = zodTextFormat(z.object({ n: z.number() }), 'count')
    const { output_parsed } = await client.responses.parse({ model: MODEL, input: 'How many?', text: { format } })
    expect(output_parsed).toEqual({ n: 3 })
  })

  test('json_object needs compatibility: openai, as in chats', async () => {
    const fields = { text: { format: { type: 'json_object' } } }
    expect(await errorOf(await post(fields))).toMatchObject({
      param: 'text.format.type',
      code: 'unsupported_response_format',
    })
    const open = await startTestServer({ environment: { LOOKOUT_COMPATIBILITY: 'openai' } })
    try {
      open.engine.script = { texts: ['{"a": 1}'] }
      const response = await open.post('/v1/responses', { model: MODEL, input: 'Hi', ...fields })
      expect(await jsonOf(response)).toMatchObject({ status: 'completed', text: { format: { type: 'json_object' } } })
      const format = { type: 'json_object', schema: { type: 'object', required: ['a'] } }
      const kept = await open.post('/v1/responses', { model: MODEL, input: 'Hi', text: { format } })
      expect(await jsonOf(kept)).toMatchObject({ status: 'completed', text: { format } })
      expect(open.engine.works.at(-1)!.branches[0]!.constraint).toMatchObject({ schema: format.schema })
      open.engine.script = { texts: [CALL] }
      const forced = { model: MODEL, input: 'Hi', tools, tool_choice: { type: 'function', name: 'weather' } }
      expect(await jsonOf(await open.post('/v1/responses', forced))).toMatchObject({
        tool_choice: forced.tool_choice,
        output: [{ type: 'function_call', name: 'weather' }],
      })
    } finally {
      await open.close()
    }
  })
})

const nested = (levels: number): object => (levels === 0 ? {} : { not: nested(levels - 1) })
const image = (fields: object) => ({ role: 'user', content: [{ type: 'input_image', ...fields }] })
const output = (fields: object) => ({ type: 'function_call_output', call_id: 'c', ...fields })

test.each<[string, object, string | null, string | null, RegExp]>([
  ['no model', { model: undefined }, 'model', null, /required/],
  [
    'a structure by the name of chats',
    { response_format: { type: 'json_object' } },
    'response_format',
    null,
    /use text\.format/,
  ],
  ['an unknown model', { model: 'none' }, null, null, /does not exist/],
  ['no input', { input: undefined }, 'input', null, /required/],
  ['an empty input', { input: [] }, 'input', null, /at least 1 item/],
  [
    'an item of another type',
    { input: [{ type: 'mcp_call' }] },
    'input[0].type',
    null,
    /one of 'message', 'function_call'/,
  ],
  [
    'a part of another type',
    { input: [{ role: 'user', content: [{ type: 'x' }] }] },
    'input[0].content[0].type',
    null,
    /expected one of/,
  ],
  ['an image without a source', { input: [image({})] }, 'input[0].content[0].image_url', null, /image_url or file_id/],
  [
    'an image that is none',
    { input: [image({ image_url: 'data:image/png;base64,AAAA' })] },
    'input[0].content[0].image_url',
    null,
    /image/,
  ],
  ['an unknown file', { input: [image({ file_id: 'file-x' })] }, 'input[0].content[0].file_id', null, /No such File/],
  [
    'a file of another kind',
    { input: [{ role: 'user', content: [{ type: 'input_file', file_url: 'https://a.example/b.docx' }] }] },
    'input[0].content[0].file_url',
    null,
    /expected a PNG/,
  ],
  ['a result without a call', { input: [output({ output: 'x' })] }, 'input[0].call_id', 'invalid_tool_result', /c/],
  ['an unknown reference', { input: [{ type: 'item_reference', id: 'msg_x' }] }, 'input[0].id', null, /not found/],
  ['an unknown reference', { input: [{ type: null, id: 'msg_x' }] }, 'input[0].id', null, /not found/],
  ['a message without a role', { input: [{ id: 'msg_x', content: 'Hi' }] }, 'input[0].role', null, /expected one of/],
  ['a result without a type', { input: [{ id: 'x', call_id: 'c', output: 'y' }] }, 'input[0].role', null, /expected/],
  [
    'an unknown previous response',
    { previous_response_id: 'resp_x' },
    'previous_response_id',
    'previous_response_not_found',
    /resp_x/,
  ],
  ['background', { background: true }, 'background', null, /background/],
  ['a conversation', { conversation: 'conv_1' }, 'conversation', null, /previous_response_id/],
  ['a stored prompt', { prompt: { id: 'p' } }, 'prompt', null, /not supported/],
  ['truncation', { truncation: 'auto' }, 'truncation', null, /disabled/],
  ['moderation', { moderation: { model: 'm' } }, 'moderation', null, /nothing is moderated/],
  ['the length of a chat', { max_tokens: 2 }, 'max_tokens', null, /use max_output_tokens/],
  ['its newer name', { max_completion_tokens: 2 }, 'max_completion_tokens', null, /use max_output_tokens/],
  ['the effort of a chat', { reasoning_effort: 'low' }, 'reasoning_effort', null, /use reasoning\.effort/],
  ['an effort', { reasoning: { effort: 'utmost' } }, 'reasoning.effort', null, /expected one of/],
  ['too many output tokens', { max_output_tokens: 1e6 }, 'max_output_tokens', null, /^max_output_tokens is 1000000/],
  ['a temperature', { temperature: 3 }, 'temperature', 'invalid_temperature', /at most 2/],
  ['an include', { include: ['x'] }, 'include[0]', null, /expected one of/],
  ['too many log-probabilities', { top_logprobs: 21 }, 'top_logprobs', null, /at most 20/],
  ['metadata', { metadata: { a: 1 } }, 'metadata.a', null, /string/],
  [
    '17 pairs of metadata',
    { metadata: Object.fromEntries([...Array(17)].map((_, i) => [i, ''])) },
    'metadata',
    null,
    /16 pairs/,
  ],
  ['a tool without a name', { tools: [{ type: 'function' }] }, 'tools[0].name', null, /required/],
  ['a tool that is no object', { tools: ['weather'] }, 'tools[0]', null, /expected object, received string$/],
  [
    'a tool without a name in a namespace',
    { tools: [{ type: 'namespace', name: 'n', tools: [{ type: 'function' }] }] },
    'tools[0].tools[0].name',
    null,
    /required/,
  ],
  [
    'a namespace with a long name',
    { tools: [{ type: 'namespace', name: 'n'.repeat(257), tools: [...tools, ...tools] }] },
    'tools[0].name',
    null,
    /at most 256 characters/,
  ],
  ['a namespace without tools', { tools: [{ type: 'namespace', name: 'n' }] }, 'tools[0].tools', null, /required/],
  [
    'two tools of one name in a namespace',
    { tools: [{ type: 'namespace', name: 'n', tools: [...tools, ...tools] }] },
    'tools[0].tools[1].name',
    'duplicate_tool_name',
    /the name 'n__weather'/,
  ],
  [
    'two tools of one name',
    { tools: [{ type: 'x' }, ...tools, ...tools] },
    'tools[2].name',
    'duplicate_tool_name',
    /weather/,
  ],
  ['a forced call', { tools, tool_choice: 'required' }, 'tool_choice', null, /auto/],
  [
    'tools with a schema',
    { tools, text: { format: { type: 'json_schema', name: 'a', schema: {} } } },
    'text.format',
    'unsupported_tools_combination',
    /^text\.format json_schema cannot/,
  ],
  [
    'a schema nested too deeply',
    { text: { format: { type: 'json_schema', name: 'a', schema: nested(102) } } },
    'text.format.schema',
    null,
    /^Invalid 'text\.format\.schema': it is nested/,
  ],
  [
    'an annotation format',
    { vision_config: { annotation_format: 'clip' } },
    'vision_config.annotation_format',
    null,
    /video/,
  ],
])('400: %s', async (_, fields, param, code, message) => {
  const response = await post(fields)
  expect(response.status).toBe(400)
  const error = await errorOf(response)
  expect(error).toMatchObject({ type: 'invalid_request_error', param, ...(code === null ? {} : { code }) })
  expect(error.message).toMatch(message)
})

test('the tokens of a prompt are counted as its response counts them', async () => {
  const asked = {
    model: MODEL,
    instructions: 'Be brief.',
    input: [
      {
        role: 'user' as const,
        content: [{ type: 'input_image' as const, image_url: picture, detail: 'auto' as const }],
      },
    ],
    tools,
  }
  const { usage, id } = await client.responses.create(asked)
  const count = await client.responses.inputTokens.count(asked)
  expect(count).toMatchObject({ object: 'response.input_tokens', input_tokens: usage!.input_tokens, estimated: false })
  const longer = { model: MODEL, input: 'And?', previous_response_id: id }
  const next = await client.responses.create(longer)
  expect((await client.responses.inputTokens.count(longer)).input_tokens).toBe(next.usage!.input_tokens)
  expect(server.engine.measured.at(-1)!.prefix.map(textOf).join('')).toContain('Hello there.')
})

describe('annotations', () => {
  const box = '<point_box mention="a &amp; b"> (100,200) (300,400) </point_box>'
  const fields = {
    input: [{ role: 'user', content: [{ type: 'input_image', image_url: '' }] }],
    vision_config: { annotation_format: 'box' },
  }
  beforeEach(() => {
    fields.input[0]!.content[0]!.image_url = picture
  })

  test('are in the text, and beside it', async () => {
    server.engine.script = { texts: ['Two 🥤: ', box, ' and ', box.replaceAll('a &amp; b', 'c'), '.'] }
    const { output } = await respond(fields)
    const [{ text, annotations }] = (output[0] as unknown as { content: [{ text: string; annotations: Annotation[] }] })
      .content
    const place = { top: 0.2, bottom: 0.4, left: 0.1, right: 0.3 }
    expect(annotations).toMatchObject([
      { type: 'x_box', mention: 'a & b', box: place, seconds: null, asset_index: null },
      { type: 'x_box', mention: 'c', box: place },
    ])
    const characters = [...text]
    expect(characters.slice(annotations[0]!.start_index, annotations[0]!.end_index).join('')).toBe(box)
    expect(characters.slice(annotations[1]!.start_index, annotations[1]!.end_index).join('')).toContain('mention="c"')
  })

  test('are told as soon as they are written, and the official client has them', async () => {
    server.engine.script = { texts: ['Here: ', box, ' End'] }
    const events = await eventsOf(await post({ ...fields, stream: true }))
    const types = events.map(({ type }) => type)
    const at = types.indexOf('response.output_text.annotation.added')
    expect(events[at]).toMatchObject({ annotation_index: 0, content_index: 0, annotation: { type: 'x_box' } })
    expect(at).toBeLessThan(types.lastIndexOf('response.output_text.delta'))
    const asked = { model: MODEL, ...fields } as unknown as OpenAI.Responses.ResponseCreateParamsStreaming
    const last = await client.responses.stream(asked).finalResponse()
    expect(last.output).toMatchObject([{ content: [{ annotations: [{ type: 'x_box', mention: 'a & b' }] }] }])
  })
})

interface Annotation {
  readonly start_index: number
  readonly end_index: number
}
