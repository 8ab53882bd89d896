import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { TestAccounts } from '../support/accounts.ts'
import {
  CHROMIUM,
  closeBrowser,
  openStudio,
  prepareStudio,
  type StudioPage,
  type StudioPageOptions,
  scriptErrors,
  violationsOf,
} from '../support/browser.ts'
import { FakeEngine } from '../support/fake-engine.ts'
import { type FakeHub, startFakeHub } from '../support/fake-hub.ts'
import { makePdf } from '../support/pdf.ts'
import { KEY, startTestServer, type TestServer } from '../support/server.ts'
import { makeTiff } from '../support/tiff.ts'

const REPOSITORY = 'acme/nano-GGUF'
const ID = `${REPOSITORY}:Q4_K_M`
/** One of the catalogue, which fits everywhere. */
const MODEL = 'Qwen3-VL 2B Instruct'

const SEES = { check: 'images', verdict: 'ok', finding: 'The model sees: it names 12 of 12 colours rightly.' }
const PLACES = { check: 'coordinates' }
const GOOD_PLACES = "box, x first, per mille, as the dialect 'qwen3-vl' says; mean error 0.44 patches, 12 of 12 replies"
const BAD_PLACES = 'Boxes are off by 3.2 patches on average: use another model for places, or see docs/doctor.md. More.'

/** An entry of models/catalogue.json. */
interface Entry {
  readonly repository: string
  readonly quantisations: readonly { readonly model: { readonly path: string } }[]
  readonly projector: { readonly path: string } | null
}

interface Catalogue {
  readonly data: readonly { readonly licence: object }[]
}

describe.skipIf(CHROMIUM === null)("the Studio's view of the server", () => {
  let home: string
  let hub: FakeHub
  let accounts: TestAccounts
  let engine: FakeEngine
  /** The engine of the model that is pulled. */
  let pulled: FakeEngine
  /** What it says. */
  let script: FakeEngine['script'] = { texts: ['tick '], delayMs: 20, endless: true }
  let server: TestServer
  let studio: StudioPage

  beforeAll(async () => {
    await prepareStudio()
    home = await mkdtemp(join(tmpdir(), 'lookout-studio-'))
    hub = await startFakeHub()
    const model = await readFile('models/lookout-nano/model-f16.gguf')
    const encoder = await readFile('models/lookout-nano/mmproj-f16.gguf')
    const { models } = JSON.parse(await readFile('models/catalogue.json', 'utf8')) as { models: Entry[] }
    for (const { repository, quantisations, projector } of models) {
      const files = new Map(quantisations.map((one) => [one.model.path, model]))
      if (projector !== null) files.set(projector.path, encoder)
      hub.repositories.set(repository, files)
    }
    hub.repositories.set(
      REPOSITORY,
      new Map([
        ['nano-Q4_K_M.gguf', model],
        ['nano-Q8_0.gguf', Buffer.concat([model, Buffer.alloc(2 ** 24)])],
        ['mmproj-nano-F16.gguf', encoder],
      ]),
    )
    accounts = await TestAccounts.open()
    engine = new FakeEngine()
    vi.stubEnv('HF_ENDPOINT', hub.url)
    vi.stubEnv('HF_HOME', join(home, 'hf'))
    server = await startTestServer({
      startEngine: async (card) => {
        if (card.serves.every(({ id }) => !id.includes('/'))) return engine
        pulled = new FakeEngine()
        pulled.script = script
        return pulled
      },
    })
  })
  afterEach(async () => {
    await studio?.close()
    // A test that failed midway leaves nothing to the next, or to its second try.
    hub.onDownload = () => undefined
    const headers = { authorization: `Bearer ${KEY}` }
    await fetch(`${server.url}/v1/models/${encodeURIComponent(ID)}`, { method: 'DELETE', headers })
  })
  afterAll(async () => {
    await closeBrowser()
    await server?.close()
    await accounts?.close()
    await hub?.[Symbol.asyncDispose]()
    await rm(home, { recursive: true, force: true })
  })

  async function open(options: StudioPageOptions = {}): Promise<Page> {
    // The server reads them at each pull, and they are taken back after each test.
    vi.stubEnv('HF_ENDPOINT', hub.url)
    vi.stubEnv('HF_HOME', join(home, 'hf'))
    studio = await openStudio(server.url, options)
    const { page } = studio
    await page.getByRole('button', { name: 'Server' }).click()
    return page
  }

  /** The same with another answer of the server. */
  async function openStudioWith<Body>(path: string, change: (body: Body) => object): Promise<Page> {
    studio = await openStudio(server.url)
    const { page } = studio
    await page.route(path, async (route) => {
      const response = await route.fetch({ timeout: 0 })
      await route.fulfill({ response, json: change((await response.json()) as Body) })
    })
    await page.reload()
    await page.getByRole('button', { name: 'Server' }).click()
    return page
  }

  /** Opens the page where models are fetched. */
  async function openGet(options: StudioPageOptions = {}): Promise<Page> {
    const page = await open(options)
    await page.getByRole('tab', { name: 'Get a model' }).click()
    return page
  }

  test('a model is looked up, chosen, fetched, used and deleted by keyboard alone', async () => {
    const page = await openGet()
    const pressed = (name: string | RegExp) => page.getByRole('button', { name })
    const address = page.getByLabel(/^A repository/)
    await address.fill('acme/none')
    await address.press('Enter')
    await page
      .getByRole('alert')
      .filter({ hasText: /acme\/none/ })
      .waitFor()
    expect(await address.inputValue()).toBe('acme/none')

    await address.fill(REPOSITORY)
    await address.press('Enter')
    const smaller = page.getByRole('radio', { name: /Q4_K_M.*19 MiB.*fits/ })
    const larger = page.getByRole('radio', { name: /Q8_0.*35 MiB/, checked: true })
    await larger.waitFor()
    // The focus is on what the server would take.
    await expect.poll(() => larger.evaluate((one) => one.matches(':focus'))).toBe(true)
    expect(await violationsOf(page)).toEqual([])
    await page.keyboard.press('ArrowUp')
    expect(await smaller.isChecked()).toBe(true)
    expect(hub.downloadsOf('nano-Q4_K_M.gguf').filter(({ range }) => !range?.endsWith('-1048575'))).toEqual([])

    // A download that does not end.
    hub.onDownload = ({ range }) => (range?.endsWith('-1048575') ? undefined : { kind: 'stall', after: 3e6 })
    await page.keyboard.press('Enter')
    await page.getByText(/of 9\.\d MiB|of 1\d MiB/).waitFor()
    const bar = page.getByRole('progressbar', { name: 'Progress of nano-Q4_K_M.gguf' })
    await expect.poll(() => bar.evaluate((one: { value: number }) => one.value)).toBeGreaterThan(1e6)
    expect(await violationsOf(page)).toEqual([])
    await expect.poll(() => page.locator(':focus').innerText()).toBe('Cancel')
    await page.keyboard.press('Enter')
    expect(await smaller.isChecked()).toBe(true)
    hub.onDownload = () => undefined

    // The server may need a moment to end the first pull.
    await pressed(/^Fetch 19 MiB/).press('Enter')
    // It goes on with a first question.
    const draft = page.getByLabel('Your question')
    await expect.poll(() => draft.inputValue()).toBe('What is in this picture?')
    await page.getByRole('button', { name: 'Show coffee.jpg' }).waitFor()
    expect(await draft.evaluate((one) => one.matches(':focus'))).toBe(true)
    expect(await violationsOf(page)).toEqual([])
    expect(await page.getByLabel('Model', { exact: true }).inputValue()).toBe(ID)
    await pressed('Server').press('Enter')
    await page.getByRole('tab', { name: 'Get a model' }).press('ArrowLeft')
    const card = page.getByRole('listitem', { name: ID })
    // Counting the tokens of the question may have loaded it.
    await card.getByText(/^(not loaded|loading|loaded)/).waitFor()
    expect(await card.getByRole('button', { name: /^In use/ }).getAttribute('aria-pressed')).toBe('true')

    // A model of the settings cannot be deleted.
    expect(await pressed(/^Delete service/).count()).toBe(0)
    await pressed(`Delete ${ID}`).press('Enter')
    const dialog = page.getByRole('alertdialog')
    expect(await violationsOf(page)).toEqual([])
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    await expect.poll(() => page.locator(':focus').getAttribute('aria-label')).toBe(`Delete ${ID}`)
    // The list is drawn again each time the server's state is asked for: a key may reach a button that is gone.
    await vi.waitFor(
      async () => {
        await pressed(`Delete ${ID}`).press('Enter', { timeout: 5000 })
        await dialog.waitFor({ timeout: 5000 })
      },
      { timeout: 60_000 },
    )
    await dialog.getByRole('button', { name: 'Delete it' }).press('Enter')
    await page.getByText(`${ID} is deleted: 19 MiB freed.`).waitFor()
    expect(await card.count()).toBe(0)
    expect(studio.errors.filter((error) => !/status of (400|409)/.test(error))).toEqual([])
  })

  test('a model that is deleted in use ends its answers first, and the page goes on with another', async () => {
    const page = await openGet()
    await page.getByLabel(/^A repository/).fill(`${REPOSITORY}:Q4_K_M`)
    await page.keyboard.press('Enter')
    const fetch = page.getByRole('button', { name: /^(Fetch 19 MiB|Add it)/ })
    await fetch.waitFor()
    // A user who goes on with something else meanwhile is not torn away from it.
    const { promise: isElsewhere, resolve: goOn } = Promise.withResolvers<void>()
    await page.route('**/v1/models/pull', (route) => isElsewhere.then(() => route.continue()))
    await fetch.click()
    await page.getByRole('button', { name: 'Detect', exact: true }).click()
    goOn()
    await page.getByRole('button', { name: 'Use it' }).click()
    await page.getByLabel('Your question').fill('Go on')
    await page.keyboard.press('Enter')
    const reply = page.locator('.reply-text')
    await reply.getByText('tick tick').waitFor()

    await page.getByRole('button', { name: 'Server' }).click()
    await page.getByRole('tab', { name: 'Models' }).click()
    // The page may learn that the model is gone before it has the answer.
    await page.route(`**/v1/models/${encodeURIComponent(ID)}`, async (route) => {
      const response = await route.fetch()
      await page.waitForResponse((listed) => new URL(listed.url()).pathname === '/v1/models')
      await route.fulfill({ response })
    })
    await page.getByRole('button', { name: `Delete ${ID}` }).click()
    await page.getByRole('button', { name: 'Delete it' }).click()
    await page.getByText(`${ID} is deleted: 19 MiB freed. This page uses service-mk1.5.`, { exact: true }).waitFor()
    expect(await page.getByLabel('Model', { exact: true }).inputValue()).toBe('service-mk1.5')
    await page.getByRole('button', { name: 'Ask', exact: true }).click()
    const before = (await reply.innerText()).length
    await expect.poll(async () => (await reply.innerText()).length).toBeGreaterThan(before)
    await page.getByRole('button', { name: 'Stop' }).click()
    await page.getByText('Stopped.').waitFor()
    await expect.poll(() => pulled.state).toBe('closed')
    engine.script = { texts: ['Here I am.'] }
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.getByText('Here I am.').waitFor()
    expect(studio.errors).toEqual([])
  })

  test('documents of one page stay on the stage when a model was fetched', async () => {
    const page = await openGet()
    await page.getByRole('button', { name: 'Ask', exact: true }).click()
    const tiff = makeTiff({ width: 2, height: 1, channels: 1, pages: [Uint8Array.of(0, 255)] })
    await page.getByLabel('Files', { exact: true }).setInputFiles([
      { name: 'one.pdf', mimeType: 'application/pdf', buffer: makePdf([{}]) },
      { name: 'scan.tif', mimeType: 'image/tiff', buffer: tiff },
    ])
    const shown = page.getByRole('list', { name: 'Media' }).getByRole('button', { name: /^Show / })
    const names = () => shown.evaluateAll((all) => all.map((one) => one.getAttribute('title')))
    await expect.poll(names).toEqual(['one.pdf', 'scan.tif'])
    await page.getByLabel('Your question').fill('What is this?')
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Ask again' }).waitFor()
    await page.getByRole('button', { name: 'Server' }).click()
    await page.getByLabel(/^A repository/).fill(`${REPOSITORY}:Q4_K_M`)
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: /^(Fetch 19 MiB|Add it)/ }).click()
    await expect.poll(() => page.getByLabel('Your question').inputValue()).toBe('What is this?')
    expect(await names()).toEqual(['one.pdf', 'scan.tif'])
    expect(studio.errors).toEqual([])
  })

  test('a key without the scope admin learns how to get one', async () => {
    const { key } = await accounts.organisation()
    const page = await open({ key, colorScheme: 'dark' })
    await page.getByText('lookout keys create --scopes admin').waitFor()
    const card = page.getByRole('listitem', { name: 'service-mk1.5' })
    expect(await card.innerText()).toMatch(/text, images, video, sound\s+Marks with\s+points, boxes, polygons, clips/)
    expect(await violationsOf(page)).toEqual([])
    // It sees what there would be, without buttons that it may not press.
    await page.getByRole('button', { name: 'Get a model' }).click()
    await page.getByText('This key may use models, but not fetch them.').waitFor()
    await page.getByRole('listitem', { name: MODEL }).getByText('Apache-2.0').waitFor()
    expect(await page.getByRole('button', { name: /^(Get it|Other sizes)/ }).count()).toBe(0)
    expect(await page.getByLabel(/^A repository/).count()).toBe(0)
    expect(await violationsOf(page)).toEqual([])
    expect(studio.errors).toEqual([])
  })

  test('a newcomer is told of the demonstration, gets a real model and asks it about the same picture', async () => {
    const page = await open({ width: 390, height: 844, hasTouch: true })
    await page.getByRole('button', { name: 'Ask', exact: true }).click()
    await page.getByLabel('Files', { exact: true }).setInputFiles('docs/pictures/coffee.jpg')
    await page.getByRole('button', { name: 'Show coffee.jpg' }).waitFor()
    expect(await page.getByLabel('Model', { exact: true }).locator('option').first().innerText()).toBe('Lookout Nano')
    const note = page.getByText('Demonstration model: shapes, emoji, printed words.')
    for (const mode of ['Ask', 'Multilook', 'Decisions', 'Detect', 'Structure']) {
      await page.getByRole('button', { name: mode, exact: true }).first().click()
      await note.waitFor()
      // It is visible without scrolling.
      expect(await page.evaluate('scrollY')).toBe(0)
      const { y, height } = (await note.boundingBox())!
      expect(y + height, mode).toBeLessThanOrEqual(844)
    }
    await page.getByRole('button', { name: 'Ask', exact: true }).first().click()
    engine.script = { texts: ['A penguin.'] }
    script = { texts: ['An espresso.'] }
    await page.getByLabel('Your question').fill('What do I drink?')
    await page.keyboard.press('Enter')
    await page.getByText('A penguin.').waitFor()
    expect(await violationsOf(page)).toEqual([])

    await page.getByRole('link', { name: 'get a model' }).click()
    const card = page.getByRole('listitem', { name: MODEL })
    await card.waitFor()
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390)
    expect(await violationsOf(page)).toEqual([])
    await page.getByRole('radio', { name: 'Sound' }).click()
    await card.waitFor({ state: 'detached' })
    await page.getByRole('radio', { name: 'Boxes' }).click()
    await card.getByRole('button', { name: 'Get it' }).click()

    const draft = page.getByLabel('Your question')
    await expect.poll(() => draft.inputValue()).toBe('What do I drink?')
    await page.getByRole('button', { name: 'Show coffee.jpg' }).waitFor()
    expect(await note.count()).toBe(0)
    // What the demonstration said is not what the new model reads.
    expect(await page.getByText('A penguin.').count()).toBe(0)
    await page.getByRole('button', { name: 'Ask', exact: true }).last().click()
    await page.getByText('An espresso.').waitFor()
    await page.getByRole('button', { name: 'Sessions' }).click()
    await page.getByRole('dialog').getByText('What do I drink?').nth(1).waitFor()
    await page.keyboard.press('Escape')

    await page.getByRole('button', { name: 'Server' }).click()
    await page.getByRole('radio', { name: 'All' }).click()
    await card.getByRole('button', { name: 'Here: use it' }).waitFor()
    expect(await card.getByRole('button', { name: 'Get it' }).count()).toBe(0)
    expect(studio.errors).toEqual([])
  })

  test('models that are too large are folded away, and limits of a licence are in sight', async () => {
    const page = await openStudioWith('**/v1/models/catalogue', (body: Catalogue) => {
      const [first, second, third] = body.data
      return {
        ...body,
        data: [
          { ...first, title: 'A good one', fits: 'tight', tokens_per_second: 12.4 },
          { ...second, title: 'A limited one', licence: { ...second!.licence, commercial_use: 'limited' } },
          { ...third, title: 'A giant', fits: 'no' },
        ],
      }
    })
    await page.getByRole('tab', { name: 'Get a model' }).click()
    const good = page.getByRole('listitem', { name: 'A good one' })
    await good.getByText('fits tightly').waitFor()
    await good.getByText('about 12 tokens a second').waitFor()
    await page.getByRole('listitem', { name: 'A limited one' }).getByText('commercial use limited').waitFor()
    const giant = page.getByRole('listitem', { name: 'A giant' })
    expect(await giant.isVisible()).toBe(false)
    await page.getByText('1 model too large for this server').press('Enter')
    await giant.getByText('too large', { exact: true }).waitFor()
    expect(await violationsOf(page)).toEqual([])
    expect(studio.errors).toEqual([])
  })

  test.each([
    [{ state: 'running', ok: null, findings: [SEES], unchecked: ['coordinates', 'tools'] }, 'Checking… 1 of 3', null],
    [
      {
        state: 'done',
        ok: true,
        places_off_by: 0.44,
        findings: [SEES, { ...PLACES, verdict: 'ok', finding: `${GOOD_PLACES}.` }],
      },
      'Checked: boxes within a patch',
      null,
    ],
    [
      {
        state: 'done',
        ok: false,
        places_off_by: 3.24,
        findings: [SEES, { ...PLACES, verdict: 'failed', finding: BAD_PLACES }],
      },
      'Boxes are off by 3.2 patches on average',
      'Boxes are off by 3.2 patches on average',
    ],
    [{ state: 'skipped', ok: null, findings: [], unchecked: ['coordinates'] }, 'Not checked', null],
  ])('what the doctor says of a model is where it is listed, chosen and used: %#', async (part, text, warning) => {
    const examination = { finished_at: null, overall: null, unchecked: [], places_off_by: null, ...part }
    const page = await openStudioWith('**/v1/server', (body: { engines: object[] }) => ({
      ...body,
      engines: body.engines.map((one) => ({ ...one, demonstration: false, examination })),
    }))
    const asked: string[] = []
    await page.route('**/v1/models/*/examination', (route) => {
      asked.push(`${route.request().method()} ${new URL(route.request().url()).pathname}`)
      return route.fulfill({ json: examination })
    })
    const card = page.getByRole('listitem', { name: 'service-mk1.5' })
    await card.getByText(text, { exact: true }).waitFor()
    const option = page.getByLabel('Model', { exact: true }).locator('option').first()
    expect(await option.innerText()).toMatch(new RegExp(` · ${text}$`))
    const isGoingOn = part.state === 'running'
    await card.getByRole('button', { name: isGoingOn ? 'Skip the check' : /^Check (it|again)$/ }).click()
    await expect.poll(() => asked).toEqual([`${isGoingOn ? 'DELETE' : 'POST'} /v1/models/service-mk1.5/examination`])
    expect(await violationsOf(page)).toEqual([])
    await page.getByRole('button', { name: 'Detect', exact: true }).click()
    if (warning === null) expect(await page.locator('.places-warning').count()).toBe(0)
    else await page.getByText(`${warning}. Another model may do better.`).waitFor()
    expect(await violationsOf(page)).toEqual([])
    expect(studio.errors).toEqual([])
  })

  test('the load is drawn while somebody looks, and asked for only then', async () => {
    const page = await open({ isAlone: true })
    await page.getByRole('tab', { name: 'Load' }).click()
    const chart = page.getByRole('img', { name: /^Tokens per second in the last minutes: now 0/ })
    await chart.waitFor()
    engine.script = { texts: ['tick'], tokensPerText: 10, delayMs: 1, endless: true }
    const leaving = new AbortController()
    const body = { model: 'service-mk1.5', messages: [{ role: 'user', content: 'Hi' }], stream: true }
    const stream = await fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${server.service.apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: leaving.signal,
    })
    const reading = stream.text().catch(() => '')
    const tokens = page.getByRole('listitem').filter({ hasText: /^Tokens per second/ })
    await expect
      .poll(async () => Number((await tokens.locator('.figure-value').innerText()).split('\n')[0]!.replace(',', '')))
      .toBeGreaterThan(100)
    leaving.abort()
    await reading
    // A line of several points that goes up.
    expect(((await tokens.locator('path.line').first().getAttribute('d')) ?? '').split('L').length).toBeGreaterThan(1)
    expect(await violationsOf(page)).toEqual([])

    let asked = 0
    page.on('request', (request) => {
      if (request.url().endsWith('/v1/server')) asked++
    })
    await page.clock.install()
    const hide = (isHidden: boolean) =>
      page.evaluate(`
        Object.defineProperty(document, 'hidden', { configurable: true, value: ${isHidden} })
        document.dispatchEvent(new Event('visibilitychange'))
      `)
    // A timer of before the clock was installed may still run.
    await hide(true)
    await hide(false)
    await expect.poll(() => asked).toBeGreaterThan(0)
    await hide(true)
    const before = asked
    await page.clock.runFor(60_000)
    expect(asked).toBeLessThanOrEqual(before + 1)
    await hide(false)
    await expect.poll(() => asked).toBeGreaterThan(before)
    await page.getByRole('button', { name: 'Ask', exact: true }).first().click()
    const left = asked
    await page.clock.runFor(60_000)
    expect(asked).toBeLessThanOrEqual(left + 1)
    expect(studio.errors).toEqual([])
  })

  test('hides the stage, which comes back unchanged, or with new media', async () => {
    const page = await open()
    const [stage, zoom] = [page.getByRole('region', { name: 'Stage' }), page.locator('.zoom-level')]
    const openMode = (name: string) =>
      page.getByRole('navigation', { name: 'Modes' }).getByRole('button', { name }).click()
    await stage.waitFor({ state: 'hidden' })
    expect((await page.locator('#panel').boundingBox())!.width).toBe(1360)
    await openMode('Detect')
    await page.getByRole('button', { name: 'Six shapes' }).click()
    await page.getByRole('button', { name: 'Zoom in' }).click()
    const before = await zoom.innerText()
    await openMode('Server')
    await stage.waitFor({ state: 'hidden' })
    await openMode('Detect')
    expect(await zoom.innerText()).toBe(before)
    await openMode('Server')
    await page.getByRole('tabpanel').waitFor()
    // As a picture of the clipboard.
    const bytes = [...(await readFile('docs/pictures/shapes.png'))]
    await page.evaluate(`
      const clipboardData = new DataTransfer()
      clipboardData.items.add(new File([new Uint8Array(${JSON.stringify(bytes)})], 'mine.png', { type: 'image/png' }))
      document.body.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }))`)
    await stage.getByRole('button', { name: 'Show mine.png' }).waitFor()
    await page.getByText('Not searched yet.').waitFor()
    expect(studio.errors).toEqual([])
  })

  test('files are uploaded, shown, put on the stage, downloaded and deleted', async () => {
    const { key } = await accounts.organisation()
    const shapes = await readFile('docs/pictures/shapes.png')
    for (let i = 0; i < 21; i++) {
      const form = new FormData()
      form.set('purpose', 'vision')
      form.set('file', new Blob([shapes], { type: 'image/png' }), `earlier-${i}.png`)
      const headers = { authorization: `Bearer ${key}` }
      expect((await fetch(`${server.url}/v1/files`, { method: 'POST', headers, body: form })).status).toBe(200)
    }
    const page = await open({ key, width: 390, height: 844, hasTouch: true })
    await page.getByRole('tab', { name: 'Files' }).click()
    const rows = page.getByRole('list', { name: 'Files' }).getByRole('listitem')
    await expect.poll(() => rows.count()).toBe(20)
    await rows.first().locator('.file-thumb img').waitFor()
    await page.getByRole('button', { name: 'Show more' }).click()
    await expect.poll(() => rows.count()).toBe(21)
    expect(await page.getByRole('button', { name: 'Show more' }).count()).toBe(0)
    expect(new Set(await page.locator('.file-name').allInnerTexts()).size).toBe(21)
    // One that is gone when it is sent.
    const short = join(home, 'short.png')
    await writeFile(short, shapes)
    await page.route('**/v1/files', (route) => route.abort())
    await page.getByLabel('Files to upload').setInputFiles(short)
    await page.getByText('The connection broke before an answer came, although the server is running.').waitFor()
    await page.unroute('**/v1/files')
    await rm(short)
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.getByText('short.png has been changed or removed on the disk: add it again.').waitFor()
    await page.getByLabel('Files to upload').setInputFiles('docs/pictures/shapes.png')
    const row = rows.filter({ hasText: 'shapes.png' })
    await row.locator('.file-thumb img').waitFor()
    expect(await violationsOf(page)).toEqual([])

    await row.getByRole('button', { name: 'Put shapes.png on the stage' }).click()
    await page.getByRole('button', { name: 'Show shapes.png' }).waitFor()
    await page.getByRole('button', { name: 'Server' }).click()
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      row.getByRole('button', { name: 'Download shapes.png' }).click(),
    ])
    expect(download.suggestedFilename()).toBe('shapes.png')
    expect((await readFile(await download.path())).equals(shapes)).toBe(true)

    await row.getByRole('button', { name: 'Delete shapes.png' }).click()
    await page.getByRole('button', { name: 'Delete it' }).click()
    await page.getByText('shapes.png is deleted.').waitFor()
    expect(await row.count()).toBe(0)
    // It is still on the stage.
    await page.getByRole('button', { name: 'Ask', exact: true }).first().click()
    await page.getByRole('button', { name: 'Show shapes.png' }).waitFor()
    expect(scriptErrors(studio)).toEqual([])
  })
})
