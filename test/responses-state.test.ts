import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { and, eq } from 'drizzle-orm'
import OpenAI from 'openai'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { OrganisationLimits } from '../src/storage/schema.ts'
import * as tables from '../src/storage/schema.ts'
import { TestAccounts } from './support/accounts.ts'
import { promptText } from './support/chat.ts'
import { errorOf, KEY, startTestServer, type TestServer } from './support/server.ts'
import { createTestDatabase } from './support/services.ts'
import { type SilentServer, startSilentServer } from './support/silent-server.ts'

const model = 'service-mk1.5'
const CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Bern"}}\n</tool_call>'

let png: Buffer
let server: TestServer
let accounts: TestAccounts
let organisation: string
let client: OpenAI
beforeAll(async () => {
  png = await readFile('docs/pictures/shapes.png')
  accounts = await TestAccounts.open()
  server = await startTestServer()
})
afterAll(async () => {
  await server?.close()
  await accounts?.close()
})
beforeEach(async () => {
  server.engine.works.length = 0
  server.engine.script = { texts: ['Hello', ' there.'] }
  const created = await newOrganisation()
  organisation = created.organisation
  client = created.client
})

async function newOrganisation(limits: OrganisationLimits = {}, url = server.url) {
  const { organisation, key } = await accounts.organisation(limits)
  return { organisation, key, client: new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 }) }
}

/** A picture with bytes of its own: decoders ignore what follows its end. Large enough to be taken out of the body. */
const newPicture = (extra = 30_000) => Buffer.concat([png, randomBytes(extra)])
const dataUrl = (bytes: Buffer) => `data:image/png;base64,${bytes.toString('base64')}`
const showing = (...pictures: Buffer[]): OpenAI.Responses.EasyInputMessage => ({
  role: 'user',
  content: [
    { type: 'input_text', text: 'What is here?' },
    ...pictures.map((bytes) => ({ type: 'input_image' as const, image_url: dataUrl(bytes), detail: 'low' as const })),
  ],
})

const rows = (of = organisation) =>
  accounts.database.use((queries) =>
    queries.select().from(tables.responses).where(eq(tables.responses.organisationId, of)),
  )
const files = (of = organisation) =>
  accounts.database.use((queries) => queries.select().from(tables.files).where(eq(tables.files.organisationId, of)))
async function storedBytes(of = organisation): Promise<number> {
  const [row] = await accounts.database.use((queries) =>
    queries.select().from(tables.organisations).where(eq(tables.organisations.id, of)),
  )
  return row!.storedBytes
}

describe('a conversation', () => {
  test('goes on from its last response, without its instructions', async () => {
    const first = await client.responses.create({ model, input: 'My name is Ann.', instructions: 'Be brief.' })
    const again = { model, input: 'And?', previous_response_id: first.id }
    const second = await client.responses.create(again)
    expect(second.previous_response_id).toBe(first.id)
    expect(promptText(server.engine)).toBe(
      '<|im_start|>user\nMy name is Ann.<|im_end|>\n<|im_start|>assistant\nHello there.<|im_end|>\n' +
        '<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n',
    )
    await client.responses.create({ ...again, previous_response_id: second.id, instructions: 'Be kind.' })
    expect(promptText(server.engine)).toMatch(/^<\|im_start\|>system\nBe kind\..*Ann.*And\?.*And\?/s)
    // Its beginning may be continued in another way.
    await client.responses.create(again)
    expect(promptText(server.engine).match(/And\?/g)).toHaveLength(1)
  })

  test('keeps its pictures as files, which are seen again', async () => {
    const pictures = [newPicture(), newPicture(), newPicture(10)]
    const first = await client.responses.create({ model, input: [showing(...pictures, pictures[0]!)] })
    const stored = await files()
    expect(stored.map(({ bytes }) => bytes).sort()).toEqual(pictures.map(({ length }) => length).sort())
    const [row] = await rows()
    expect(row!.input).not.toContain('base64')
    expect(await storedBytes()).toBe(row!.bytes + pictures.reduce((sum, { length }) => sum + length, 0))
    const images = () => server.engine.works.at(-1)!.prefix.filter(({ type }) => type === 'image')
    const seen = images()
    await client.responses.create({ model, input: 'And now?', previous_response_id: first.id })
    expect(images()).toEqual(seen)
    // They are in no list, are not deleted by hand, and can be fetched.
    expect((await client.files.list()).data).toEqual([])
    await expect(client.files.delete(stored[0]!.id)).rejects.toThrow(OpenAI.NotFoundError)
    const { data } = await client.responses.inputItems.list(first.id)
    const message = data[0] as OpenAI.Responses.ResponseInputMessageItem
    const image = message.content[1] as OpenAI.Responses.ResponseInputImage
    expect(image).toMatchObject({ type: 'input_image', image_url: null, detail: 'low' })
    const content = await client.files.content(image.file_id!)
    expect(Buffer.from(await content.arrayBuffer()).equals(pictures[0]!)).toBe(true)
  })

  test.each(['file_data', 'file_url'])('stores a picture in %s as a file', async (field) => {
    const file = { type: 'input_file', [field]: dataUrl(newPicture()) } as const
    const { id } = await client.responses.create({ model, input: [{ role: 'user', content: [file] }] })
    const [stored] = await files()
    const { data } = await client.responses.inputItems.list(id)
    expect(data).toMatchObject([{ content: [{ type: 'input_file', [field]: null, file_id: stored!.id }] }])
    const seen = server.engine.works.at(-1)!.prefix
    await client.responses.create({ model, input: data as OpenAI.Responses.ResponseInput })
    expect(server.engine.works.at(-1)!.prefix).toEqual(seen)
  })

  test('stores a picture once, until no response has it', async () => {
    const picture = newPicture()
    const first = await client.responses.create({ model, input: [showing(picture)] })
    const second = await client.responses.create({ model, input: [showing(picture), showing(newPicture())] })
    expect(await files()).toHaveLength(2)
    await client.responses.delete(first.id)
    expect(await files()).toHaveLength(2)
    await client.responses.delete(second.id)
    expect([await files(), await rows(), await storedBytes()]).toEqual([[], [], 0])
  })

  test('with a tool: the model calls, the client answers, the model goes on', async () => {
    const tools: OpenAI.Responses.FunctionTool[] = [
      { type: 'function', name: 'weather', parameters: { type: 'object' }, strict: false },
    ]
    server.engine.script = {
      branch: () => {
        const answered = promptText(server.engine).includes('<tool_response>')
        return { texts: answered ? ['It is ', 'sunny.'] : [...CALL] }
      },
    }
    const first = await client.responses.create({ model, input: 'How is it in Bern?', tools })
    const call = first.output[0] as OpenAI.Responses.ResponseFunctionToolCall
    expect(JSON.parse(call.arguments)).toEqual({ city: 'Bern' })
    const second = await client.responses.create({
      model,
      previous_response_id: first.id,
      input: [
        {
          type: 'function_call_output',
          call_id: call.call_id,
          output: [
            { type: 'input_text', text: 'See: ' },
            { type: 'input_image', image_url: dataUrl(newPicture()), detail: 'auto' },
          ],
        },
      ],
      tools,
    })
    expect(second.output_text).toBe('It is sunny.')
    expect(promptText(server.engine)).toContain('See: [picture]')
    const { data } = await client.responses.inputItems.list(second.id, { order: 'asc' })
    expect(data.map(({ type }) => type)).toEqual(['message', 'function_call', 'function_call_output'])
    // The same without a stored conversation, by reference to its items.
    const third = await client.responses.create({
      model,
      input: [
        // The type may be left out.
        ...data.map(({ id }, at) => ({ ...(at % 2 === 0 && { type: 'item_reference' as const }), id: id! })),
        { role: 'user', content: 'So?' },
      ],
      tools,
    })
    expect(third.output_text).toBe('It is sunny.')
    expect(promptText(server.engine)).toMatch(/How is it in Bern\?.*<tool_call>.*See: \[picture\].*So\?/s)
  })

  test('has each item once, also where the client sends them all again', async () => {
    const user = (content: string) => ({ role: 'user', content }) as const
    server.engine.script = { texts: ['<think>', 'Hm.', '</think>', 'Hello.'] }
    const asked = { model, reasoning: { effort: 'low' } } as const
    const first = await client.responses.create({ ...asked, input: 'Hi' })
    expect(first.output.map(({ type }) => type)).toEqual(['reasoning', 'message'])
    const said = ({ output }: OpenAI.Responses.Response) => output as OpenAI.Responses.ResponseInputItem[]
    const replayed = [user('Hi'), ...said(first)]
    const second = await client.responses.create({ ...asked, input: [...replayed, user('And?')] })
    const third = { ...asked, input: [...replayed, user('And?'), ...said(second), user('So?')] }
    const { id } = await client.responses.create(third)
    const again = await client.responses.create({ ...asked, input: [user('Oh.')], previous_response_id: id })
    const listed: unknown[] = []
    for await (const item of client.responses.inputItems.list(again.id, { limit: 2, order: 'asc' }))
      listed.push(item.id)
    expect([listed.length, new Set(listed).size]).toEqual([10, 10])

    const goesOn = { ...asked, previous_response_id: first.id }
    const reference = { type: 'item_reference', id: first.output[1]!.id! } as const
    for (const [body, param] of [
      [{ ...goesOn, input: [user('And?'), said(first)[1]!] }, 'input[1].id'],
      [{ ...goesOn, input: [reference] }, 'input[0].id'],
      [{ ...asked, input: [...replayed, ...said(first)] }, 'input[3].id'],
      [{ ...asked, input: [said(first)[1]!, reference] }, 'input[1].id'],
    ] as const) {
      await expect(client.responses.create({ ...body, input: [...body.input] })).rejects.toMatchObject({
        status: 400,
        param,
      })
    }
  })

  test('of an earlier version, with an item twice, is listed to its end', async () => {
    const { id } = await client.responses.create({
      model,
      input: ['a', 'b', 'c'].map((content) => ({ role: 'user', content })),
    })
    const [row] = await rows()
    const [a, b, c] = JSON.parse(row!.input)
    const input = JSON.stringify([a, b, { ...c, id: a.id }, c])
    await accounts.database.use((queries) =>
      queries.update(tables.responses).set({ input }).where(eq(tables.responses.id, id)),
    )
    for (const order of ['asc', 'desc'] as const) {
      const listed: unknown[] = []
      for await (const item of client.responses.inputItems.list(id, { limit: 1, order })) {
        listed.push(item.id)
        if (listed.length > 4) break
      }
      expect(listed).toEqual(order === 'asc' ? [a.id, c.id] : [c.id, a.id])
    }
  })

  test('gives items without an id their own', async () => {
    const input = ['a', 'b'].map((content) => ({ id: '', type: 'message', role: 'user', content }) as const)
    const { id } = await client.responses.create({ model, input })
    const { data } = await client.responses.inputItems.list(id)
    expect(new Set(data.map((item) => item.id)).size).toBe(2)
    expect(data.every((item) => item.id!.startsWith('msg_'))).toBe(true)
  })

  test('with its texts of any kind comes back as it was', async () => {
    const text = 'NUL \u0000, half \ud800, "quotes", \\u0000, 😀'
    const metadata = { 'a\u0000': '\\"' }
    const first = await client.responses.create({ model, input: text, metadata })
    expect(await client.responses.retrieve(first.id)).toMatchObject({ metadata })
    await client.responses.create({ model, input: 'And?', previous_response_id: first.id })
    expect(promptText(server.engine)).toContain('"quotes", \\u0000, 😀')
  })

  test('that has lost a part is refused, and so is one that is too long', async () => {
    const ids: string[] = []
    for (let turn = 0; turn < 3; turn++) {
      const previous_response_id = ids.at(-1) ?? null
      ids.push((await client.responses.create({ model, input: `Turn ${turn}`, previous_response_id })).id)
    }
    const goOn = () => client.responses.create({ model, input: 'And?', previous_response_id: ids.at(-1)! })
    await accounts.database.use((queries) =>
      queries
        .update(tables.responses)
        .set({ depth: 100 })
        .where(and(eq(tables.responses.organisationId, organisation), eq(tables.responses.id, ids.at(-1)!))),
    )
    await expect(goOn()).rejects.toMatchObject({ status: 400, param: 'previous_response_id' })
    await expect(goOn()).rejects.toThrow('at most 100 responses')
    await client.responses.delete(ids[1]!)
    await expect(goOn()).rejects.toMatchObject({ status: 400, code: 'previous_response_not_found' })
    await expect(goOn()).rejects.toThrow(`'${ids[1]}', was deleted or has expired`)
  })
})

describe('a stored response', () => {
  test('is retrieved as it was, and deleted', async () => {
    const stream = client.responses.stream({ model, input: 'Hi', metadata: { a: 'b' } })
    const { output_text: _, output_parsed: __, ...said } = await stream.finalResponse()
    const { output_text: ___, ...found } = await client.responses.retrieve(said.id)
    expect(found).toEqual(JSON.parse(JSON.stringify({ ...said, output: found.output })))
    expect(found).toMatchObject({ status: 'completed', store: true, output: [{ content: [{ text: 'Hello there.' }] }] })
    await client.responses.delete(said.id)
    await expect(client.responses.retrieve(said.id)).rejects.toThrow(OpenAI.NotFoundError)
    await expect(client.responses.delete(said.id)).rejects.toThrow(OpenAI.NotFoundError)
  })

  test('is stored by default, and not with store: false', async () => {
    const not = await client.responses.create({ model, input: [showing(newPicture())], store: false })
    expect(not).toMatchObject({ store: false })
    await expect(client.responses.retrieve(not.id)).rejects.toThrow(OpenAI.NotFoundError)
    expect([await rows(), await files(), await storedBytes()]).toEqual([[], [], 0])
    expect(await client.responses.create({ model, input: 'Hi' })).toMatchObject({ store: true })
    expect(await rows()).toHaveLength(1)
  })

  test('lists its input, newest first, page by page', async () => {
    const input = Array.from({ length: 5 }, (_, i) => ({ role: 'user' as const, content: `Message ${i}` }))
    const { id } = await client.responses.create({ model, input, instructions: 'Be brief.' })
    const first = await client.responses.inputItems.list(id, { limit: 2 })
    expect(first.data).toMatchObject([
      { type: 'message', role: 'user', status: 'completed', content: [{ type: 'input_text', text: 'Message 4' }] },
      { content: [{ text: 'Message 3' }] },
    ])
    expect(first.has_more).toBe(true)
    const all: unknown[] = []
    for await (const item of client.responses.inputItems.list(id, { limit: 2, order: 'asc' })) all.push(item)
    expect(all).toHaveLength(5)
    expect(new Set(all.map((item) => (item as { id: string }).id)).size).toBe(5)
    for (const [query, param] of [
      [{ limit: 0 }, 'limit'],
      [{ limit: 101 }, 'limit'],
      [{ order: 'up' }, 'order'],
      [{ after: 'msg_x' }, 'after'],
    ] as const) {
      await expect(client.responses.inputItems.list(id, query as object)).rejects.toMatchObject({ status: 400, param })
    }
  })

  test('cannot be cancelled, or streamed again', async () => {
    const { id } = await client.responses.create({ model, input: 'Hi' })
    await expect(client.responses.cancel(id)).rejects.toMatchObject({ status: 400, param: 'response_id' })
    await expect(client.responses.cancel('resp_x')).rejects.toThrow(OpenAI.NotFoundError)
    await expect(client.responses.retrieve(id, { stream: true })).rejects.toMatchObject({
      status: 400,
      param: 'stream',
    })
  })

  test('does not exist for other organisations', async () => {
    const { id, output } = await client.responses.create({ model, input: [showing(newPicture())] })
    const [file] = await files()
    const { client: other } = await newOrganisation()
    for (const attempt of [
      () => other.responses.retrieve(id),
      () => other.responses.delete(id),
      () => other.responses.cancel(id),
      () => other.responses.inputItems.list(id),
      () => other.files.content(file!.id),
    ]) {
      await expect(attempt()).rejects.toThrow(OpenAI.NotFoundError)
    }
    await expect(other.responses.create({ model, input: 'Hi', previous_response_id: id })).rejects.toMatchObject({
      status: 400,
      code: 'previous_response_not_found',
    })
    const reference = { type: 'item_reference' as const, id: output[0]!.id! }
    await expect(other.responses.create({ model, input: [reference] })).rejects.toMatchObject({ param: 'input[0].id' })
    expect((await client.responses.retrieve(id)).id).toBe(id)
  })

  test('counts towards the storage quota', async () => {
    const picture = newPicture()
    const limited = await newOrganisation({ storedBytes: picture.length + 8_000 })
    const input = [showing(picture)]
    const first = await limited.client.responses.create({ model, input })
    // The same picture takes no room, another one does.
    const second = await limited.client.responses.create({ model, input })
    const works = server.engine.works.length
    await expect(limited.client.responses.create({ model, input: [showing(newPicture())] })).rejects.toMatchObject({
      status: 413,
      type: 'insufficient_quota',
    })
    expect(server.engine.works).toHaveLength(works)
    expect(await files(limited.organisation)).toHaveLength(1)
    await limited.client.responses.create({ model, input: [showing(newPicture())], store: false })
    for (const { id } of [first, second]) await limited.client.responses.delete(id)
    expect(await storedBytes(limited.organisation)).toBe(0)
    await limited.client.responses.create({ model, input: [showing(newPicture())] })
  })

  test('needs a key of scope inference', async () => {
    const { key } = await accounts.accounts.createKey({ organisation, scopes: ['files'] })
    for (const path of ['', '/resp_x', '/resp_x/input_items']) {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      const response = await fetch(`${server.url}/v1/responses${path}`, {
        headers,
        method: path === '' ? 'POST' : 'GET',
        ...(path === '' ? { body: '{}' } : {}),
      })
      expect(response.status).toBe(403)
      expect((await errorOf(response)).code).toBe('insufficient_scope')
    }
  })
})

test('a request gets a row of usage', async () => {
  await client.responses.create({ model, input: 'Hi', stream: true }).then(async (stream) => {
    for await (const _ of stream);
  })
  const used = () =>
    accounts.database.use((queries) =>
      queries.select().from(tables.usage).where(eq(tables.usage.organisationId, organisation)),
    )
  await expect
    .poll(used)
    .toMatchObject([{ endpoint: 'responses', status: 200, finish: 'stop', completionTokens: 2, model }])
})

test('responses expire, and what they had is removed', async () => {
  const brief = await startTestServer({ environment: { LOOKOUT_RESPONSE_DAYS: String(0.3 / 86_400) } })
  const expiring = await newOrganisation({}, brief.url)
  const { id } = await expiring.client.responses.create({ model, input: [showing(newPicture())] })
  await expect
    .poll(() => expiring.client.responses.retrieve(id).catch((error: unknown) => error))
    .toBeInstanceOf(OpenAI.NotFoundError)
  await brief.close()
  // A server that sweeps now removes it: the next one when it starts, or another one before.
  const next = await startTestServer({ environment: { LOOKOUT_RESPONSE_DAYS: '0' } })
  onTestFinished(() => next.close())
  await expect.poll(() => rows(expiring.organisation)).toEqual([])
  await expect.poll(() => storedBytes(expiring.organisation)).toBe(0)
  expect(await files(expiring.organisation)).toEqual([])
  // It stores nothing itself.
  const { client } = await newOrganisation({}, next.url)
  const unstored = await client.responses.create({ model, input: 'Hi' })
  expect(unstored).toMatchObject({ store: false })
  await expect(client.responses.retrieve(unstored.id)).rejects.toThrow(OpenAI.NotFoundError)
})

test.each([
  [30, 'a minute', 60_000],
  [30, 'half a day less than the next', 29.5 * 86_400_000],
  [0.5, 'an hour less than the next', 11 * 3_600_000],
])('kept for %d days, a conversation that goes on keeps its beginning, which had %s', async (days, _, leftMs) => {
  const other = await startTestServer({ environment: { LOOKOUT_RESPONSE_DAYS: String(days) } })
  onTestFinished(() => other.close())
  const { client, organisation } = await newOrganisation({}, other.url)
  const first = await client.responses.create({ model, input: 'Hi' })
  const soon = new Date(Date.now() + leftMs)
  await accounts.database.use((queries) =>
    queries.update(tables.responses).set({ expiresAt: soon }).where(eq(tables.responses.id, first.id)),
  )
  await client.responses.create({ model, input: 'And?', previous_response_id: first.id })
  const [earlier, newest] = (await rows(organisation)).map(({ expiresAt }) => expiresAt.getTime())
  expect(newest).toBeGreaterThan(Date.now() + (days * 86_400_000) / 2)
  expect(earlier).toBe(newest)
})

/** @param beside whether another server runs all the time; else one is started after the first was killed. */
async function survives(environment: Record<string, string>, beside: boolean): Promise<void> {
  const start = (): Promise<SilentServer> => startSilentServer({ LOOKOUT_API_KEY: KEY, ...environment })
  const clientOf = ({ url }: SilentServer) => new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY, maxRetries: 0 })
  const kill = async ({ child }: SilentServer) => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const exit = once(child, 'exit')
    child.kill('SIGKILL')
    await exit
  }
  const started = start()
  const other = beside ? start() : null
  onTestFinished(async () => {
    for (const server of [started, other]) if (server) await kill(await server)
  })
  const picture = newPicture()
  const first = await clientOf(await started).responses.create({ model, input: [showing(picture)] })
  await kill(await started)
  const survivor = await (other ?? start())
  onTestFinished(() => kill(survivor))
  const next = clientOf(survivor)
  expect(await next.responses.retrieve(first.id)).toMatchObject({ id: first.id, output_text: first.output_text })
  const { id } = await next.responses.create({ model, input: 'And?', previous_response_id: first.id })
  const { data } = await next.responses.inputItems.list(id, { order: 'asc' })
  expect(data.map((item) => 'role' in item && item.role)).toEqual(['user', 'assistant', 'user'])
  const image = (data[0] as OpenAI.Responses.ResponseInputMessageItem).content[1]
  const content = await next.files.content((image as OpenAI.Responses.ResponseInputImage).file_id!)
  expect(Buffer.from(await content.arrayBuffer()).equals(picture)).toBe(true)
}

async function newDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'lookout-responses-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }))
  return directory
}

test('a conversation outlives a server that is killed, with the embedded database', async () => {
  await survives({ LOOKOUT_DATA_DIR: await newDirectory() }, false)
})

test('a conversation outlives a server that is killed, on another server with PostgreSQL', async ({ skip }) => {
  const postgres = await createTestDatabase()
  if (postgres === null) return skip('PostgreSQL is not running')
  onTestFinished(() => postgres.drop())
  const directory = await newDirectory()
  await survives(
    { LOOKOUT_DATA_DIR: directory, LOOKOUT_BLOBS: join(directory, 'blobs'), DATABASE_URL: postgres.url },
    true,
  )
})
