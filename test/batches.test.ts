import { readFileSync } from 'node:fs'
import type OpenAI from 'openai'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { Accounts } from '../src/accounts/accounts.ts'
import { Database } from '../src/storage/database.ts'
import { eq } from '../src/storage/drizzle.ts'
import type { OrganisationLimits } from '../src/storage/schema.ts'
import * as tables from '../src/storage/schema.ts'
import { BatchClient, CHAT, chatBody, chatLines } from './support/batches.ts'
import { CutProxy } from './support/cut-proxy.ts'
import { openEmbeddedDatabase } from './support/embedded-database.ts'
import { jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'
import { through } from './support/services.ts'

const SHAPES = `data:image/png;base64,${readFileSync('docs/pictures/shapes.png').toString('base64')}`

let server: TestServer
let client: BatchClient
let database: Database
beforeAll(async () => {
  // A database of its own: servers of other tests are not to see its batches.
  server = await startTestServer({
    environment: { DATABASE_URL: '', LOOKOUT_BATCH_LINES: '4' },
    batches: { pollMs: 50 },
  })
  client = new BatchClient(server.url, KEY)
  database = await Database.open({ url: null, directory: `${server.directory}/database`, cacheDirectory: '' })
})
afterAll(async () => {
  await database?.close()
  await server?.close()
})
afterEach(() => {
  server.engine.script = { texts: ['Hello', ' there.'] }
})

async function clientOf(name: string, limits: OrganisationLimits = {}) {
  const accounts = new Accounts(database)
  await accounts.createOrganisation(name, limits)
  const { key, about } = await accounts.createKey({ organisation: name })
  return { client: new BatchClient(server.url, key), revoke: () => accounts.revokeKey(about.id) }
}

const ids = (lines: readonly { readonly custom_id: string }[]) => lines.map(({ custom_id }) => custom_id).sort()

/** Waits until the engine has been asked for `count` more replies than `since`. */
async function asked(count: number, since: number): Promise<void> {
  await expect.poll(() => server.engine.works.length - since, { interval: 10 }).toBeGreaterThanOrEqual(count)
}

describe('a batch', () => {
  test('runs each line and gives the responses as a file', async () => {
    const lines = chatLines(20)
    const metadata = JSON.parse('{"night": "first", "__proto__": "kept"}')
    const started = await client.start(lines, { metadata } as object)
    expect(started).toMatchObject({
      object: 'batch',
      status: 'validating',
      endpoint: CHAT,
      completion_window: '24h',
      errors: null,
      output_file_id: null,
      request_counts: { total: 0, completed: 0, failed: 0 },
    })
    expect(JSON.stringify(started.metadata)).toBe(JSON.stringify(metadata))
    const ended = await client.ended(started.id)
    expect(ended).toMatchObject({ status: 'completed', request_counts: { total: 20, completed: 20, failed: 0 } })
    expect(ended.completed_at).toBeGreaterThanOrEqual(ended.in_progress_at!)
    expect(ended.error_file_id).toBeNull()
    const { output } = await client.outputOf(ended)
    expect(ids(output)).toEqual(ids(lines))
    expect(output[0]).toMatchObject({
      id: expect.stringMatching(/^batch_req_/),
      response: {
        status_code: 200,
        request_id: expect.stringMatching(/^[0-9a-f]{32}$/),
        body: { object: 'chat.completion', choices: [{ message: { content: 'Hello there.' } }] },
      },
      error: null,
    })
    const file = await client.openai.files.retrieve(ended.output_file_id!)
    expect(file).toMatchObject({ purpose: 'batch_output', filename: `${ended.id}_output.jsonl` })
    // OpenAI's client for Ruby would parse lines of another type.
    const { headers } = await client.openai.files.content(file.id)
    expect(headers.get('content-type')).toBe('application/octet-stream')
    const outputs = await client.openai.files.list({ purpose: 'batch_output' })
    expect(outputs.data.map(({ id }) => id)).toContain(file.id)
  })

  test.each([
    [
      `${CHAT}/multilook`,
      { context: [{ role: 'user', content: 'Look.' }], prompts: ['a', 'b'] },
      { object: 'chat.completion.multilook', results: [{}, {}] },
    ],
    ['/v1/completions', { prompt: 'Hello' }, { object: 'text_completion', choices: [{ text: 'Hello there.' }] }],
    ['/v1/responses', { input: 'Hello' }, { object: 'response', status: 'completed', store: true }],
    [
      '/v1/messages',
      { max_tokens: 9, messages: [{ role: 'user', content: 'Hello' }] },
      { type: 'message', content: [{ type: 'text', text: 'Hello there.' }] },
    ],
    [
      '/v1/detect',
      { media: { type: 'image', image_url: SHAPES }, categories: ['circle'], config: { confidence: true } },
      { detections: [], categories: [{ mention: 'circle' }], confidence: { calibrated: true } },
    ],
    [
      '/v1/decisions',
      { input: 'A story.', questions: [{ type: 'predicate', instructions: 'Is it sad?' }] },
      { answers: [{ type: 'predicate', name: null }] },
    ],
  ])('of %s runs as well', async (url, fields, expected) => {
    const body = { model: 'service-mk1.5', ...fields }
    const ended = await client.ended((await client.start([{ custom_id: 'one', body }], { url })).id)
    const { output } = await client.outputOf(ended)
    expect(output[0]!.response!.body).toMatchObject(expected)
  })

  test('of another API has errors in the words of that', async () => {
    const schema = { type: 'object', required: ['response_format'] }
    const text = { format: { type: 'json_schema', name: 'a', schema } }
    const file = { type: 'input_image', file_id: 'messages[0].content' }
    const line = (custom_id: string, fields: object) => ({ custom_id, body: { model: 'service-mk1.5', ...fields } })
    const lines = [
      line('schema', { input: 'Hello', text }),
      line('file', { input: [{ role: 'user', content: [file] }] }),
    ]
    server.engine.script = { texts: ['{}'] }
    const ended = await client.ended((await client.start(lines, { url: '/v1/responses' })).id)
    const { errors } = await client.outputOf(ended)
    const found = Object.fromEntries(errors.map((line) => [line.custom_id, line.response?.body.error]))
    const reason = "must have required property 'response_format'"
    expect(found).toMatchObject({
      schema: { message: `The reply does not match the text.format: ${reason}`, param: 'text.format' },
      file: { message: 'No such File object: messages[0].content', param: 'input[0].content[0].file_id' },
    })
  })

  test('with lines that are no valid requests gives these their errors, and the others their replies', async () => {
    const lines = [
      { custom_id: 'good', body: chatBody('Hello') },
      { custom_id: 'model', body: { ...chatBody('Hello'), model: 'nobody' } },
      { custom_id: 'hot', body: chatBody('Hello', { temperature: 3 }) },
      { custom_id: 'stream', body: chatBody('Hello', { stream: true }) },
      { custom_id: 'calm', body: chatBody('Hello', { stream: false }) },
    ]
    const ended = await client.ended((await client.start(lines)).id)
    expect(ended).toMatchObject({ status: 'completed', request_counts: { total: 5, completed: 2, failed: 3 } })
    const { output, errors } = await client.outputOf(ended)
    expect(ids(output)).toEqual(['calm', 'good'])
    const found = Object.fromEntries(errors.map((line) => [line.custom_id, line.response]))
    expect(found).toMatchObject({
      model: { status_code: 400, body: { error: { message: "Model 'nobody' does not exist" } } },
      hot: { status_code: 400, body: { error: { param: 'temperature', code: 'invalid_temperature' } } },
      stream: { status_code: 400, body: { error: { param: 'stream' } } },
    })
    // Over HTTP, the same request gets the same error.
    const direct = await server.post(CHAT, lines[2]!.body)
    expect(await jsonOf(direct)).toEqual(found.hot!.body)
  })

  test('settles lines that end at once together, in order, each once', async () => {
    const lines = Array.from({ length: 1_500 }, (_, index) => ({
      custom_id: `${index}`,
      body: index % 500 === 499 ? chatBody('Hello') : { ...chatBody('Hello'), model: 'nobody' },
    }))
    const writes = async () => {
      const { rows } = await database.use((queries) => queries.execute('select pg_current_xact_id()::text as id'))
      return Number(rows[0]!.id)
    }
    const before = await writes()
    const ended = await client.ended((await client.start(lines)).id, 60_000)
    expect(ended.request_counts).toEqual({ total: 1_500, completed: 3, failed: 1_497 })
    // Each of them alone would take two transactions, one to take it and one to keep its result.
    expect((await writes()) - before).toBeLessThan(lines.length / 2)
    const { output, errors } = await client.outputOf(ended)
    expect(ids([...output, ...errors])).toEqual(ids(lines))
    expect(new Set(errors.map(({ response }) => response?.status_code))).toEqual(new Set([400]))
  })

  test('with a file of odd lines runs what they mean', async () => {
    const line = (custom_id: string, text: string) =>
      JSON.stringify({ custom_id, method: 'POST', url: CHAT, body: chatBody(text) })
    const ended = await client.ended(
      (
        await client.start(
          `\ufeff${line('__proto__', 'a')}\r\n\r\n\ufeff${line('x'.repeat(512), 'é😀')}\n  ${line('last', 'c')}`,
        )
      ).id,
    )
    expect(ended).toMatchObject({ status: 'completed', request_counts: { total: 3, completed: 3 } })
    const { output } = await client.outputOf(ended)
    expect(ids(output)).toEqual(['__proto__', 'last', 'x'.repeat(512)])
  })

  test('whose input is not valid fails, and says in which lines', async () => {
    const good = JSON.stringify({ custom_id: 'a', method: 'POST', url: CHAT, body: chatBody('Hello') })
    const ended = await client.ended((await client.start(`${good}\n{"custom_id"\n\n${good}\n`)).id)
    expect(ended).toMatchObject({ status: 'failed', output_file_id: null, error_file_id: null })
    expect(ended.errors?.object).toBe('list')
    expect(ended.errors?.data).toEqual([
      { code: 'invalid_json_line', message: 'The line is not valid JSON', param: null, line: 2 },
      { code: 'duplicate_custom_id', message: expect.stringContaining('line 1'), param: 'custom_id', line: 4 },
    ])
  })

  test('that is cancelled has the replies up to then, and says which lines were not run', async () => {
    server.engine.script = { texts: ['slow'], endless: true }
    const before = server.engine.works.length
    const lines = chatLines(12)
    const { id } = await client.start(lines)
    await asked(4, before)
    const cancelling = await client.openai.batches.cancel(id)
    expect(cancelling.status).toBe('cancelling')
    const ended = await client.ended(id)
    expect(ended).toMatchObject({ status: 'cancelled', request_counts: { total: 12, completed: 0 } })
    const { output, errors } = await client.outputOf(ended)
    expect(ids([...output, ...errors])).toEqual(ids(lines))
    expect(errors[0]).toMatchObject({ response: null, error: { code: 'batch_cancelled' } })
    expect(server.engine.works.length - before).toBe(4)
    // Once more does no harm; a batch that has ended by itself cannot be cancelled.
    expect((await client.openai.batches.cancel(id)).status).toBe('cancelled')
  })

  test('whose window ends has the replies up to then', async () => {
    server.engine.script = { texts: ['slow'], endless: true }
    const before = server.engine.works.length
    const lines = chatLines(6)
    const { id } = await client.start(lines)
    await asked(4, before)
    await database.use((queries) =>
      queries.update(tables.batches).set({ expiresAt: new Date() }).where(eq(tables.batches.id, id)),
    )
    const ended = await client.ended(id)
    expect(ended).toMatchObject({ status: 'expired', request_counts: { total: 6, completed: 0 } })
    expect(ended.expired_at).not.toBeNull()
    const { errors } = await client.outputOf(ended)
    expect(ids(errors)).toEqual(ids(lines))
    expect(errors[0]!.error?.code).toBe('batch_expired')
  })

  test('whose input is deleted meanwhile fails, and keeps what it has', async () => {
    server.engine.script = { texts: ['slow', ' reply'], delayMs: 40 }
    const before = server.engine.works.length
    const started = await client.start(chatLines(400))
    await asked(4, before)
    await client.openai.files.delete(started.input_file_id)
    const ended = await client.ended(started.id)
    expect(ended).toMatchObject({ status: 'failed', errors: { data: [{ code: 'input_file_deleted' }] } })
    const { output, errors } = await client.outputOf(ended)
    expect(output.length).toBeGreaterThan(0)
    expect(ids([...output, ...errors])).toEqual(ids(chatLines(400)))
  })

  test('is charged for as its organisation and its key, and stops at the budget with the error of HTTP', async () => {
    server.engine.script = { texts: ['one', ' two'], tokensPerText: 1_000_000 }
    const { client: poor } = await clientOf('poor', { monthlyCredits: 1 })
    const ended = await poor.ended((await poor.start(chatLines(12))).id)
    expect(ended.status).toBe('completed')
    const { output, errors } = await poor.outputOf(ended)
    expect(output.length).toBeGreaterThan(0)
    expect(errors.length).toBeGreaterThan(0)
    expect(errors.at(-1)!.response).toMatchObject({
      status_code: 429,
      body: { error: { code: 'rate_limit_exceeded', message: expect.stringMatching(/^Monthly budget reached/) } },
    })
    await expect
      .poll(async () => {
        const rows = await database.use((queries) =>
          queries.execute("select * from usage where organisation_id = 'poor'"),
        )
        return rows.rows.filter((row) => row.status === 200 && row.endpoint === 'chat').length
      })
      .toBe(output.length)
  })

  test('runs no further lines for a key that is revoked', async () => {
    server.engine.script = { texts: ['slow', ' reply'], delayMs: 50 }
    const { client: left, revoke } = await clientOf('left')
    const before = server.engine.works.length
    const { id } = await left.start(chatLines(400))
    await asked(4, before)
    await revoke()
    const other = new BatchClient(server.url, (await new Accounts(database).createKey({ organisation: 'left' })).key)
    const ended = await other.ended(id)
    const { output, errors } = await other.outputOf(ended)
    expect(ids([...output, ...errors])).toEqual(ids(chatLines(400)))
    expect(errors.at(-1)!.response).toMatchObject({ status_code: 401, body: { error: { message: 'Invalid API key' } } })
  })

  test('with a reply of more than 32 MiB, in bytes, has an error for it', async () => {
    server.engine.script = { texts: ['é'.repeat(17 * 2 ** 20)] }
    const ended = await client.ended((await client.start(chatLines(1))).id, 120_000)
    expect((await client.outputOf(ended)).errors).toMatchObject([
      { error: { code: 'server_error', message: 'The response is larger than 32 MiB' } },
    ])
  }, 150_000)

  test('with a reply that the database does not take has an error for it, and the other replies', async () => {
    await database.use((queries) =>
      queries.execute(`create or replace function refuse_one() returns trigger language plpgsql as $$
        begin
          if new.custom_id = 'line-1' and not new.failed then raise 'no memory' using errcode = 'out_of_memory'; end if;
          return new;
        end $$;
        create trigger refuse_one before update of result on batch_lines for each row execute function refuse_one()`),
    )
    try {
      const ended = await client.ended((await client.start(chatLines(3))).id, 120_000)
      const { output, errors } = await client.outputOf(ended)
      expect(ids(output)).toEqual(['line-0', 'line-2'])
      expect(errors).toMatchObject([
        { custom_id: 'line-1', error: { code: 'server_error', message: 'The response could not be stored' } },
      ])
    } finally {
      await database.use((queries) => queries.execute('drop trigger refuse_one on batch_lines'))
    }
  }, 150_000)

  test('stops on a server whose lines another one has taken', async () => {
    const own = await openEmbeddedDatabase()
    onTestFinished(() => own.drop())
    const proxy = await CutProxy.toDatabase(own.url)
    const start = async (url: string) => {
      const environment = { DATABASE_URL: url, LOOKOUT_BLOBS: `${server.directory}/shared`, LOOKOUT_BATCH_LINES: '4' }
      const one = await startTestServer({ environment, batches: { pollMs: 50, leaseMs: 1_000 } })
      onTestFinished(() => one.close())
      one.engine.script = { texts: ['slow'], endless: true }
      return one
    }
    const lost = await start(through(own.url, proxy.port))
    await new BatchClient(lost.url, KEY).start(chatLines(2))
    await expect.poll(() => lost.engine.generating).toBe(2)
    const other = await start(own.url)
    await proxy.cut()
    await expect.poll(() => other.engine.generating).toBe(2)
    await proxy.mend()
    await expect.poll(() => lost.engine.generating).toBe(0)
    expect(other.engine.generating).toBe(2)
  })

  test('of another organisation is not there', async () => {
    const { client: other } = await clientOf('other')
    const mine = await client.start(chatLines(1))
    for (const act of [
      () => other.openai.batches.retrieve(mine.id),
      () => other.openai.batches.cancel(mine.id),
      () => client.openai.batches.retrieve('batch_none'),
    ]) {
      await expect(act()).rejects.toMatchObject({ status: 404, param: 'id', type: 'invalid_request_error' })
    }
    expect((await other.openai.batches.list()).data).toEqual([])
    await expect(
      other.openai.batches.create({
        input_file_id: mine.input_file_id,
        endpoint: CHAT,
        completion_window: '24h',
      } as OpenAI.BatchCreateParams),
    ).rejects.toMatchObject({ status: 400, param: 'input_file_id' })
  })

  test('is listed, newest first, in pages', async () => {
    const { client: one } = await clientOf('lister')
    const input = await one.upload(chatLines(1))
    const made: string[] = []
    for (let count = 0; count < 5; count++) {
      const params = { input_file_id: input, endpoint: CHAT, completion_window: '24h' }
      made.unshift((await one.openai.batches.create(params as OpenAI.BatchCreateParams)).id)
    }
    const listed: string[] = []
    for await (const batch of one.openai.batches.list({ limit: 2 })) listed.push(batch.id)
    expect(listed).toEqual(made)
    await Promise.all(made.map((id) => one.ended(id)))
  })

  test('keeps its output for as long as it is told', async () => {
    const output_expires_after = { anchor: 'created_at', seconds: 3_600 }
    const ended = await client.ended((await client.start(chatLines(1), { output_expires_after } as object)).id)
    const file = await client.openai.files.retrieve(ended.output_file_id!)
    expect(file.expires_at! - file.created_at).toBeCloseTo(3_600, -1)
    await database.use((queries) =>
      queries.execute(`update files set expires_at = now() - interval '1 second' where id = '${file.id}'`),
    )
    await expect(client.openai.files.retrieve(file.id)).rejects.toMatchObject({ status: 404 })
    await expect(client.openai.files.content(file.id)).rejects.toMatchObject({ status: 404 })
  })

  test.each([
    ['an unknown endpoint', { endpoint: '/v1/audio/speech' }, 'endpoint'],
    ['an input that is no file', { input_file_id: 'file-x' }, 'input_file_id'],
    ['an endless window', { completion_window: '99d' }, 'completion_window'],
    ['metadata that are no texts', { metadata: { a: 1 } }, 'metadata.a'],
    ['metadata with a zero byte', { metadata: { a: 'x\0' } }, 'metadata.a'],
    ['metadata with half a character', { metadata: { a: '\ud800' } }, 'metadata.a'],
    ['a name of metadata with a zero byte', { metadata: { 'a\0': 'x' } }, /^metadata/, /NUL/],
    ['a long name of metadata', { metadata: { ['a'.repeat(65)]: 'x' } }, /^metadata/, /at most 64 characters/],
    ['an output that ends too soon', { output_expires_after: { anchor: 'created_at', seconds: 1 } }, /^output_exp/],
  ])('with %s is refused', async (_name, fields, param, message = /./) => {
    const input_file_id = await client.upload(chatLines(1))
    const response = await server.post('/v1/batches', {
      input_file_id,
      endpoint: CHAT,
      completion_window: '24h',
      ...fields,
    })
    expect(response.status).toBe(400)
    const { error } = await jsonOf<{ error: { param: string; message: string } }>(response)
    expect(error.param).toEqual(param instanceof RegExp ? expect.stringMatching(param) : param)
    expect(error.message).toMatch(message)
  })

  test('takes no picture for its input, and no input for a picture', async () => {
    const png = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1')
    const refused = (fields: { purpose: 'batch' | 'vision'; bytes: Buffer }) => {
      const form = new FormData()
      form.append('file', new File([Buffer.from(fields.bytes)], 'file'))
      form.append('purpose', fields.purpose)
      return fetch(`${server.url}/v1/files`, {
        method: 'POST',
        headers: { authorization: `Bearer ${KEY}` },
        body: form,
      })
    }
    for (const fields of [
      { purpose: 'batch', bytes: png } as const,
      { purpose: 'vision', bytes: Buffer.from('{}\n') } as const,
    ]) {
      const response = await refused(fields)
      expect(response.status).toBe(400)
      expect(await jsonOf(response)).toMatchObject({ error: { param: 'file' } })
    }
  })
})
