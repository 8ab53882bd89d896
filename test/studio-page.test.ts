import { rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { brotliDecompressSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { buildPage, isPageBuilt, STUDIO } from '../src/setup/pages.mjs'
import { openEmbeddedDatabase } from './support/embedded-database.ts'
import { errorOf, jsonOf, startTestServer, type TestServer } from './support/server.ts'
import type { TestDatabase } from './support/services.ts'

/** How the server serves the Studio's page. What the page does is tested in a browser, in `studio/`. */
let server: TestServer
beforeAll(async () => {
  if (!(await isPageBuilt(STUDIO))) await buildPage(STUDIO)
  server = await startTestServer()
})
afterAll(() => server?.close())

/** Without a key, as a browser asks. */
const open = (path: string, headers: Record<string, string> = {}) =>
  fetch(server.url + path, { headers: { accept: 'text/html,*/*;q=0.8', ...headers }, redirect: 'manual' })

describe('the page', () => {
  test('needs no key, and may call nothing but this server', async () => {
    const response = await open('/studio')
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8')
    const policy = response.headers.get('content-security-policy')!
    expect(policy).toContain("default-src 'none'")
    expect(policy).toContain("connect-src 'self'")
    expect(policy).not.toMatch(/unsafe|https?:|\*/)
    expect((await response.text()).match(/<script/g)).toHaveLength(1)
  })

  test('opens with under 75 kB, compressed; each part that is loaded later takes under 20 kB', async () => {
    const page = await (await open('/studio')).text()
    const assets = [...page.matchAll(/(?:src|href)="(\/studio\/assets\/[^"]+)"/g)].map(([, path]) => path!)
    expect(assets.length).toBeGreaterThanOrEqual(2)
    const sizeOf = async (path: string) => {
      const response = await open(path, { 'accept-encoding': 'gzip' })
      expect(response.status).toBe(200)
      expect(response.headers.get('content-encoding')).toBe('gzip')
      expect(response.headers.get('cache-control')).toContain('immutable')
      return Number(response.headers.get('content-length'))
    }
    const sum = async (paths: readonly string[]) =>
      (await Promise.all(paths.map(sizeOf))).reduce((total, bytes) => total + bytes, 0)
    expect(await sum(assets)).toBeLessThan(75_000)

    const script = await (await open(assets.find((path) => path.endsWith('.js'))!)).text()
    const later = new Map<string, Set<string>>()
    for (const [path, name] of script.matchAll(/assets\/([a-z-]+)-[\w-]{8}[.](?:js|css)/g)) {
      const known = later.get(name!) ?? new Set()
      if (!assets.includes(`/studio/${path}`)) later.set(name!, known.add(`/studio/${path}`))
    }
    const modes = [...later.keys()].filter((name) => name.endsWith('-mode')).sort()
    expect(modes).toEqual([
      'decisions-mode',
      'detect-mode',
      'multilook-mode',
      'server-mode',
      'structure-mode',
      'watch-mode',
    ])
    for (const paths of later.values()) expect(await sum([...paths])).toBeLessThan(20_000)
  })

  test('comes in the encodings that the browser takes', async () => {
    const plain = Buffer.from(await (await open('/studio', { 'accept-encoding': 'identity' })).arrayBuffer())
    expect((await open('/studio', { 'accept-encoding': 'br;q=0, gzip' })).headers.get('content-encoding')).toBe('gzip')
    const { request } = await import('undici')
    const response = await request(`${server.url}/studio`, { headers: { 'accept-encoding': 'gzip, br' } })
    expect(response.headers['content-encoding']).toBe('br')
    expect(brotliDecompressSync(Buffer.from(await response.body.arrayBuffer())).equals(plain)).toBe(true)
  })

  test.each([
    '/studio/nothing.js',
    '/studio/..%2f..%2fpackage.json',
    '/studio/%2e%2e/package.json',
    '/studio/built-from',
  ])('has no other files: %s', async (path) => {
    expect([401, 404]).toContain((await open(path)).status)
  })
})

describe('the root', () => {
  test('sends browsers to the Studio', async () => {
    const response = await open('/')
    expect(response.status).toBe(302)
    expect(response.headers.get('location')).toBe('/studio')
  })

  test('tells other clients where to go on', async () => {
    const body = await jsonOf<{ links: Record<string, string> }>(await open('/', { accept: '*/*' }))
    expect(body.links).toMatchObject({ studio: '/studio', models: '/v1/models' })
  })
})

describe('the key of the link', () => {
  let database: TestDatabase
  beforeAll(async () => {
    database = await openEmbeddedDatabase()
  })
  afterAll(() => database?.drop())
  const start = (environment: Record<string, string> = {}) =>
    startTestServer({ environment: { LOOKOUT_API_KEY: '', DATABASE_URL: database.url, ...environment } })

  test('opens everything, is readable by its owner alone, and outlives a restart', async () => {
    const first = await start()
    const { studioKey } = first.service
    const path = join(first.directory, 'studio-key')
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    const headers = { authorization: `Bearer ${studioKey}` }
    expect((await fetch(`${first.url}/v1/models`, { headers })).status).toBe(200)
    // What a newcomer does first with the link: to get a model.
    const pulled = await fetch(`${first.url}/v1/models/pull`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'nothing' }),
    })
    expect(await errorOf(pulled)).toMatchObject({ type: 'invalid_request_error', param: 'model' })
    await first.service.close()
    const second = await start({ LOOKOUT_DATA_DIR: first.directory })
    expect(second.service.studioKey).toBe(studioKey)
    await second.close()
    await rm(first.directory, { recursive: true })
  })

  test.each([
    ['LOOKOUT_HOST', '0.0.0.0'],
    ['LOOKOUT_API_KEY', 'of-the-operator'],
    ['LOOKOUT_STUDIO', 'off'],
  ])('is not made with %s=%s', async (name, value) => {
    const other = await start({ [name]: value })
    expect(other.service.studioKey).toBeNull()
    await other.close()
  })
})

test('LOOKOUT_STUDIO=off serves no page', async () => {
  const without = await startTestServer({ environment: { LOOKOUT_STUDIO: 'off' } })
  try {
    expect((await fetch(`${without.url}/studio`)).status).toBe(401)
    const root = await fetch(without.url, { headers: { accept: 'text/html' } })
    expect((await jsonOf<{ links: object }>(root)).links).not.toHaveProperty('studio')
  } finally {
    await without.close()
  }
})
