import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { findEntry, readCatalogue } from '../src/catalogue/catalogue.ts'
import type { CatalogueEntry } from '../src/catalogue/catalogue-schema.ts'
import { TestAccounts } from './support/accounts.ts'
import { type FakeHub, serveEntry, startFakeHub } from './support/fake-hub.ts'
import { writeHeader } from './support/model-header.ts'
import { errorOf, jsonOf, KEY, startTestServer, type TestServer, type TestServerOptions } from './support/server.ts'
import { qwen3Vl } from './support/tiny-models/qwen.ts'
import { writeTinyModel } from './support/tiny-models/tiny-model.ts'

/** Models that are pulled over HTTP, from a hub of the test's own. */
const REPOSITORY = 'acme/nano-GGUF'
const NAME = 'nano-Q4_K_M.gguf'
const ID = `${REPOSITORY}:Q4_K_M`
const URL = '/v1/models/pull'
const CHAT = '/v1/chat/completions'

let accounts: TestAccounts
let model: Buffer
let projector: Buffer
/** The server of the tests that change no setting. */
let usual: TestServer
beforeAll(async () => {
  accounts = await TestAccounts.open()
  const folder = await mkdtemp(join(tmpdir(), 'lookout-pulled-'))
  const { directory, engine } = await writeTinyModel(qwen3Vl, folder)
  // So long that a download can stop behind the header. What follows the tensors is not read.
  model = Buffer.concat([await readFile(join(directory, engine.model)), Buffer.alloc(2 ** 22)])
  projector = Buffer.concat([await readFile(join(directory, engine.projector!)), Buffer.alloc(2 ** 20)])
  await rm(folder, { recursive: true })
  usual = await startTestServer()
})
afterAll(async () => {
  await usual?.close()
  await accounts?.close()
})

let hub: FakeHub
let home: string
let server: TestServer
beforeEach(async () => {
  server = usual
  home = await mkdtemp(join(tmpdir(), 'lookout-pulls-'))
  hub = await startFakeHub()
  vi.stubEnv('HF_ENDPOINT', hub.url)
  vi.stubEnv('HF_HOME', join(home, 'hf'))
  hub.repositories.set(
    REPOSITORY,
    new Map([
      ['nano-Q4_K_M.gguf', model],
      ['nano-Q8_0.gguf', Buffer.concat([model, Buffer.alloc(2 ** 20)])],
      ['mmproj-nano-F16.gguf', projector],
    ]),
  )
  onTestFinished(async () => {
    await hub[Symbol.asyncDispose]()
    await rm(join(usual.directory, 'models'), { recursive: true, force: true })
    await rm(home, { recursive: true, force: true })
  })
})

async function serve(options: TestServerOptions): Promise<void> {
  server = await startTestServer(options)
  onTestFinished(() => server.close())
}

interface Event {
  readonly type?: string
  readonly error?: { readonly message: string; readonly type: string; readonly code: string | null }
  readonly [field: string]: unknown
}

/** The events of a pull; `[DONE]` is an event without a type. */
async function eventsOf(response: Response): Promise<Event[]> {
  expect(response.status, await response.clone().text()).toBe(200)
  expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/)
  const lines = (await response.text()).split('\n\n').filter((line) => line.startsWith('data: '))
  return lines.map((line) => (line === 'data: [DONE]' ? { end: true } : JSON.parse(line.slice('data: '.length))))
}

/** Asks for a pull. Its model is not examined afterwards, which `examinations.test.ts` shows. */
const pull = (body: object) => server.post(URL, { examine: false, ...body })
const ids = async () => {
  const { data } = await jsonOf<{ data: { id: string }[] }>(await server.get('/v1/models'))
  return data.map(({ id }) => id)
}
const ask = (id: string) => server.post(CHAT, { model: id, messages: [{ role: 'user', content: 'Hi' }] })
const remove = (id: string, key = KEY) =>
  fetch(`${server.url}/v1/models/${encodeURIComponent(id)}`, {
    method: 'DELETE',
    headers: { authorization: `Bearer ${key}` },
  })
/** Keeps a download from ending. */
const stall = () => {
  hub.onDownload = ({ range }) => (range?.endsWith('-1048575') ? undefined : { kind: 'stall', after: 3e6 })
}
const downloads = () => readdir(join(home, 'hf/hub/models--acme--nano-GGUF/blobs')).catch(() => [])

describe('a pull', () => {
  test('tells what it does, and the model is served when it ends', async () => {
    const events = await eventsOf(await pull({ model: `hf://${REPOSITORY}:q4_k_m` }))
    expect(events[0]).toMatchObject({
      type: 'choice',
      model: REPOSITORY,
      options: [
        { quant: 'Q4_K_M', bytes: model.length + projector.length, fits: 'yes', cached: false, chosen: true },
        { quant: 'Q8_0', chosen: false },
      ],
      projector: 'mmproj-nano-F16.gguf',
    })
    for (const [file, bytes] of [
      ['nano-Q4_K_M.gguf', model],
      ['mmproj-nano-F16.gguf', projector],
    ] as const) {
      const last = events.findLast((event) => event.type === 'progress' && event.file === file)
      expect(last).toMatchObject({ done_bytes: bytes.length, total_bytes: bytes.length })
      expect(events).toContainEqual({ type: 'check', file })
    }
    expect(events.slice(-2)).toEqual([{ type: 'done', id: ID, served: true, reason: null }, { end: true }])
    // Clients learn nothing of where files are.
    expect(JSON.stringify(events)).not.toMatch(/lookout-(pulls|test)-/)
    expect(await ids()).toContain(ID)
    expect((await ask(ID)).status).toBe(200)

    const again = await eventsOf(await pull({ model: ID, projector: 'none' }))
    expect(again.map(({ type }) => type)).toEqual(['choice', 'found', 'done', undefined])
    expect(again.at(-2)).toMatchObject({ id: ID, served: true })
  })

  test('is for keys of scope admin alone', async () => {
    const { organisation, key } = await accounts.organisation()
    const { key: admin } = await accounts.accounts.createKey({ organisation, scopes: ['admin'] })
    const post = (key: string) =>
      fetch(server.url + URL, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: ID, examine: false }),
      })
    for (const response of [await post(key), await remove('service-mk1', key)]) {
      expect(response.status).toBe(403)
      expect(await errorOf(response)).toMatchObject({ code: 'insufficient_scope' })
    }
    expect((await post('lk-none')).status).toBe(401)
    expect(hub.requests).toEqual([])
    expect((await eventsOf(await post(admin))).at(-2)).toMatchObject({ type: 'done' })
  })

  test('of what is no address of a hub is rejected, and no server is asked', async () => {
    for (const body of [
      { model: '/etc/passwd' },
      { model: '../secret' },
      { model: 'http://127.0.0.1:9/model.gguf' },
      { model: 'https://example.org/a/model.gguf' },
      { model: 'file:///etc/passwd' },
      {},
      { model: 7 },
      { model: '' },
      // The catalogue lacks it.
      { model: 'qwen3-vl-4' },
      // A path behind a name of the catalogue.
      { model: 'qwen3-vl-4b:../../secret' },
    ]) {
      const response = await pull(body)
      expect(response.status, JSON.stringify(body)).toBe(400)
      expect(await errorOf(response)).toMatchObject({ type: 'invalid_request_error', param: 'model' })
    }
    expect(hub.requests).toEqual([])
  })

  test('a projector can be left out, and not be named', async () => {
    const response = await pull({ model: ID, projector: '/etc/passwd' })
    expect(response.status).toBe(400)
    expect(await errorOf(response)).toMatchObject({ param: 'projector' })
    const events = await eventsOf(await pull({ model: ID, projector: 'none' }))
    expect(events[0]).toMatchObject({ type: 'choice', projector: null })
    const extended = await jsonOf(await server.get(`/v1/models/${encodeURIComponent(ID)}?extended=true`))
    expect(extended.modalities).toEqual(['text'])
  })

  test('that is a dry run tells the choices, and fetches and serves nothing', async () => {
    const dryRun = async (model: string) => {
      const events = await eventsOf(await pull({ model, dry_run: true }))
      expect(events.map(({ type }) => type)).toEqual(['choice', undefined])
      expect(events.at(-1)).toEqual({ end: true })
      return events[0]
    }
    expect(await dryRun(REPOSITORY)).toMatchObject({ options: [{ cached: false }, { cached: false }] })
    expect(await downloads()).toEqual([])
    // The next pull does not have to wait for it.
    await eventsOf(await pull({ model: ID }))
    // Nor is anything served whose files happen to be here.
    await remove(ID)
    hub.repositories.set('acme/large-GGUF', new Map([['large-F16.gguf', model]]))
    await eventsOf(await pull({ model: 'acme/large-GGUF' }))
    await rm(join(server.directory, 'models'), { recursive: true })
    expect(await dryRun('acme/large-GGUF')).toMatchObject({ options: [{ quant: 'F16', cached: true }] })
    expect(await ids()).toEqual(['service-mk1.5', 'service-mk1'])
  })

  test('of what the hub does not have is rejected', async () => {
    for (const [name, message] of [
      ['acme/none', /has no acme\/none \(404\): check the name/],
      [`${REPOSITORY}:Q3_K_S`, /Q3_K_S/],
    ] as const) {
      const response = await pull({ model: name })
      expect(response.status).toBe(400)
      const expected = { type: 'invalid_request_error', param: 'model', code: 'pull_failed' }
      expect(await errorOf(response)).toMatchObject({ ...expected, message: expect.stringMatching(message) })
    }
  })

  test('of a hub that is away ends with an error of the server', async () => {
    await hub[Symbol.asyncDispose]()
    // It is tried again, and the first event tells of that.
    const events = await eventsOf(await pull({ model: ID }))
    expect(events[0]).toMatchObject({ type: 'note', message: expect.stringContaining('trying again') })
    expect(events.at(-1)!.error).toMatchObject({
      type: 'server_error',
      message: expect.stringContaining('the hub cannot be reached'),
    })
  })

  test('that fails half way ends with an error', async () => {
    hub.onDownload = ({ file, range }) =>
      file === 'nano-Q4_K_M.gguf' && !range?.endsWith('-1048575') ? { kind: 'wrong' } : undefined
    const events = await eventsOf(await pull({ model: ID }))
    expect(events[0]).toMatchObject({ type: 'choice' })
    expect(events.at(-1)!.error).toMatchObject({
      message: expect.stringContaining('arrived damaged'),
      type: 'invalid_request_error',
      code: 'pull_failed',
    })
    expect(await ids()).not.toContain(ID)
  })

  test('of one repository runs at a time, ends when its client leaves, and goes on later', async () => {
    stall()
    const leaving = new AbortController()
    const first = await fetch(server.url + URL, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: ID, projector: 'none', examine: false }),
      signal: leaving.signal,
    })
    let seen = ''
    const decoder = new TextDecoder()
    for await (const piece of first.body!) {
      seen += decoder.decode(piece, { stream: true })
      if (seen.includes('"done_bytes":3')) break
      // A second pull of the repository, in any form, while the first one is under way.
      const response = await pull({ model: `hf.co/ACME/nano-gguf:Q8_0` })
      expect(response.status).toBe(409)
      expect(await errorOf(response)).toMatchObject({
        type: 'invalid_request_error',
        param: 'model',
        code: 'pull_in_progress',
      })
    }
    leaving.abort()
    await expect.poll(downloads).not.toContainEqual(expect.stringMatching(/\.lock$/))
    // Others are served meanwhile.
    expect((await ask('service-mk1.5')).status).toBe(200)

    hub.onDownload = () => undefined
    let response: Response
    await expect
      .poll(async () => {
        response = await pull({ model: ID, projector: 'none' })
        return response.status
      })
      .toBe(200)
    const events = await eventsOf(response!)
    const [begun] = events.filter(({ type }) => type === 'progress')
    expect(begun!.done_bytes).toBeGreaterThan(0)
    expect(events.at(-2)).toMatchObject({ type: 'done', served: true })
  })

  test('does not hold up a shutdown', async () => {
    server = await startTestServer({ graceMs: 3_600_000 })
    stall()
    const response = await pull({ model: ID })
    const events = eventsOf(response)
    await expect.poll(downloads).not.toEqual([])
    await server.close()
    expect((await events).at(-1)!.error).toMatchObject({
      code: 'model_overloaded',
      message: expect.stringContaining('shutting down'),
    })
  })

  test('of a model that is too large ends with an error, before anything of it is fetched', async () => {
    await serve({ environment: { LOOKOUT_MODEL_MEMORY: '0.5' } })
    hub.repositories.set('acme/large-GGUF', new Map([['large-F16.gguf', Buffer.concat([model, Buffer.alloc(3e8)])]]))
    const events = await eventsOf(await pull({ model: 'acme/large-GGUF' }))
    expect(events.map(({ type }) => type)).toEqual(['choice', undefined])
    expect(events[0]).toMatchObject({ options: [{ quant: 'F16', fits: 'no' }] })
    expect(events[1]!.error).toMatchObject({ code: 'pull_failed', message: expect.stringMatching(/no smaller choice/) })
  })

  test('of a model that cannot be served says why', async () => {
    await serve({ environment: { LOOKOUT_MODEL_MEMORY: '1' } })
    // What an operator has written into a card stays.
    const folder = join(server.directory, 'models/acme--nano-GGUF--Q4_K_M')
    await mkdir(folder, { recursive: true })
    const engine = { model: 'none.gguf', contextTokens: 10 ** 7 }
    await writeFile(join(folder, 'card.json'), JSON.stringify({ serves: [{ id: ID }], engine }))
    expect(await ids()).not.toContain(ID)
    const events = await eventsOf(await pull({ model: ID }))
    const reason = expect.stringMatching(/^Model 'acme.*' cannot be served: it needs about/)
    expect(events.at(-2)).toEqual({ type: 'done', id: ID, served: false, reason })
    expect(await ids()).not.toContain(ID)
  })
})

describe('the catalogue', () => {
  const SHORT = 'qwen3-vl-4b'
  interface Listed {
    readonly available_bytes: number
    readonly data: readonly { readonly name: string; readonly fits: string; readonly served_as: string | null }[]
  }
  const catalogue = async () => jsonOf<Listed>(await server.get('/v1/models/catalogue'))
  const listedAs = async (name: string) => (await catalogue()).data.find((one) => one.name === name)!.served_as

  test('lists each of its models as this server would run it, to any key', async () => {
    await serve({ environment: { LOOKOUT_MODEL_MEMORY: '6' } })
    const { models, checked } = await readCatalogue()
    const listed = await catalogue()
    expect(listed).toMatchObject({ object: 'list', checked })
    expect(listed.available_bytes).toBeLessThanOrEqual(6 * 2 ** 30)
    expect(listed.data.map(({ name }) => name).sort()).toEqual(models.map(({ name }) => name).sort())
    const entry = (await findEntry(SHORT)) as CatalogueEntry
    expect(listed.data.find(({ name }) => name === SHORT)).toMatchObject({
      repository: entry.repository,
      quant: expect.stringMatching(/^Q\d/),
      tokens_per_second: expect.any(Number),
      licence: { name: 'Apache-2.0', commercial_use: 'yes' },
      served_as: null,
    })
    const { key } = await accounts.organisation()
    const get = (key: string) =>
      fetch(`${server.url}/v1/models/catalogue`, { headers: { authorization: `Bearer ${key}` } })
    const { data } = await jsonOf<typeof listed>(await get(key))
    // Their order depends on the memory that is free.
    expect(data.map(({ name }) => name).sort()).toEqual(listed.data.map(({ name }) => name).sort())
    expect((await get('lk-none')).status).toBe(401)
    expect(hub.requests).toEqual([])
  })

  test('puts what is too large last, and has no speed where the machine was not measured', async () => {
    await serve({ environment: { LOOKOUT_MODEL_MEMORY: '0.5' }, machineSpeed: async () => null })
    const { data } = await catalogue()
    expect(new Set(data.map(({ fits }) => fits))).toEqual(new Set(['no']))
    expect(data).toContainEqual(expect.objectContaining({ tokens_per_second: null, prompt_tokens_per_second: null }))
  })

  test('has the machine measured when it is first read', async () => {
    let measured = 0
    const machineSpeed = async () => {
      measured++
      return { bytesPerSecond: 1e10, multiplyAddsPerSecond: 1e11 }
    }
    await serve({ machineSpeed })
    expect(measured).toBe(0)
    await catalogue()
    expect(measured).toBe(1)
  })

  test('a short name is pulled, and answers requests', async () => {
    await serveEntry(hub, SHORT, { model, projector })
    const logged = server.logs.length
    const { repository } = (await findEntry(SHORT)) as CatalogueEntry
    const id = `${repository}:Q8_0`
    const events = await eventsOf(await pull({ model: 'Qwen3-VL-4B:Q8_0' }))
    expect(events[0]).toMatchObject({ type: 'choice', model: repository, projector: expect.stringContaining('mmproj') })
    expect(events.at(-2)).toEqual({ type: 'done', id, served: true, reason: null })
    expect(await listedAs(SHORT)).toBe(id)
    for (const name of [id, SHORT, `${SHORT}:Q8_0`]) expect((await ask(name)).status, name).toBe(200)
    // The latest has the short name, and the other is served on.
    await eventsOf(await pull({ model: `${SHORT}:Q4_K_M`, projector: 'none' }))
    const idOf = async (name: string) => (await jsonOf(await server.get(`/v1/models/${name}`))).id
    expect(await idOf(SHORT)).toBe(`${repository}:Q4_K_M`)
    expect(await idOf(`${SHORT}:Q8_0`)).toBe(id)
    expect((await ids()).filter((one) => one.startsWith(repository))).toHaveLength(2)
    expect((await remove(SHORT)).status).toBe(200)
    expect(await idOf(SHORT)).toBe(id)
    expect(server.logs.slice(logged).filter((line) => line.includes('left out'))).toEqual([])
    const unknown = await errorOf(await pull({ model: 'qwen3vl-4b' }))
    expect(unknown).toMatchObject({ param: 'model', message: expect.stringContaining(`did you mean ${SHORT}`) })
  })

  test('a name of the settings stays what it is, and the model is served without it', async () => {
    await serve({ environment: { LOOKOUT_ALIASES: `${SHORT}=service-mk1` } })
    await serveEntry(hub, SHORT, { model, projector })
    const events = await eventsOf(await pull({ model: `${SHORT}:Q8_0`, projector: 'none' }))
    expect(events.at(-2)).toMatchObject({ type: 'done', served: true })
    expect(await jsonOf(await server.get(`/v1/models/${SHORT}`))).toMatchObject({ id: 'service-mk1' })
  })

  test('a model that is called catalogue is served and deleted like any other', async () => {
    await eventsOf(await pull({ model: ID, projector: 'none' }))
    const file = join(server.directory, 'models/acme--nano-GGUF--Q4_K_M/card.json')
    const card = JSON.parse(await readFile(file, 'utf8'))
    await writeFile(file, JSON.stringify({ ...card, serves: [{ id: 'catalogue' }] }))
    await expect.poll(ids).toContain('catalogue')
    expect((await ask('catalogue')).status).toBe(200)
    expect(await catalogue()).toMatchObject({ object: 'list', data: expect.any(Array) })
    const other = await server.post('/v1/models/catalogue', {})
    expect([other.status, other.headers.get('allow')]).toEqual([405, 'GET, HEAD, DELETE'])
    expect(await jsonOf(await remove('catalogue'))).toMatchObject({ id: 'catalogue', deleted: true })
    const gone = await remove('catalogue')
    expect(gone.status).toBe(404)
    expect(await errorOf(gone)).toMatchObject({ code: 'model_not_found' })
  })
})

describe('a hub that means harm', () => {
  const GGUF = Buffer.from('GGUF')
  const files = (names: readonly string[]) => new Map(names.map((name) => [name, GGUF]))
  const refusalOf = async (model: string) => {
    const response = await pull({ model })
    expect(response.status).toBe(400)
    return errorOf(response)
  }

  test('may list any files', async () => {
    const large = await startFakeHub({ pageSize: 10_000 })
    onTestFinished(() => large[Symbol.asyncDispose]())
    vi.stubEnv('HF_ENDPOINT', large.url)
    const part = (i: number, all: number) => `m${i}-00001-of-${String(all).padStart(5, '0')}.gguf`
    for (const [what, name, count, message] of [
      ['parts', (i: number) => part(i, 99_999), 150_000, /^acme\/parts has more than 20000 files/],
      // All miss the others.
      ['firsts', (i: number) => part(i, 999), 19_000, /has no GGUF model/],
      // There are not as many quantisations.
      ['models', (i: number) => `m${i}.gguf`, 1000, /has 1000 models and 0 encoders/],
    ] as const) {
      large.repositories.set(`acme/${what}`, files(Array.from({ length: count }, (_, i) => name(i))))
      expect(await refusalOf(`acme/${what}`)).toMatchObject({
        code: 'pull_failed',
        message: expect.stringMatching(message),
      })
    }
  })

  test('may have headers of millions of fields, or templates without an end', async () => {
    const counts = Buffer.alloc(2 ** 20)
    counts.write('GGUF')
    counts.writeUInt32LE(3, 4)
    counts.writeBigUInt64LE(1_200_000n, 16)
    hub.repositories.set('acme/fields', new Map([['m-Q4_K_M.gguf', Buffer.concat([counts, Buffer.alloc(2 ** 24)])]]))
    expect(await refusalOf('acme/fields')).toMatchObject({
      message: expect.stringMatching(
        /m-Q4_K_M\.gguf of acme\/fields cannot be used: the file has 1200000 fields in its header/,
      ),
    })
    const path = join(home, 'm.gguf')
    await writeHeader(path, {
      ...{ 'general.architecture': 'test', 'test.context_length': 512, 'tokenizer.ggml.tokens': ['a'] },
      'tokenizer.chat_template': '{% for i in range(4000000000) %}{{ i }}{% endfor %}{{ messages[0].content }}',
    })
    hub.repositories.set('acme/loops', new Map([['m-Q4_K_M.gguf', await readFile(path)]]))
    const events = await eventsOf(await pull({ model: 'acme/loops' }))
    expect(events.at(-2)).toMatchObject({
      served: false,
      reason: expect.stringMatching(/^Model 'acme.loops:Q4_K_M' cannot be served: engine\.chatTemplate: /),
    })
    expect(JSON.stringify(events)).not.toContain(tmpdir())
  })

  test('may not have the server ask a host of its own', async () => {
    let asked = 0
    const secret = createServer((_request, response) => {
      asked++
      response.end()
    }).listen(0, '127.0.0.1')
    onTestFinished(() => void secret.close())
    await once(secret, 'listening')
    const { port } = secret.address() as AddressInfo
    for (const host of ['localhost', '[::ffff:127.0.0.1]', '127.0.0.2', '10.0.0.1', '169.254.169.254']) {
      const location = `http://${host}:${port}/${NAME}`
      hub.onAsk = ({ url }) =>
        url.includes('/resolve/') ? { kind: 'status', status: 302, headers: { location } } : undefined
      const { message } = await refusalOf(ID)
      expect(message).toMatch(/^A redirect leads to .*, whose address is not public: nothing is downloaded from there$/)
    }
    expect(asked).toBe(0)
  })
})

test('errors of the folders say what is wrong, and not where they are', async () => {
  const file = join(home, 'file')
  await writeFile(file, '')
  vi.stubEnv('HF_HOME', file)
  const events = await eventsOf(await pull({ model: ID }))
  expect(events.at(-1)!.error).toMatchObject({
    type: 'server_error',
    code: 'model_store_unusable',
    message: 'The server cannot use the folders in which it keeps models (ENOTDIR)',
  })
  expect(JSON.stringify(events)).not.toContain(tmpdir())
})

describe('deleting', () => {
  test('a model that was pulled frees its files', async () => {
    await eventsOf(await pull({ model: ID }))
    const response = await remove(ID)
    expect(response.status).toBe(200)
    expect(await jsonOf(response)).toEqual({
      id: ID,
      object: 'model',
      deleted: true,
      freed_bytes: model.length + projector.length,
    })
    expect(await downloads()).toEqual([])
    expect(await ids()).not.toContain(ID)
    expect((await ask(ID)).status).toBe(400)
    const again = await remove(ID)
    expect(again.status).toBe(404)
    expect(await errorOf(again)).toMatchObject({ code: 'model_not_found', param: 'model' })
  })

  test('a model of the settings is refused', async () => {
    for (const id of ['service-mk1.5', 'service-mk1']) {
      const response = await remove(id)
      expect(response.status).toBe(400)
      expect(await errorOf(response)).toMatchObject({ param: 'model', message: expect.stringContaining('settings') })
    }
    expect(await ids()).toEqual(['service-mk1.5', 'service-mk1'])
  })

  test('a model whose repository is being pulled is refused', async () => {
    await eventsOf(await pull({ model: ID, projector: 'none' }))
    stall()
    const leaving = new AbortController()
    const other = await fetch(server.url + URL, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: `${REPOSITORY}:Q8_0`, examine: false }),
      signal: leaving.signal,
    })
    expect(other.status).toBe(200)
    const response = await remove(ID)
    expect(response.status).toBe(409)
    expect(await errorOf(response)).toMatchObject({ code: 'pull_in_progress' })
    leaving.abort()
    await expect.poll(async () => (await remove(ID)).status).toBe(200)
  })
})
