import { existsSync } from 'node:fs'
import axe from 'axe-core'
import { type Browser, chromium, type Page } from 'playwright-core'
import { buildPage, isPageBuilt, STUDIO } from '../../src/setup/pages.mjs'
import type { Page as Built } from '../../src/setup/types.ts'
import { KEY } from './server.ts'

/** The machine's own browser; null where there is none, and its tests are skipped. */
export const CHROMIUM =
  ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync) ?? null

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
  /** Instead of the key that opens everything. */
  readonly key?: string
}

let browser: Promise<Browser> | null = null

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

/** Opens a page in a browser of its own profile. */
export async function openPage(url: string, options: Omit<StudioPageOptions, 'key'> = {}): Promise<StudioPage> {
  const { width = 1360, height = 820, ...rest } = options
  browser ??= chromium.launch({
    executablePath: CHROMIUM!,
    args: ['--no-sandbox', '--use-fake-device-for-media-stream'],
  })
  const context = await (await browser).newContext({ viewport: { width, height }, ...rest })
  const page = await context.newPage()
  // Only for what hangs, as the tests' own limits.
  page.setDefaultTimeout(60_000)
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
      // A handler that still fetches would fail with the context.
      await page.unrouteAll({ behavior: 'ignoreErrors' })
      await context.close()
    },
  }
}

/** What axe-core finds wrong with the page as it is: a rule and the element for each. A test expects none. */
export async function violationsOf(page: Page): Promise<string[]> {
  // The page's policy forbids other scripts; what the browser's debugger evaluates is none.
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(axe.source)
  const { violations } = await page.evaluate(() =>
    // Describing what is right as well would take most of the time.
    (globalThis as unknown as { axe: typeof axe }).axe.run({ resultTypes: ['violations'] }),
  )
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 120)}`))
}

/** Has the server's list of models name another one, which answers nothing, from the next time that the page asks for it. */
export async function nameOtherModel(page: Page, id: string): Promise<void> {
  await page.route('**/v1/models?*', async (route) => {
    const response = await route.fetch()
    const { data, ...list } = (await response.json()) as { data: object[] }
    await route.fulfill({ response, json: { ...list, data: [...data, { ...data[0], id }] } })
  })
}

export async function closeBrowser(): Promise<void> {
  await (await browser)?.close()
  browser = null
}

/**
 * Keeps the text of the chat completion that comes next. Chromium forgets the body of a stream once the page has read it.
 * @returns the reply's text; empty until it has arrived.
 */
export async function catchReply(page: Page): Promise<() => string> {
  let events = ''
  await page.route('**/v1/chat/completions', async (route) => {
    const response = await route.fetch()
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
