import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  CHROMIUM,
  closeBrowser,
  nameOtherModel,
  openStudio,
  prepareStudio,
  type StudioPage,
  violationsOf,
} from '../support/browser.ts'
import { type RecordedAnswer, recordAnswers } from '../support/recorded-answers.ts'
import type { TestServer } from '../support/server.ts'
import { startShippedServer } from '../support/shipped-model.ts'

const PATH = '/v1/chat/completions/multilook'

interface LookEvent {
  readonly prompt_index?: number
  readonly delta?: object
  readonly completions?: readonly { readonly message: { readonly content: string } }[]
  readonly object?: string
  readonly usage?: {
    readonly prompt_tokens: number
    readonly completion_tokens: number
    readonly prompt_tokens_details: { readonly cached_tokens: number }
  }
}

describe.skipIf(CHROMIUM === null)('multilook in the Studio', () => {
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
    answers = await recordAnswers(page, PATH)
    await page.getByRole('button', { name: 'Multilook' }).click()
  })
  afterEach(() => studio?.close())
  afterAll(async () => {
    await closeBrowser()
    await server?.close()
  })

  const questions = () =>
    page.locator('.question-text').evaluateAll((fields) => fields.map((field) => 'value' in field && field.value))
  const questionField = (number: number) => page.getByRole('textbox', { name: `Question ${number}`, exact: true })
  const row = (index: number) => page.locator('.question-row').nth(index)
  const answerOf = (index: number) => row(index).locator('.reply-text')

  /** Clicks on a button; what is asked and answered is then the last of `answers`. */
  async function look(button: string): Promise<{ body: Record<string, unknown>; events: LookEvent[] }> {
    const count = answers.length
    await page.getByRole('button', { name: button, exact: true }).click()
    await expect.poll(() => answers.length).toBe(count + 1)
    const { body, events } = answers.at(-1)!
    return { body, events: events as LookEvent[] }
  }

  const figures = (pattern: RegExp) => page.locator('.look-facts').filter({ hasText: pattern }).waitFor()

  async function paste(index: number, text: string): Promise<void> {
    await page
      .locator('.question-text')
      .nth(index)
      .evaluate((field, pasted) => {
        const { DataTransfer, ClipboardEvent } = field.ownerDocument.defaultView!.window
        const clipboardData = new DataTransfer()
        clipboardData.setData('text/plain', pasted)
        field.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }))
      }, text)
  }

  /** A question that is asked before the picture is there is not about it. */
  async function bringShapes(): Promise<void> {
    await page.getByRole('button', { name: 'Six shapes', exact: true }).click()
    await page.getByRole('button', { name: 'Show shapes.png' }).waitFor()
  }

  test('each of 16 answers is in its row, its marks are on the stage, and the figures are the reply’s', async () => {
    const { events } = await look('Try 16 questions about six shapes')
    await figures(/Context read once/)
    const results = events.filter(({ completions }) => completions)
    expect(results).toHaveLength(16)
    let shapes = 0
    for (const { prompt_index: index, completions } of results) {
      const { content } = completions![0]!.message
      const tags = content.match(/<point(_box)? /g)?.length ?? 0
      shapes += tags
      expect(await answerOf(index!).locator('.chip').count()).toBe(tags)
      if (tags === 0) expect(await answerOf(index!).innerText()).toBe(content)
    }
    expect(shapes).toBeGreaterThan(0)
    expect(await page.locator('.mark').count()).toBe(shapes)

    const { prompt_tokens: all, prompt_tokens_details: details } = events.find(({ object }) => object)!.usage!
    const reused = details.cached_tokens
    const facts = (await page.locator('.look-facts').innerText()).replaceAll('\u00a0', ' ')
    expect(facts).toMatch(new RegExp(`^Context read once: ${reused / 15} tokens · 16 answers · [\\d.]+ m?s$`))
    const note = await page.locator('.look-sharing').innerText()
    expect(note).toContain(`${all.toLocaleString('en')} prompt tokens. Here ${all - reused} were computed`)

    await page.getByRole('button', { name: 'Show only the marks of question 3', exact: true }).click()
    const own = await answerOf(2).locator('.chip').count()
    expect(await page.locator('.mark').count()).toBe(own)
    await page.getByRole('button', { name: 'Show all marks' }).click()
    expect(await page.locator('.mark').count()).toBe(shapes)
    expect(await violationsOf(page)).toEqual([])
    expect(studio.errors).toEqual([])
  })

  test('several answers stand side by side, with a temperature; too many are refused before they are asked', async () => {
    await bringShapes()
    await paste(0, '1. Is there a red circle?\n2. What colour is the star?\n')
    await page.getByLabel('Answers to each question').selectOption('3')
    await page.getByText('Temperature 0.7').waitFor()
    const { body, events } = await look('Ask 2 questions')
    await figures(/· 6 answers ·/)
    expect(body).toMatchObject({
      n: 3,
      temperature: 0.7,
      prompts: ['Is there a red circle?', 'What colour is the star?'],
    })
    for (const { prompt_index: index, completions } of events.filter((event) => event.completions)) {
      const texts = completions!.map(({ message }) => message.content)
      expect(await answerOf(index!).allInnerTexts()).toEqual(texts)
    }
    expect(await violationsOf(page)).toEqual([])

    await paste(1, Array.from({ length: 14 }, (_, i) => `How many? ${i}`).join('\n'))
    await page.getByLabel('Answers to each question').selectOption('5')
    expect(await page.getByRole('alert').innerText()).toBe(
      '16 questions with 5 answers each are 80 answers; 64 are the most.',
    )
    expect(await page.getByRole('button', { name: 'Ask 16 questions' }).isDisabled()).toBe(true)
    await page.getByLabel('Answers to each question').selectOption('1')
    expect(await page.getByRole('alert').count()).toBe(0)
  })

  test('questions are added, pasted, moved and removed, by keyboard and pointer', async () => {
    await questionField(1).fill('a')
    await questionField(1).press('Enter')
    await page.keyboard.type('b')
    expect(await questions()).toEqual(['a', 'b'])
    await paste(1, '- c\n* d\n\n  3) e')
    expect(await questions()).toEqual(['a', 'b', 'c', 'd', 'e'])
    await questionField(5).press('Alt+ArrowUp')
    await page.keyboard.press('Alt+ArrowUp')
    expect(await questions()).toEqual(['a', 'b', 'e', 'c', 'd'])
    const handle = page.getByRole('button', { name: 'Move question 1', exact: true })
    await handle.focus()
    await page.keyboard.press('ArrowDown')
    expect(await questions()).toEqual(['b', 'a', 'e', 'c', 'd'])
    expect(await page.locator(':focus').getAttribute('aria-label')).toBe('Move question 2')

    const from = (await page.getByRole('button', { name: 'Move question 1', exact: true }).boundingBox())!
    const to = (await page.getByRole('button', { name: 'Move question 4', exact: true }).boundingBox())!
    await page.mouse.move(from.x + 5, from.y + 5)
    await page.mouse.down()
    await page.mouse.move(to.x + 5, to.y + to.height / 2, { steps: 20 })
    await page.mouse.up()
    expect(await questions()).toEqual(['a', 'e', 'c', 'b', 'd'])

    await page.getByRole('button', { name: 'Remove question 2', exact: true }).click()
    await questionField(1).fill('')
    await questionField(1).press('Backspace')
    expect(await questions()).toEqual(['c', 'b', 'd'])
    await paste(2, Array.from({ length: 20 }, (_, i) => `${i}`).join('\n'))
    expect(await questions()).toHaveLength(16)
    await page.getByText('7 lines did not fit: 16 questions are the most.').waitFor()
    expect(studio.errors).toEqual([])
  })

  test('a question that fails says why, and is asked again alone', async () => {
    await bringShapes()
    await paste(0, `Is there a red circle?\n${'square '.repeat(40_000)}`)
    await look('Ask 2 questions')
    await figures(/1 failed/)
    expect(await answerOf(0).innerText()).toBe('Yes.')
    expect(await row(1).locator('.row-failure').innerText()).toMatch(/too long/)
    await questionField(2).fill('What colour is the star?')
    const { body } = await look('Ask it again')
    expect(body.prompts).toEqual(['What colour is the star?'])
    await row(1).getByText('Blue.').waitFor()
    expect(await answerOf(0).innerText()).toBe('Yes.')
    expect(studio.errors).toEqual([])
  })

  test('where a call fails, the answers before stay, and all is asked again', async () => {
    await bringShapes()
    await paste(0, 'Is there a red circle?\nWhat colour is the star?')
    await look('Ask 2 questions')
    await figures(/· 2 answers ·/)
    const error = { message: 'It broke.', type: 'server_error', param: null, code: null }
    await page.route(`**${PATH}`, (route) => route.fulfill({ status: 500, json: { error } }), { times: 1 })
    await page.getByRole('button', { name: 'Ask 2 questions' }).click()
    await page.getByRole('alert').waitFor()
    expect(await page.locator('.question-row .reply-text').allInnerTexts()).toEqual(['Yes.', 'Blue.'])
    const { body } = await look('Try again')
    await page.getByRole('alert').waitFor({ state: 'detached' })
    expect(body.prompts).toHaveLength(2)
    expect(await violationsOf(page)).toEqual([])
  })

  test('answers are saved as CSV and as JSON, with the model that gave them', async () => {
    await nameOtherModel(page, 'other')
    await page.reload()
    await page.getByRole('button', { name: 'Multilook' }).click()
    await bringShapes()
    await paste(0, 'Is there a red circle, or not?\nFind all squares.')
    const { events } = await look('Ask 2 questions')
    await figures(/· 2 answers ·/)
    const { model } = answers.at(-1)!.body
    await page.getByLabel('Model', { exact: true }).selectOption('other')
    const contents = [0, 1].map(
      (index) =>
        events.find((event) => event.completions && event.prompt_index === index)!.completions![0]!.message.content,
    )
    const saved = async (name: string) => {
      const downloading = page.waitForEvent('download')
      await page.getByRole('button', { name, exact: true }).click()
      return readFile(await (await downloading).path(), 'utf8')
    }
    const json = JSON.parse(await saved('JSON')) as {
      model: string
      results: { question: string; answers: { text: string }[] }[]
    }
    expect(json.model).toBe(model)
    expect(json.results.map(({ answers }) => answers[0]!.text)).toEqual(contents)
    const csv = await saved('CSV')
    expect(csv.startsWith('question,completion,answer,thoughts,finish_reason,error\r\n')).toBe(true)
    expect(csv).toContain(`"Is there a red circle, or not?",1,${contents[0]},,stop,\r\n`)
    expect(csv).toContain(`"${contents[1]!.replaceAll('"', '""')}"`)
  })
})
