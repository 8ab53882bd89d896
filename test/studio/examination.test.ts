import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { startEngine } from '../../src/inference/engines/engines.ts'
import { CHROMIUM, closeBrowser, openStudio, prepareStudio, violationsOf } from '../support/browser.ts'
import { type FakeHub, serveEntry, startFakeHub } from '../support/fake-hub.ts'
import { startTestServer, type TestServer } from '../support/server.ts'

const NAME = 'qwen3-vl-2b'
const TITLE = 'Qwen3-VL 2B Instruct'

describe.skipIf(CHROMIUM === null)('the examination of a model that the Studio fetches', () => {
  let home: string
  let hub: FakeHub
  let server: TestServer

  beforeAll(async () => {
    await prepareStudio()
    home = await mkdtemp(join(tmpdir(), 'lookout-studio-examined-'))
    hub = await startFakeHub()
    await serveEntry(hub, NAME, {
      model: await readFile('models/lookout-nano/model-f16.gguf'),
      projector: await readFile('models/lookout-nano/mmproj-f16.gguf'),
    })
    vi.stubEnv('HF_ENDPOINT', hub.url)
    vi.stubEnv('HF_HOME', join(home, 'hf'))
    server = await startTestServer({ startEngine, environment: { LOOKOUT_BACKEND: 'cpu' } })
  })
  afterAll(async () => {
    await closeBrowser()
    await server?.close()
    await hub?.[Symbol.asyncDispose]()
    await rm(home, { recursive: true, force: true })
  })

  test('runs by the real doctor, and its result is where the model is chosen, listed and used', async () => {
    vi.stubEnv('HF_ENDPOINT', hub.url)
    vi.stubEnv('HF_HOME', join(home, 'hf'))
    const studio = await openStudio(server.url, { width: 390, height: 844, hasTouch: true })
    const { page } = studio
    await page.getByRole('link', { name: 'get a model' }).click()
    await page.getByRole('listitem', { name: TITLE }).getByRole('button', { name: 'Get it' }).click()
    await expect.poll(() => page.getByLabel('Your question').inputValue()).toBe('What is in this picture?')
    // The picker is too narrow for it here.
    const note = page.locator('.model-note')
    const result = 'Checked: boxes within a patch'
    await note.getByText(result, { exact: true }).waitFor({ timeout: 120_000 })
    const option = page.getByLabel('Model', { exact: true }).locator('option:checked')
    expect(await option.innerText()).toContain(` · ${result}`)
    expect(await violationsOf(page)).toEqual([])

    await page.getByRole('button', { name: 'Detect', exact: true }).first().click()
    await page.getByText('Not searched yet.').waitFor()
    expect(await page.locator('.places-warning').count()).toBe(0)
    await page.getByRole('button', { name: 'Server' }).click()
    await page.getByRole('tab', { name: 'Models' }).click()
    await page.locator('.examination').getByText(result, { exact: true }).waitFor()
    expect(await violationsOf(page)).toEqual([])
    expect(studio.errors).toEqual([])
  })
})
