import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Engine } from '../../src/inference/contract/engine.ts'
import { startEngine } from '../../src/inference/engines/engines.ts'
import { modelOverloaded } from '../../src/lib/errors/errors.ts'
import { TestAccounts } from '../support/accounts.ts'
import {
  CHROMIUM,
  closeBrowser,
  openStudio,
  prepareStudio,
  type StudioPage,
  type StudioPageOptions,
  scriptErrors,
} from '../support/browser.ts'
import { FakeEngine } from '../support/fake-engine.ts'
import { freePort } from '../support/free-port.ts'
import { KEY, startTestServer, type TestServer, type TestServerOptions } from '../support/server.ts'
import { shippedCard } from '../support/shipped-model.ts'

describe.skipIf(CHROMIUM === null)('when something fails, the Studio', () => {
  let accounts: TestAccounts
  let server: TestServer | null = null
  /** Answers the tests that need nothing special. */
  let plain: TestServer
  let shipped: TestServer | undefined
  let engine: (Engine & { readonly pid?: number }) | undefined
  let studio: StudioPage

  beforeAll(async () => {
    await prepareStudio()
    accounts = await TestAccounts.open()
    plain = await startTestServer()
  })
  afterEach(async () => {
    await studio?.close()
    await server?.close()
    server = null
  })
  afterAll(async () => {
    await closeBrowser()
    await plain?.close()
    await shipped?.close()
    await accounts?.close()
  })

  const open = async (how?: StudioPageOptions): Promise<Page> => {
    studio = await openStudio(plain.url, how)
    return studio.page
  }
  const openOwn = async (options: TestServerOptions): Promise<Page> => {
    server = await startTestServer(options)
    studio = await openStudio(server.url)
    return studio.page
  }
  const write = (page: Page, text: string) => page.getByLabel('Your question').fill(text)
  const ask = async (page: Page, text: string) => {
    await write(page, text)
    await page.keyboard.press('Enter')
  }

  /** The page of the server with the shipped model, whose process `kill` kills; it starts again. */
  async function openShipped(): Promise<Page> {
    shipped ??= await startTestServer({
      environment: { LOOKOUT_MODEL_CARD: shippedCard() },
      startEngine: async (card, options) => {
        engine = await startEngine(card, options)
        return engine
      },
    })
    studio = await openStudio(shipped.url)
    return studio.page
  }
  const kill = () => process.kill(engine!.pid!, 'SIGKILL')

  test('keeps what had arrived when the engine dies, and goes on when it is back', async () => {
    const page = await openShipped()
    // A reply that takes longer than the test: the model has to write what the pattern wants.
    await page.route('**/v1/chat/completions', (route) => {
      const body = route.request().postDataJSON() as object
      return route.continue({ postData: { ...body, temperature: 1, presence_penalty: -1, regex: '[ab]{6000}' } })
    })
    await ask(page, 'Write.')
    await expect.poll(() => page.locator('.reply-text').innerText()).toMatch(/[ab]{20}/)
    // At once: on a busy machine, the rest of the reply may take no longer than typing.
    kill()
    await write(page, 'The next question')
    // It is where a person looks, also below a long answer.
    await expect.poll(() => isInView(page, 'alert')).toBe(true)
    expect(await page.locator('.reply-text').innerText()).toMatch(/[ab]{20}/)
    await page.unroute('**/v1/chat/completions')
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.getByText(/\d+ \+ \d+ tokens/).waitFor()
    expect(await page.getByLabel('Your question').inputValue()).toBe('The next question')
    expect(scriptErrors(studio)).toEqual([])
  })

  test('keeps the answers of a multilook when the engine dies, and asks only for the others', async () => {
    const page = await openShipped()
    await page.getByRole('button', { name: 'Six shapes' }).click()
    await page.getByRole('button', { name: 'Multilook' }).click()
    // The first question is answered at once; the others take longer than it takes to kill the engine.
    const fields = page.locator('.question-text')
    await fields.first().fill('Is there a red circle?')
    for (let i = 1; i < 16; i++) {
      await page.getByRole('button', { name: 'Add a question' }).click()
      await fields.nth(i).fill('Detect all objects.')
    }
    await page.getByLabel('Answers to each question').selectOption('4')
    await page.getByRole('button', { name: 'Ask 16 questions' }).click()
    const statuses = page.locator('.row-status')
    await expect.poll(() => statuses.first().innerText()).toMatch(/tokens/)
    kill()
    await page.getByText(/^\d+ questions have no answer/).waitFor()
    const answered = await statuses.filter({ hasText: /tokens?$/ }).count()
    expect(answered).toBeGreaterThan(0)
    expect(answered).toBeLessThan(16)
    const first = await page.locator('.question-row').first().locator('.reply-text').allInnerTexts()
    // One answer each is enough to see that they come.
    await page.getByLabel('Answers to each question').selectOption('1')
    const asked = page.waitForRequest('**/multilook')
    await page.getByRole('button', { name: 'Ask them again' }).click()
    const { prompts } = (await asked).postDataJSON() as { prompts: string[] }
    expect(prompts).toHaveLength(16 - answered)
    await expect.poll(() => statuses.filter({ hasText: /tokens?$/ }).count()).toBe(16)
    expect(await page.getByText('have no answer').count()).toBe(0)
    expect(await page.locator('.question-row').first().locator('.reply-text').allInnerTexts()).toEqual(first)
    expect(scriptErrors(studio)).toEqual([])
  })

  test('keeps what had arrived of a structured answer when the engine dies, and asks for it again', async () => {
    const page = await openShipped()
    await page.getByRole('button', { name: 'Structure' }).click()
    await page.getByRole('radio', { name: 'Regex' }).click()
    await page.getByLabel('Regular expression').fill('[ab]{6000}')
    await page.route('**/v1/chat/completions', (route) => {
      const body = route.request().postDataJSON() as object
      return route.continue({ postData: { ...body, temperature: 1, presence_penalty: -1 } })
    })
    await ask(page, 'Write.')
    const answer = page.locator('.structured-answer .reply-text')
    await expect.poll(() => answer.innerText()).toMatch(/[ab]{20}/)
    kill()
    await page.getByRole('alert').waitFor()
    expect(await answer.innerText()).toMatch(/[ab]{20}/)
    expect(await page.getByText('Matches the expression').count()).toBe(0)
    expect(await page.getByLabel('Regular expression').inputValue()).toBe('[ab]{6000}')
    await page.unroute('**/v1/chat/completions')
    await page.getByLabel('Regular expression').fill('[ab]{6}')
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.getByText('Matches the expression').waitFor()
    expect(await answer.innerText()).toMatch(/^[ab]{6}$/)
    expect(scriptErrors(studio)).toEqual([])
  })

  test('asks for another key when its own is revoked, and goes on with it', async () => {
    const { organisation, key, keyId } = await accounts.organisation()
    const page = await open({ key })
    await ask(page, 'Hi')
    await page.getByText('Hello there.').waitFor()
    await accounts.accounts.revokeKey(keyId)
    // Servers know of it within seconds.
    const status = async () => (await plain.get('/v1/models', { authorization: `Bearer ${key}` })).status
    await expect.poll(status).toBe(401)
    await ask(page, 'And now?')
    await page.getByText('The server does not accept this key. It may have been revoked.').waitFor()
    await write(page, 'Not lost')
    await page.getByRole('button', { name: 'Enter a key' }).click()
    const next = await accounts.accounts.createKey({ organisation })
    await page.getByLabel('API key').fill(next.key)
    await page.keyboard.press('Enter')
    // Without another click.
    await page.getByText('Hello there.').nth(1).waitFor()
    expect(await page.getByLabel('Your question').inputValue()).toBe('Not lost')
    expect(scriptErrors(studio)).toEqual([])
  })

  test('counts down when the queue is full, and goes on by itself', async () => {
    const engine = new FakeEngine()
    let isFull = true
    engine.script = {
      texts: ['There is room.'],
      refusal: () => (isFull ? modelOverloaded('The queue is full.', 2) : undefined),
    }
    const page = await openOwn({ engine })
    await ask(page, 'Hi')
    await page.getByText(/The server is busy. Trying again in [12] second/).waitFor()
    isFull = false
    await page.getByText('There is room.').waitFor()
    expect(scriptErrors(studio)).toEqual([])
  })

  test('waits at a rate limit until that is cancelled', async () => {
    const page = await openOwn({ environment: { LOOKOUT_RATE_LIMITS: 'chat=1' } })
    // Counting the draft's tokens would be the one request.
    await page.route('**/input_tokens', (route) => route.abort())
    await ask(page, 'One')
    await page.getByText('Hello there.').waitFor()
    await page.getByRole('button', { name: 'Ask again' }).waitFor()
    await ask(page, 'Two')
    await page.getByText(/The request limit is reached. Trying again in \d+ seconds/).waitFor()
    await page.getByRole('button', { name: 'Cancel' }).click()
    await page.getByText('Stopped.').waitFor()
    await page.getByRole('button', { name: 'Try again' }).waitFor()
    expect(scriptErrors(studio)).toEqual([])
  })

  test('waits for a server that is away, and goes on when it is back', async () => {
    const environment = { LOOKOUT_PORT: String(await freePort()) }
    const page = await openOwn({ environment })
    await page.getByRole('combobox', { name: 'Model' }).waitFor()
    await server!.close()
    await ask(page, 'Are you there?')
    await page.getByText('Lookout does not answer.').waitFor()
    await page.getByText('The server does not answer. This continues as soon as it is back.').waitFor()
    server = await startTestServer({ environment })
    await page.getByText('Lookout is back.').waitFor()
    await page.getByText('Hello there.').waitFor()
    expect(scriptErrors(studio)).toEqual([])
  })

  test('tries a request that does not get through a few times, and then says so, while the server answers', async () => {
    const page = await open()
    await page.getByRole('combobox', { name: 'Model' }).waitFor()
    let tries = 0
    await page.route('**/v1/chat/completions', (route) => {
      tries++
      return route.abort('connectionreset')
    })
    await ask(page, 'Hi')
    const sentence = 'The connection broke before an answer came, although the server is running.'
    await page.getByText(sentence, { exact: true }).waitFor()
    expect(tries).toBe(3)
    expect(await page.getByText('does not answer').count()).toBe(0)
    await page.unroute('**/v1/chat/completions')
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.getByText('Hello there.').waitFor()
    expect(scriptErrors(studio)).toEqual([])
  })

  test('refuses a key that no request could carry, linked or typed, and takes it without marks of no width', async () => {
    const page = await open({ key: encodeURIComponent('lk-…abcd') })
    const problem = page.getByRole('dialog').getByRole('alert')
    await expect.poll(() => problem.innerText()).toBe('A key cannot contain “…”. Copy the whole key again.')
    await page.getByLabel('API key').fill('lk-abcd efgh')
    await page.keyboard.press('Enter')
    await expect.poll(() => problem.innerText()).toContain('cannot contain a space')
    await page.getByLabel('API key').fill(`\ufeff ${KEY}\u200b`)
    await page.keyboard.press('Enter')
    await page.getByRole('combobox', { name: 'Model' }).waitFor()
    await page.reload()
    await page.getByRole('combobox', { name: 'Model' }).waitFor()
    expect(scriptErrors(studio)).toEqual([])
  })

  test('asks for a key until it has one, and takes that of a link that is opened in the same tab', async () => {
    const page = await open({ key: '' })
    const dialog = page.getByRole('dialog', { name: 'Which key should this page use?' })
    await dialog.waitFor()
    // Chromium closes a dialog at the second, prevented or not.
    for (let count = 0; count < 3; count++) await page.keyboard.press('Escape')
    await expect.poll(() => dialog.isVisible()).toBe(true)
    await page.goto(`${plain.url}/studio#key=${KEY}`)
    await dialog.waitFor({ state: 'detached' })
    await page.getByRole('combobox', { name: 'Model' }).waitFor()
    expect(page.url()).toBe(`${plain.url}/studio`)
    expect(studio.errors).toEqual([])
  })

  test('works where the browser keeps nothing for it', async () => {
    const page = await open({ isAlone: true })
    // Browsers within apps have null; plain HTTP from another machine has no locks.
    await page.addInitScript(`for (const name of ['localStorage', 'indexedDB', 'BroadcastChannel']) {
      const get = () => { throw new DOMException('Access is denied for this document.', 'SecurityError') }
      Object.defineProperty(window, name, { get })
    }
    Object.defineProperty(window, 'sessionStorage', { value: null })
    Object.defineProperty(navigator, 'locks', { value: undefined })`)
    await page.goto(`${plain.url}/studio?blocked#key=${KEY}`)
    await page.getByText('The browser cannot save this session').waitFor()
    await ask(page, 'Hi')
    await page.getByText('Hello there.').waitFor()
    expect(studio.errors).toEqual([])
  })

  test('says that a sample did not come, and asks nothing without it', async () => {
    const page = await open()
    await page.route('**/studio/samples/**', (route) => route.abort())
    const said = page.getByText('The server did not send the sample.')
    await page.getByRole('button', { name: 'Six shapes' }).click()
    await said.waitFor()
    await page.getByRole('button', { name: 'Dismiss' }).click()
    let asked = 0
    await page.route('**/v1/chat/completions/multilook', (route) => {
      asked++
      return route.abort()
    })
    await page.getByRole('navigation').getByRole('button', { name: 'Multilook' }).click()
    await page.getByRole('button', { name: /^Try 16 questions/ }).click()
    await said.waitFor()
    expect(asked).toBe(0)
    expect(scriptErrors(studio)).toEqual([])
  })

  test('names the one of 14 pictures that is damaged, in every mode, and asks without it', async () => {
    const page = await openShipped()
    const picture = await readFile('docs/pictures/coffee.jpg')
    const files = Array.from({ length: 14 }, (_, index) => ({
      name: `coffee-${index + 1}.jpg`,
      mimeType: 'image/jpeg',
      // A browser shows what there is of it.
      buffer: index === 11 ? picture.subarray(0, picture.length / 2) : picture,
    }))
    const bring = async (some: typeof files) => {
      await page.locator('input[type=file][multiple]').first().setInputFiles(some)
      await page.getByRole('button', { name: `Show ${some.at(-1)!.name}` }).waitFor()
    }
    const choose = (mode: string) => page.getByRole('navigation').getByRole('button', { name: mode }).click()
    const submit = () => page.locator('.panel button[type=submit]').click()
    // The stand-in's answers break the schema of a structure, which is an alert of its own.
    const damaged = page.getByRole('alert').getByText('coffee-12.jpg: the image is damaged or truncated')
    const goOn = async (path: string) => {
      await damaged.waitFor()
      const again = page.waitForRequest(`**${path}`)
      await page.getByRole('button', { name: 'Go on without it' }).click()
      const body = (await again).postData()!
      expect(body.match(/data:image/g)).toHaveLength(files.length - 1)
      await damaged.waitFor({ state: 'detached' })
      await bring(files.slice(11, 12))
    }
    await bring(files)
    await ask(page, 'What is in these?')
    await goOn('/v1/chat/completions')
    expect(await page.locator('.question-media').innerText()).not.toContain('coffee-12.jpg')
    await choose('Structure')
    await ask(page, 'What is in these?')
    await goOn('/v1/chat/completions')
    for (const [mode, path] of [
      ['Multilook', '/v1/chat/completions/multilook'],
      ['Decisions', '/v1/decisions'],
    ] as const) {
      await choose(mode)
      await page.locator('.question-text').first().fill('Is it coffee?')
      await submit()
      await goOn(path)
    }
    await choose('Detect')
    await submit()
    await damaged.waitFor()
    await page.getByRole('button', { name: 'Go on without it' }).click()
    await damaged.waitFor({ state: 'detached' })
    expect(scriptErrors(studio)).toEqual([])
  })

  test('leaves out the earlier turns when they are too much for the model', async () => {
    const page = await openOwn({ engine: new FakeEngine({ contextTokens: 2048 }) })
    await ask(page, 'word '.repeat(250))
    await page.getByText('Hello there.').waitFor()
    await ask(page, 'other '.repeat(250))
    await page.getByText(/maximum context length is 2048 tokens/).waitFor()
    await page.getByRole('button', { name: 'Ask without the earlier turns' }).click()
    await page.getByText('Hello there.').nth(1).waitFor()
    expect(scriptErrors(studio)).toEqual([])
  })

  test('says that the chosen model is gone, and offers another', async () => {
    const page = await open()
    await page.route('**/v1/chat/completions', (route) => {
      const body = route.request().postDataJSON() as object
      return route.continue({ postData: { ...body, model: 'gone' } })
    })
    await ask(page, 'Hi')
    await page.getByText("Model 'gone' does not exist. It may have been deleted.").waitFor()
    await page.unroute('**/v1/chat/completions')
    await page.getByRole('button', { name: 'Ask service-mk1.5' }).click()
    await page.getByText('Hello there.').waitFor()
    expect(scriptErrors(studio)).toEqual([])
  })
})

/** Whether an element of a role is within the conversation that the panel shows. */
async function isInView(page: Page, role: 'alert'): Promise<boolean> {
  const [inner, outer] = [page.getByRole(role), page.getByRole('log')]
  if ((await inner.count()) === 0) return false
  const [own, frame] = [(await inner.boundingBox())!, (await outer.boundingBox())!]
  return own.y >= frame.y && own.y + own.height <= frame.y + frame.height
}
