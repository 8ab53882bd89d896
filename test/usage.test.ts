import { appendFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { inspect } from 'node:util'
import { eq, type SQL } from 'drizzle-orm'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { Accounts } from '../src/accounts/accounts.ts'
import { UsageLedger } from '../src/accounts/usage-ledger.ts'
import { usage } from '../src/commands/accounts/usage.ts'
import { Database } from '../src/storage/database.ts'
import * as tables from '../src/storage/schema.ts'
import { TestAccounts } from './support/accounts.ts'
import { BatchClient, chatLines } from './support/batches.ts'
import { outcomeHere } from './support/command-line.ts'
import { makePdf } from './support/pdf.ts'
import { errorOf, KEY, startTestServer, type TestServer } from './support/server.ts'

const model = 'service-mk1.5'
let server: TestServer
let accounts: TestAccounts
beforeAll(async () => {
  accounts = await TestAccounts.open()
  server = await startTestServer()
})
afterAll(async () => {
  await server?.close()
  await accounts?.close()
})

const post = (key: string, path: string, body: object, signal?: AbortSignal) =>
  fetch(`${server.url}/v1/${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, ...body }),
    signal: signal ?? null,
  })
const messages = [{ role: 'user', content: 'Hi' }]

async function rowsOf(organisation: string, count: number) {
  const read = () =>
    accounts.database.use((queries) =>
      queries.select().from(tables.usage).where(eq(tables.usage.organisationId, organisation)).orderBy(tables.usage.at),
    )
  await expect.poll(async () => (await read()).length).toBe(count)
  return read()
}

/** What the command prints. */
async function usageOf(organisation: string, ...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await outcomeHere(usage, ['--org', organisation, ...args], {
    LOOKOUT_DATA_DIR: server.directory,
    DATABASE_URL: inject('databaseUrl'),
  })
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return stdout
}

test('every request that reaches a model gets one row, however it ends', async () => {
  const { organisation, key, keyId } = await accounts.organisation()
  const whole = await post(key, 'chat/completions', { messages })
  const traces = [whole.headers.get('x-trace-id')]
  const { usage } = (await whole.json()) as { usage: { prompt_tokens: number; completion_tokens: number } }

  const stream = await post(key, 'chat/completions', { messages, stream: true })
  traces.push(stream.headers.get('x-trace-id'))
  await stream.text()

  const many = await post(key, 'chat/completions/multilook', { context: messages, prompts: ['a', 'b', 'c'] })
  traces.push(many.headers.get('x-trace-id'))
  const multilook = (await many.json()) as { usage: { prompt_tokens: number; completion_tokens: number } }

  server.engine.script = { texts: ['tick'], delayMs: 5, endless: true }
  const leaving = new AbortController()
  const left = await post(key, 'chat/completions', { messages, stream: true }, leaving.signal)
  traces.push(left.headers.get('x-trace-id'))
  const reader = left.body!.getReader()
  for (let i = 0; i < 3; i++) await reader.read()
  leaving.abort()

  server.engine.script = { refusal: new Error('broken') }
  const failed = await post(key, 'chat/completions', { messages })
  server.engine.script = {}
  expect(failed.status).toBe(500)
  traces.push(failed.headers.get('x-trace-id'))

  // Rejected before they reach a model: no rows.
  expect((await post(key, 'chat/completions', {})).status).toBe(400)
  expect((await post(key, 'chat/completions', { model: 'none', messages })).status).toBe(400)

  const rows = await rowsOf(organisation, 5)
  const row = (trace: string | null) => rows.find(({ traceId }) => traceId === trace)
  const common = { organisationId: organisation, keyId, model, audioTokens: 0 }
  const cost = usage.prompt_tokens * 0.15 + usage.completion_tokens * 1.5
  const chat = {
    ...common,
    endpoint: 'chat',
    status: 200,
    finish: 'stop',
    promptTokens: usage.prompt_tokens,
    completionTokens: usage.completion_tokens,
    cachedTokens: 0,
    credits: expect.closeTo(cost, 5),
  }
  expect(row(traces[0]!)).toMatchObject(chat)
  expect(row(traces[1]!)).toMatchObject(chat)
  const looks = row(traces[2]!)!
  expect(looks).toMatchObject({
    ...common,
    endpoint: 'multilook',
    promptTokens: multilook.usage.prompt_tokens,
    completionTokens: multilook.usage.completion_tokens,
  })
  expect(looks.cachedTokens).toBeGreaterThan(0)
  // Cached tokens cost a quarter of the price.
  const { promptTokens, cachedTokens, completionTokens } = looks
  const price = (promptTokens - cachedTokens) * 0.15 + cachedTokens * 0.0375 + completionTokens * 1.5
  expect(looks.credits).toBeCloseTo(price, 5)
  expect(row(traces[3]!)).toMatchObject({
    ...common,
    status: 499,
    finish: 'aborted',
    promptTokens: usage.prompt_tokens,
  })
  expect(row(traces[3]!)!.completionTokens).toBeGreaterThan(0)
  expect(row(traces[4]!)).toMatchObject({ ...common, status: 500, finish: 'error', promptTokens: 0, credits: 0 })
})

test('the pages that OCR has read are in its row and in the sums', async () => {
  const { organisation, key } = await accounts.organisation()
  const document_url = `data:application/pdf;base64,${makePdf([{}, {}, {}]).toString('base64')}`
  const read = (pages: string) => post(key, 'ocr', { document: { type: 'document_url', document_url }, pages })
  const { usage_info } = (await (await read('0-1')).json()) as { usage_info: object }
  expect(usage_info).toMatchObject({ pages_processed: 2 })
  expect((await read('2')).status).toBe(200)
  expect((await read('3')).status).toBe(400)
  await (await post(key, 'chat/completions', { messages })).text()
  const rows = await rowsOf(organisation, 4)
  expect(rows.map(({ endpoint, status, pages }) => [endpoint, status, pages])).toEqual([
    ['ocr', 200, 2],
    ['ocr', 200, 1],
    ['ocr', 400, 0],
    ['chat', 200, 0],
  ])
  const [ocr] = JSON.parse(await usageOf(organisation, '--json', '--by', 'endpoint')).slice(1)
  expect(ocr).toMatchObject({ endpoint: 'ocr', requests: 3, pages: 3 })
  const each = JSON.parse(await usageOf(organisation, '--rows', '--json'))
  expect(each.map((row: { pages: number }) => row.pages)).toEqual([2, 1, 0, 0])
})

test.each([1, 2, 3, 20])(
  'a stop sequence ends what is charged, also where %i tokens come at once',
  async (textsPerEvent) => {
    const { organisation, key } = await accounts.organisation()
    const texts = ['One', ' two', ', thr', 'ee four', ' five']
    server.engine.script = { texts, textsPerEvent, endless: true }
    const stop_sequences = [', three']
    const asked = { messages, max_tokens: 50, stop_sequences }
    const whole = await post(key, 'messages', asked)
    expect(await whole.json()).toMatchObject({ usage: { output_tokens: 4 }, stop_sequence: ', three' })
    const stream = await post(key, 'messages', { ...asked, stream: true })
    expect(await stream.text()).toContain('"output_tokens":4')
    const rows = await rowsOf(organisation, 2)
    expect(rows.map(({ completionTokens }) => completionTokens)).toEqual([4, 4])
    expect(rows[0]!.credits).toBe(rows[1]!.credits)
    server.engine.script = {}
  },
)

test.each([1, 3, 40])(
  'a search is charged up to where it ends, also where %i tokens come at once',
  async (textsPerEvent) => {
    const { organisation, key } = await accounts.organisation()
    const box = (x: number) => `<point_box mention="cat"> (${x},1) (${x + 2},3) </point_box>\n`
    const url = `data:image/png;base64,${(await readFile('docs/pictures/shapes.png')).toString('base64')}`
    server.engine.script = { texts: [box(1), box(5)], textsPerEvent, endless: true }
    // After eight known objects in a row.
    expect((await post(key, 'detect', { media: { type: 'image', image_url: url } })).status).toBe(200)
    const input = [{ role: 'user', content: [{ type: 'input_image', image_url: url }] }]
    const questions = [{ type: 'x_box', instructions: 'cat' }]
    const decided = await post(key, 'decisions', { input, questions })
    expect(await decided.json()).toMatchObject({ usage: { output_tokens: 1 } })
    const rows = await rowsOf(organisation, 2)
    expect(rows.map(({ completionTokens }) => completionTokens)).toEqual([10, 1])
    server.engine.script = {}
  },
)

test('decisions are recorded with what they read and generate', async () => {
  const { organisation, key } = await accounts.organisation()
  const question = { type: 'predicate', instructions: 'Is it so?' }
  const decided = await post(key, 'decisions', { input: 'A story.', questions: [question, question] })
  const { usage } = (await decided.json()) as {
    usage: { input_tokens: number; input_tokens_details: { cached_tokens: number } }
  }
  const questions = { so: { type: 'noul', instructions: 'Is it so?' } }
  expect((await post(key, 'systemone', { state: 'A story.', questions })).status).toBe(200)
  const rows = await rowsOf(organisation, 2)
  const common = { endpoint: 'decisions', status: 200, finish: 'stop', completionTokens: 0 }
  expect(rows[0]).toMatchObject({
    ...common,
    promptTokens: usage.input_tokens,
    cachedTokens: usage.input_tokens_details.cached_tokens,
  })
  expect(rows[1]).toMatchObject({ ...common, promptTokens: usage.input_tokens / 2, cachedTokens: 0 })
})

test('a client that disconnects is charged for the tokens computed, however many an event has', async () => {
  const { organisation, key } = await accounts.organisation()
  const before = server.engine.emitted
  server.engine.script = { texts: ['tick tock tick '], tokensPerText: 5, delayMs: 5, endless: true }
  const leaving = new AbortController()
  const left = await post(key, 'chat/completions', { messages, stream: true }, leaving.signal)
  const decoder = new TextDecoder()
  let seen = ''
  for await (const chunk of left.body!) {
    seen += decoder.decode(chunk, { stream: true })
    if (seen.split('tock').length > 4) break
  }
  leaving.abort()
  const [row] = await rowsOf(organisation, 1)
  server.engine.script = {}
  expect(row!.completionTokens).toBeGreaterThanOrEqual(5 * (seen.split('tock').length - 1))
  expect(5 * (server.engine.emitted - before) - row!.completionTokens).toBeLessThanOrEqual(5)
})

test('the usage command prints sums or rows', async () => {
  const { organisation, key } = await accounts.organisation()
  for (let i = 0; i < 3; i++) await (await post(key, 'chat/completions', { messages })).text()
  await rowsOf(organisation, 3)
  const lookout = (...args: readonly string[]) => usageOf(organisation, ...args)
  expect(await lookout()).toMatch(new RegExp(`^ORG .*\n${organisation} +${model} +3 +0 +\\d+ +0 +0 +\\d+ `))
  const csv = (await lookout('--csv', '--by', 'endpoint,day')).split('\r\n')
  expect(csv[0]).toMatch(/^endpoint,day,requests,errors,prompt_tokens/)
  expect(csv[1]).toMatch(/^chat,\d{4}-\d\d-\d\d,3,0,/)
  const rows = (await lookout('--rows')).trim().split('\r\n')
  expect(rows).toHaveLength(4)
  expect(rows[1]).toMatch(new RegExp(`^[0-9a-f]{32},\\d{4}-\\d\\d-\\d\\dT[0-9:.]+Z,${organisation},key-`))
  const [summed] = JSON.parse(await lookout('--json'))
  expect(summed).toMatchObject({ org: organisation, model, requests: 3, errors: 0 })
  const each = JSON.parse(await lookout('--rows', '--json'))
  expect(each).toHaveLength(3)
  expect(each[0]).toMatchObject({ organisation, model, endpoint: 'chat', status: 200, audio_tokens: 0 })
  expect(JSON.parse(await lookout('--rows', '--json', '--since', '2000-01-01', '--until', '2001-01-01'))).toEqual([])
})

test('a spent budget rejects the next request, and says when it resets', async () => {
  const { key } = await accounts.organisation({ monthlyCredits: 10 })
  const statuses: number[] = []
  let refused: Response | undefined
  for (let i = 0; i < 40 && !refused; i++) {
    const response = await post(key, 'chat/completions', { messages })
    statuses.push(response.status)
    if (response.status === 200) await response.text()
    else refused = response
  }
  expect(statuses.length).toBeGreaterThan(1)
  expect(refused!.status).toBe(429)
  expect(Number(refused!.headers.get('retry-after'))).toBeGreaterThan(0)
  expect(await errorOf(refused!)).toMatchObject({
    type: 'rate_limit_error',
    code: 'rate_limit_exceeded',
    message: expect.stringMatching(/^Monthly budget reached: 10 credits\. Try again in \d+ seconds\.$/),
  })
})

test('limits of the organisation default hold for the configured key, for its batches, and without a key', async () => {
  // A database of its own: servers of other tests belong to the same organisation.
  const environment = { DATABASE_URL: '', LOOKOUT_OLLAMA: 'on', LOOKOUT_RATE_LIMITS: 'on', LOOKOUT_BATCH_LINES: '2' }
  const limited = await startTestServer({ environment, batches: { pollMs: 50 } })
  const database = await Database.open({ url: null, directory: `${limited.directory}/database`, cacheDirectory: '' })
  try {
    const ask = () => limited.post('/v1/chat/completions', { model, messages })
    const batches = new BatchClient(limited.url, KEY)
    const file = await batches.upload(chatLines(1))
    expect((await ask()).status).toBe(200)

    const limits = { requestsPerMinute: { models: 7_000 }, monthlyCredits: 0, storedBytes: 0 }
    await new Accounts(database).setLimits('default', () => limits)
    const limit = async () => (await limited.get('/v1/models')).headers.get('x-ratelimit-limit-requests')
    await expect.poll(limit, { timeout: 20_000 }).toBe('7000')

    const refused = await ask()
    expect([refused.status, (await errorOf(refused)).message]).toEqual([429, expect.stringMatching(/^Monthly budget/)])
    const unkeyed = await fetch(`${limited.url}/api/chat`, {
      method: 'POST',
      body: JSON.stringify({ model, messages }),
    })
    expect([unkeyed.status, await unkeyed.json()]).toEqual([429, { error: expect.stringMatching(/^Monthly budget/) }])
    await expect(batches.upload(chatLines(1))).rejects.toThrow(/^413 Storage quota exceeded/)

    const { id } = await batches.openai.batches.create({
      ...{ input_file_id: file, endpoint: '/v1/chat/completions', completion_window: '24h' },
    })
    const { errors } = await batches.outputOf(await batches.ended(id))
    expect(errors.map(({ response }) => response?.status_code)).toEqual([429])
  } finally {
    await database.close()
    await limited.close()
  }
})

const recordOf = (organisation: string, n: number) => ({
  traceId: `${organisation}-${n}`,
  at: new Date().toISOString(),
  organisation,
  key: 'k',
  model,
  endpoint: 'chat',
  status: 200,
  finish: 'stop',
  promptTokens: n,
  completionTokens: 1,
  cachedTokens: 0,
  audioTokens: 0,
  pages: 0,
  latencyMs: 1,
  credits: 2,
})

test('what a crash leaves in the journal is in the ledger after the next start, once', async () => {
  const { organisation } = await accounts.organisation()
  const crashed = await startTestServer()
  const ledger = join(crashed.directory, 'ledger')
  await mkdir(ledger, { recursive: true })
  const record = (n: number) => recordOf(organisation, n)
  // The journal of a process that has ended, with one row twice and the last line cut off.
  const file = join(ledger, '999999999-000000000000001-000000000.jsonl')
  await writeFile(file, [1, 2, 2, 3].map((n) => `${JSON.stringify(record(n))}\n`).join(''))
  await appendFile(file, JSON.stringify(record(4)).slice(0, 40))
  const next = await startTestServer({ environment: { LOOKOUT_DATA_DIR: crashed.directory } })
  const rows = await rowsOf(organisation, 3)
  expect(rows.map(({ promptTokens }) => promptTokens).sort()).toEqual([1, 2, 3])
  const [spent] = await accounts.database.use((queries) =>
    queries.select().from(tables.spending).where(eq(tables.spending.organisationId, organisation)),
  )
  expect(spent!.credits).toBe(6)
  await next.close()
  expect(await readdir(ledger)).toEqual([])
  await crashed.close()
})

test('a server that starts alone writes a journal whose process id another process has by now', async () => {
  const { organisation } = await accounts.organisation()
  const directory = await mkdtemp(join(tmpdir(), 'lookout-ledger-'))
  const file = join(directory, 'ledger', `${process.ppid}-000000000000001-000000000.jsonl`)
  await mkdir(dirname(file))
  await writeFile(file, `${JSON.stringify(recordOf(organisation, 1))}\n`)
  const next = await startTestServer({ environment: { LOOKOUT_DATA_DIR: directory } })
  await rowsOf(organisation, 1)
  await next.close()
  expect(await readdir(dirname(file))).toEqual([])
  await rm(directory, { recursive: true })
})

test('without room for a journal, a record that comes while others are written to the database is kept', async () => {
  const { organisation } = await accounts.organisation()
  const directory = await mkdtemp(join(tmpdir(), 'lookout-ledger-'))
  const begun = Promise.withResolvers<void>()
  const goOn = Promise.withResolvers<void>()
  const slow = {
    execute: async (statement: SQL) => {
      begun.resolve()
      await goOn.promise
      return accounts.database.execute(statement)
    },
  } as unknown as Database
  const ledger = await UsageLedger.open(slow, directory, { error() {}, warn() {} })
  await rm(directory, { recursive: true })
  ledger.record(recordOf(organisation, 1))
  const flushed = ledger.flush()
  await begun.promise
  ledger.record(recordOf(organisation, 2))
  goOn.resolve()
  await flushed
  await ledger.close()
  expect((await rowsOf(organisation, 2)).map(({ promptTokens }) => promptTokens).sort()).toEqual([1, 2])
})

test('two servers that find the same journals write them once, and go on with their own', async () => {
  const { organisation } = await accounts.organisation()
  const directory = await mkdtemp(join(tmpdir(), 'lookout-ledger-'))
  const journal = (n: number, rows: readonly object[]) =>
    writeFile(
      join(directory, `999999999-00000000000000${n}-000000000.jsonl`),
      rows.map((row) => `${JSON.stringify(row)}\n`).join(''),
    )
  await journal(1, [recordOf(organisation, 1), recordOf(organisation, 2)])
  // Rejected by the database, and set aside.
  await journal(2, [{ ...recordOf(organisation, 3), status: 'unknown' }])
  await journal(3, [recordOf(organisation, 4)])
  const errors: unknown[] = []
  const logger = { error: (about: unknown) => void errors.push(about), warn: () => {} }
  const open = () => UsageLedger.open(accounts.database, directory, logger)
  const ledgers = [await open(), await open(), await open()]
  await Promise.all(ledgers.slice(1).map((ledger) => ledger.flush()))
  for (const [index, ledger] of ledgers.entries()) {
    ledger.record(recordOf(organisation, 10 + index))
    await ledger.close()
  }
  const rows = await rowsOf(organisation, 6)
  expect(rows.map(({ promptTokens }) => promptTokens).sort((a, b) => a - b)).toEqual([1, 2, 4, 10, 11, 12])
  const [spent] = await accounts.database.use((queries) =>
    queries.select().from(tables.spending).where(eq(tables.spending.organisationId, organisation)),
  )
  expect(spent!.credits).toBe(12)
  const refused = '999999999-000000000000002-000000000.jsonl.refused'
  expect(await readdir(directory)).toEqual([refused])
  // What is logged has none of the row's values.
  expect(inspect(errors)).toMatch(/22P02/)
  expect(inspect(errors)).not.toMatch(new RegExp(`unknown|${organisation}`))
  // It is tried again by the next server, as is one that was mended.
  const again = await open()
  await again.close()
  expect(await readdir(directory)).toEqual([refused])
  await writeFile(join(directory, refused), JSON.stringify(recordOf(organisation, 3)))
  const mended = await open()
  await mended.close()
  await rowsOf(organisation, 7)
  expect(await readdir(directory)).toEqual([])
  await rm(directory, { recursive: true })
})
