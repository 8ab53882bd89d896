import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { REFERENCE } from '../../src/setup/pages.mjs'
import {
  CHROMIUM,
  closeBrowser,
  openPage,
  preparePage,
  prepareStudio,
  type StudioPage,
  violationsInBothThemes,
} from '../support/browser.ts'
import { KEY, startTestServer, type TestServer } from '../support/server.ts'

describe.skipIf(CHROMIUM === null)('the reference of the API', () => {
  let server: TestServer
  let opened: StudioPage

  beforeAll(async () => {
    await preparePage(REFERENCE)
    await prepareStudio()
    server = await startTestServer()
  })
  afterEach(() => opened?.close())
  afterAll(async () => {
    await closeBrowser()
    await server?.close()
  })

  /** Opens the page, and gathers the hosts that it asks. */
  async function open(path = '/docs', options: Parameters<typeof openPage>[1] = {}) {
    opened = await openPage('about:blank', options)
    const { page } = opened
    const hosts = new Set<string>()
    page.on('request', (request) => hosts.add(new URL(request.url()).origin))
    await page.goto(server.url + path)
    await page.getByText('Conversations about text').waitFor()
    return { page, hosts }
  }

  test('shows an operation, asks no other host, and breaks no rule of its policy', async () => {
    const { page, hosts } = await open()
    await page.locator('#operations-tag-Detect').click()
    const operation = page.locator('#operations-Detect-detect')
    await operation.getByText('Detect objects in an image').click()
    await operation.getByText('negative_exemplars').first().waitFor()
    await operation.getByText('The API key is missing or invalid.').waitFor()
    expect([...hosts]).toEqual([server.url])
    expect(opened.errors).toEqual([])
  })

  test('an address leads to an operation, which can be tried with a key', async () => {
    const { page, hosts } = await open('/docs#/Models/listModels')
    await page.getByRole('button', { name: 'Authorize', exact: true }).first().click()
    const dialog = page.locator('.dialog-ux')
    await dialog.getByLabel('auth-bearer-value').fill(KEY)
    await dialog.getByRole('button', { name: 'Apply credentials' }).first().click()
    await dialog.getByRole('button', { name: 'Close' }).first().click()
    const operation = page.locator('#operations-Models-listModels')
    await operation.getByRole('button', { name: 'Try it out' }).click()
    await operation.getByRole('button', { name: 'Execute' }).click()
    await operation.getByText('service-mk1.5').first().waitFor()
    expect([...hosts]).toEqual([server.url])
    expect(opened.errors).toEqual([])
    expect(await page.evaluate('Object.keys(localStorage)')).toEqual([])
  })

  test('is dark where the browser is, and follows it', async () => {
    const { page } = await open('/docs', { colorScheme: 'dark' })
    const ground = () => page.evaluate<string>('getComputedStyle(document.body).backgroundColor')
    const dark = await ground()
    await page.emulateMedia({ colorScheme: 'light' })
    await expect.poll(ground).not.toBe(dark)
  })

  test('fits a telephone', async () => {
    const { page } = await open('/docs#/Chat%20completions/createChatCompletion', { width: 390, height: 844 })
    await page.locator('#operations-Chat_completions-createChatCompletion').getByText('Responses').first().waitFor()
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390)
  })

  test('the documentation fits a telephone and is accessible', async () => {
    opened = await openPage(`${server.url}/docs/guide/studio.html`, { width: 390, height: 844 })
    const { page } = opened
    for (const name of ['All pages', 'Installing']) {
      await page.getByRole('link', { name, exact: true }).click()
      await page.waitForLoadState()
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390)
      expect(await violationsInBothThemes(page)).toEqual([])
    }
    expect(opened.errors).toEqual([])
  })

  test('leads to the Studio', async () => {
    const { page } = await open()
    await page.getByRole('link', { name: 'Studio' }).click()
    await page.waitForURL('**/studio')
  })
})
