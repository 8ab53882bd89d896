import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import { serviceUnavailable } from '../src/lib/errors/errors.ts'
import { GuardedProcess } from '../src/lib/guarded/guarded-process.ts'
import { FakeEngine } from './support/fake-engine.ts'
import { ModelStore } from './support/model-store.ts'
import { errorOf, jsonOf, KEY, startTestServer, type TestServerOptions } from './support/server.ts'

const folders: string[] = []
const servers: { close(): Promise<void> }[] = []
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()))
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true })
})

async function serve(options: TestServerOptions = {}) {
  const data = await mkdtemp(join(tmpdir(), 'lookout-store-'))
  folders.push(data)
  const store = new ModelStore(data)
  /** The engines that were started, in order, by the first id of their card. */
  const engines: [id: string, engine: FakeEngine][] = []
  const start = async (parts: TestServerOptions = {}) => {
    const server = await startTestServer({
      startEngine: async (card) => {
        const engine = new FakeEngine()
        engines.push([card.serves[0]!.id, engine])
        return engine
      },
      ...options,
      ...parts,
      environment: { LOOKOUT_DATA_DIR: data, ...options.environment },
    })
    servers.push(server)
    return {
      ...server,
      ask: (model: string, more: object = {}) =>
        server.post('/v1/chat/completions', { model, messages: [{ role: 'user', content: 'Hi' }], ...more }),
      ids: async () => {
        const { data } = await jsonOf<{ data: { id: string }[] }>(await server.get('/v1/models'))
        return data.map(({ id }) => id)
      },
      warnings: () => server.logs.map((line) => JSON.parse(line)).filter(({ level }) => level === 40),
    }
  }
  return { store, engines, start, engineOf: (id: string) => engines.findLast(([name]) => name === id)?.[1] }
}

/** The header of a model that can be served, except that it has no weights. */
const HEADER = {
  'general.architecture': 'test',
  'test.context_length': 2048,
  'test.embedding_length': 64,
  'test.block_count': 2,
  'test.attention.head_count': 2,
  'tokenizer.ggml.tokens': ['a', 'b', '<|im_start|>', '<|im_end|>'],
}
const SHIPPED = ['service-mk1.5', 'service-mk1']

test('a model that was pulled is served at the next request, until it is removed', async () => {
  const { store, engineOf, start } = await serve()
  const server = await start()
  expect((await server.ask('pulled')).status).toBe(400)
  await store.put('pulled')
  expect(engineOf('pulled')).toBeUndefined()
  expect(await jsonOf(await server.ask('pulled'))).toMatchObject({ model: 'pulled' })
  expect(await server.ids()).toEqual([...SHIPPED, 'pulled'])
  expect((await server.get('/v1/models/pulled')).status).toBe(200)

  await store.remove('pulled')
  expect((await server.get('/v1/models/pulled')).status).toBe(404)
  expect(await errorOf(await server.ask('pulled'))).toMatchObject({ message: "Model 'pulled' does not exist" })
  expect(await server.ids()).toEqual(SHIPPED)
  await expect.poll(() => engineOf('pulled')!.state).toBe('closed')
  expect((await server.ask('service-mk1')).status).toBe(200)
})

test('many requests that arrive together see a model that has just been pulled', async () => {
  const { store, engines, start } = await serve()
  const server = await start()
  const unknown = Array.from({ length: 20 }, (_, i) => server.ask(`unknown-${i}`))
  await store.put('pulled')
  const known = Array.from({ length: 20 }, () => server.ask('pulled'))
  expect((await Promise.all(known)).map(({ status }) => status)).toEqual(known.map(() => 200))
  expect((await Promise.all(unknown)).map(({ status }) => status)).toEqual(unknown.map(() => 400))
  expect(engines.map(([id]) => id)).toEqual(['service-mk1.5', 'pulled'])
})

test('what is in the store at the start is loaded on first use, unless its card says otherwise', async () => {
  const { store, engineOf, start } = await serve()
  await store.put('lazy')
  await store.put('eager', (card) => ({ ...card, load: 'start' }))
  const server = await start()
  expect(await server.ids()).toEqual([...SHIPPED, 'eager', 'lazy'])
  await expect.poll(() => engineOf('eager')?.state).toBe('ready')
  expect(engineOf('lazy')).toBeUndefined()
  expect((await server.ask('lazy')).status).toBe(200)
})

test('a model that is removed while it answers finishes the answer', async () => {
  const { store, engineOf, start } = await serve()
  const server = await start()
  await store.put('pulled')
  await server.ask('pulled')
  const engine = engineOf('pulled')!
  engine.script = { texts: Array.from({ length: 50 }, () => 'so '), delayMs: 60 }
  const stream = await server.ask('pulled', { stream: true })
  await expect.poll(() => engine.emitted).toBeGreaterThan(3)
  await store.remove('pulled')
  expect((await server.ask('pulled')).status).toBe(400)
  expect(engine.state).toBe('ready')
  const text = await stream.text()
  expect(text.split('so ').length).toBe(51)
  expect(text).toContain('[DONE]')
  await expect.poll(() => engine.state).toBe('closed')
})

test('a client that does not read its answer keeps no model in memory', async () => {
  const { store, engineOf, start } = await serve()
  const server = await start()
  await store.put('pulled')
  await server.ask('pulled')
  const engine = engineOf('pulled')!
  const reply = 'so '.repeat(2 ** 23)
  engine.script = { texts: [reply] }
  const unread = await server.ask('pulled')
  await store.remove('pulled')
  expect((await server.ask('pulled')).status).toBe(400)
  await expect.poll(() => engine.state).toBe('closed')
  expect(await unread.text()).toContain(reply.trimEnd())
})

test.each([
  { change: 'deleted', status: 404, error: { code: 'model_not_found', message: "Model 'pulled' was removed" } },
  { change: 'replaced', status: 503, error: { type: 'server_error' } },
])('a request that waits for a model to load learns that it was $change', async ({ change, status, error }) => {
  const started = Promise.withResolvers<void>()
  const { store, start } = await serve()
  let file = ''
  const server = await start({
    // Longer than a deletion takes on a busy machine.
    loadWaitMs: 60_000,
    // A load that begins before the files go, and needs them.
    startEngine: async (card) => {
      if (card.serves[0]!.id !== 'pulled') return new FakeEngine()
      started.resolve()
      await expect.poll(() => existsSync(file), { timeout: 60_000 }).toBe(false)
      throw new Error('no such file')
    },
  })
  const files = join(folders.at(-1)!, 'models/files')
  await mkdir(files, { recursive: true })
  file = await store.putHeader('pulled', HEADER, join(files, 'pulled.gguf'))
  const asked = server.ask('pulled')
  await started.promise
  if (change === 'deleted') {
    const deleted = await fetch(`${server.url}/v1/models/pulled`, {
      method: 'DELETE',
      headers: { authorization: `Bearer ${KEY}` },
    })
    expect(deleted.status).toBe(200)
  } else {
    await store.put('pulled')
    expect(await jsonOf(await server.get('/v1/models/pulled'))).toMatchObject({ id: 'pulled' })
    await rm(file)
  }
  const answer = await asked
  expect(answer.status).toBe(status)
  expect(await errorOf(answer)).toMatchObject(error)
})

test('a card that is replaced is served as it is now, by an engine of its own', async () => {
  const { store, engines, start } = await serve()
  const server = await start()
  await store.put('pulled')
  await server.ask('pulled')
  await store.put('pulled', (card) => ({ ...card, ownedBy: 'somebody' }))
  expect(await jsonOf(await server.get('/v1/models/pulled'))).toMatchObject({ owned_by: 'somebody' })
  await server.ask('pulled')
  await store.touch('pulled', new Date(2_000_000))
  await expect.poll(async () => (await server.ask('pulled')) && engines.length).toBe(4)
  await expect.poll(() => engines.map(([, { state }]) => state)).toEqual(['ready', 'closed', 'closed', 'ready'])
})

test('a stored card that cannot be used is one line in the log, until it is mended', async () => {
  const { store, start } = await serve()
  await store.write('broken', '{')
  const server = await start()
  expect((await server.ask('broken')).status).toBe(400)
  await store.put('other')
  expect(await server.ids()).toEqual([...SHIPPED, 'other'])
  await store.remove('other')
  expect(await server.ids()).toEqual(SHIPPED)
  expect(server.warnings().map(({ msg }) => msg)).toEqual([expect.stringMatching(/broken.card\.json: not valid JSON/)])
  await store.put('broken')
  expect((await server.ask('broken')).status).toBe(200)
  await store.put('missing', (card) => ({ ...card, engine: { ...card.engine, model: 'none.gguf' } }))
  await store.put('mute', (card) => ({ ...card, schemaPrompt: 'no place for it' }))
  expect((await server.ask('missing')).status).toBe(400)
  expect(server.warnings().map(({ msg }) => msg)).toEqual([
    expect.anything(),
    expect.stringContaining('none.gguf does not exist'),
    expect.stringContaining('schemaPrompt'),
  ])
})

test('a name of the settings is never taken over by the store', async () => {
  const { store, start } = await serve({ environment: { LOOKOUT_ALIASES: 'gpt-4o=service-mk1' } })
  const server = await start()
  await store.put('service-mk1', (card) => ({ ...card, ownedBy: 'somebody' }))
  await store.put('gpt-4o')
  expect(await server.ids()).toEqual(SHIPPED)
  expect(await jsonOf(await server.get('/v1/models/service-mk1'))).toMatchObject({ owned_by: 'lookout' })
  expect(server.warnings().map(({ msg }) => msg)).toEqual([
    expect.stringContaining("'gpt-4o' is already served by"),
    expect.stringContaining("'service-mk1' is already served by"),
  ])
})

test('of two stored models with one name the other is served when the first is removed', async () => {
  const { store, start } = await serve()
  const server = await start()
  await store.put('a', (card) => ({ ...card, ownedBy: 'first' }))
  const owner = async () => (await jsonOf(await server.get('/v1/models/a'))).owned_by
  expect(await owner()).toBe('first')
  await store.put('b', (card) => ({ ...card, ownedBy: 'second', serves: [{ ...card.serves[0], id: 'a' }] }))
  expect(await server.ids()).toEqual([...SHIPPED, 'a'])
  await store.remove('a')
  expect(await owner()).toBe('second')
})

test('an alias may stand for a stored model', async () => {
  const { store, start } = await serve({ environment: { LOOKOUT_ALIASES: 'gpt-4o=pulled' } })
  await expect(start()).rejects.toThrow("The alias 'gpt-4o' stands for 'pulled', which is not a model")
  await store.put('pulled')
  const server = await start()
  expect(await jsonOf(await server.ask('gpt-4o'))).toMatchObject({ model: 'gpt-4o' })
  await store.remove('pulled')
  expect((await server.ask('gpt-4o')).status).toBe(400)
})

test('a stored model that is larger than the memory is refused with both numbers', async () => {
  const { store, start } = await serve({ environment: { LOOKOUT_MODEL_MEMORY: '1' } })
  const server = await start()
  await store.put('huge', (card) => ({ ...card, engine: { ...card.engine, contextTokens: 10 ** 7 } }))
  expect(await errorOf(await server.ask('huge'))).toMatchObject({
    type: 'invalid_request_error',
    message: expect.stringMatching(/^Model 'huge' cannot be served: it needs about [\d.]+ GiB of memory.* 1\.00 GiB/),
  })
  expect((await server.get('/v1/models/huge')).status).toBe(404)
  expect(await server.ids()).toEqual(SHIPPED)
  expect(server.warnings()).toHaveLength(1)
})

test('metrics have the stored models that there are', async () => {
  const { store, start } = await serve({ environment: { LOOKOUT_METRICS_PORT: '0' } })
  const server = await start()
  const ready = async () => {
    const text = await (await fetch(server.service.metricsUrl!)).text()
    return [...text.matchAll(/^lookout_model_ready\{model="(.*)"\} (\d)$/gm)].map(
      ([, name, value]) => `${name} ${value}`,
    )
  }
  await store.put('pulled')
  await server.ids()
  expect(await ready()).toEqual(['service-mk1.5 1', 'pulled 0'])
  await server.ask('pulled')
  expect(await ready()).toEqual(['service-mk1.5 1', 'pulled 1'])
  await store.remove('pulled')
  await server.ids()
  await expect.poll(ready).toEqual(['service-mk1.5 1'])
})

const HOSTILE = '{% for i in range(4000000000) %}{{ i }}{% endfor %}{{ messages[0].content }}'

test('a card that ends the process that reads it is left out, and is not read again at the next start', async () => {
  const { store, start } = await serve()
  await store.put('good')
  const file = await store.putHeader('hostile', { ...HEADER, 'tokenizer.chat_template': HOSTILE })
  const server = await start()
  // Models of the settings do not wait for it.
  expect((await server.ask('service-mk1')).status).toBe(200)
  expect((await server.ask('good')).status).toBe(200)
  const refusal = await errorOf(await server.ask('hostile'))
  expect(refusal.message).toMatch(
    /^Model 'hostile' cannot be served: engine\.chatTemplate: .* it (needs|takes) more than /,
  )
  expect(server.warnings().map(({ msg }) => msg)).toEqual([
    expect.stringMatching(/hostile.card\.json: engine\.chatTemplate: /),
  ])

  const again = await start()
  expect((await again.ask('good')).status).toBe(200)
  expect((await again.ask('hostile')).status).toBe(400)
  expect(again.warnings().map(({ msg }) => msg)).toEqual([
    expect.stringMatching(
      /hostile.card\.json: reading its files ended a process at 2.*: it .*It is read again when one of its files changes, or when .*unread\.json is deleted$/,
    ),
  ])
  expect(await errorOf(await again.ask('hostile'))).toMatchObject({
    message: expect.not.stringContaining(tmpdir()),
  })

  // Another file in its place is read.
  await store.putHeader('hostile', HEADER, file)
  await store.touch('hostile', new Date(2e12))
  expect(await again.ids()).toEqual([...SHIPPED, 'good', 'hostile'])
})

test('a model is served as it is once the system lets a process read it', async () => {
  const { store, start } = await serve()
  const { ask: original } = GuardedProcess.prototype
  const ask = vi.spyOn(GuardedProcess.prototype, 'ask')
  const now = performance.now.bind(performance)
  onTestFinished(() => void vi.restoreAllMocks())
  await store.putHeader('first', HEADER)
  await store.putHeader('second', { ...HEADER, 'tokenizer.chat_template': '{{ messages[0].content }}' })
  // As where the system kills it for lack of memory.
  ask.mockImplementation(async function (this: GuardedProcess<unknown, unknown>, question) {
    const { type } = question as { readonly type: string }
    if (type === lacking) throw serviceUnavailable('No process can do it now; try again later', 5)
    return original.call(this, question)
  })
  let lacking = 'file'
  const server = await start()
  const refusal = await server.ask('first')
  expect(refusal.status).toBe(503)
  expect(Number(refusal.headers.get('retry-after'))).toBeGreaterThan(0)
  let ahead = 0
  vi.spyOn(performance, 'now').mockImplementation(() => now() + ahead)
  lacking = 'template'
  ahead += 60_000
  // A built-in template in place of its own would answer otherwise than the model's.
  expect(await server.ids()).toEqual([...SHIPPED, 'first'])
  lacking = ''
  ahead += 60_000
  expect(await server.ids()).toEqual([...SHIPPED, 'first', 'second'])
})

test('a pipe, a device or a folder in place of a file of a stored model is refused, and holds up no other', async () => {
  const { store, start } = await serve()
  const header = await store.putHeader('a', HEADER)
  const pipe = join(dirname(header), 'pipe.gguf')
  await promisify(execFile)('mkfifo', [pipe])
  const put = (id: string, engine: object) =>
    store.write(id, JSON.stringify({ serves: [{ id }], engine: { type: 'local', ...engine } }))
  await put('piped', { model: pipe })
  await put('piped-template', { model: header, chatTemplate: pipe })
  await put('endless-template', { model: header, chatTemplate: '/dev/zero' })
  await put('folder', { model: dirname(header) })
  await store.put('z')
  const server = await start()
  expect(await server.ids()).toEqual([...SHIPPED, 'a', 'z'])
  const refusals = server.warnings().filter(({ msg }) => msg.endsWith(': it is not a regular file'))
  expect(refusals).toHaveLength(4)
})

test.each([
  ['names four billion layers', { 'test.block_count': 4_000_000_000 }, /names 4000000000 layers; at most 1024/],
  [
    'has heads of sizes that no model has',
    { 'test.attention.head_count': 4e9, 'test.attention.key_length': 4e9 },
    /sizes that no model has/,
  ],
])('a model that %s is refused in words', async (_what, values, message) => {
  const { store, start } = await serve()
  await store.putHeader('hostile', { ...HEADER, ...values })
  const server = await start()
  expect((await errorOf(await server.ask('hostile'))).message).toMatch(message)
})
