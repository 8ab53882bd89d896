import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import {
  CHROMIUM,
  closeBrowser,
  openPage,
  openStudio,
  prepareStudio,
  type StudioPage,
  violationsInBothThemes,
} from '../support/browser.ts'
import { FakeEngine } from '../support/fake-engine.ts'
import { KEY, startTestServer, type TestServer } from '../support/server.ts'

const MODES = ['Ask', 'Multilook', 'Decisions', 'Detect', 'Structure', 'Watch', 'Server']

describe.skipIf(CHROMIUM === null)('the Studio on a phone', () => {
  let server: TestServer
  let studio: StudioPage
  const engine = new FakeEngine()
  engine.script = { texts: Array.from({ length: 60 }, (_, line) => `This is line ${line}.\n\n`) }

  beforeAll(async () => {
    await prepareStudio()
    server = await startTestServer({
      startEngine: async () => engine,
      // A database of its own: it is not to run the watches of other tests.
      environment: { DATABASE_URL: '', LOOKOUT_WATCHES: '2' },
    })
  })
  afterEach(() => studio?.close())
  afterAll(async () => {
    await closeBrowser()
    await server?.close()
  })

  async function open(options: Parameters<typeof openStudio>[1] = {}): Promise<Page> {
    studio = await openStudio(server.url, { width: 390, height: 844, hasTouch: true, ...options })
    const { page } = studio
    await page.getByRole('combobox', { name: 'Model' }).waitFor()
    return page
  }

  async function openMode(page: Page, mode: string): Promise<void> {
    await page.getByRole('navigation', { name: 'Modes' }).getByRole('button', { name: mode }).click()
    await page.locator('#panel [aria-busy="true"]').waitFor({ state: 'detached' })
  }

  test.each([
    [390, 844],
    [360, 740],
    [375, 667],
    [844, 390],
    [667, 375],
    [768, 1024],
    [1000, 700],
  ])('all of it is in view on %d x %d', async (width, height) => {
    const page = await open({ width, height })
    await page.getByRole('heading', { name: 'Lookout', level: 1 }).waitFor()
    await page.getByRole('button', { name: 'Six shapes' }).click()
    for (const mode of MODES) {
      await openMode(page, mode)
      expect([mode, await outOfView(page)]).toEqual([mode, []])
      expect([mode, await tooSmall(page)]).toEqual([mode, []])
    }
    await openMode(page, 'Ask')
    await page.getByRole('button', { name: 'Detect all objects.' }).click()
    await answerIsInView(page, height)
    expect(studio.errors).toEqual([])
  })

  test.each([
    [390, 844],
    [360, 740],
    [375, 667],
  ])('an answer without media is in view on %d x %d, and so is the way to bring some', async (width, height) => {
    const page = await open({ width, height })
    await page.getByLabel('Your question').fill('Who are you?')
    await page.getByLabel('Your question').press('Enter')
    await answerIsInView(page, height)
    expect(await tooSmall(page)).toEqual([])
    for (const name of ['Choose files', 'Use the camera', 'From URL'])
      expect(await isInView(page, `.empty-stage button:text("${name}")`, '.stage')).toBe(true)
    expect(studio.errors).toEqual([])
  })

  test('each mode and the help are accessible', async () => {
    const page = await open()
    for (const mode of MODES) {
      await openMode(page, mode)
      expect([mode, await violationsInBothThemes(page)]).toEqual([mode, []])
    }
    await page.getByRole('button', { name: 'Help' }).click()
    await page.getByRole('dialog', { name: 'Help' }).getByRole('link', { name: 'About the Studio' }).waitFor()
    expect(await violationsInBothThemes(page)).toEqual([])
  })

  test('nothing moves when the models are known: a finger is on its way', async () => {
    studio = await openPage('about:blank', { width: 390, height: 844, hasTouch: true })
    const { page } = studio
    const known = Promise.withResolvers<void>()
    await page.route('**/v1/models?*', async (route) => {
      await known.promise
      await route.fallback()
    })
    await page.goto(`${server.url}/studio#key=${KEY}`)
    const place = async () => (await page.getByRole('main').boundingBox())?.y
    const before = await place()
    known.resolve()
    await page.getByRole('combobox', { name: 'Model' }).waitFor()
    expect(await place()).toBe(before)
  })

  test('the help has no links where the server has no documentation', async () => {
    const page = await open()
    await page.route(
      ({ pathname }) => pathname === '/',
      (route) => route.fulfill({ json: { links: { studio: '/studio' } } }),
    )
    const answered = page.waitForResponse((response) => new URL(response.url()).pathname === '/')
    await page.getByRole('button', { name: 'Help' }).click()
    await (await answered).finished()
    const help = page.getByRole('dialog', { name: 'Help' })
    await help.getByRole('heading', { name: 'Keys in all modes' }).waitFor()
    expect(await help.getByRole('link').count()).toBe(0)
  })

  test('the model that was fetched is called by its name, and what is known of it is in the picker', async () => {
    studio = await openStudio(server.url, { width: 390, height: 844, hasTouch: true })
    const { page } = studio
    const id = 'acme/Seer-VL-2B-Instruct-GGUF:Q4_K_M'
    await page.route('**/v1/models?*', async (route) => {
      const response = await route.fetch({ timeout: 0 })
      const { data } = (await response.json()) as { data: object[] }
      await route.fulfill({ response, json: { object: 'list', data: [{ ...data[0], id, name: id }] } })
    })
    await page.route('**/v1/server', async (route) => {
      const response = await route.fetch({ timeout: 0 })
      const body = (await response.json()) as { engines: object[] }
      const examination = {
        state: 'running',
        overall: null,
        ok: null,
        places_off_by: null,
        findings: [{ check: 'images', verdict: 'ok', finding: 'The model sees.' }],
        unchecked: ['coordinates'],
      }
      const engines = [{ ...body.engines[0], models: [id], demonstration: false, examination }]
      await route.fulfill({ response, json: { ...body, engines } })
    })
    await page.reload()
    const picker = page.getByRole('combobox', { name: 'Model' })
    const text = 'Seer-VL-2B-Instruct · Checking… 1 of 2'
    await expect.poll(() => picker.locator('option:checked').innerText()).toBe(text)
    // It has a row of its own.
    expect((await picker.boundingBox())!.width).toBeGreaterThan(350)
    // The examination goes on after the page was loaded again.
    expect(await page.locator('.model-note').innerText()).toMatch(/^Checking: sees.✓, boxes.…$/)
  })
})

/** Expects the end of the latest answer to be in view: that is what is read. */
async function answerIsInView(page: Page, height: number): Promise<void> {
  await page.getByText(/\d+ \+ \d+ tokens/).waitFor()
  expect(await outOfView(page)).toEqual([])
  await expect.poll(() => isInView(page, '.reply-facts')).toBe(true)
  if (height > 480) await expect.poll(() => isInView(page, '.reply-text p', '.turns')).toBe(true)
}

/** Whether all of an element is in the window, and in sight within what scrolls around it. */
function isInView(page: Page, selector: string, frame = 'html'): Promise<boolean> {
  return page
    .locator(selector)
    .last()
    .evaluate((one, around) => {
      const { innerHeight } = one.ownerDocument.defaultView!
      const outer = one.closest(around)!.getBoundingClientRect()
      const { top, bottom } = one.getBoundingClientRect()
      return top >= Math.max(0, outer.top) && bottom <= Math.min(innerHeight, outer.bottom)
    }, frame)
}

/** What of the bars and the place to write is cut off by the window, and whether the page itself scrolls. */
function outOfView(page: Page): Promise<string[]> {
  return page.locator('html').evaluate((root) => {
    const { document, innerWidth, innerHeight } = root.ownerDocument.defaultView!
    const { scrollWidth, scrollHeight } = root
    const bars = '.top-bar :is(button, select), .composer :is(textarea, .button, .icon-button)'
    const found = [...root.querySelectorAll(bars)].flatMap((one) => {
      const { left, top, right, bottom } = one.getBoundingClientRect()
      const seen = document.elementFromPoint((left + right) / 2, (top + bottom) / 2)
      const isSeen = left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight && one.contains(seen)
      const isCut = one.matches('button') && one.scrollWidth > one.clientWidth
      return isSeen && !isCut ? [] : [one.getAttribute('aria-label') ?? one.innerText]
    })
    return [
      ...found,
      ...(scrollWidth > innerWidth ? [`the page, ${scrollWidth} wide`] : []),
      ...(scrollHeight > innerHeight ? [`the page, ${scrollHeight} high`] : []),
    ]
  })
}

/** Buttons and fields that a finger misses. What is within a text or on a thumbnail may be smaller. */
function tooSmall(page: Page): Promise<string[]> {
  return page.locator('html').evaluate((root) =>
    [...root.querySelectorAll('button, select, textarea, summary')].flatMap((one) => {
      const { width, height } = one.getBoundingClientRect()
      if (width === 0 || one.matches('.skip-link, .thumb .icon-button, .chip') || (width >= 40 && height >= 40))
        return []
      return [`${one.getAttribute('aria-label') ?? one.innerText}: ${Math.round(width)} x ${Math.round(height)}`]
    }),
  )
}
