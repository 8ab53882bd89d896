import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import {
  CHROMIUM,
  closeBrowser,
  openStudio,
  prepareStudio,
  type StudioPage,
  violationsInBothThemes,
} from '../support/browser.ts'
import { KEY, type TestServer } from '../support/server.ts'
import { startShippedServer } from '../support/shipped-model.ts'

const run = promisify(execFile)

describe.skipIf(CHROMIUM === null)('the request in the Studio', () => {
  let server: TestServer
  let studio: StudioPage

  beforeAll(async () => {
    await prepareStudio()
    server = await startShippedServer()
  })
  afterEach(() => studio?.close())
  afterAll(async () => {
    await closeBrowser()
    await server?.close()
  })

  test('is shown without its key and its base64, and runs as it was copied', async () => {
    studio = await openStudio(server.url, { permissions: ['clipboard-read', 'clipboard-write'] })
    const { page, errors } = studio
    await detectShapes(page)
    const drawer = page.getByRole('complementary', { name: 'Request and response' })
    await page.getByRole('button', { name: 'Show the request' }).click()
    const shown = await drawer.locator('pre').innerText()
    expect(shown).toContain('/studio/samples/shapes.png')
    expect(shown).not.toContain(KEY)
    expect(shown.length).toBeLessThan(2000)
    await drawer.getByRole('button', { name: 'Copy' }).click()
    await drawer.getByText('Copied').waitFor()
    const copied = await page.evaluate<string>('navigator.clipboard.readText()')
    const { stdout } = await run('bash', ['-c', copied])
    expect(stdout).toMatch(/point_box mention[\s\S]*data: \[DONE\]/)

    await drawer.getByRole('radio', { name: 'Response' }).click()
    expect(await drawer.locator('pre').innerText()).toContain('"finish_reason":"stop"')
    expect(await drawer.innerText()).toMatch(/Status 200 · \d+(\.\d)?\sm?s · \d+ events/)
    // The keyboard is where it was before.
    await page.keyboard.press('Escape')
    await drawer.waitFor({ state: 'detached' })
    expect(await focusedName(page)).toBe('Show the request')
    expect(errors).toEqual([])
  })

  test('reads a file of the user by its name', async () => {
    studio = await openStudio(server.url)
    const { page } = studio
    await page.getByLabel('Files', { exact: true }).setInputFiles('docs/pictures/shapes.png')
    await page.getByRole('button', { name: 'Show shapes.png' }).waitFor()
    await page.getByLabel('Your question').fill('Detect all objects.')
    await page.keyboard.press('Enter')
    await page.getByText(/\d+ \+ \d+ tokens/).waitFor()
    await page.getByRole('button', { name: 'Show the request' }).click()
    await page.getByText('It reads shapes.png from the current folder.').waitFor()
    expect(await page.locator('.drawer pre').innerText()).toContain('media_1=$(base64 < shapes.png')
  })

  test('costs as many tokens as the page says before', async () => {
    studio = await openStudio(server.url)
    const { page, errors } = studio
    await page.getByRole('button', { name: 'Six shapes' }).click()
    await page.getByLabel('Your question').fill('Where is the red circle?')
    const cost = await page.locator('.cost').innerText()
    await page.getByLabel('Your question').press('Enter')
    const facts = await page.getByText(/\d+ \+ \d+ tokens/).innerText()
    expect(facts).toMatch(new RegExp(`^${cost.replace(' tokens', '')} \\+ `))
    expect(await page.locator('.cost').count()).toBe(0)
    expect(errors).toEqual([])
  })

  test('everything goes by the keyboard, and its keys are listed', async () => {
    studio = await openStudio(server.url)
    const { page, errors } = studio
    await page.getByRole('combobox', { name: 'Model' }).waitFor()
    await page.keyboard.press('Tab')
    expect(await focusedName(page)).toBe('Skip to the question')
    await page.keyboard.press('Enter')
    expect(await focusedName(page)).toBe('Your question')
    // Within a text they are text.
    await page.keyboard.type('What?/')
    expect(await page.getByLabel('Your question').inputValue()).toBe('What?/')
    await page.keyboard.press('Shift+Tab')
    await page.keyboard.press('?')
    const list = page.getByRole('dialog', { name: 'Help' })
    await list.waitFor()
    await page.keyboard.press('Escape')
    await list.waitFor({ state: 'detached' })
    expect(await focusedName(page)).not.toBe('Your question')
    await page.keyboard.press('/')
    expect(await focusedName(page)).toBe('Your question')
    expect(errors).toEqual([])
  })

  test('its drawer and dialogs are accessible', async () => {
    studio = await openStudio(server.url)
    const { page } = studio
    await detectShapes(page)
    await page.getByRole('button', { name: 'Show the request' }).click()
    expect(await violationsInBothThemes(page)).toEqual([])
    await page.getByRole('radio', { name: 'Response' }).click()
    expect(await violationsInBothThemes(page)).toEqual([])
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Sessions' }).click()
    await page.getByRole('button', { name: 'Delete Detect all objects.' }).click()
    expect(await violationsInBothThemes(page)).toEqual([])
    await page.getByRole('button', { name: 'Keep' }).click()
    expect(await violationsInBothThemes(page)).toEqual([])
    await page.keyboard.press('Escape')
    await page.keyboard.press('?')
    await page.getByRole('dialog', { name: 'Help' }).waitFor()
    expect(await violationsInBothThemes(page)).toEqual([])
  })
})

async function detectShapes(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Six shapes' }).click()
  await page.getByRole('button', { name: 'Detect all objects.' }).click()
  await page.getByText(/\d+ \+ \d+ tokens/).waitFor()
}

/** The name of what has the focus. */
function focusedName(page: Page): Promise<string> {
  return page.evaluate<string>(
    "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent.trim()",
  )
}
