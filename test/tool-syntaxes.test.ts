import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ToolSyntaxName } from '../src/families/tool-syntax.ts'
import { changedCard, type TemporaryCard } from './support/changed-card.ts'
import { chunksOf, messageOf, promptText, replyOf } from './support/chat.ts'
import { FakeEngine } from './support/fake-engine.ts'
import { CARD } from './support/local-engine.ts'
import { jsonOf, startTestServer, type TestServer } from './support/server.ts'
import { CALL_WRITERS, pythonJson } from './support/written-calls.ts'

/** Calls in the notation of each family, through every API. */
interface Running {
  readonly server: TestServer
  close(): Promise<void>
}

async function start(toolSyntax: ToolSyntaxName, chatTemplate?: string, thought?: object): Promise<Running> {
  const card: TemporaryCard = await changedCard(({ thought: _, ...own }) => ({
    ...own,
    toolSyntax,
    ...(thought === undefined ? {} : { thought }),
    serves: own.serves.map((served) => ({ ...served, reasoning: thought !== undefined })),
  }))
  const engine = new FakeEngine(chatTemplate === undefined ? {} : { chatTemplate })
  const environment = { LOOKOUT_MODEL_CARD: card.path, LOOKOUT_COMPATIBILITY: 'openai', LOOKOUT_OLLAMA: 'on' }
  const server = await startTestServer({ engine, environment })
  return { server, close: () => server.close().finally(() => card.remove()) }
}

/** One server with a model for each syntax. */
async function startAll(): Promise<Running> {
  const folder = await mkdtemp(join(tmpdir(), 'lookout-syntaxes-'))
  const { thought: _, detection: _fit, ...card } = JSON.parse(await readFile(CARD, 'utf8'))
  for (const toolSyntax of SYNTAXES) {
    const served = { ...card.serves[0], id: toolSyntax, aliases: [], reasoning: false }
    await mkdir(join(folder, toolSyntax))
    await writeFile(join(folder, toolSyntax, 'card.json'), JSON.stringify({ ...card, toolSyntax, serves: [served] }))
  }
  const environment = { LOOKOUT_MODELS: folder, LOOKOUT_COMPATIBILITY: 'openai', LOOKOUT_OLLAMA: 'on' }
  const server = await startTestServer({ environment })
  return { server, close: () => server.close().finally(() => rm(folder, { recursive: true })) }
}

const SYNTAXES = Object.keys(CALL_WRITERS) as ToolSyntaxName[]
const MODEL = 'service-mk1.5'
const ARGUMENTS = { city: '12 "Bern"\n', days: 3, exact: true, tags: ['a', null] }
const parameters = {
  type: 'object',
  properties: {
    city: { type: 'string' },
    days: { type: 'integer' },
    exact: { type: 'boolean' },
    tags: { type: 'array', items: { type: ['string', 'null'] } },
  },
  required: ['city'],
}
const TOOLS = [{ type: 'function', function: { name: 'weather', parameters } }]
const user = { role: 'user', content: 'Weather?' }

/** Every way to ask, with the name and the arguments of the calls that come back. */
const ASK: Readonly<Record<string, (server: TestServer, model: string) => Promise<[name: string, values: unknown][]>>> =
  {
    chat: async (server, model) => {
      const { choices } = await replyOf(
        await server.post('/v1/chat/completions', { model, messages: [user], tools: TOOLS }),
      )
      expect(choices[0]!.finish_reason).toBe('tool_calls')
      return choices[0]!.message.tool_calls!.map((call) => [call.function.name, JSON.parse(call.function.arguments)])
    },
    'chat, streamed': async (server, model) => {
      const body = { model, messages: [user], tools: TOOLS, stream: true }
      const { tool_calls: calls } = messageOf(await chunksOf(await server.post('/v1/chat/completions', body)))
      return calls!.map((call) => [call.function.name, JSON.parse(call.function.arguments)])
    },
    responses: async (server, model) => {
      const tools = [{ type: 'function', name: 'weather', parameters, strict: false }]
      const { output } = await jsonOf<{ output: { type: string; name: string; arguments: string }[] }>(
        await server.post('/v1/responses', { model, input: 'Weather?', tools }),
      )
      return output
        .filter(({ type }) => type === 'function_call')
        .map((call) => [call.name, JSON.parse(call.arguments)])
    },
    messages: async (server, model) => {
      const tools = [{ name: 'weather', input_schema: parameters }]
      const body = { model, max_tokens: 500, messages: [user], tools }
      const { content } = await jsonOf<{ content: { type: string; name: string; input: unknown }[] }>(
        await server.post('/v1/messages', body),
      )
      return content.filter(({ type }) => type === 'tool_use').map(({ name, input }) => [name, input])
    },
    ollama: async (server, model) => {
      const { message } = await jsonOf<{
        message: { tool_calls: { function: { name: string; arguments: unknown } }[] }
      }>(await server.post('/api/chat', { model, messages: [user], tools: TOOLS, stream: false }))
      return message.tool_calls.map((call) => [call.function.name, call.function.arguments])
    },
  }

let all: Running
beforeAll(async () => {
  all = await startAll()
})
afterAll(() => all?.close())

describe.each(SYNTAXES)('%s', (syntax) => {
  let server: TestServer
  beforeAll(() => {
    server = all.server
    server.engine.script = { texts: [...CALL_WRITERS[syntax]('weather', ARGUMENTS, pythonJson)] }
  })

  test.each(Object.entries(ASK))('a call arrives: %s', async (_, ask) => {
    expect(await ask(server, syntax)).toEqual([['weather', ARGUMENTS]])
  })

  test('what is written of it is no text, and a forced one is constrained', async () => {
    const forced = { tools: TOOLS, tool_choice: 'required', parallel_tool_calls: false }
    const body = { model: syntax, messages: [user], ...forced }
    const { choices } = await replyOf(await server.post('/v1/chat/completions', body))
    expect(choices[0]!.message.content).toBeNull()
    const { constraint } = server.engine.works.at(-1)!.branches[0]!
    expect(constraint).toMatchObject({ type: 'triggered_tags', atLeastOne: true, stopAfterFirst: true })
  })
})

describe('channels', () => {
  const THOUGHT = {
    begin: '<|channel|>analysis<|message|>',
    end: '<|end|>',
    closing: '<|end|><|start|>assistant<|channel|>final<|message|>',
  }
  const TEMPLATE = `{{ 'Reasoning: ' + (reasoning_effort or 'none') }}{% for t in tools or [] %}{{ t.function.parameters | tojson }}{{ t.function.name }}{% endfor %}{% for m in messages %}{% if m.tool_calls %}{% if m.content and m.thinking %}{{ raise_exception('one of both') }}{% endif %}{% set c = m.tool_calls[0].function %}{% if m.content or m.thinking %}<|start|>assistant<|channel|>analysis<|message|>{{ m.content or m.thinking }}<|end|>{% endif %}<|start|>assistant to=functions.{{ c.name }}<|channel|>commentary json<|message|>{{ c.arguments | tojson }}<|call|>{% elif m.role == 'tool' %}<|start|>functions to=assistant<|channel|>commentary<|message|>{{ m.content | tojson }}<|end|>{% else %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endif %}{% endfor %}<|start|>assistant`
  const CALL = '<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city": "Bern"}'
  let running: Running
  beforeAll(async () => {
    running = await start('harmony', TEMPLATE, THOUGHT)
  })
  afterAll(() => running?.close())
  const ask = async (texts: string, fields: object = {}) => {
    const { server } = running
    server.engine.script = { texts: [...texts] }
    const body = { model: MODEL, messages: [user], ...fields }
    const whole = await replyOf(await server.post('/v1/chat/completions', body))
    const streamed = messageOf(await chunksOf(await server.post('/v1/chat/completions', { ...body, stream: true })))
    const { message, finish_reason } = whole.choices[0]!
    expect(streamed.content ?? '').toBe(message.content ?? '')
    const work = server.engine.works.at(-1)!
    return { message, finish_reason, work, prompt: promptText(server.engine) }
  }

  test('without thoughts and tools, the prompt opens the answer', async () => {
    const { message, prompt } = await ask('Hello.')
    expect(message).toMatchObject({ role: 'assistant', content: 'Hello.' })
    expect(prompt).toMatch(/^Reasoning: low.*<\|start\|>assistant<\|channel\|>final<\|message\|>$/)
  })

  test('a thought is reasoning, and what follows it the answer', async () => {
    const { message, prompt, work } = await ask(
      'Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hello.<|return|>',
      { reasoning_effort: 'high' },
    )
    expect(message).toMatchObject({ content: 'Hello.', reasoning_content: 'Hm.' })
    expect(prompt).toMatch(/^Reasoning: high.*<\|start\|>assistant<\|channel\|>analysis<\|message\|>$/)
    expect(work.branches[0]!.thought).toMatchObject({ end: THOUGHT.end, closing: THOUGHT.closing })
  })

  test('with tools, the model chooses its channel behind the thought', async () => {
    const { message, finish_reason, work } = await ask(
      `Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>Let me look.<|end|><|start|>assistant${CALL}<|call|>`,
      { reasoning_effort: 'low', tools: TOOLS },
    )
    expect(message).toMatchObject({
      content: 'Let me look.',
      reasoning_content: 'Hm.',
      tool_calls: [{ function: { name: 'weather', arguments: '{"city": "Bern"}' } }],
    })
    expect(finish_reason).toBe('tool_calls')
    expect(work.branches[0]!.thought).toMatchObject({ closing: '<|end|><|start|>assistant' })
  })

  test.each([
    ['the recipient before the channel', ' to=functions.weather<|channel|>commentary json<|message|>{"city": "Bern"}'],
    ['a thought between', `<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant${CALL}`],
  ])('calls are read with %s', async (_, texts) => {
    const { message } = await ask(texts, { tools: TOOLS })
    expect(message.content).toBeNull()
    expect(message.tool_calls).toMatchObject([{ function: { name: 'weather', arguments: '{"city": "Bern"}' } }])
  })

  test.each([
    ['a function that does not exist', CALL.replace('weather', 'rm'), '{"city": "Bern"}'],
    ['no header', 'Hello.', 'Hello.'],
    ['an unfinished header', '<|channel|>fin', ''],
  ])('no mark becomes text: %s', async (_, texts, content) => {
    expect((await ask(texts, { tools: TOOLS })).message).toMatchObject({ content })
  })

  test.each([1, 7, 100])(
    'thoughts are counted, and log-probabilities are those of the rest (%i tokens come at once)',
    async (textsPerEvent) => {
      const { server } = running
      const written =
        'Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>Look.<|end|><|start|>assistant<|channel|>analysis<|message|>More.<|end|><|start|>assistant<|channel|>final<|message|>Hello.<|return|>'
      server.engine.script = { texts: written.split(/(?=<)|(?<=>)/), textsPerEvent }
      const body = { model: MODEL, messages: [user], reasoning_effort: 'low', logprobs: true }
      const { choices } = await replyOf(await server.post('/v1/chat/completions', body))
      expect(choices[0]!.message).toMatchObject({ content: 'Look.\nHello.', reasoning_content: 'Hm.\nMore.' })
      const { logprobs } = choices[0] as unknown as { logprobs: { content: { token: string }[] } }
      const header = (channel: string) => ['<|start|>', 'assistant', '<|channel|>', channel, '<|message|>']
      expect(logprobs.content.map(({ token }) => token)).toEqual([
        ...[...header('commentary'), 'Look.', '<|end|>', ...header('final'), 'Hello.', '<|return|>'],
      ])
      const asked = { model: MODEL, input: 'Hi', reasoning: { effort: 'low' } }
      const { usage } = await jsonOf<{ usage: object }>(await server.post('/v1/responses', asked))
      expect(usage).toMatchObject({ output_tokens_details: { reasoning_tokens: 5 } })
    },
  )

  test('a structure constrains the answer alone', async () => {
    const schema = { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] }
    const response_format = { type: 'json_schema', json_schema: { name: 'x', schema } }
    const plain = await ask('{"a": 1}', { response_format })
    expect(plain.message.content).toBe('{"a": 1}')
    expect(plain.prompt).toMatch(/<\|channel\|>final<\|message\|>$/)
    const mayCall = await ask('<|channel|>final<|message|>{"a": 1}', { response_format, tools: TOOLS })
    expect(mayCall.message.content).toBe('{"a": 1}')
    expect(mayCall.work.branches[0]!.constraint).toMatchObject({
      otherwise: { type: 'sequence', parts: ['<|channel|>final<|message|>', { type: 'json_schema' }] },
    })
    const { message } = await ask(CALL, { response_format, tools: TOOLS })
    expect(message.tool_calls).toHaveLength(1)
  })

  test('earlier calls become turns of their own, with any text beside them', async () => {
    const call = (id: string, city: string) => ({
      id,
      type: 'function',
      function: { name: 'weather', arguments: JSON.stringify({ city }) },
    })
    const messages = [
      user,
      {
        role: 'assistant',
        content: 'Let me look.',
        reasoning_content: 'Two cities.',
        tool_calls: [call('a', 'Bern'), call('b', 'Basel')],
      },
      { role: 'tool', tool_call_id: 'b', content: 'rain' },
      { role: 'tool', tool_call_id: 'a', content: 'sun' },
    ]
    const { prompt } = await ask('Hello.', { messages, tools: TOOLS })
    const after = prompt.slice(prompt.indexOf('<|start|>assistant'))
    expect(after).toBe(
      '<|start|>assistant<|channel|>analysis<|message|>Two cities.\nLet me look.<|end|>' +
        '<|start|>assistant to=functions.weather<|channel|>commentary json<|message|>{"city":"Bern"}<|call|>' +
        '<|start|>functions to=assistant<|channel|>commentary<|message|>"sun"<|end|>' +
        '<|start|>assistant to=functions.weather<|channel|>commentary json<|message|>{"city":"Basel"}<|call|>' +
        '<|start|>functions to=assistant<|channel|>commentary<|message|>"rain"<|end|><|start|>assistant',
    )
  })
})

test('Kimi sees ids of its own form', async () => {
  const template = `{{ tools | tojson }}{% for m in messages %}[{{ m.role }}]{% if m.tool_calls %}{% for c in m.tool_calls %}<|tool_call_begin|>{{ c.id }}<|tool_call_argument_begin|>{{ c.function.arguments | tojson }}<|tool_call_end|>{% endfor %}{% elif m.role == 'tool' %}## Return of {{ m.tool_call_id }}\n{{ m.content }}{% else %}{{ m.content }}{% endif %}{% endfor %}`
  const { server, close } = await start('kimi_k2', template)
  try {
    const messages = [
      user,
      {
        role: 'assistant',
        tool_calls: ['Bern', 'Basel'].map((city, index) => ({
          id: `call_${index}`,
          type: 'function',
          function: { name: 'weather', arguments: JSON.stringify({ city }) },
        })),
      },
      { role: 'tool', tool_call_id: 'call_0', content: 'sun' },
      { role: 'tool', tool_call_id: 'call_1', content: 'rain' },
    ]
    await replyOf(await server.post('/v1/chat/completions', { model: MODEL, messages, tools: TOOLS }))
    const prompt = promptText(server.engine)
    expect(prompt.slice(prompt.indexOf('[assistant]'))).toBe(
      '[assistant]<|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{"city":"Bern"}<|tool_call_end|>' +
        '<|tool_call_begin|>functions.weather:1<|tool_call_argument_begin|>{"city":"Basel"}<|tool_call_end|>' +
        '[tool]## Return of functions.weather:0\nsun[tool]## Return of functions.weather:1\nrain',
    )
  } finally {
    await close()
  }
})

test.each<[ToolSyntaxName, string]>([
  ['lfm2', '<|tool_call_start|>[weather(city="Bern", days=3), weather(city="Basel")]<|tool_call_end|>'],
  [
    'granite',
    '<|tool_call|>[{"name": "weather", "arguments": {"city":"Bern","days":3}}, {"name": "weather", "arguments": {"city":"Basel"}}]',
  ],
])('a template without a place for calls gets them as text: %s', async (syntax, calls) => {
  const template =
    '{% if tools %}List of tools: [{{ tools | tojson }}] {% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}'
  const { server, close } = await start(syntax, template)
  try {
    const messages = [
      user,
      {
        role: 'assistant',
        content: 'Well.',
        tool_calls: [{ city: 'Bern', days: 3 }, { city: 'Basel' }].map((values, index) => ({
          id: `call_${index}`,
          type: 'function',
          function: { name: 'weather', arguments: JSON.stringify(values) },
        })),
      },
      { role: 'tool', tool_call_id: 'call_0', content: 'sun' },
      { role: 'tool', tool_call_id: 'call_1', content: 'rain' },
    ]
    await replyOf(await server.post('/v1/chat/completions', { model: MODEL, messages, tools: TOOLS }))
    const prompt = promptText(server.engine)
    expect(prompt.slice(prompt.indexOf('<|im_start|>assistant'))).toBe(
      `<|im_start|>assistant\nWell.${calls}<|im_end|><|im_start|>tool\nsun<|im_end|><|im_start|>tool\nrain<|im_end|>`,
    )
    const trusted = server.engine.works.at(-1)!.prefix.filter((part) => part.type === 'text' && part.trusted)
    expect(JSON.stringify(trusted)).not.toContain('Basel')
  } finally {
    await close()
  }
})

test.each<[ToolSyntaxName, string, string]>([
  ['hermes', '{{ c.function.arguments }}', '{}'],
  ['hermes', '({% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}{% endfor %})', '()'],
  ['granite', '', '<|tool_call|>[{"name": "weather", "arguments": {}}]'],
  ['lfm2', '', '<|tool_call_start|>[weather()]<|tool_call_end|>'],
])('blank arguments are none: %s, %s', async (syntax, call, written) => {
  const calls = call === '' ? '' : `{% for c in m.tool_calls %}${call}{% endfor %}`
  const template = `{{ tools | tojson }}{% for m in messages %}[{{ m.role }}]{{ m.content }}${calls}{% endfor %}`
  const { server, close } = await start(syntax, template)
  try {
    for (const blank of ['', ' \n']) {
      const called = { name: 'weather', arguments: blank }
      const messages = [
        user,
        { role: 'assistant', content: '', tool_calls: [{ id: 'a', type: 'function', function: called }] },
        { role: 'tool', tool_call_id: 'a', content: 'sun' },
      ]
      await replyOf(await server.post('/v1/chat/completions', { model: MODEL, messages, tools: TOOLS }))
      expect(promptText(server.engine)).toContain(`[assistant]${written}[tool]sun`)
      const input = [
        user,
        { type: 'function_call', call_id: 'a', ...called },
        { type: 'function_call_output', call_id: 'a', output: 'sun' },
      ]
      const tools = [{ type: 'function', name: 'weather', parameters, strict: false }]
      await jsonOf(await server.post('/v1/responses', { model: MODEL, input, tools }))
      expect(promptText(server.engine)).toContain(`[assistant]${written}[tool]sun`)
    }
  } finally {
    await close()
  }
})
