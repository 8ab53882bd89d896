import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { EngineStats } from '../src/inference/contract/stats.ts'
import { LocalEngine } from '../src/inference/local/host/local-engine.ts'
import { TestAccounts } from './support/accounts.ts'
import { FakeEngine } from './support/fake-engine.ts'
import { ModelStore } from './support/model-store.ts'
import { errorOf, jsonOf, startTestServer, type TestServer } from './support/server.ts'

interface Status {
  readonly version: string
  readonly started_at: number
  readonly uptime_seconds: number
  readonly scopes: readonly string[]
  readonly running: number
  readonly queued: number
  readonly tokens_per_second: number
  readonly cached_share: number | null
  readonly memory: Readonly<Record<'process_bytes' | 'engine_bytes' | 'available_bytes' | 'total_bytes', number>>
  readonly engines: readonly {
    readonly models: readonly string[]
    readonly stored: boolean
    readonly demonstration: boolean
    readonly state: string
    readonly running: number
    readonly tokens_per_second: number
    readonly cached_share: number | null
    readonly memory_bytes: number | null
  }[]
}

const model = 'service-mk1.5'
const IDS = [model, 'service-mk1']
const statusOf = async (server: TestServer) => jsonOf<Status & Record<string, unknown>>(await server.get('/v1/server'))
const chat = (server: TestServer, more: object) =>
  server.post('/v1/chat/completions', { model, messages: [{ role: 'user', content: 'Hello! How are you?' }], ...more })

test('a server with the shipped model tells what it does', async () => {
  const server = await startTestServer({ startEngine: (card, options) => LocalEngine.start(card, options) })
  try {
    const { version } = JSON.parse(await readFile('package.json', 'utf8'))
    const before = await statusOf(server)
    expect(before).toMatchObject({ object: 'server', version, running: 0, queued: 0, tokens_per_second: 0 })
    expect(before.engines).toMatchObject([
      { models: IDS, demonstration: true, state: 'ready', running: 0, tokens_per_second: 0 },
    ])
    expect(Math.abs(before.started_at + before.uptime_seconds - Date.now() / 1000)).toBeLessThan(10)
    const { process_bytes, engine_bytes, available_bytes, total_bytes } = before.memory
    expect(Math.min(process_bytes, engine_bytes)).toBeGreaterThan(2 ** 24)
    expect(Math.max(process_bytes, engine_bytes, available_bytes)).toBeLessThan(total_bytes)
    expect(before.engines[0]!.memory_bytes).toBe(engine_bytes)

    const messages = [{ role: 'user', content: 'A long prompt, of which a cache has most. '.repeat(50) }]
    for (let i = 0; i < 3; i++) {
      expect((await chat(server, { messages, max_completion_tokens: 20 })).status).toBe(200)
    }
    // A rate is that of the last seconds, which a busy machine may let pass.
    const rate = async () => {
      await chat(server, { messages, max_completion_tokens: 20 })
      return (await statusOf(server)).tokens_per_second
    }
    await expect.poll(rate).toBeGreaterThan(0)
    // All prompts but the first were computed before.
    await expect.poll(async () => (await statusOf(server)).cached_share).toBeGreaterThan(0.3)
    const { cached_share, engines } = await statusOf(server)
    expect(cached_share).toBeLessThan(1)
    expect(engines[0]!.cached_share).toBe(cached_share)
  } finally {
    await server.close()
  }
})

describe('a busy server', () => {
  class BusyEngine extends FakeEngine {
    figures: Partial<EngineStats> = {}
    asked = 0
    async stats(): Promise<EngineStats> {
      this.asked++
      return this.figures as EngineStats
    }
  }
  let accounts: TestAccounts
  let engine: BusyEngine
  let server: TestServer
  beforeAll(async () => {
    accounts = await TestAccounts.open()
    engine = new BusyEngine()
    server = await startTestServer({ engine })
  })
  afterAll(async () => {
    await server?.close()
    await accounts?.close()
  })

  test('is the same to every key, which learns its own scopes and nothing of other organisations', async () => {
    engine.figures = { running: 4, waiting: 7, prefilledTokens: 300, reusedTokens: 100, residentBytes: 1e8 }
    const { organisation, key } = await accounts.organisation()
    const { key: files } = await accounts.accounts.createKey({ organisation, scopes: ['files'] })
    const { key: admin } = await accounts.accounts.createKey({ organisation, scopes: ['admin'] })
    const seen: Status[] = []
    for (const one of [key, files, admin]) {
      const response = await server.get('/v1/server', { authorization: `Bearer ${one}` })
      expect(response.status).toBe(200)
      seen.push(await jsonOf<Status & Record<string, unknown>>(response))
    }
    expect(seen.map(({ scopes }) => scopes)).toEqual([
      ['inference', 'files', 'watch'],
      ['files'],
      ['inference', 'files', 'watch', 'admin'],
    ])
    for (const status of seen) {
      expect(status).toMatchObject({ running: 4, queued: 7, cached_share: 0.25 })
      expect(status.engines).toEqual([
        {
          models: IDS,
          stored: false,
          demonstration: true,
          state: 'ready',
          running: 4,
          queued: 7,
          tokens_per_second: 0,
          cached_share: 0.25,
          memory_bytes: 1e8,
          examination: null,
        },
      ])
      expect(JSON.stringify(status)).not.toContain(organisation)
    }
    expect((await fetch(`${server.url}/v1/server`)).status).toBe(401)
    expect(await errorOf(await server.post('/v1/server', {}))).toMatchObject({
      message: expect.stringContaining('GET'),
    })
  })

  test('asks its engines once for many clients', async () => {
    const asked = engine.asked
    await Promise.all(Array.from({ length: 50 }, () => statusOf(server)))
    // Each second that the fifty take adds one.
    expect(engine.asked - asked).toBeLessThan(25)
  })

  test('counts tokens while they come', async () => {
    engine.script = { texts: ['tick'], tokensPerText: 10, delayMs: 1, endless: true }
    const leaving = new AbortController()
    const stream = await fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${server.service.apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }], stream: true }),
      signal: leaving.signal,
    })
    const reading = stream.text().catch(() => '')
    await expect.poll(async () => (await statusOf(server)).tokens_per_second).toBeGreaterThan(100)
    leaving.abort()
    await reading
    await expect.poll(async () => (await statusOf(server)).tokens_per_second).toBe(0)
  })

  test('of which an engine does not answer leaves its figures out', async () => {
    engine.stats = () => Promise.reject(new Error('gone'))
    await expect
      .poll(async () => (await statusOf(server)).engines[0])
      .toMatchObject({ models: IDS, running: 0, cached_share: null, memory_bytes: null })
    engine.state = 'restarting'
    await expect.poll(async () => (await statusOf(server)).engines[0]!.state).toBe('restarting')
  })
})

test('a model that is not loaded is listed as such, and loading it is told', async () => {
  const begun = Promise.withResolvers<FakeEngine>()
  const server = await startTestServer({
    startEngine: async (card) => (card.serves[0]!.id === 'pulled' ? begun.promise : new FakeEngine()),
  })
  try {
    await new ModelStore(server.directory).put('pulled')
    const pulled = async () => (await statusOf(server)).engines.find(({ models }) => models.includes('pulled'))
    await expect.poll(pulled).toMatchObject({
      stored: true,
      demonstration: false,
      state: 'unloaded',
      memory_bytes: null,
    })
    const reply = chat(server, { model: 'pulled' })
    await expect.poll(pulled).toMatchObject({ state: 'starting', queued: 1, running: 0 })
    begun.resolve(new FakeEngine())
    expect((await reply).status).toBe(200)
    await expect.poll(pulled).toMatchObject({ state: 'ready', queued: 0 })
  } finally {
    begun.resolve(new FakeEngine())
    await server.close()
  }
})
