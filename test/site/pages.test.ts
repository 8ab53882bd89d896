import { existsSync } from 'node:fs'
import { glob, readFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { CHROMIUM, closeBrowser, openPage, type StudioPage } from '../support/browser.ts'

/**
 * The built documentation site, in a browser. `npm run docs` builds it beforehand: its generator is not installed with
 * Lookout.
 */

const SITE = 'out/site'
const isBuilt = existsSync(join(SITE, 'index.html'))
if (!isBuilt) console.warn(`SKIPPED: the tests of the documentation site need it in ${SITE} (npm run docs)`)

const TYPES: Record<string, string> = {
  '.css': 'text/css',
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
}

const PHONE = { width: 390, height: 844 }
const DESKTOP = { width: 1280, height: 800 }
/** For all pages, on a busy machine. */
const VISITS_MS = 300_000

describe.skipIf(CHROMIUM === null || !isBuilt)('the documentation site', () => {
  let server: Server
  let url: string
  let opened: StudioPage
  const pages: string[] = []

  beforeAll(async () => {
    for await (const page of glob('**/*.html', { cwd: SITE })) pages.push(page)
    server = createServer(async (request, response) => {
      const { pathname } = new URL(request.url!, 'http://localhost')
      const file = join(SITE, decodeURIComponent(pathname), pathname.endsWith('/') ? 'index.html' : '')
      try {
        const body = await readFile(file)
        response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream' }).end(body)
      } catch {
        response.writeHead(404).end()
      }
    }).listen(0, '127.0.0.1')
    await new Promise((listening) => server.once('listening', listening))
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  })
  afterEach(() => opened?.close())
  afterAll(async () => {
    await closeBrowser()
    server?.close()
  })

  describe('every page', () => {
    const wide: string[] = []
    const poor: string[] = []
    let errors: readonly string[]

    // Each page is opened once, and looked at when its scripts have run and its diagrams are drawn.
    beforeAll(async () => {
      const own = await openPage('about:blank')
      const { page } = own
      for (const name of pages) {
        await page.setViewportSize(PHONE)
        await page.goto(`${url}/${name}`)
        for (const diagram of await page.locator('.mermaid-diagram').all()) await diagram.locator('svg').waitFor()
        const [content, window] = await page.locator('html').evaluate((root) => [root.scrollWidth, root.clientWidth])
        if (content! > window!) wide.push(`${name}: ${content} px in ${window}`)
        await page.setViewportSize(DESKTOP)
        poor.push(...(await poorBlocksOf(page)).map((block) => `${name}: ${block}`))
      }
      errors = [...own.errors]
      await own.close()
    }, VISITS_MS)

    test('does not scroll sideways on a phone', () => {
      expect(pages.length).toBeGreaterThan(40)
      expect(wide).toEqual([])
      expect(errors).toEqual([])
    })

    test('has a box and a button at each block of code, which stays clear of the outline', () => {
      expect(poor).toEqual([])
    })
  })

  test('an empty string among the values of a field is written', async () => {
    const page = await readFile(join(SITE, 'api/chat.html'), 'utf8')
    expect(page).toContain('<code>&quot;&quot;</code>')
  })

  test('an indented command can be copied, and scrolls in its box on a phone', async () => {
    opened = await openPage(`${url}/docs/operations.html`, {
      ...PHONE,
      permissions: ['clipboard-read', 'clipboard-write'],
    })
    const { page } = opened
    const command = 'OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 npx lookout serve'
    const box = page.locator('div[class*="language-"]', { hasText: command })
    const [text, view] = await box.locator('pre').evaluate((pre) => [pre.scrollWidth, pre.clientWidth])
    expect(text).toBeGreaterThan(view!)
    await box.hover()
    await box.locator('button.copy').click()
    await box.locator('button.copied').waitFor()
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(command)
  })
})

/** Blocks of code without a box and a button, and those that are over the outline. */
function poorBlocksOf(page: Page): Promise<string[]> {
  return page.locator('body').evaluate((body) => {
    const outline = body.querySelector('.VPDocAsideOutline')?.getBoundingClientRect()
    return [...body.querySelectorAll('.vp-doc pre')].flatMap((block) => {
      const box = block.closest('div[class*="language-"]')
      const said = block.textContent!.slice(0, 40)
      if (!box?.querySelector('button.copy')) return [`${said} has no button`]
      const isOver = outline && outline.width > 0 && box.getBoundingClientRect().right > outline.left
      return isOver ? [`${said} is over the outline`] : []
    })
  })
}
