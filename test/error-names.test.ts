import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { invalidRequest } from '../src/lib/errors/errors.ts'
import { MediaLoader } from '../src/media/media-loader.ts'
import { jsonOf, startTestServer, type TestServer } from './support/server.ts'

const MODEL = 'service-mk1.5'
/** It supports neither reasoning nor tools. */
const PLAIN = 'service-mk1'

const environment = { LOOKOUT_COMPATIBILITY: 'openai', LOOKOUT_OLLAMA: 'on' }
let server: TestServer
beforeAll(async () => {
  server = await startTestServer({ environment })
})
afterAll(() => server?.close())
afterEach(() => {
  server.engine.script = {}
})

/** An error as an API shows it: the message, and the parameter where the API has a place for it. */
interface Shown {
  readonly message: string
  readonly param?: unknown
}

async function asked(path: string, body: object): Promise<object> {
  return jsonOf(await server.post(path, { model: MODEL, ...body }))
}

async function ofContract(path: string, body: object): Promise<Shown> {
  const { error } = (await asked(path, body)) as { error: Shown }
  return { message: error.message, param: error.param }
}

async function ofOllama(path: string, body: object): Promise<Shown> {
  const { error } = (await asked(path, { stream: false, ...body })) as { error: string }
  return { message: error }
}

const APIS = {
  chat: (body: object) => ofContract('/v1/chat/completions', body),
  multilook: (body: object) => ofContract('/v1/chat/completions/multilook', body),
  responses: (body: object) => ofContract('/v1/responses', body),
  decisions: (body: object) => ofContract('/v1/decisions', body),
  detect: (body: object) => ofContract('/v1/detect', body),
  messages: async (body: object): Promise<Shown> => {
    const { error } = (await asked('/v1/messages', { max_tokens: 100, ...body })) as { error: Shown }
    return { message: error.message }
  },
  ollamaChat: (body: object) => ofOllama('/api/chat', body),
  ollamaGenerate: (body: object) => ofOllama('/api/generate', body),
  systemOne: async (body: object): Promise<Shown> => {
    const { detail } = (await asked('/v1/systemone', body)) as { detail: [{ msg: string; loc: unknown }] }
    return { message: detail[0].msg, param: detail[0].loc }
  },
}

type Api = keyof typeof APIS

const user = (content: unknown) => ({ role: 'user', content })
const hello = user('Hi')
const call = (name: string) => ({ type: 'function', function: { name, parameters: { type: 'object' } } })
const flat = (name: string) => ({ type: 'function', name, parameters: { type: 'object' } })
const custom = (name: string) => ({ name, input_schema: { type: 'object' } })
const schemaIn = {
  chat: (schema: object) => ({
    messages: [hello],
    response_format: { type: 'json_schema', json_schema: { name: 'a', schema } },
  }),
  responses: (schema: object) => ({ input: 'Hi', text: { format: { type: 'json_schema', name: 'a', schema } } }),
  messages: (schema: object) => ({
    messages: [hello],
    output_config: { format: { type: 'json_schema', schema } },
  }),
  ollamaChat: (schema: object) => ({ messages: [hello], format: schema }),
  ollamaGenerate: (schema: object) => ({ prompt: 'Hi', format: schema }),
}
const questions = [{ type: 'predicate', instructions: 'Is it red?' }]
const nouls = { a: { type: 'noul', instructions: 'Is it red?' } }
const bytes = Buffer.from('no image').toString('base64')
const url = `data:image/png;base64,${bytes}`
const nested = (levels: number): object => (levels === 0 ? {} : { not: nested(levels - 1) })
const object = { type: 'object', properties: { a: {} }, required: ['a'] }

describe('the same mistake on every API', () => {
  const long = 'x'.repeat(40_000)
  /** What each API shows: the parameter, and with it the message, or for those without a place for it, the message. */
  type Case = Partial<Record<Api, readonly [body: object, message: string | RegExp, param?: unknown]>>

  async function show(cases: Case): Promise<void> {
    for (const [api, [body, message, param]] of Object.entries(cases)) {
      const shown = await APIS[api as Api](body)
      const text = typeof message === 'string' ? message : expect.stringMatching(message)
      expect({ api, ...shown }).toEqual({ api, message: text, ...(param === undefined ? {} : { param }) })
    }
  }

  test('a prompt that is too long', async () => {
    const tooLong =
      /^The prompt is too long: it has \d+ tokens, and this model's maximum context length is 32768 tokens$/
    await show({
      chat: [{ messages: [user(long)] }, tooLong, 'messages'],
      multilook: [{ context: [user(long)], prompts: ['x'] }, tooLong, 'context'],
      responses: [{ input: long }, tooLong, 'input'],
      messages: [{ messages: [user(long)] }, /^messages: The prompt is too long/],
      ollamaChat: [{ messages: [user(long)] }, /^messages: The prompt is too long/],
      ollamaGenerate: [{ prompt: long }, /^prompt: The prompt is too long/],
    })
    const endless = 'x'.repeat(32_768 * 200)
    await show({
      decisions: [
        { input: endless, questions },
        /^The prompt is too long: this model's maximum context length is 32768 tokens$/,
        'input',
      ],
      systemOne: [{ state: endless, questions: nouls }, /^The prompt is too long/, ['body', 'state']],
    })
  })

  test('an item or a part of a type that there is not', async () => {
    const types = /^Invalid '\S+type': expected one of ('(?!undefined|null)[a-z_]+'(, |$))+$/
    await show({
      chat: [{ messages: [user([{ type: 'nope' }])] }, types, 'messages[0].content[0].type'],
      responses: [{ input: [{ type: 'nope' }] }, types, 'input[0].type'],
    })
  })

  test('an image that is none', async () => {
    const unsupported = /^Unsupported image: the data is an unknown type/
    const text = { type: 'text', text: 'Hi' }
    const image = { type: 'image_url', image_url: { url } }
    const input = { type: 'input_image', image_url: url }
    const block = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: bytes } }
    const result = { type: 'tool_result', tool_use_id: 'a', content: [{ type: 'text', text: 'Hi' }, block] }
    const use = { type: 'tool_use', id: 'a', name: 'f', input: {} }
    await show({
      chat: [{ messages: [user([text, image])] }, unsupported, 'messages[0].content[1].image_url.url'],
      multilook: [{ context: [user([image])], prompts: ['x'] }, unsupported, 'context[0].content[0].image_url.url'],
      responses: [
        { input: [user([{ type: 'input_text', text: 'Hi' }, input])] },
        unsupported,
        'input[0].content[1].image_url',
      ],
      messages: [
        { messages: [hello, { role: 'assistant', content: [use] }, user([result])], tools: [custom('f')] },
        /^messages\[2\]\.content\[0\]\.content\[1\]\.source: Unsupported image/,
      ],
      ollamaChat: [{ messages: [{ ...hello, images: [bytes] }] }, /^messages\[0\]\.images\[0\]: Unsupported image/],
      ollamaGenerate: [{ prompt: 'Hi', system: 'Hi', images: [bytes] }, /^images\[0\]: Unsupported image/],
      decisions: [{ input: [user([input])], questions }, unsupported, 'input[0].content[0].image_url'],
      systemOne: [
        { state: '[x]', assets: { '[x]': { data_base64: bytes } }, questions: nouls },
        unsupported,
        ['body', 'assets', '[x]'],
      ],
      detect: [{ media: { type: 'image', image_url: url } }, unsupported, 'media.image_url'],
    })
  })

  test('reasoning, of a model that cannot', async () => {
    const message = "Model 'service-mk1' does not support reasoning"
    const thinking = { type: 'enabled', budget_tokens: 1024 }
    await show({
      chat: [{ model: PLAIN, messages: [hello], reasoning_effort: 'low' }, message, 'reasoning_effort'],
      responses: [{ model: PLAIN, input: 'Hi', reasoning: { effort: 'low' } }, message, 'reasoning.effort'],
      messages: [{ model: PLAIN, max_tokens: 5000, messages: [hello], thinking }, `thinking: ${message}`],
      ollamaChat: [{ model: PLAIN, messages: [hello], think: true }, `think: ${message}`],
      ollamaGenerate: [{ model: PLAIN, prompt: 'Hi', think: true }, `think: ${message}`],
      detect: [
        { model: PLAIN, media: { type: 'image', image_url: url }, config: { output: 'box', enable_thinking: true } },
        message,
        'config.enable_thinking',
      ],
    })
  })

  test('more tokens than the model gives', async () => {
    const most = "but Model 'service-mk1.5' generates at most 8192 tokens"
    await show({
      chat: [{ messages: [hello], max_tokens: 9000 }, `max_tokens is 9000, ${most}`, 'max_tokens'],
      responses: [{ input: 'Hi', max_output_tokens: 9000 }, `max_output_tokens is 9000, ${most}`, 'max_output_tokens'],
    })
  })

  test('a result of no call', async () => {
    const message = "No earlier assistant message has a tool call with the id 'x'"
    const result = { role: 'tool', tool_call_id: 'x', content: 'Hi' }
    const output = { type: 'function_call_output', call_id: 'x', output: 'Hi' }
    await show({
      chat: [{ messages: [hello, result] }, message, 'messages[1].tool_call_id'],
      responses: [{ input: [hello, output] }, message, 'input[1].call_id'],
      messages: [
        {
          messages: [
            hello,
            user([
              { type: 'text', text: 'Hi' },
              { type: 'tool_result', tool_use_id: 'x' },
            ]),
          ],
        },
        `messages[1].content[1].tool_use_id: ${message}`,
      ],
      ollamaChat: [{ messages: [hello, result] }, `messages[1].tool_call_id: ${message}`],
      decisions: [{ input: [hello, output], questions }, "No earlier call has the id 'x'", 'input[1].call_id'],
    })
  })

  test('a schema that is too deep, or is not supported', async () => {
    const deep = nested(102)
    const tooDeep = (param: string) => `Invalid '${param}': it is nested deeper than 100 levels`
    await show({
      chat: [schemaIn.chat(deep), tooDeep('response_format.json_schema.schema'), 'response_format.json_schema.schema'],
      responses: [schemaIn.responses(deep), tooDeep('text.format.schema'), 'text.format.schema'],
      messages: [schemaIn.messages(deep), tooDeep('output_config.format.schema')],
      ollamaChat: [schemaIn.ollamaChat(deep), tooDeep('format')],
      ollamaGenerate: [schemaIn.ollamaGenerate(deep), tooDeep('format')],
    })
    server.engine.script = {
      refusal: ({ branches: [branch] }) =>
        invalidRequest('The JSON schema is not supported', [branch!.constraint!.param!, 'properties', 'a', 'not']),
    }
    const message = 'The JSON schema is not supported'
    await show({
      chat: [schemaIn.chat(object), message, 'response_format.json_schema.schema.properties.a.not'],
      responses: [schemaIn.responses(object), message, 'text.format.schema.properties.a.not'],
      messages: [schemaIn.messages(object), `output_config.format.schema.properties.a.not: ${message}`],
      ollamaChat: [schemaIn.ollamaChat(object), `format.properties.a.not: ${message}`],
      ollamaGenerate: [schemaIn.ollamaGenerate(object), `format.properties.a.not: ${message}`],
    })
  })

  test('a reply that is not of its schema', async () => {
    server.engine.script = { texts: ['{}'] }
    const reason = "must have required property 'a'"
    const mismatch = (param: string) => new RegExp(`^The reply does not match the ${param}: .*${reason}`)
    await show({
      chat: [schemaIn.chat(object), mismatch('response_format'), 'response_format'],
      responses: [schemaIn.responses(object), mismatch('text\\.format'), 'text.format'],
      messages: [schemaIn.messages(object), mismatch('output_config\\.format')],
      ollamaChat: [schemaIn.ollamaChat(object), mismatch('format')],
      ollamaGenerate: [schemaIn.ollamaGenerate(object), mismatch('format')],
    })
  })

  test('the same in a stream', async () => {
    server.engine.script = { texts: ['{}'] }
    const last = async (path: string, body: object) => {
      const response = await server.post(path, { model: MODEL, stream: true, ...body })
      const data = (await response.text()).split('\n').filter((line) => line.startsWith('data: {'))
      return JSON.parse(data.at(-1)!.slice('data: '.length))
    }
    const mismatch = (param: string) => expect.stringContaining(`The reply does not match the ${param}: `)
    expect(await last('/v1/chat/completions', schemaIn.chat(object))).toMatchObject({
      error: { param: 'response_format', message: mismatch('response_format') },
    })
    expect(await last('/v1/responses', schemaIn.responses(object))).toMatchObject({
      type: 'response.failed',
      response: { error: { message: mismatch('text.format') } },
    })
    expect(await last('/v1/messages', { max_tokens: 100, ...schemaIn.messages(object) })).toMatchObject({
      error: { message: mismatch('output_config.format') },
    })
    const lines = await server.post('/api/chat', { model: MODEL, ...schemaIn.ollamaChat(object) })
    expect(JSON.parse((await lines.text()).trim().split('\n').at(-1)!)).toEqual({ error: mismatch('format') })
  })

  test('tools, of a model without them', async () => {
    const message = "Model 'service-mk1' does not support tool calling"
    await show({
      chat: [{ model: PLAIN, messages: [hello], tools: [call('f')] }, message, 'tools'],
      responses: [{ model: PLAIN, input: 'Hi', tools: [flat('f')] }, message, 'tools'],
      messages: [{ model: PLAIN, messages: [hello], tools: [custom('f')] }, `tools: ${message}`],
      ollamaChat: [{ model: PLAIN, messages: [hello], tools: [call('f')] }, `tools: ${message}`],
    })
  })

  test('a question that fails alone', async () => {
    server.engine.script = {
      read: ({ param }) => (param === 'questions.b.part' ? invalidRequest('Too long', param) : [-1, -1, -1, -1]),
    }
    const both = { ...nouls, 'b.part': { type: 'noul', instructions: 'Is it blue?' } }
    const place = ['body', 'questions', 'b.part']
    await show({ systemOne: [{ state: 'Hi', questions: both }, 'Too long', place] })
  })

  test('a hint that the format excludes', async () => {
    const system = '<hint>FOCUS</hint>'
    const message = (param: string) => `The focus tool cannot be combined with ${param}`
    await show({
      chat: [
        { ...schemaIn.chat(object), messages: [{ role: 'system', content: system }, hello] },
        message('response_format json_schema'),
        'messages[0].content',
      ],
      responses: [
        { ...schemaIn.responses(object), instructions: system },
        message('text.format json_schema'),
        'instructions',
      ],
      messages: [{ ...schemaIn.messages(object), system }, `system: ${message('output_config.format')}`],
      ollamaGenerate: [{ ...schemaIn.ollamaGenerate(object), system }, `system: ${message('format')}`],
    })
  })

  test('what is to be found', async () => {
    const instructions = 'x'.repeat(401)
    const input = [user([{ type: 'input_image', image_url: url }])]
    const at = 'questions[0].instructions'
    const most = 'may have at most 400 characters'
    await show({
      decisions: [{ input, questions: [{ type: 'x_box', instructions }] }, `${at} ${most}`, at],
      systemOne: [
        { state: 'Hi', questions: { a: { type: 'box', instructions: 'a ring' } } },
        'A question for a box needs an image in the state',
        ['body', 'questions', 'a', 'type'],
      ],
    })
  })
})

describe('what a client sends is quoted as it is', () => {
  /** What any API calls its parameters, or says of them. */
  const NAMES = [
    ...['response_format', 'response_format json_schema', 'response_format.json_schema.schema', 'json_object'],
    ...['reasoning_effort', 'max_completion_tokens', 'max_tokens', 'max_output_tokens', 'logprobs', 'top_logprobs'],
    ...['messages', 'messages[0].content[0].image_url.url', 'messages[0].tool_call_id', 'input', 'input[0]', 'prompt'],
    ...['tools', 'tools[0].function.parameters', 'tool_choice', 'model', 'regex', 'vision_config', 'image_url', 'url'],
    ...['text.format', 'output_config.format', 'format', 'thinking', 'think', 'options.num_predict', 'state', 'x.part'],
    ...['questions', 'assets', 'context', 'stop', 'n', '__proto__', 'constructor', '$&', '$1'],
  ]
  const values = fc.oneof(
    fc.constantFrom(...NAMES),
    fc
      .array(fc.constantFrom(...NAMES, ' ', "'", '"', '`', '.', '[0]', 'ä'), { minLength: 1, maxLength: 3 })
      .map((words) => words.join('')),
  )

  /** What each API is asked with a value, and what it says of it. */
  type Quote = (value: string) => Partial<Record<Api, readonly [body: object, message: string]>>

  const model: Quote = (value) => {
    const message = `Model '${value}' does not exist`
    return {
      chat: [{ model: value, messages: [hello] }, message],
      multilook: [{ model: value, context: [hello], prompts: ['x'] }, message],
      responses: [{ model: value, input: 'Hi' }, message],
      decisions: [{ model: value, input: 'Hi', questions }, message],
      systemOne: [{ model: value, state: 'Hi', questions: nouls }, message],
      messages: [{ model: value, messages: [hello] }, message],
      ollamaChat: [{ model: value, messages: [hello] }, `model '${value}' not found`],
      ollamaGenerate: [{ model: value, prompt: 'Hi' }, `model '${value}' not found`],
    }
  }
  const calledTool: Quote = (name) => {
    const message = `tool_choice names '${name}', which is not in tools`
    return {
      chat: [{ messages: [hello], tools: [call('f')], tool_choice: { type: 'function', function: { name } } }, message],
      responses: [{ input: 'Hi', tools: [flat('f')], tool_choice: { type: 'function', name } }, message],
      messages: [{ messages: [hello], tools: [custom('f')], tool_choice: { type: 'tool', name } }, message],
    }
  }
  const callId: Quote = (id) => {
    const message = `No earlier assistant message has a tool call with the id '${id}'`
    const result = { role: 'tool', tool_call_id: id, content: 'Hi' }
    const output = { type: 'function_call_output', call_id: id, output: 'Hi' }
    return {
      chat: [{ messages: [hello, result] }, message],
      responses: [{ input: [hello, output] }, message],
      messages: [
        { messages: [hello, user([{ type: 'tool_result', tool_use_id: id }])] },
        `messages[1].content[0].tool_use_id: ${message}`,
      ],
      ollamaChat: [{ messages: [hello, result] }, `messages[1].tool_call_id: ${message}`],
      decisions: [{ input: [hello, output], questions }, `No earlier call has the id '${id}'`],
    }
  }
  const fileId: Quote = (file_id) => {
    const message = `No such File object: ${file_id}`
    return {
      chat: [{ messages: [user([{ type: 'image_file_id', image_file_id: { file_id } }])] }, message],
      multilook: [
        { context: [user([{ type: 'image_file_id', image_file_id: { file_id } }])], prompts: ['x'] },
        message,
      ],
      responses: [{ input: [user([{ type: 'input_image', file_id }])] }, message],
      messages: [
        { messages: [user([{ type: 'image', source: { type: 'file', file_id } }])] },
        `messages[0].content[0].source: ${message}`,
      ],
    }
  }
  const property: Quote = (name) => {
    const schema = { type: 'object', required: [name] }
    const message = (param: string) => `The reply does not match the ${param}: must have required property '${name}'`
    return {
      chat: [schemaIn.chat(schema), message('response_format')],
      responses: [schemaIn.responses(schema), message('text.format')],
      messages: [schemaIn.messages(schema), message('output_config.format')],
      ollamaChat: [schemaIn.ollamaChat(schema), message('format')],
      ollamaGenerate: [schemaIn.ollamaGenerate(schema), message('format')],
    }
  }

  test.each<[string, Quote]>([
    ['a model', model],
    ['a tool that is to be called', calledTool],
    ['the id of a call', callId],
    ['the id of a file', fileId],
    ['a property of a schema', property],
  ])('%s', async (_what, quote) => {
    server.engine.script = { texts: ['{}'] }
    await fc.assert(
      fc.asyncProperty(values, async (value) => {
        for (const [api, [body, message]] of Object.entries(quote(value))) {
          expect({ api, message: (await APIS[api as Api](body)).message }).toEqual({ api, message })
        }
      }),
      { numRuns: 30, examples: NAMES.map((name) => [name]) },
    )
  })

  test('a key of any length is named, shortened where it is only named', async () => {
    const id = 'x'.repeat(300)
    const question = { type: 'noul', instructions: 5 }
    const shown = await APIS.systemOne({ state: 'Hi', questions: { [id]: { ...question, criteria: 5 } } })
    expect(shown.message).toMatch(/^Invalid 'questions\.x{200}…\./)
    expect(shown.param).toEqual(['body', 'questions', id, expect.any(String)])
  })

  test('a question by any name keeps its place', async () => {
    for (const id of NAMES.filter((name) => name !== '__proto__')) {
      const question = { type: 'box', instructions: 'a ring' }
      expect(await APIS.systemOne({ state: 'Hi', questions: { [id]: question } })).toEqual({
        message: 'A question for a box needs an image in the state',
        param: ['body', 'questions', id, 'type'],
      })
    }
  })
})

describe('the host of an address is quoted as it is', () => {
  let kept: TestServer
  beforeAll(async () => {
    kept = server
    // Every name is a host of this network.
    const media = new MediaLoader({
      resolve: (_host, _options, reply) => reply(null, [{ address: '10.0.0.1', family: 4 }]),
    })
    server = await startTestServer({ media, environment })
  })
  afterAll(async () => {
    await server.close()
    server = kept
  })

  test.each(['response_format', 'reasoning_effort', 'image_url', 'messages', 'tools'])('%s', async (name) => {
    const address = `http://${name}.example/a`
    const message = `Fetching media from ${name}.example is not allowed: its address is not public`
    const part = { type: 'image_url', image_url: { url: address } }
    expect((await APIS.chat({ messages: [user([part])] })).message).toBe(message)
    expect((await APIS.responses({ input: [user([{ type: 'input_image', image_url: address }])] })).message).toBe(
      message,
    )
    const block = { type: 'image', source: { type: 'url', url: address } }
    const shown = await APIS.messages({ messages: [user([block])] })
    expect(shown.message).toBe(`messages[0].content[0].source: ${message}`)
    const input = [user([{ type: 'input_image', image_url: address }])]
    expect((await APIS.decisions({ input, questions })).message).toBe(message)
    expect((await APIS.detect({ media: { type: 'image', image_url: address } })).message).toBe(message)
  })
})
