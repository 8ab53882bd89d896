import { existsSync } from 'node:fs'
import axe from 'axe-core'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { buildPage, isPageBuilt, STUDIO } from '../../src/setup/pages.mjs'
import type { Page as Built } from '../../src/setup/types.ts'
import { KEY } from './server.ts'

/** The machine's own browser; null where there is none, and its tests are skipped. */
export const CHROMIUM =
  ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync) ?? null
/** The same without the windows of a desktop, where it is installed: pages take less than half as much work. */
const SHELL = ['/usr/bin/chromium-headless-shell'].find(existsSync) ?? CHROMIUM

if (CHROMIUM === null) console.warn('SKIPPED: tests of pages need chromium (apt-get install chromium)')

export interface StudioPage {
  readonly page: Page
  /** Errors of the console and of scripts; a test ends with none. */
  readonly errors: readonly string[]
  close(): Promise<void>
}

/** Errors that are not the browser's own note of a response that a test wants to fail. */
export function scriptErrors({ errors }: StudioPage): readonly string[] {
  return errors.filter((error) => !error.startsWith('Failed to load resource'))
}

export interface StudioPageOptions {
  readonly width?: number
  readonly height?: number
  readonly colorScheme?: 'light' | 'dark'
  readonly hasTouch?: boolean
  /** What the page may use without asking; no more by default. */
  readonly permissions?: string[]
  /** Whether it uses cameras, which the headless shell has not. */
  readonly hasCamera?: boolean
  /** Whether no other test goes on with the page: it gets a script or a clock that would stay. */
  readonly isAlone?: boolean
  /** Instead of the key that opens everything. */
  readonly key?: string
}

/** By the path of their program. */
const browsers = new Map<string, Promise<Browser>>()

/** Builds the page if its sources changed. Call before the server starts: it looks for the page then. */
export async function preparePage(page: Built): Promise<void> {
  if (!(await isPageBuilt(page))) await buildPage(page)
}

export async function prepareStudio(): Promise<void> {
  await preparePage(STUDIO)
}

/** Opens the Studio of a server in a browser of its own profile, with the key as `npm start` gives it. */
export async function openStudio(url: string, options: StudioPageOptions = {}): Promise<StudioPage> {
  const { key = KEY, ...rest } = options
  return openPage(`${url}/studio#key=${key}`, rest)
}

/** Pages that tests have left, emptied, by what of them cannot be changed. */
const left = new Map<string, Page>()

/**
 * Opens a page in a browser that knows nothing of the tests before. The page may be one that another test has left: a new
 * one has two processes to start, which takes longer than most tests.
 */
export async function openPage(url: string, options: Omit<StudioPageOptions, 'key'> = {}): Promise<StudioPage> {
  const { width = 1360, height = 820, colorScheme = 'light', isAlone = false, ...rest } = options
  const kind = JSON.stringify(rest)
  const known = isAlone ? undefined : left.get(kind)
  if (known) left.delete(kind)
  const page = known ?? (await newPage(rest))
  await page.setViewportSize({ width, height })
  // Transitions would only be in the way.
  await page.emulateMedia({ media: null, colorScheme, reducedMotion: 'reduce' })
  const errors: string[] = []
  page.on('pageerror', (error) => errors.push(error.message))
  page.on('console', (message) => {
    if (message.type() === 'error') errors.push(message.text())
  })
  await page.goto(url)
  return {
    page,
    errors,
    async close() {
      for (const event of ['pageerror', 'console', 'request'] as const) page.removeAllListeners(event)
      // A handler that still fetches would fail with the context.
      await page.unrouteAll({ behavior: 'ignoreErrors' })
      const isEmpty = !isAlone && !left.has(kind) && (await emptied(page))
      if (isEmpty) left.set(kind, page)
      else await page.context().close()
    },
  }
}

async function newPage({
  hasCamera = false,
  ...options
}: BrowserContextOptions & Pick<StudioPageOptions, 'hasCamera'>): Promise<Page> {
  const executablePath = hasCamera ? CHROMIUM! : SHELL!
  const known = browsers.get(executablePath)
  const browser =
    known ??
    chromium.launch({
      executablePath,
      // All pages are of one site, so that none needs another process at its first address.
      args: ['--no-sandbox', '--use-fake-device-for-media-stream', '--disable-site-isolation-trials'],
    })
  browsers.set(executablePath, browser)
  const context = await (await browser).newContext(options)
  const page = await context.newPage()
  // Only for what hangs, as the tests' own limits.
  page.setDefaultTimeout(60_000)
  return page
}

/** Leaves what the page shows, and removes what the browser keeps for it. @returns whether it is as a new one */
async function emptied(page: Page): Promise<boolean> {
  const { origin } = new URL(page.url())
  if (page.context().pages().length > 1 || origin === 'null') return false
  try {
    // A page can clear only the storage of its own origin. The server may be gone.
    const blank = { contentType: 'text/html', body: '<link rel="icon" href="data:,">' }
    await page.route('**/*', (route) => route.fulfill(blank))
    await page.goto(`${origin}/`)
    await page.unrouteAll({ behavior: 'wait' })
    await page.evaluate('sessionStorage.clear()')
    const devtools = await page.context().newCDPSession(page)
    await devtools.send('Storage.clearDataForOrigin', { origin, storageTypes: 'all' })
    await devtools.detach()
    await page.mouse.move(0, 0)
    return true
  } catch {
    return false
  }
}

/** What axe-core finds wrong with the page as it is: a rule and the element for each. A test expects none. */
export async function violationsOf(page: Page, rules?: string[]): Promise<string[]> {
  // The page's policy forbids other scripts; what the browser's debugger evaluates is none.
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(axe.source)
  const { violations } = await page.evaluate(
    (runOnly) =>
      // Describing what is right as well would take most of the time.
      (globalThis as unknown as { axe: typeof axe }).axe.run({
        resultTypes: ['violations'],
        ...(runOnly && { runOnly }),
      }),
    rules,
  )
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 120)}`))
}

/** The rules of axe-core that are about colours: a theme changes nothing else. */
const COLOURS = ['color-contrast', 'link-in-text-block']

/** The same of a page in light colours, and then in dark ones; with `isNarrow`, dark on a telephone. */
export async function violationsInBothThemes(page: Page, { isNarrow = false } = {}): Promise<string[]> {
  const light = await violationsOf(page)
  const size = page.viewportSize()!
  await page.emulateMedia({ colorScheme: 'dark' })
  if (isNarrow) await page.setViewportSize({ width: 390, height: 844 })
  const dark = await violationsOf(page, isNarrow ? undefined : COLOURS)
  await page.emulateMedia({ colorScheme: 'light' })
  await page.setViewportSize(size)
  return [...light, ...dark.map((violation) => `dark: ${violation}`)]
}

/** Has the server's list of models name another one, which answers nothing, from the next time that the page asks for it. */
export async function nameOtherModel(page: Page, id: string): Promise<void> {
  await page.route('**/v1/models?*', async (route) => {
    const response = await route.fetch({ timeout: 0 })
    const { data, ...list } = (await response.json()) as { data: object[] }
    await route.fulfill({ response, json: { ...list, data: [...data, { ...data[0], id }] } })
  })
}

export async function closeBrowser(): Promise<void> {
  left.clear()
  for (const browser of browsers.values()) await (await browser).close()
  browsers.clear()
}

/**
 * Keeps the text of the chat completion that comes next. Chromium forgets the body of a stream once the page has read it.
 * @returns the reply's text; empty until it has arrived.
 */
export async function catchReply(page: Page): Promise<() => string> {
  let events = ''
  await page.route('**/v1/chat/completions', async (route) => {
    const response = await route.fetch({ timeout: 0 })
    events = await response.text()
    await route.fulfill({ response, body: events })
  })
  return () => contentOf(events)
}

function contentOf(events: string): string {
  return [...events.matchAll(/^data: (\{.*)$/gm)]
    .map(
      ([, data]) =>
        (JSON.parse(data!) as { choices: { delta?: { content?: string } }[] }).choices[0]?.delta?.content ?? '',
    )
    .join('')
}
