import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { eq } from 'drizzle-orm'
import fc from 'fast-check'
import OpenAI from 'openai'
import { ResponsesWS } from 'openai/resources/responses/ws'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { type ClientOptions, WebSocket } from 'ws'
import * as tables from '../src/storage/schema.ts'
import { TestAccounts } from './support/accounts.ts'
import { promptText } from './support/chat.ts'
import { startTestServer, type TestServer } from './support/server.ts'
import { refusalOf } from './support/watch-socket.ts'

const model = 'service-mk1.5'
const ENDS = ['response.completed', 'response.incomplete', 'response.failed', 'error']

interface SocketEvent extends Record<string, unknown> {
  readonly type: string
  readonly stream_id?: string
  readonly response?: OpenAI.Responses.Response
  readonly error?: Record<string, unknown>
}

/** A client of the WebSocket of `/v1/responses`. */
class Client {
  readonly socket: WebSocket
  readonly events: SocketEvent[] = []
  #read = 0

  private constructor(socket: WebSocket) {
    this.socket = socket
    socket.on('message', (data) => this.events.push(JSON.parse(String(data))))
    socket.on('error', () => {})
  }

  /** Connects for the time of the test. */
  static async open(to: TestServer, key = to.service.apiKey!, options: ClientOptions = {}): Promise<Client> {
    const headers = { authorization: `Bearer ${key}` }
    const socket = new WebSocket(socketUrl(to), { headers, ...options })
    onTestFinished(() => socket.terminate())
    const client = new Client(socket)
    await once(socket, 'open')
    return client
  }

  send(message: object | string): void {
    const text = typeof message === 'string' ? message : JSON.stringify({ type: 'response.create', model, ...message })
    this.socket.send(text)
  }

  /** The events of the next response that has ended. */
  async next(): Promise<SocketEvent[]> {
    const end = () => this.events.findIndex(({ type }, index) => index >= this.#read && ENDS.includes(type))
    await expect.poll(end, { interval: 5 }).not.toBe(-1)
    const events = this.events.slice(this.#read, end() + 1)
    this.#read += events.length
    return events
  }

  async ask(message: object | string): Promise<SocketEvent> {
    this.send(message)
    return (await this.next()).at(-1)!
  }

  async answered(message: object): Promise<OpenAI.Responses.Response> {
    const end = await this.ask(message)
    expect(end).toMatchObject({ type: 'response.completed' })
    return end.response!
  }

  /** Waits until a response has begun. */
  async begun(): Promise<string> {
    const begun = () => this.events.findLast(({ type }) => type === 'response.created')?.response?.id
    await expect.poll(begun, { interval: 5 }).toBeDefined()
    return begun()!
  }

  async closed(): Promise<readonly [code: number, reason: string]> {
    const [code, reason] = (await once(this.socket, 'close')) as [number, Buffer]
    return [code, String(reason)]
  }
}

const socketUrl = (to: TestServer) => `${to.url.replace(/^http/, 'ws')}/v1/responses`
const linesOf = (logs: readonly string[]) =>
  logs.map((line) => JSON.parse(line)).filter(({ msg, method }) => msg === 'request' && method === 'POST')

let png: Buffer
let server: TestServer
let accounts: TestAccounts
beforeAll(async () => {
  png = await readFile('docs/pictures/shapes.png')
  accounts = await TestAccounts.open()
  server = await startTestServer({ environment: { LOOKOUT_BODY_MEMORY: '20' } })
})
afterAll(async () => {
  await server?.close()
  await accounts?.close()
})
beforeEach(() => {
  server.engine.works.length = 0
  server.engine.script = { texts: ['Hello', ' there.'] }
})

/** A picture with bytes of its own. */
const newPicture = (extra: number) => Buffer.concat([png, randomBytes(extra)])
const showing = (picture: Buffer) => ({
  role: 'user',
  content: [
    { type: 'input_text', text: 'What is here?' },
    { type: 'input_image', image_url: `data:image/png;base64,${picture.toString('base64')}` },
  ],
})

/** A client of an organisation of its own. */
async function newClient(limits: Parameters<TestAccounts['organisation']>[0] = {}) {
  const made = await accounts.organisation(limits)
  return { ...made, client: await Client.open(server, made.key) }
}

/** Holds all generations. @returns what lets them begin. */
function hold({ engine }: TestServer): () => void {
  const { promise, resolve } = Promise.withResolvers<void>()
  onTestFinished(() => resolve())
  const generate = engine.generate.bind(engine)
  vi.spyOn(engine, 'generate').mockImplementation((work, signal) => promise.then(() => generate(work, signal)))
  return resolve
}

const usageOf = (organisation: string) =>
  accounts.database.use((queries) =>
    queries.select().from(tables.usage).where(eq(tables.usage.organisationId, organisation)).orderBy(tables.usage.at),
  )

describe('a response', () => {
  test('has the events of a stream over HTTP, and is recorded as one', async () => {
    const { client, organisation, key } = await newClient()
    client.send({ input: 'Hi' })
    const events = await client.next()
    const headers = { authorization: `Bearer ${key}` }
    const text = await (await server.post('/v1/responses', { model, input: 'Hi', stream: true }, headers)).text()
    const streamed = [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data]) => JSON.parse(data!) as SocketEvent)
    const shapes = (all: readonly SocketEvent[]) =>
      all.map(({ type, sequence_number, delta }) => ({ type, sequence_number, delta }))
    expect(shapes(events)).toEqual(shapes(streamed))
    const lines = () => linesOf(server.logs).filter((line) => line.organisation === organisation)
    await expect.poll(lines).toMatchObject(Array(2).fill({ path: '/v1/responses', status: 200 }))
    const row = { finish: 'stop', status: 200, endpoint: 'responses', completionTokens: 2 }
    await expect.poll(() => usageOf(organisation)).toMatchObject([row, row])
  })

  test('comes to OpenAI’s client, and goes on from the one before', async () => {
    const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.service.apiKey! })
    const socket = new ResponsesWS(client)
    onTestFinished(() => socket.close())
    const ended = () =>
      new Promise<OpenAI.Responses.Response>((resolve, reject) => {
        socket.once('response.completed', ({ response }) => resolve(response))
        socket.once('error', reject)
      })
    const first = ended()
    socket.send({ type: 'response.create', model, input: 'My name is Ann.', store: false, stream: true })
    const { id } = await first
    const second = ended()
    socket.send({ type: 'response.create', model, input: 'And?', store: false, previous_response_id: id })
    expect((await second).output).toMatchObject([{ content: [{ text: 'Hello there.' }] }])
    expect(promptText(server.engine)).toContain('My name is Ann.')
    const wrong = ended()
    socket.send({ type: 'response.create', model: 'other', input: 'Hi' })
    await expect(wrong).rejects.toThrow(/'other' does not exist/)
  })

  test('takes as much media as over HTTP, and gives the room back', async () => {
    const client = await Client.open(server)
    for (let turn = 0; turn < 4; turn++) {
      await client.answered({ input: [showing(newPicture(6 * 2 ** 20))], store: false })
      expect(server.engine.works.at(-1)!.prefix).toContainEqual(expect.objectContaining({ type: 'image' }))
    }
    const body = { model, input: [showing(newPicture(12 * 2 ** 20))] }
    expect((await server.post('/v1/responses', { ...body, store: false })).status).toBe(200)
  })

  test('that fails midway ends with one event, and so does the next one', async () => {
    const client = await Client.open(server)
    server.engine.script = { failure: new Error('broken') }
    client.send({ input: 'Hi', stream_id: 'a' })
    const events = await client.next()
    expect(events.at(-1)).toMatchObject({ type: 'response.failed', response: { status: 'failed' } })
    expect(events.map(({ stream_id }) => stream_id)).toEqual(events.map(() => 'a'))
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, index) => index))
    server.engine.script = {}
    await client.answered({ input: 'Hi' })
  })

  test('is left when its client is, and so are those that wait', async () => {
    const { client, organisation } = await newClient()
    server.engine.script = { endless: true, delayMs: 1 }
    client.send({ input: 'Hi' })
    client.send({ input: 'Hi again' })
    await client.begun()
    const before = server.engine.aborts.length
    client.socket.terminate()
    await expect.poll(() => server.engine.aborts.length).toBe(before + 1)
    await expect.poll(() => usageOf(organisation)).toMatchObject([{ status: 499, finish: 'aborted' }])
    const lines = () => linesOf(server.logs).filter((line) => line.organisation === organisation)
    await expect.poll(lines).toMatchObject([{ status: 499 }, { status: 499 }])
  })

  test('can be cancelled', async () => {
    const { client, organisation } = await newClient()
    server.engine.script = { endless: true, delayMs: 1 }
    client.send({ input: 'Hi' })
    const id = await client.begun()
    const cancel = { type: 'response.cancel', response_id: id }
    client.send({ ...cancel, response_id: 'resp_other' })
    const { type, response } = await client.ask(cancel)
    expect([type, response]).toMatchObject(['response.failed', { id, error: { code: 'response_cancelled' } }])
    await expect.poll(() => usageOf(organisation)).toMatchObject([{ status: 499, finish: 'aborted' }])
    server.engine.script = {}
    client.send(cancel)
    await client.answered({ input: 'Hi' })
  })

  test('waits for the one before it; too many are refused', async () => {
    const { client, organisation } = await newClient()
    const begin = hold(server)
    for (let sent = 0; sent < 18; sent++) client.send({ input: `${sent}`, metadata: { sent: `${sent}` } })
    const refused = { type: 'error', status: 429, error: { headers: { 'retry-after': '1' } } }
    expect(await client.next()).toMatchObject([refused])
    const lines = () => linesOf(server.logs).filter((line) => line.organisation === organisation)
    await expect.poll(lines).toMatchObject([{ status: 429 }])
    begin()
    const sent: unknown[] = []
    while (sent.length < 17) sent.push((await client.next()).at(-1)!.response!.metadata!.sent)
    expect(sent).toEqual(sent.map((_, index) => `${index}`))
  })
})

describe('a connection', () => {
  test('keeps its newest response that is not stored, with media, and nothing else', async () => {
    const client = await Client.open(server)
    const picture = newPicture(200_000)
    const first = await client.answered({ input: [showing(picture)], store: false })
    const shown = server.engine.works.at(-1)!.prefix.find(({ type }) => type === 'image')
    const second = { input: 'And?', store: false, previous_response_id: first.id }
    for (let turn = 0; turn < 2; turn++) {
      const { error } = await client.ask({ ...second, temperature: 9 })
      expect(error).toMatchObject({ param: 'temperature' })
    }
    const { id } = await client.answered(second)
    expect(server.engine.works.at(-1)!.prefix).toContainEqual(shown)
    expect(promptText(server.engine)).toMatch(/What is here\?[\s\S]*Hello there\.[\s\S]*And\?/)
    const missing = { error: { code: 'previous_response_not_found', param: 'previous_response_id' } }
    expect(await client.ask(second)).toMatchObject({ type: 'error', status: 400, ...missing })
    const other = await Client.open(server)
    expect(await other.ask({ ...second, previous_response_id: id })).toMatchObject(missing)

    // A response that is stored has the whole conversation.
    const stored = await client.answered({ input: 'Go on.', previous_response_id: id })
    const more = { model, input: 'And now?', previous_response_id: stored.id }
    expect((await server.post('/v1/responses', more)).status).toBe(200)
    expect(server.engine.works.at(-1)!.prefix).toContainEqual(shown)
    expect(promptText(server.engine)).toMatch(/What is here\?[\s\S]*And\?[\s\S]*Go on\.[\s\S]*And now\?/)
    await client.answered({ ...more, store: false })
  })

  test('drops a response that a request fails to continue, as OpenAI does', async () => {
    const client = await Client.open(server)
    const { id } = await client.answered({ input: 'Hi', store: false })
    const ask = (input: unknown) => client.ask({ input, store: false, previous_response_id: id })
    const orphan = [{ type: 'function_call_output', call_id: 'call_none', output: 'Sunny' }]
    expect(await ask(orphan)).toMatchObject({ type: 'error', error: { code: 'invalid_tool_result' } })
    expect(await ask('And?')).toMatchObject({ type: 'error', error: { code: 'previous_response_not_found' } })
  })

  test('keeps one for each stream, which another stream may go on from', async () => {
    const client = await Client.open(server)
    const ask = (stream_id: string, input: string, previous_response_id?: string) =>
      client.answered({ input, stream_id, store: false, previous_response_id })
    const planner = await ask('planner', 'Plan A.')
    await ask('research', 'Risks.')
    await ask('critic', 'Gaps?', planner.id)
    await ask('planner', 'Steps?', planner.id)
    expect(promptText(server.engine)).toMatch(/Plan A\.[\s\S]*Steps\?/)
    expect(promptText(server.engine)).not.toContain('Gaps?')
  })

  test('remembers a prompt without an answer', async () => {
    const client = await Client.open(server)
    client.send({ input: 'Remember: papaya.', generate: false, store: false })
    const events = await client.next()
    expect(events.map(({ type }) => type)).toEqual(['response.created', 'response.in_progress', 'response.completed'])
    const { id, output, max_output_tokens } = events.at(-1)!.response!
    expect({ output, max_output_tokens }).toEqual({ output: [], max_output_tokens: null })
    await client.answered({ input: 'What?', previous_response_id: id, store: false })
    expect(promptText(server.engine)).toMatch(/papaya[\s\S]*What\?/)
  })

  test('keeps no more than there is room for', async () => {
    const { key } = await accounts.organisation()
    const ask = async () => {
      const client = await Client.open(server, key)
      const { id } = await client.answered({ input: [showing(newPicture(14 * 2 ** 20))], store: false })
      const again = () => client.ask({ input: 'And?', store: false, previous_response_id: id })
      return { client, again }
    }
    const [one, two, three, four] = [await ask(), await ask(), await ask(), await ask()]
    const late = await ask()
    expect(await late.again()).toMatchObject({ error: { code: 'previous_response_not_found' } })
    for (const { again } of [two, three, four]) expect(await again()).toMatchObject({ type: 'response.completed' })
    one.client.socket.close()
    await one.client.closed()
    const later = await ask()
    expect(await later.again()).toMatchObject({ type: 'response.completed' })
  })

  test('counts what replies take, too', async () => {
    const { key } = await accounts.organisation()
    server.engine.script = { texts: ['x'.repeat(3 * 2 ** 20)] }
    const asked: (() => Promise<SocketEvent>)[] = []
    while (asked.length < 4) {
      const client = await Client.open(server, key)
      const { id } = await client.answered({ input: [showing(newPicture(14 * 2 ** 20))], store: false })
      asked.push(() => client.ask({ input: 'And?', store: false, previous_response_id: id }))
    }
    // The replies are too long to go on from them.
    const [third, fourth] = [await asked[2]!(), await asked[3]!()]
    expect(third).toMatchObject({ error: { code: 'context_length_exceeded' } })
    expect(fourth).toMatchObject({ error: { code: 'previous_response_not_found' } })
  })

  test('takes no room from others for a large message that waits, and answers it later', async () => {
    const { client } = await newClient()
    const body = (mebibytes: number) => ({ input: [showing(newPicture(mebibytes * 2 ** 20))], store: false })
    const begin = hold(server)
    client.send({ input: 'Hi' })
    const { generate } = server.engine
    await expect.poll(() => vi.mocked(generate).mock.calls.length).toBe(1)
    vi.mocked(generate).mockRestore()
    client.send(body(14))
    const other = await accounts.organisation()
    const headers = { authorization: `Bearer ${other.key}` }
    // The first may arrive before the large message.
    for (let sent = 0; sent < 5; sent++) {
      expect((await server.post('/v1/responses', { model, ...body(6) }, headers)).status).toBe(200)
    }
    begin()
    for (let turn = 0; turn < 2; turn++) {
      expect((await client.next()).at(-1)).toMatchObject({ type: 'response.completed' })
    }
  })

  test.each<[string, object | string, object]>([
    ['no JSON', 'Hello', { param: null }],
    ['no object', '[]', { param: null }],
    ['an unknown type', { type: 'response.steer', input: 'Hi' }, { param: 'type' }],
    ['no type', '{"model": "service-mk1.5", "input": "Hi"}', { param: 'type' }],
    ['no model', { model: undefined, input: 'Hi' }, { param: 'model' }],
    ['an invalid field', { input: 'Hi', temperature: 9 }, { param: 'temperature' }],
    ['an invalid stream', { input: 'Hi', stream_id: '' }, { param: 'stream_id' }],
    ['stream: false', { input: 'Hi', stream: false }, { param: 'stream' }],
    ['background: true', { input: 'Hi', background: true }, { param: 'background' }],
    ['a bad picture', { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'data:,x' }] }] }, {}],
  ])('rejects %s as HTTP does', async (_, message, error) => {
    const { client, organisation } = await newClient()
    const answer = await client.ask(message)
    expect(answer).toMatchObject({ type: 'error', status: 400, error: { type: 'invalid_request_error', ...error } })
    const { 'x-trace-id': traceId } = answer.error!.headers as Record<string, string>
    const lines = () => linesOf(server.logs).filter((line) => line.organisation === organisation)
    await expect.poll(lines).toMatchObject([{ status: 400, traceId }])
    await client.answered({ input: 'Hi' })
  })

  test('ends at a message that is too large', async () => {
    const client = await Client.open(server)
    const closed = client.closed()
    client.send({ input: 'x'.repeat(20 * 2 ** 20) })
    expect((await closed)[0]).toBe(1009)
  })

  test('ends when its key is revoked, at the next request', async () => {
    const { client, keyId } = await newClient()
    await client.answered({ input: 'Hi' })
    await accounts.accounts.revokeKey(keyId)
    const closed = client.closed()
    const ask = () => client.ask({ input: 'Hi' })
    await expect.poll(ask).toMatchObject({ type: 'error', status: 401 })
    expect(await closed).toEqual([1008, 'The API key is revoked or has expired'])
  })

  test('counts towards the limits of its organisation, and so do no handshakes', async () => {
    const limited = await startTestServer({ environment: { LOOKOUT_RATE_LIMITS: 'chat=2' } })
    onTestFinished(() => limited.close())
    const { key } = await accounts.organisation()
    const clients = await Promise.all(Array.from({ length: 3 }, () => Client.open(limited, key)))
    const ends = []
    for (const client of clients) ends.push(await client.ask({ input: 'Hi' }))
    const refused = { type: 'error', status: 429, error: { headers: { 'retry-after': expect.any(String) } } }
    expect(ends).toMatchObject([{ type: 'response.completed' }, { type: 'response.completed' }, refused])
  })

  test('counts towards the budget of its organisation', async () => {
    const { client } = await newClient({ monthlyCredits: 0 })
    expect(await client.ask({ input: 'Hi' })).toMatchObject({ type: 'error', status: 429 })
  })

  test('ends after an hour, and not before its response', async () => {
    const timeout = setTimeout
    const LATE_MS = 50
    const soon = (run: () => void, ms?: number) => timeout(run, ms === 3_600_000 ? LATE_MS : ms)
    vi.spyOn(globalThis, 'setTimeout').mockImplementation(soon as typeof setTimeout)
    const client = await Client.open(server)
    const closed = client.closed()
    const begin = hold(server)
    client.send({ input: 'Hi' })
    client.send({ input: 'Hi' })
    await new Promise<void>((resolve) => timeout(resolve, 2 * LATE_MS))
    begin()
    const over = { type: 'error', error: { code: 'websocket_connection_limit_reached' } }
    expect((await client.next()).at(-1)).toMatchObject({ type: 'response.completed' })
    expect([await client.next(), await client.next()]).toMatchObject([[over], [over]])
    expect((await closed)[0]).toBe(1001)
  })

  test('takes any messages, and ends each once', async () => {
    const client = await Client.open(server)
    const field = fc.constantFrom('type', 'model', 'input', 'stream', 'stream_id', 'generate', 'store', 'tools')
    const message = fc.oneof(
      fc.string(),
      fc.json(),
      fc.constant({ input: 'Hi' }),
      fc.record({ input: fc.string(), store: fc.boolean(), generate: fc.boolean() }),
      fc.tuple(field, fc.jsonValue()).map(([name, value]) => ({ input: 'Hi', [name]: value })),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(message, { maxLength: 10 }), async (messages) => {
        for (const each of messages) client.send(each)
        for (const _ of messages) expect((await client.next()).at(-1)).not.toMatchObject({ status: 500 })
      }),
      { numRuns: 40 },
    )
    await client.answered({ input: 'Hi' })
  })
})

describe('a handshake', () => {
  test.each([
    ['without a key', {}, 401, { type: 'authentication_error' }],
    ['with a wrong key', { protocols: ['lookout', 'api-key.wrong'] }, 401, { type: 'authentication_error' }],
    ['for a page of another site', { origin: 'https://evil.example' }, 403, {}],
  ])('is refused %s', async (_, options: Parameters<typeof refusalOf>[1], status, error) => {
    const headers: Record<string, string> = status === 401 ? {} : { authorization: `Bearer ${server.service.apiKey}` }
    expect(await refusalOf(socketUrl(server), { ...options, headers })).toMatchObject({ status, error })
  })

  test('takes the key of a page as a subprotocol', async () => {
    const key = `api-key.${server.service.apiKey}`
    const socket = new globalThis.WebSocket(`${socketUrl(server)}?model=${model}`, ['lookout', key])
    onTestFinished(() => socket.close())
    await once(socket, 'open')
    socket.send(JSON.stringify({ type: 'response.create', model, input: 'Hi' }))
    const [{ data }] = await once(socket, 'message')
    expect(JSON.parse(data)).toMatchObject({ type: 'response.created' })
  })

  test('is asked for where there is none', async () => {
    const response = await server.get('/v1/responses')
    expect([response.status, response.headers.get('upgrade')]).toEqual([426, 'websocket'])
  })
})

describe('a server that shuts down', () => {
  test.each([
    ['lets responses end that end in time', {}, 'response.completed'],
    ['aborts the others', { endless: true, delayMs: 1 }, 'response.failed'],
  ])('%s, and closes all connections', async (_, script, end) => {
    const other = await startTestServer()
    const [idle, busy, silent] = await Promise.all(Array.from({ length: 3 }, () => Client.open(other)))
    silent!.socket.pause()
    const begin = hold(other)
    other.engine.script = script
    busy!.send({ input: 'Hi' })
    busy!.send({ input: 'Hi' })
    await expect.poll(() => vi.mocked(other.engine.generate).mock.calls.length).toBe(1)
    const closed = [idle!.closed(), busy!.closed()]
    const closing = other.close()
    await closed[0]
    begin()
    expect((await busy!.next()).at(-1)).toMatchObject({ type: end })
    expect(await busy!.next()).toMatchObject([{ type: 'error', status: 503 }])
    expect(await Promise.all(closed)).toEqual(Array(2).fill([1001, 'The server is shutting down']))
    await closing
  })
})
