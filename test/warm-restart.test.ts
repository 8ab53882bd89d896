import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest'
import { startEngine } from '../src/inference/engines/engines.ts'
import type { LocalEngine } from '../src/inference/local/host/local-engine.ts'
import { TestAccounts } from './support/accounts.ts'
import { outcomeOf, startLookout } from './support/command-line.ts'
import { CARD } from './support/local-engine.ts'
import { jsonOf, startTestServer, type TestServer } from './support/server.ts'

/** A chat about an image over HTTP, whose server or engine ends between its turns. */

const IMAGE_TOKENS = 64

let directory: string
let accounts: TestAccounts
let image: object
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-warm-'))
  accounts = await TestAccounts.open()
  const png = await readFile(new URL('../docs/pictures/shapes.png', import.meta.url))
  image = { type: 'image_url', image_url: { url: `data:image/png;base64,${png.toString('base64')}` } }
})
afterAll(async () => {
  await accounts?.close()
  await rm(directory, { recursive: true, force: true })
})

/** A server with the shipped model, which keeps what it computes although that is quick. */
async function start(gib: number): Promise<{ server: TestServer; engine: LocalEngine }> {
  let engine: LocalEngine | null = null
  const server = await startTestServer({
    startEngine: async (card, options) => {
      const { prefixDisk } = options
      engine = (await startEngine(card, {
        ...options,
        threads: 1,
        ...(prefixDisk && { prefixDisk: { ...prefixDisk, keepsAll: true } }),
      })) as LocalEngine
      return engine
    },
    environment: {
      LOOKOUT_MODEL_CARD: CARD,
      LOOKOUT_DATA_DIR: directory,
      LOOKOUT_PREFIX_CACHE_DISK: String(gib),
      LOOKOUT_METRICS_PORT: '0',
    },
  })
  return { server, engine: engine! }
}

interface Turn {
  readonly role: string
  readonly content: unknown
}

async function ask(
  { server }: { readonly server: TestServer },
  messages: readonly Turn[],
  key: string,
): Promise<string> {
  const body = { model: 'service-mk1.5', messages, temperature: 0, max_completion_tokens: 16 }
  const response = await server.post('/v1/chat/completions', body, { authorization: `Bearer ${key}` })
  expect(response.status).toBe(200)
  const { choices } = await jsonOf<{ choices: { message: { content: string } }[] }>(response)
  return choices[0]!.message.content
}

async function measured({ server }: { readonly server: TestServer }, name: string): Promise<number> {
  const text = await (await fetch(server.service.metricsUrl!)).text()
  return Number(new RegExp(`^lookout_${name}\\{.*\\} (\\S+)$`, 'm').exec(text)?.[1])
}

test('the next turn after a restart computes only what is new, for its organisation alone', async () => {
  const [own, other] = [await accounts.organisation(), await accounts.organisation()]
  const first: Turn[] = [{ role: 'user', content: [image, { type: 'text', text: 'What is here?' }] }]
  const then = (text: string): Turn[] => [
    ...first,
    { role: 'assistant', content: text },
    { role: 'user', content: 'Where is the star?' },
  ]
  const cold = await start(0)
  const reply = await ask(cold, first, own.key)
  const expected = await ask(cold, then(reply), own.key)
  await cold.server.close()

  let running = await start(0.1)
  expect(await ask(running, first, own.key)).toBe(reply)
  // A slow disk may not take it while the server closes.
  await vi.waitUntil(async () => (await measured(running, 'prefix_cache_disk_files')) >= 1, { timeout: 60_000 })
  await running.server.close()

  running = await start(0.1)
  expect(await ask(running, then(reply), other.key)).toBe(expected)
  expect(await measured(running, 'prefix_cache_tokens_total')).toBe(0)
  expect(await ask(running, then(reply), own.key)).toBe(expected)
  expect(await measured(running, 'prefix_cache_tokens_total')).toBeGreaterThan(IMAGE_TOKENS)
  expect(await measured(running, 'prefix_cache_disk_hits_total')).toBe(1)
  await vi.waitUntil(async () => (await measured(running, 'prefix_cache_disk_files')) >= 3, { timeout: 60_000 })
  expect(await measured(running, 'prefix_cache_disk_bytes')).toBeGreaterThan(100_000)

  const { engine } = running
  const { pid } = engine
  process.kill(pid!, 'SIGKILL')
  await vi.waitUntil(() => engine.state === 'ready' && engine.pid !== pid, { timeout: 60_000 })
  expect(await ask(running, then(reply), own.key)).toBe(expected)
  expect(await measured(running, 'prefix_cache_tokens_total')).toBeGreaterThan(IMAGE_TOKENS)
  await running.server.close()

  const environment = { DATABASE_URL: inject('databaseUrl'), LOOKOUT_DATA_DIR: directory }
  const revoked = await outcomeOf(startLookout(['orgs', 'revoke', own.organisation], environment))
  expect(revoked).toMatchObject({ code: 0 })
  running = await start(0.1)
  await vi.waitUntil(async () => (await measured(running, 'prefix_cache_disk_files')) === 1, { timeout: 60_000 })
  await running.server.close()
})
