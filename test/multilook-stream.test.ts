import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { readEvents } from '../src/client/event-stream.ts'
import { internalError, modelOverloaded } from '../src/lib/errors/errors.ts'
import { errorOf, jsonOf, startTestServer, type TestServer } from './support/server.ts'

/** Multilook as Server-Sent Events, an extension: for clients whose `Accept` header asks for it. */
const PATH = '/v1/chat/completions/multilook'
const MODEL = 'service-mk1.5'
const EVENTS = { accept: 'text/event-stream' }

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server?.close())
beforeEach(() => {
  server.engine.script = { texts: ['Hello', ' there.'] }
  server.engine.works.length = 0
  server.engine.aborts.length = 0
})

interface Result {
  readonly prompt_index: number
  readonly completions?: readonly { readonly index: number; readonly message: { readonly content: string } }[]
  readonly error?: object
}

interface Delta {
  readonly prompt_index: number
  readonly index: number
  readonly delta: { readonly content?: string; readonly reasoning_content?: string }
}

const fields = (body: object) => ({
  model: MODEL,
  context: [{ role: 'user', content: 'A long story.' }],
  prompts: ['Who?', 'Where?'],
  ...body,
})

/** The events of a stream, the last one `[DONE]` unless an error ended it. */
async function eventsOf(response: Response): Promise<object[]> {
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
  const events: object[] = []
  for await (const data of readEvents(response.body!))
    events.push(data === '[DONE]' ? { done: true } : JSON.parse(data))
  return events
}

const stream = async (body: object) => eventsOf(await server.post(PATH, fields(body), EVENTS))
const isResult = (event: object): event is Result =>
  'completions' in event || ('prompt_index' in event && 'error' in event)
const isDelta = (event: object): event is Delta => 'delta' in event

describe('the stream', () => {
  test('has each result as soon as its prompt is finished, then the usage and the end', async () => {
    server.engine.script = { branch: (_branch, index) => ({ texts: index === 0 ? ['a', 'b', 'c'] : ['d'] }) }
    const whole = await jsonOf<{ results: Result[]; usage: object }>(await server.post(PATH, fields({})))
    const delta = (prompt: number, content: string) => ({ prompt_index: prompt, index: 0, delta: { content } })
    expect(await stream({})).toEqual([
      delta(0, 'a'),
      delta(1, 'd'),
      delta(0, 'b'),
      whole.results[1],
      delta(0, 'c'),
      whole.results[0],
      {
        id: expect.stringMatching(/^mlcmpl-[0-9a-f]{32}$/),
        object: 'chat.completion.multilook',
        model: MODEL,
        usage: whole.usage,
      },
      { done: true },
    ])
    // The engine is told that someone reads along.
    expect(server.engine.works.map((work) => work.whole)).toEqual([true, false])
  })

  test('has a result only when all n completions are finished, and their pieces make up the messages', async () => {
    server.engine.script = {
      branch: (_branch, index) => ({
        texts: (completion) => Array.from({ length: 3 - completion }, (_, i) => `${index}.${completion}.${i} `),
      }),
    }
    const events = await stream({ n: 3, temperature: 1 })
    const results = events.filter(isResult)
    expect(results).toHaveLength(2)
    for (const result of results) {
      const { prompt_index: prompt, completions } = result
      for (const { index, message } of completions!) {
        const pieces = events.filter(isDelta).filter((event) => event.prompt_index === prompt && event.index === index)
        expect(pieces.map(({ delta }) => delta.content).join('')).toBe(message.content)
        expect(events.indexOf(pieces.at(-1)!)).toBeLessThan(events.indexOf(result))
      }
    }
  })

  test('has thoughts apart from answers', async () => {
    server.engine.script = { texts: ['Hm.', '</think>', 'Yes.'] }
    const events = await stream({ prompts: ['Who?'], reasoning_effort: 'low' })
    const deltas = events.filter(isDelta).map(({ delta }) => delta)
    expect(deltas).toEqual([{ reasoning_content: 'Hm.' }, { content: 'Yes.' }])
    expect(events.find(isResult)!.completions![0]!.message).toMatchObject({ reasoning_content: 'Hm.', content: 'Yes.' })
  })

  test('keeps a silent connection alive', async () => {
    const other = await startTestServer({ keepAliveMs: 50 })
    other.engine.script = { texts: ['late'], delayMs: 180 }
    const text = await (await other.post(PATH, fields({}), EVENTS)).text()
    expect(text).toMatch(/^(: keep-alive\n\n)+data: .*"late"/)
    await other.close()
  })

  test('of a client that disconnects frees the engine at once, and is logged with status 499', async () => {
    server.logs.length = 0
    server.engine.script = { texts: ['tick'], delayMs: 10, endless: true }
    const response = await server.post(PATH, fields({}), EVENTS)
    await response.body!.cancel()
    await expect.poll(() => server.engine.aborts.length).toBe(1)
    expect(server.engine.aborts[0]).toMatchObject({ name: 'ClientDisconnected' })
    await expect.poll(() => server.logs.map((line) => JSON.parse(line).status)).toContain(499)
  })
})

describe('a prompt that fails', () => {
  const broken = { content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,aGVsbG8=' } }] }

  test('before the engine has it, carries its error in the first event', async () => {
    const events = await stream({ prompts: ['Who?', broken] })
    expect(events[0]).toEqual({
      prompt_index: 1,
      error: { message: expect.any(String), type: 'invalid_request_error' },
    })
    expect(events.filter(isResult)).toHaveLength(2)
    expect(events.at(-1)).toEqual({ done: true })
  })

  test('midway, carries its error in its result, and the others go on', async () => {
    server.engine.script = {
      branch: (_branch, index) => (index === 0 ? { error: internalError(new Error('secret')), texts: ['x'] } : {}),
    }
    const events = await stream({})
    expect(events.filter(isResult)).toEqual([
      { prompt_index: 0, error: { message: 'Internal error', type: 'server_error' } },
      expect.objectContaining({ prompt_index: 1, completions: expect.any(Array) }),
    ])
  })

  test('because the engine is lost, leaves completed answers as they are', async () => {
    server.engine.script = {
      failure: modelOverloaded('Restarting', 3),
      branch: (_branch, index) => ({ texts: index === 0 ? ['short'] : ['a', 'longer', 'one'] }),
    }
    const [first, second] = (await stream({})).filter(isResult)
    expect(first!.completions![0]!.message.content).toBe('short')
    expect(second).toMatchObject({ prompt_index: 1, error: { message: 'Restarting', code: 'model_overloaded' } })
  })

  test('when all do: the first prompt’s error is the last event', async () => {
    server.engine.script = {
      branch: (_branch, index) => ({ error: index === 0 ? modelOverloaded('Busy', 30) : new TypeError('secret') }),
    }
    const events = await stream({})
    expect(events.filter(isResult)).toHaveLength(2)
    expect(events.at(-1)).toEqual({
      error: { message: 'Busy', type: 'server_error', param: null, code: 'model_overloaded' },
    })
  })
})

describe('an error before the first event is a plain HTTP error', () => {
  test('of the engine', async () => {
    server.engine.script = { refusal: modelOverloaded('Busy', 7) }
    const response = await server.post(PATH, fields({}), EVENTS)
    expect(response.status).toBe(503)
    expect(response.headers.get('retry-after')).toBe('7')
    expect(await errorOf(response)).toMatchObject({ message: 'Busy', code: 'model_overloaded' })
  })

  test('of the body: stream stays refused', async () => {
    const response = await server.post(PATH, fields({ stream: true }), EVENTS)
    expect(response.status).toBe(400)
    expect(await errorOf(response)).toMatchObject({ param: 'stream' })
  })
})

test.each([
  ['text/event-stream', true],
  ['Text/Event-Stream; charset=utf-8', true],
  ['text/event-stream, */*', true],
  ['application/json;q=0.5, text/event-stream', true],
  ['application/json, text/event-stream', false],
  ['text/event-stream;q=0', false],
  ['text/event-stream;q=0.4, application/json;q=0.5', false],
  ['application/json', false],
  ['text/*', false],
  ['*/*', false],
])('Accept: %s', async (accept, isStream) => {
  const { headers, body } = await server.post(PATH, fields({}), { accept })
  expect(headers.get('content-type')).toBe(
    isStream ? 'text/event-stream; charset=utf-8' : 'application/json; charset=utf-8',
  )
  await body!.cancel()
})
