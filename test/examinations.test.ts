import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import type { Engine } from '../src/inference/contract/engine.ts'
import type { EngineEvent, Generation } from '../src/inference/contract/generation.ts'
import type { Work } from '../src/inference/contract/work.ts'
import type { ModelCard } from '../src/models/card.ts'
import { TestAccounts } from './support/accounts.ts'
import { FakeEngine } from './support/fake-engine.ts'
import { type FakeHub, startFakeHub } from './support/fake-hub.ts'
import { errorOf, jsonOf, KEY, startTestServer, type TestServer, type TestServerOptions } from './support/server.ts'

/** Models that a server examines after it has pulled them. Their engine is a fake one, which sees nothing. */
const ID = 'acme/nano-GGUF:Q4_K_M'
const SHIPPED = 'service-mk1.5'
const EXAMINATION = `/v1/models/${encodeURIComponent(ID)}/examination`
const CHECKS = ['template', 'images', 'coordinates', 'tools', 'thoughts']

/** Holds up the work of the doctor, and no other. */
class HeldEngine extends FakeEngine {
  readonly #open = Promise.withResolvers<void>()
  isHeld = false
  running = 0
  mostRunning = 0

  letGo(): void {
    this.#open.resolve()
  }

  override async generate(work: Work, signal: AbortSignal): Promise<Generation> {
    if (work.organisation !== 'doctor') return super.generate(work, signal)
    this.mostRunning = Math.max(this.mostRunning, ++this.running)
    try {
      if (this.isHeld) await Promise.race([this.#open.promise, once(signal, 'abort')])
      signal.throwIfAborted()
      const generation = await super.generate(work, signal)
      return { ...generation, events: this.#counted(generation.events) }
    } catch (error) {
      this.running--
      throw error
    }
  }

  async *#counted(events: Generation['events']): AsyncGenerator<EngineEvent, void, void> {
    try {
      yield* events
    } finally {
      this.running--
    }
  }
}

let accounts: TestAccounts
let files: Map<string, Buffer>
beforeAll(async () => {
  accounts = await TestAccounts.open()
  files = new Map([
    ['nano-Q4_K_M.gguf', await readFile('models/lookout-nano/model-f16.gguf')],
    ['mmproj-nano-F16.gguf', await readFile('models/lookout-nano/mmproj-f16.gguf')],
  ])
})
afterAll(() => accounts?.close())

let hub: FakeHub
let home: string
let held: HeldEngine
let server: TestServer
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'lookout-examinations-'))
  hub = await startFakeHub()
  vi.stubEnv('HF_ENDPOINT', hub.url)
  vi.stubEnv('HF_HOME', join(home, 'hf'))
  hub.repositories.set('acme/nano-GGUF', files)
  held = new HeldEngine()
  onTestFinished(async () => {
    await hub[Symbol.asyncDispose]()
    await rm(home, { recursive: true, force: true })
  })
})

const startEngine = async (card: ModelCard): Promise<Engine> => {
  if (card.serves[0]!.id !== ID) return new FakeEngine()
  held.state = 'ready'
  return held
}

async function serve({ environment, ...options }: TestServerOptions = {}): Promise<TestServer> {
  const data = join(home, 'data')
  server = await startTestServer({ startEngine, environment: { LOOKOUT_DATA_DIR: data, ...environment }, ...options })
  const started = server
  onTestFinished(() => started.close().catch(() => {}))
  return started
}

interface Examination {
  readonly state: string
  readonly finished_at: number | null
  readonly overall: string | null
  readonly ok: boolean | null
  readonly findings: readonly { readonly check: string; readonly verdict: string; readonly finding: string }[]
  readonly unchecked: readonly string[]
}

const engines = async () =>
  (
    await jsonOf<{ engines: { models: string[]; state: string; examination: Examination | null }[] }>(
      await server.get('/v1/server'),
    )
  ).engines
const engineOf = async (id: string) => (await engines()).find(({ models }) => models.includes(id))
const examination = async () => (await engineOf(ID))?.examination
const until = (state: string) => expect.poll(async () => (await examination())?.state).toBe(state)
const ask = (model: string) =>
  server.post('/v1/chat/completions', { model, messages: [{ role: 'user', content: 'Hi' }] })
const call = (method: string, path: string, key = KEY) =>
  fetch(server.url + path, { method, headers: { authorization: `Bearer ${key}` } })
const folder = () => join(home, 'data/models/acme--nano-GGUF--Q4_K_M')
const kept = async () => JSON.parse(await readFile(join(folder(), 'examination.json'), 'utf8'))

async function pull(more: object = {}): Promise<void> {
  const response = await server.post('/v1/models/pull', { model: ID, ...more })
  expect(await response.text()).toContain('"served":true')
}

describe('after a pull', () => {
  test('the model is examined behind all requests, and what is found is kept and shown', async () => {
    await serve()
    await pull()
    await until('done')
    const found = (await examination())!
    expect(found).toMatchObject({ ok: false, unchecked: [], finished_at: expect.any(Number) })
    expect(found.overall).toMatch(/The model does not see: it names 0 of 8 colours/)
    expect(found.overall).toMatch(/Boxes are .*: use another model for places, or see docs\/doctor\.md\./)
    expect(found.findings.find(({ check }) => check === 'images')?.verdict).toBe('noise')
    expect(await kept()).toMatchObject({ state: 'done', overall: found.overall, llamaCpp: expect.any(String) })
    await expect.poll(() => server.logs.filter((line) => line.includes(`Examined ${ID}: `))).toHaveLength(1)
    expect((await engineOf(SHIPPED))!.examination).toBeNull()

    // Work of its own, which counts for no organisation and gives way to all others.
    expect(held.works.length).toBeGreaterThan(10)
    expect(new Set(held.works.map(({ organisation, priority }) => `${organisation} ${priority}`))).toEqual(
      new Set(['doctor background']),
    )
    expect(held.mostRunning).toBe(1)
    // No request has used it, so its memory is free again.
    await expect.poll(async () => (await engineOf(ID))!.state).toBe('unloaded')

    const response = await ask(ID)
    expect(response.status).toBe(200)
    expect(response.headers.get('x-lookout-warning')).toMatch(/^Boxes are .*: use another model for places/)
    expect((await ask(SHIPPED)).headers.has('x-lookout-warning')).toBe(false)
  })

  test('a request is answered while the model is examined, and what is unchecked is shown', async () => {
    held.isHeld = true
    await serve()
    await pull()
    await expect.poll(async () => (await examination())?.unchecked).toEqual(CHECKS.slice(1))
    expect(await examination()).toMatchObject({
      state: 'running',
      finished_at: null,
      findings: [{ check: 'template' }],
    })
    expect((await ask(ID)).status).toBe(200)
    expect((await examination())!.state).toBe('running')
    held.letGo()
    await until('done')
    // A request has used the model, so it stays loaded.
    await expect.poll(async () => (await engineOf(ID))!.state).toBe('ready')
    expect(server.logs.filter((line) => line.includes('Unloaded'))).toEqual([])
  })

  test('it can be left out, begun, begun again and skipped, by the operator alone', async () => {
    held.isHeld = true
    await serve()
    await pull({ examine: false })
    expect(await examination()).toBeNull()
    expect(held.works).toEqual([])
    const never = await call('DELETE', EXAMINATION)
    expect(never.status).toBe(404)
    expect(await errorOf(never)).toMatchObject({ param: 'model', message: expect.stringContaining('never examined') })

    const { organisation, key } = await accounts.organisation()
    await accounts.accounts.createKey({ organisation, scopes: ['inference'] })
    // A slash of the id need not be encoded.
    expect((await call('DELETE', `/v1/models/${ID}/examination`)).status).toBe(404)
    for (const method of ['POST', 'DELETE']) {
      expect((await call(method, EXAMINATION, key)).status).toBe(403)
      const settings = await call(method, `/v1/models/${SHIPPED}/examination`)
      expect(settings.status).toBe(400)
      expect(await errorOf(settings)).toMatchObject({ param: 'model', message: expect.stringContaining('settings') })
      const unknown = await call(method, '/v1/models/nothing/examination')
      expect(unknown.status).toBe(404)
      expect(await errorOf(unknown)).toMatchObject({ param: 'model' })
    }

    const begun = await call('POST', EXAMINATION)
    expect(begun.status).toBe(200)
    expect(await jsonOf(begun)).toMatchObject({ state: 'waiting', ok: null, findings: [], unchecked: CHECKS })
    await until('running')
    expect((await call('POST', EXAMINATION)).status).toBe(200)
    await expect.poll(async () => (await examination())?.unchecked).toEqual(CHECKS.slice(1))
    const skipped = await jsonOf<Examination & Record<string, unknown>>(await call('DELETE', EXAMINATION))
    expect(skipped).toMatchObject({ state: 'skipped', unchecked: CHECKS.slice(1), finished_at: expect.any(Number) })
    expect(await examination()).toEqual(skipped)
    expect(await jsonOf(await call('DELETE', EXAMINATION))).toEqual(skipped)
    expect(held.running).toBe(0)
  })

  test('a model that is deleted meanwhile ends it', async () => {
    held.isHeld = true
    await serve()
    await pull()
    // The model is loaded, and asked.
    await expect.poll(async () => (await examination())?.unchecked).toEqual(CHECKS.slice(1))
    expect((await call('DELETE', `/v1/models/${encodeURIComponent(ID)}`)).status).toBe(200)
    await expect.poll(() => held.state).toBe('closed')
    expect(existsSync(folder())).toBe(false)
    expect(await engineOf(ID)).toBeUndefined()
    expect(server.logs.filter((line) => line.includes('Cannot examine'))).toEqual([])
    // The next one is examined.
    held = new HeldEngine()
    await pull()
    await until('done')
  })

  test('a server that ends meanwhile is no hurry, and the next one begins again', async () => {
    held.isHeld = true
    await serve()
    await pull()
    await expect.poll(async () => (await examination())?.unchecked).toEqual(CHECKS.slice(1))
    await server.close()
    expect(await kept()).toMatchObject({ state: 'running' })
    held = new HeldEngine()
    await serve()
    await until('done')
    expect((await examination())!.findings.filter(({ check }) => check === 'template')).toHaveLength(1)
    // What has ended is not begun again.
    await server.close()
    held = new HeldEngine()
    await serve()
    expect((await examination())!.state).toBe('done')
    expect(held.works).toEqual([])
  })
})

describe('where memory has room for one model', () => {
  const environment = { LOOKOUT_MODEL_MEMORY: '0.6' }

  test('it waits until the model is in use, and puts no other one out', async () => {
    await serve({ environment })
    await pull()
    await expect
      .poll(async () => (await examination())?.overall)
      .toMatch(/^It waits until the model has room in memory/)
    expect(await examination()).toMatchObject({ state: 'waiting', unchecked: CHECKS, findings: [] })
    expect((await engineOf(SHIPPED))!.state).toBe('ready')
    expect((await ask(ID)).status).toBe(200)
    await until('done')
  })

  test('it gives way to a request for another model, and goes on later', async () => {
    held.isHeld = true
    await serve({ environment })
    await pull()
    expect((await ask(ID)).status).toBe(200)
    await expect.poll(async () => (await examination())?.unchecked).toEqual(CHECKS.slice(1))
    expect((await ask(SHIPPED)).status).toBe(200)
    await until('waiting')
    expect(await examination()).toMatchObject({ findings: [{ check: 'template' }], unchecked: CHECKS.slice(1) })
    held = new HeldEngine()
    expect((await ask(ID)).status).toBe(200)
    await until('done')
    expect((await examination())!.findings.filter(({ check }) => check === 'template')).toHaveLength(1)
  })
})

describe('what is kept', () => {
  const file = () => join(folder(), 'examination.json')

  test('is about the card and its files as they were', async () => {
    await serve()
    await pull()
    await until('done')
    const later = new Date(Date.now() + 10_000)
    await utimes(join(folder(), 'card.json'), later, later)
    await expect.poll(examination).toBeNull()
  })

  test.each([
    ['no JSON', '{"state": "do'],
    ['another shape', '{"state": "done", "findings": 7}'],
    ['a state that there is not', '{"state": "wonderful"}'],
    ['too long in a field', `{"overall": "${'x'.repeat(30_000)}"}`],
    ['far too large', `"${'x'.repeat(2 ** 22)}"`],
    ['nested deeply', '['.repeat(1_000_000)],
  ])('is ignored where it is %s', async (_what, text) => {
    await serve()
    await pull({ examine: false })
    await writeFile(file(), text)
    const isWarned = async () => {
      expect(await examination()).toBeNull()
      return server.logs.some((line) => line.includes('examination.json is ignored'))
    }
    await expect.poll(isWarned).toBe(true)
    expect((await ask(ID)).status).toBe(200)
  })

  test('breaks no header, also where a finding quotes what the model wrote', async () => {
    await serve()
    await pull()
    await until('done')
    const written = "Boxes are 'a\r\nset-cookie: b=c\0\x1b[31m\u{1f600}é': use another model. More."
    const noise = { check: 'coordinates', verdict: 'noise', finding: written + 'x'.repeat(10_000) }
    await writeFile(file(), JSON.stringify({ ...(await kept()), findings: [noise] }))
    const warning = async () => {
      const response = await ask(ID)
      expect(response.status).toBe(200)
      expect(response.headers.has('set-cookie')).toBe(false)
      return response.headers.get('x-lookout-warning')
    }
    await expect.poll(warning).toBe("Boxes are 'a??set-cookie: b=c??[31m???': use another model.")
    noise.finding = 'é'.repeat(20_000)
    await writeFile(file(), JSON.stringify({ ...(await kept()), findings: [noise] }))
    await expect.poll(warning).toBe('?'.repeat(1_000))
  })

  test('is ignored where it is a folder, and goes with the model', async () => {
    await serve()
    await pull({ examine: false })
    await mkdir(file())
    expect(await examination()).toBeNull()
    expect((await ask(ID)).status).toBe(200)
    expect((await call('DELETE', `/v1/models/${encodeURIComponent(ID)}`)).status).toBe(200)
    expect(existsSync(folder())).toBe(false)
  })
})
