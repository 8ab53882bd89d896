import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { CHROMIUM, closeBrowser, openStudio, prepareStudio, type StudioPage, violationsOf } from '../support/browser.ts'
import { type Chunk, messageOf } from '../support/chat.ts'
import { type RecordedAnswer, recordAnswers } from '../support/recorded-answers.ts'
import type { TestServer } from '../support/server.ts'
import { startShippedServer } from '../support/shipped-model.ts'

/** Chromium reports every response with an error status; the page shows it as a person needs it. */
const REFUSED = /status of 400/

/** A list of at least one object: what the model finds is not judged here. */
const TABLE = JSON.stringify(
  {
    type: 'array',
    minItems: 1,
    maxItems: 8,
    items: {
      type: 'object',
      properties: {
        object: { type: 'string', maxLength: 20 },
        bbox_2d: { type: 'array', items: { type: 'integer', maximum: 1000 }, minItems: 4, maxItems: 4 },
      },
      required: ['object', 'bbox_2d'],
    },
  },
  null,
  2,
)

describe.skipIf(CHROMIUM === null)('structure in the Studio', () => {
  let server: TestServer
  let studio: StudioPage
  let page: Page
  let answers: readonly RecordedAnswer[]

  beforeAll(async () => {
    await prepareStudio()
    server = await startShippedServer()
  })
  beforeEach(async () => {
    studio = await openStudio(server.url)
    page = studio.page
    answers = await recordAnswers(page, '/v1/chat/completions')
    await page.getByRole('button', { name: 'Structure' }).click()
  })
  afterEach(() => studio?.close())
  afterAll(async () => {
    await closeBrowser()
    await server?.close()
  })

  const load = (title: string) => page.getByLabel('Load an example').selectOption({ label: title })
  const schema = () => page.getByRole('textbox', { name: 'JSON schema' })
  const cursor = () => schema().evaluate(selectionStart)

  /** Asks, and returns the text of the answer as the server sent it. */
  async function ask(): Promise<string> {
    const count = answers.length
    await page.getByRole('button', { name: 'Ask', exact: true }).last().click()
    await expect.poll(() => answers.length).toBe(count + 1)
    return messageOf(answers.at(-1)!.events as Chunk[]).content ?? ''
  }

  test('a list of objects is a table, a tree and text, valid against the schema', async () => {
    await schema().fill(TABLE)
    await page.getByLabel('Your question').fill('Detect all objects.')
    const answer = await ask()
    await page.getByText('Valid against the schema').waitFor()
    const list = JSON.parse(answer) as { object: string; bbox_2d: number[] }[]
    expect(list.length).toBeGreaterThan(0)
    const cells = await page
      .locator('.answer-table tbody tr')
      .evaluateAll((rows) => rows.map((line) => [...line.children].map((cell) => cell.textContent)))
    expect(cells).toEqual(list.map(({ object, bbox_2d }) => [object, bbox_2d.join(', ')]))
    expect(await violationsOf(page)).toEqual([])
    await page.getByRole('radio', { name: 'Tree' }).click()
    expect(await page.locator('.value-tree .tree-string').first().innerText()).toBe(JSON.stringify(list[0]!.object))
    expect(await violationsOf(page)).toEqual([])
    await page.getByRole('radio', { name: 'Text' }).click()
    expect(await page.locator('.structured-answer .reply-text').innerText()).toBe(answer)
    expect(studio.errors).toEqual([])
  })

  test('what the server refuses is shown at its place in the schema', async () => {
    const text = TABLE.replace('"maxItems": 4', '"maxItems": 4,\n        "uniqueItems": true')
    await schema().fill(text)
    await page.getByLabel('Your question').fill('Detect all objects.')
    await ask()
    const before = text.slice(0, text.indexOf('"uniqueItems"')).split('\n')
    await page.getByText(`Line ${before.length}, column ${before.at(-1)!.length + 1}`).waitFor()
    expect(await page.locator('.code-lines .current-fault').innerText()).toBe(String(before.length))
    expect(await cursor()).toBe(text.indexOf('"uniqueItems"'))
    expect(await page.locator('.code-fault').innerText()).toContain("'uniqueItems' is only supported for items")
    expect(await violationsOf(page)).toEqual([])
    await schema().fill(text.replace(',\n        "uniqueItems": true', ''))
    expect(await page.locator('.code-fault').count()).toBe(0)
    await page.getByRole('button', { name: 'Ask again' }).click()
    await page.getByText('Valid against the schema').waitFor()
    expect(studio.errors.filter((error) => !REFUSED.test(error))).toEqual([])
  })

  test('text that is no JSON is never sent; its place is shown', async () => {
    let requests = 0
    page.on('request', (request) => {
      if (request.method() === 'POST') requests++
    })
    await schema().fill('{\n  "type": "object",\n  "properties": {},\n}')
    await page.getByText("Line 3, column 19: a ',' before '}' is not allowed").waitFor()
    await page.getByLabel('Your question').fill('Anything')
    await page.getByRole('button', { name: 'Ask', exact: true }).last().click()
    expect(await schema().evaluate((field) => field.matches(':focus'))).toBe(true)
    expect(await cursor()).toBe('{\n  "type": "object",\n  "properties": {}'.length)
    expect(requests).toBe(0)
  })

  test('the editor indents, and lets the keyboard out', async () => {
    await schema().fill('')
    await schema().focus()
    await page.keyboard.type('{')
    await page.keyboard.press('Enter')
    await page.keyboard.type('"a": 1')
    expect(await schema().inputValue()).toBe('{\n  "a": 1')
    await page.keyboard.press('Shift+Tab')
    expect(await schema().inputValue()).toBe('{\n"a": 1')
    await page.keyboard.press('Tab')
    expect(await schema().inputValue()).toBe('{\n"a": 1  ')
    await page.keyboard.press('Control+z')
    expect(await schema().inputValue()).toBe('{\n"a": 1')
    await page.keyboard.press('Escape')
    await page.keyboard.press('Tab')
    expect(await schema().evaluate((field) => field.matches(':focus'))).toBe(false)
  })

  test('an example takes the place of what was written, until that is undone', async () => {
    await schema().fill(TABLE)
    await load('A number')
    await page.getByRole('textbox', { name: 'Regular expression' }).waitFor()
    await page.getByRole('button', { name: 'Undo' }).click()
    expect(await schema().inputValue()).toBe(TABLE)
    expect(await page.getByRole('button', { name: 'Undo' }).count()).toBe(0)
  })

  test('an answer that is cut says so', async () => {
    await load('A sentence')
    await page.getByRole('button', { name: 'Settings' }).click()
    await page.getByLabel('Max tokens').fill('6')
    await ask()
    await page.getByText('Cut at the token limit: ').waitFor()
    expect(await page.getByText('Valid against the schema').count()).toBe(0)
  })

  test('a regular expression, and the character that it breaks at', async () => {
    await load('A number')
    expect(await ask()).toMatch(/^[0-9]{1,2}$/)
    await page.getByText('Matches the expression').waitFor()
    const pattern = page.getByRole('textbox', { name: 'Regular expression' })
    await pattern.fill('é[0-9](?=a)')
    await ask()
    await page.getByText('Character 7:').waitFor()
    expect(await pattern.evaluate(selectionStart)).toBe(6)
    expect(studio.errors.filter((error) => !REFUSED.test(error))).toEqual([])
  })
})

function selectionStart(field: object): number | null {
  return (field as { selectionStart: number | null }).selectionStart
}
