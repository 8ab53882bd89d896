import { glob } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { buildPage, isPageBuilt, REFERENCE } from '../src/setup/pages.mjs'
import { jsonOf, startTestServer, type TestServer } from './support/server.ts'

/** How the server serves the reference of the API. What the page does is tested in a browser, in `reference/`. */
let server: TestServer
beforeAll(async () => {
  if (!(await isPageBuilt(REFERENCE))) await buildPage(REFERENCE)
  server = await startTestServer()
})
afterAll(() => server?.close())

const open = (path: string, headers: Record<string, string> = {}) => fetch(server.url + path, { headers })

describe('the reference', () => {
  test('needs no key, and may call nothing but this server', async () => {
    const response = await open('/docs')
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8')
    const policy = response.headers.get('content-security-policy')!
    expect(policy).toContain("default-src 'none'")
    expect(policy).toContain("connect-src 'self'")
    expect(policy).not.toMatch(/unsafe|https?:|\*/)
    expect(response.headers.get('permissions-policy')).toBe('camera=(), microphone=(), geolocation=()')
    expect((await response.text()).match(/<script/g)).toHaveLength(1)
  })

  test('has its code and styles here, compressed, and for good', async () => {
    const page = await (await open('/docs')).text()
    const assets = [...page.matchAll(/(?:src|href)="(\/docs\/assets\/[^"]+)"/g)].map(([, path]) => path!)
    expect(assets.map((path) => path.replace(/.*[.]/, '')).sort()).toEqual(['css', 'js'])
    for (const path of assets) {
      const response = await open(path, { 'accept-encoding': 'gzip' })
      expect(response.headers.get('content-encoding')).toBe('gzip')
      expect(response.headers.get('cache-control')).toContain('immutable')
      expect(Number(response.headers.get('content-length'))).toBeLessThan(500_000)
    }
  })

  test('comes with the licences of what it shows', async () => {
    const page = await (await open('/docs')).text()
    const licences = [...page.matchAll(/href="(\/docs\/licences\/[^"]+)"/g)].map(([, path]) => path!)
    const texts = await Promise.all(licences.map(async (path) => (await open(path)).text()))
    expect(texts).toEqual([
      expect.stringContaining('Apache License'),
      expect.stringContaining('SmartBear'),
      expect.stringContaining('MIT'),
    ])
  })

  test.each(['/docs/nothing.js', '/docs/..%2f..%2fpackage.json', '/docs/built-from'])(
    'has no other files: %s',
    async (path) => {
      expect([401, 404]).toContain((await open(path)).status)
    },
  )

  test('the root leads to it', async () => {
    const { links } = await jsonOf<{ links: Record<string, string> }>(await open('/', { accept: 'application/json' }))
    expect(links.docs).toBe('/docs')
    for (const folder of ['/docs/guide', '/docs/guide/']) {
      const response = await fetch(server.url + folder, { redirect: 'manual' })
      expect([folder, response.status, response.headers.get('location')]).toEqual([folder, 302, links.guide])
    }
    expect((await open('/docs/assets')).status).toBe(404)
  })
})

describe('the documentation below it', () => {
  test('has every page of docs/ and no script; all links, anchors and pictures are there', async () => {
    const { links } = await jsonOf<{ links: Record<string, string> }>(await open('/', { accept: 'application/json' }))
    const pages = new Map<string, string>()
    const wanted = [links.guide!]
    for (const path of wanted) {
      const response = await open(path)
      expect([path, response.status]).toEqual([path, 200])
      expect(response.headers.get('content-security-policy')).not.toMatch(/unsafe|https?:|\*/)
      const page = await response.text()
      pages.set(path, page)
      expect(page).not.toMatch(/<script|<style| style=| on\w+=/)
      for (const to of linksOf(page, path)) if (to.endsWith('.html') && !wanted.includes(to)) wanted.push(to)
    }
    for await (const page of glob('**/*.md', { cwd: 'docs' })) {
      expect([...pages.keys()]).toContain(`/docs/guide/${page.replace(/md$/, 'html')}`)
    }
    for (const [path, page] of pages) {
      for (const [, href] of page.matchAll(/<a href="([^"]*#[^"]+)"/g)) {
        const { host, pathname, hash } = new URL(href!, `http://here${path}`)
        if (host !== 'here') continue
        expect([path, href, pages.get(pathname)?.includes(` id="${decodeURIComponent(hash.slice(1))}"`)]).toEqual([
          path,
          href,
          true,
        ])
      }
      for (const [, src] of page.matchAll(/<(?:img src|link rel="\w+" href)="([^"]+)"/g)) {
        const file = new URL(src!, `http://here${path}`).pathname
        expect([path, file, (await open(file)).status]).toEqual([path, file, 200])
      }
    }
  })
})

/** The paths of this server that a page links to. */
function linksOf(page: string, path: string): string[] {
  return [...page.matchAll(/<a href="([^"]+)"/g)].flatMap(([, href]) => {
    const { host, pathname } = new URL(href!, `http://here${path}`)
    return host === 'here' ? [pathname] : []
  })
}

test('LOOKOUT_DOCS=off serves no reference; the description stays', async () => {
  const without = await startTestServer({ environment: { LOOKOUT_DOCS: 'off' } })
  try {
    expect((await fetch(`${without.url}/docs`)).status).toBe(401)
    const root = await fetch(without.url, { headers: { accept: 'application/json' } })
    expect((await jsonOf<{ links: object }>(root)).links).not.toHaveProperty('docs')
    expect((await fetch(`${without.url}/openapi.json`)).status).toBe(200)
  } finally {
    await without.close()
  }
})
