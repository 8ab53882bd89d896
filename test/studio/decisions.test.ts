import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import {
  CHROMIUM,
  closeBrowser,
  nameOtherModel,
  openPage,
  openStudio,
  prepareStudio,
  type StudioPage,
  type StudioPageOptions,
  scriptErrors,
  violationsInBothThemes,
  violationsOf,
} from '../support/browser.ts'
import { KEY, type TestServer } from '../support/server.ts'
import { startShippedServer } from '../support/shipped-model.ts'

const PATH = '/v1/decisions'
const EXAMPLES = 'Try 8 questions about six shapes'

interface Decision {
  readonly answers: readonly {
    readonly type: string
    readonly probability?: number
    readonly probabilities?: readonly { readonly probability: number }[]
    readonly score?: number
    readonly box?: Readonly<Record<'top' | 'bottom' | 'left' | 'right', number>> | null
  }[]
  readonly usage: { readonly input_tokens: number; readonly input_tokens_details: { readonly cached_tokens: number } }
}

describe.skipIf(CHROMIUM === null)('decisions in the Studio', () => {
  let server: TestServer
  let studio: StudioPage
  let page: Page

  beforeAll(async () => {
    await prepareStudio()
    server = await startShippedServer()
  })
  afterEach(() => studio?.close())
  afterAll(async () => {
    await closeBrowser()
    await server?.close()
  })

  async function open(options?: StudioPageOptions): Promise<void> {
    studio = await openStudio(server.url, options)
    page = studio.page
    await page.getByRole('button', { name: 'Decisions' }).click()
  }
  const questionField = (number: number) => page.getByRole('textbox', { name: `Question ${number}`, exact: true })
  const type = (number: number) => page.getByLabel(`Type of question ${number}`, { exact: true })
  const row = (number: number) => page.locator('.question-row').nth(number - 1)
  const facts = (pattern: RegExp) => page.locator('.look-facts').filter({ hasText: pattern }).waitFor()

  /** Does what asks. @returns what was sent and what came back */
  async function decide<Body = Decision>(act: () => Promise<void>) {
    const [response] = await Promise.all([page.waitForResponse((one) => one.url().endsWith(PATH)), act()])
    const body = response.request().postDataJSON() as {
      model: string
      questions: unknown[]
      input: { content: unknown[] }[]
    }
    return { body, status: response.status(), response: (await response.json()) as Body }
  }
  const press = (name: string) => () => page.locator('.panel').getByRole('button', { name, exact: true }).click()

  /** The probabilities as a screen reader has them. */
  const sharesOf = (number: number) =>
    row(number)
      .getByRole('meter')
      .evaluateAll((meters) => meters.map((meter) => Number(meter.getAttribute('aria-valuenow'))))

  test('one click asks examples; each answer is in its row, its boxes are on the picture', async () => {
    await open()
    const { body, response } = await decide(press(EXAMPLES))
    expect(body.input[0]!.content).toMatchObject([{ type: 'input_image' }])
    expect(response.answers).toHaveLength(8)
    await facts(/8 questions/)
    let boxes = 0
    for (const [index, { type, probability, probabilities, score, box }] of response.answers.entries()) {
      const answer = row(index + 1).locator('.decision-answer')
      const shown = await sharesOf(index + 1)
      if (type === 'predicate') expect(shown).toEqual([probability, 1 - probability!])
      else if (type === 'x_count')
        expect(Math.max(...shown)).toBe(Math.max(...probabilities!.map((one) => one.probability)))
      else if (probabilities) expect(shown).toEqual(probabilities.map((one) => one.probability))
      if (score !== undefined) expect(await answer.innerText()).toContain(`${score.toFixed(2)} of 2`)
      if (type !== 'x_box') continue
      expect(await answer.innerText()).toMatch(box ? /% across/ : /Not found/)
      if (!box) continue
      boxes++
      const rect = page.locator(`.mark[data-label="${await questionField(index + 1).inputValue()}"] rect`)
      const drawn = await rect.evaluate((one) =>
        ['x', 'y', 'width', 'height'].map((name) => Number(one.getAttribute(name))),
      )
      const expected = [box.left * 512, box.top * 384, (box.right - box.left) * 512, (box.bottom - box.top) * 384]
      for (const [i, number] of drawn.entries()) expect(number).toBeCloseTo(expected[i]!, 6)
    }
    expect(await page.locator('.mark').count()).toBe(boxes)
    // What is read shares one reading of the picture, and what is looked for another.
    const { input_tokens: all, input_tokens_details: details } = response.usage
    const told = (await page.locator('.look-facts').innerText()).replaceAll('\u00a0', ' ')
    expect(told).toMatch(
      new RegExp(`^Context read twice: ~${Math.round(details.cached_tokens / 6)} tokens · 8 questions · [\\d.]+ m?s$`),
    )
    expect(await page.locator('.look-sharing').innerText()).toContain(
      `${all.toLocaleString('en')} prompt tokens. Here ${(all - details.cached_tokens).toLocaleString('en')} were computed`,
    )
    expect(await violationsOf(page)).toEqual([])
    expect(studio.errors).toEqual([])
  })

  test('questions are typed, by the keyboard alone', async () => {
    await open()
    await page.locator('.decisions').waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type('Is there a star?')
    await page.keyboard.press('Enter')
    await page.keyboard.type('Which colour is it?')
    await page.keyboard.press('Tab')
    await page.keyboard.type('Ch')
    expect(await type(2).inputValue()).toBe('choice')
    await row(2).getByRole('textbox', { name: 'Choices' }).focus()
    await page.keyboard.type('red, blue')
    // What is typed and not ended counts too.
    await row(2).getByRole('textbox', { name: 'Question 2', exact: true }).press('Enter')
    await type(3).selectOption('score')
    await questionField(3).fill('How big is it?')
    await row(3).getByLabel('Levels, lowest first').fill('small, large,')
    await questionField(3).press('Enter')
    await type(4).selectOption('x_count')
    await questionField(4).fill('How many stars?')
    await row(4).getByLabel('The largest number').fill('3')
    await page.getByRole('button', { name: 'Settings' }).click()
    await page.getByLabel('Text that all questions share').fill('A blue star.')
    const { body } = await decide(() => questionField(4).press('Control+Enter'))
    expect(body).toMatchObject({
      input: [{ role: 'user', content: [{ type: 'input_text', text: 'A blue star.' }] }],
      questions: [
        { type: 'predicate', instructions: 'Is there a star?' },
        { type: 'choice', instructions: 'Which colour is it?', choices: [{ value: 'red' }, { value: 'blue' }] },
        { type: 'score', instructions: 'How big is it?', levels: [{ label: 'small' }, { label: 'large' }] },
        { type: 'x_count', instructions: 'How many stars?', max: 3 },
      ],
    })
    await facts(/^Context read once: \d+ tokens · 4 questions/)
    expect(await sharesOf(4)).toHaveLength(4)
    await questionField(1).fill('Is there a circle?')
    await row(1).getByText('Changed since it was asked.').waitFor()
    await questionField(2).press('Alt+ArrowUp')
    expect(await questionField(1).inputValue()).toBe('Which colour is it?')
    expect(await row(1).getByText('Changed').count()).toBe(0)
    expect(await violationsOf(page)).toEqual([])
    expect(studio.errors).toEqual([])
  })

  test('an error is at the question that it names, and goes when that changes', async () => {
    await open()
    await questionField(1).fill('Is there a star?')
    await decide(press('Ask'))
    await row(1).getByRole('meter').first().waitFor()
    await questionField(1).press('Enter')
    // An empty one is not sent and does not count.
    await questionField(2).press('Enter')
    await questionField(3).fill('Which colour?')
    await type(3).selectOption('choice')
    await row(3).getByRole('textbox', { name: 'Choices' }).fill('red, red,')
    const { status } = await decide(press('Ask 2 questions'))
    expect(status).toBe(400)
    const alert = page.getByRole('alert')
    expect(await alert.innerText()).toBe('It is given twice. questions[1].choices[1].value')
    expect(await row(3).getByRole('alert').count()).toBe(1)
    expect(await row(3).locator('.token.at-fault').count()).toBe(1)
    const atFault = page.locator('[id^="options-"]:focus')
    await atFault.waitFor()
    // What was answered before stays.
    expect(await row(1).getByRole('meter').count()).toBe(2)
    expect(await violationsOf(page)).toEqual([])
    await page.keyboard.press('Backspace')
    await alert.waitFor({ state: 'detached' })
    await decide(press('Ask 2 questions'))
    expect(await alert.innerText()).toBe('Expected at least 2 items. questions[1].choices')
    await atFault.waitFor()
    await page.keyboard.type('blue,')
    await decide(press('Ask 2 questions'))
    await row(3).getByRole('meter').first().waitFor()
    expect(await alert.count()).toBe(0)
    expect(scriptErrors(studio)).toEqual([])
  })

  test('where a call fails, the answers before stay, and all is asked again', async () => {
    await open()
    await questionField(1).fill('Is there a star?')
    await decide(press('Ask'))
    await row(1).getByRole('meter').first().waitFor()
    const error = { message: 'It broke.', type: 'server_error', param: null, code: null }
    await page.route(`**${PATH}`, (route) => route.fulfill({ status: 500, json: { error } }), { times: 1 })
    await press('Ask')()
    await page.getByRole('alert').getByText('It broke.').waitFor()
    expect(await row(1).getByRole('meter').count()).toBe(2)
    await decide(press('Try again'))
    await page.getByRole('alert').waitFor({ state: 'detached' })
  })

  test('a session has the questions and answers, over a reload and as a file', async () => {
    await open()
    const { body } = await decide(press(EXAMPLES))
    await facts(/8 questions/)
    const shown = () => page.locator('.decisions .questions').innerText()
    const marks = () => page.locator('.mark .shape').evaluateAll((all) => all.map((one) => one.outerHTML))
    const before = [await shown(), await marks(), await page.locator('.look-facts').innerText()]
    await page.getByRole('button', { name: 'Sessions' }).click()
    const downloading = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Save to a file' }).click()
    const file = await readFile(await (await downloading).path(), 'utf8')
    expect(JSON.parse(file)).toMatchObject({ title: 'Is there a red circle?', parts: { mode: 'decisions' } })
    await expect.poll(() => page.evaluate<number>(KEPT_QUESTIONS)).toBe(8)
    await nameOtherModel(page, 'other')
    await page.reload()
    await facts(/8 questions/)
    await page.getByLabel('Model', { exact: true }).selectOption('other')
    const saving = page.waitForEvent('download')
    await page.getByRole('button', { name: 'JSON', exact: true }).click()
    // The model that answered, not the one that would now.
    const saved = JSON.parse(await readFile(await (await saving).path(), 'utf8')) as { model: string }
    expect(saved.model).toBe(body.model)
    expect([await shown(), await marks(), await page.locator('.look-facts').innerText()]).toEqual(before)
    await studio.close()

    // Opened while another mode is on the page, whose code alone is there.
    studio = await openStudio(server.url)
    page = studio.page
    await drop(page, file)
    await facts(/8 questions/)
    expect([await shown(), await marks(), await page.locator('.look-facts').innerText()]).toEqual(before)
    await drop(page, file.replace(/"kind":\s*"read"/, '"kind":"other"'))
    await page.getByText('A part of this session is damaged and was left out: decisions.').waitFor()
    expect(await page.getByRole('meter').count()).toBe(0)
    expect(studio.errors).toEqual([])
  })

  test('files of questions are opened and saved as lookout decide takes them', async () => {
    await open()
    const give = (name: string, content: unknown) =>
      page
        .getByLabel('File of questions')
        .setInputFiles({ name, mimeType: 'application/json', buffer: Buffer.from(JSON.stringify(content)) })
    await give('q.json', {
      there: 'Is there a star?',
      colour: { instructions: 'Which colour?', choices: ['red', 'blue'] },
      place: { type: 'box', instructions: 'star' },
    })
    await expect.poll(() => questionField(3).inputValue()).toBe('star')
    expect(await type(3).inputValue()).toBe('x_box')
    const downloading = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    expect(JSON.parse(await readFile(await (await downloading).path(), 'utf8'))).toEqual([
      { type: 'predicate', instructions: 'Is there a star?' },
      { type: 'choice', instructions: 'Which colour?', choices: ['red', 'blue'] },
      { type: 'box', instructions: 'star' },
    ])
    await give('other.json', { questions: [{ instructions: [{ type: 'input_text', text: 'x' }] }] })
    expect(await page.getByRole('alert').innerText()).toContain('The page cannot show its question 1.')
    expect(await questionField(3).inputValue()).toBe('star')
    await give('last.json', { only: 'Is there a heart?' })
    await page.getByText('last.json replaced your questions.').waitFor()
    await page.getByRole('button', { name: 'Undo' }).click()
    expect(await questionField(3).inputValue()).toBe('star')
    expect(studio.errors).toEqual([])
  })

  test('the request is written with OpenAI’s clients, and the answers go to files', async () => {
    await open()
    await decide(press(EXAMPLES))
    await facts(/8 questions/)
    const downloading = page.waitForEvent('download')
    await page.getByRole('button', { name: 'CSV', exact: true }).click()
    const csv = await readFile(await (await downloading).path(), 'utf8')
    expect(csv.split('\r\n')[0]).toBe('question,type,answer,probability,confidence')
    expect(csv.trimEnd().split('\r\n')).toHaveLength(9)
    await page.getByRole('button', { name: 'Show the request' }).click()
    const code = page.locator('.drawer pre')
    expect(await code.innerText()).toContain(PATH)
    for (const language of ['Python', 'TypeScript']) {
      await page.getByRole('radio', { name: language }).click()
      expect(await code.innerText()).toContain('client.decisions.create(')
      expect(await code.innerText()).toContain('/studio/samples/shapes.png')
    }
  })

  test('it is accessible on a phone', async () => {
    await open({ width: 390, height: 844, hasTouch: true })
    await decide(press(EXAMPLES))
    await facts(/8 questions/)
    expect(await violationsInBothThemes(page)).toEqual([])
    const overflow = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
    expect(overflow).toBe(0)
  })

  test('a question that is quicker than the list of models waits for it, in every mode', async () => {
    studio = await openPage('about:blank')
    page = studio.page
    const known = Promise.withResolvers<void>()
    await page.route('**/v1/models?*', async (route) => {
      await known.promise
      await route.fallback()
    })
    const asked: string[] = []
    const watches = { object: 'list', data: [], has_more: false }
    await page.route(/\/v1\/(decisions|chat\/completions(\/multilook)?|watches)([?]|$)/, (route) => {
      const request = route.request()
      if (request.method() === 'GET') return route.fulfill({ json: watches })
      const { model } = request.postDataJSON() as { model: string }
      asked.push(`${new URL(request.url()).pathname} ${model}`)
      const error = { message: 'Not now.', type: 'invalid_request_error', param: null, code: null }
      return route.fulfill({ status: 400, json: { error } })
    })
    await page.goto(`${server.url}/studio#key=${KEY}`)
    for (const mode of ['Decisions', 'Multilook', 'Structure', 'Ask', 'Watch']) {
      await page.getByRole('navigation').getByRole('button', { name: mode }).click()
      const question = page.getByRole('textbox', { name: /^(Your question|Question 1)$/ })
      await question.fill('Is there a star?')
      await question.press(mode === 'Ask' || mode === 'Structure' ? 'Enter' : 'Control+Enter')
    }
    // All of them wait; those that were sent would have failed.
    await page.getByRole('navigation').getByRole('button', { name: 'Decisions' }).click()
    await page.getByRole('button', { name: 'Stop' }).waitFor()
    expect(asked).toEqual([])
    known.resolve()
    await expect
      .poll(() => asked.toSorted())
      .toEqual(
        ['chat/completions', 'chat/completions', 'chat/completions/multilook', 'decisions', 'watches'].map(
          (path) => `/v1/${path} service-mk1.5`,
        ),
      )
  })

  test('where its code does not arrive, the page says so, and the rest works', async () => {
    studio = await openStudio(server.url)
    page = studio.page
    await page.route('**/assets/decisions-mode*.js', (route) => route.abort())
    await page.getByRole('button', { name: 'Decisions' }).click()
    await page.getByRole('alert').getByText('The server did not send this part of the page.').waitFor()
    await page.getByRole('button', { name: 'Ask', exact: true }).click()
    await page.getByLabel('Your question').waitFor()
    expect(scriptErrors(studio)).toEqual([])
  })
})

/** How many questions the browser has stored with an answer. */
const KEPT_QUESTIONS = `new Promise((resolve) => {
  indexedDB.open('lookout-studio').onsuccess = ({ target: { result: database } }) => {
    database.transaction('parts').objectStore('parts').getAll().onsuccess = ({ target: { result } }) => {
      database.close()
      resolve(result[0]?.decisions?.questions.filter(({ decided }) => decided).length ?? 0)
    }
  }
})`

async function drop(page: Page, content: string): Promise<void> {
  // The page listens from its first paint on.
  await page.getByRole('heading', { name: 'Lookout' }).waitFor()
  await page.evaluate(`{
    const data = new DataTransfer()
    data.items.add(new File([${JSON.stringify(content)}], 'session.json', { type: 'application/json' }))
    for (const type of ['dragenter', 'dragover', 'drop']) {
      document.body.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }))
    }
  }`)
}
