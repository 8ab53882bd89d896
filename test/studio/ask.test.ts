import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { parseMarkup } from '../../src/grounding/markup-parser.ts'
import {
  CHROMIUM,
  closeBrowser,
  openStudio,
  prepareStudio,
  type StudioPage,
  scriptErrors,
  violationsOf,
} from '../support/browser.ts'
import { type Chunk, messageOf } from '../support/chat.ts'
import { recordAnswers } from '../support/recorded-answers.ts'
import type { TestServer } from '../support/server.ts'
import { startShippedServer } from '../support/shipped-model.ts'

describe.skipIf(CHROMIUM === null)('asking in the Studio', () => {
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

  test('the first answer takes two clicks, and its boxes are where the reply says', async () => {
    studio = await openStudio(server.url)
    const { page, errors } = studio
    // The key does not stay in the address.
    expect(page.url()).toBe(`${server.url}/studio`)
    await page.getByRole('button', { name: 'Six shapes' }).click()
    const answers = await recordAnswers(page, '/v1/chat/completions')
    await page.getByRole('button', { name: 'Detect all objects.' }).click()
    await page.getByText(/\d+ \+ \d+ tokens/).waitFor()
    const { content } = messageOf(answers[0]!.events as Chunk[])
    const boxes = parseMarkup(content ?? '').flatMap((piece) => (piece.kind === 'point_box' ? [piece] : []))
    expect(boxes.length).toBeGreaterThan(0)
    const shapes = await page.locator('.mark.box').evaluateAll((marks) =>
      marks.map((mark) => {
        const number = (name: string) => Number(mark.querySelector('rect.shape')!.getAttribute(name))
        const [x, y, width, height] = [number('x'), number('y'), number('width'), number('height')]
        return { label: mark.getAttribute('data-label'), corners: [x, y, x + width, y + height].map(Math.round) }
      }),
    )
    // The sample has 512 by 384 pixels, and annotations a grid of 1000.
    expect(shapes).toEqual(
      boxes.map(({ mention, points: [from, to] }) => ({
        label: mention,
        corners: [from!.x * 0.512, from!.y * 0.384, to!.x * 0.512, to!.y * 0.384].map(Math.round),
      })),
    )
    expect(errors).toEqual([])
  })

  test('a mention and its box light up together', async () => {
    studio = await openStudio(server.url)
    const { page } = studio
    await page.getByRole('button', { name: 'Six shapes' }).click()
    await page.getByRole('button', { name: 'Detect all objects.' }).click()
    await page.getByText(/\d+ \+ \d+ tokens/).waitFor()
    const chip = page.locator('.chip').nth(1)
    await chip.hover()
    const id = await chip.getAttribute('data-chip')
    expect(
      await page.locator('.mark.lit').evaluateAll((marks) => marks.map((mark) => mark.getAttribute('data-mark'))),
    ).toEqual([id])
    await page.locator('.mark.box rect.shape').first().hover()
    expect(await page.locator('.chip.lit').count()).toBe(1)
  })

  test('a conversation is printed as a whole', async () => {
    studio = await openStudio(server.url)
    const { page, errors } = studio
    await page.getByRole('button', { name: 'Six shapes' }).click()
    await answerWith(page, Array.from({ length: 80 }, (_, index) => `Line ${index}`).join('\n\n'))
    await ask(page, 'Count.')
    await page.getByText('Line 79').waitFor()
    await page.emulateMedia({ media: 'print' })
    // On paper, nothing can be scrolled to.
    const sizes = await page.getByRole('log').evaluate((one) => [one.scrollHeight, one.clientHeight])
    expect(sizes[0]).toBe(sizes[1])
    expect(await page.evaluate('document.documentElement.scrollHeight')).toBeGreaterThan(sizes[0]!)
    expect(errors).toEqual([])
  })

  test('an answer in Markdown is set, with its places in it, and nothing of it is HTML', async () => {
    studio = await openStudio(server.url, { permissions: ['clipboard-read', 'clipboard-write'] })
    const { page, errors } = studio
    await page.getByRole('button', { name: 'Six shapes' }).click()
    await page.getByRole('button', { name: 'Show shapes.png' }).waitFor()
    const box = (label: string, at: number) => `<point_box mention="${label}"> (${at},${at}) (500,500) </point_box>`
    const code = 'def area(r):\n    return r ** 2'
    const text = [
      `# Shapes\n\n1. A **${box('circle', 100)}** in bold\n2. <b onclick=alert(1)>no element</b>`,
      `| shape | where |\n|---|--:|\n| ${box('star', 200)} | here |`,
      '[safe](https://a.example) [unsafe](javascript:alert(1)) ![picture](https://a.example/x.png)',
      `\`\`\`python\n${code}\n\`\`\``,
    ].join('\n\n')
    await answerWith(page, text)
    await ask(page, 'Describe them.')
    const reply = page.locator('.markdown')
    await reply.getByRole('heading', { name: 'Shapes' }).waitFor()
    expect(await reply.locator('b, img, script, [onclick]').count()).toBe(0)
    expect(await reply.getByText('<b onclick=alert(1)>no element</b>').count()).toBe(1)
    const links = reply.getByRole('link')
    expect(await links.evaluateAll((all) => all.map((link) => [link.textContent, link.getAttribute('href')]))).toEqual([
      ['safe', 'https://a.example'],
      ['picture', 'https://a.example/x.png'],
    ])
    expect(await links.first().getAttribute('rel')).toBe('noopener noreferrer')
    await reply.locator('li strong .chip').hover()
    expect(await page.locator('.mark.lit').getAttribute('data-label')).toBe('circle')
    await reply.locator('td .chip').hover()
    expect(await page.locator('.mark.lit').getAttribute('data-label')).toBe('star')
    await reply.getByTitle('Copy the code').click()
    const clipboard = () => page.evaluate('navigator.clipboard.readText()')
    await expect.poll(clipboard).toBe(code)
    await page.getByTitle('Copy the answer as the model wrote it').click()
    await expect.poll(clipboard).toBe(text)
    expect(await violationsOf(page)).toEqual([])
    expect(errors).toEqual([])
  })

  test('places are on the media that were sent, also when it is tried again without the earlier turns', async () => {
    studio = await openStudio(server.url)
    const { page } = studio
    const buffer = await readFile('docs/pictures/shapes.png')
    const bring = async (name: string) => {
      await page.getByLabel('Files', { exact: true }).setInputFiles({ name, mimeType: 'image/png', buffer })
      await page.getByRole('button', { name: `Show ${name}` }).waitFor()
    }
    const ofFirst = '<point_box mention="thing" asset_idx="0"> (100,100) (500,500) </point_box>'
    await bring('a.png')
    await answerWith(page, ofFirst)
    await ask(page, 'What is it?')
    await page.getByRole('button', { name: 'Ask again' }).waitFor()
    await bring('b.png')
    await bring('c.png')
    await page.unroute('**/v1/chat/completions')
    const error = { message: 'Not now.', type: 'server_error', param: null, code: null }
    await page.route('**/v1/chat/completions', (route) => route.fulfill({ status: 500, json: { error } }))
    await ask(page, 'And these?')
    await page.getByText('Not now.').waitFor()
    await page.getByRole('button', { name: 'Settings' }).click()
    await page.getByLabel('Send the earlier turns with each question').uncheck()
    await answerWith(page, ofFirst)
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.locator('.chip').nth(1).waitFor()
    await page.getByRole('button', { name: 'Show b.png' }).click()
    await expect.poll(() => page.locator('.mark').count()).toBe(1)
    await page.getByRole('button', { name: 'Show a.png' }).click()
    await expect.poll(() => page.locator('.mark').count()).toBe(0)
    expect(scriptErrors(studio)).toEqual([])
  })

  test('a question is asked again or changed in its place, and both can be undone', async () => {
    studio = await openStudio(server.url)
    const { page, errors } = studio
    const answers = page.locator('.reply-text')
    for (const [index, answer] of ['one', 'two', 'three'].entries()) {
      await answerWith(page, answer)
      await ask(page, `Question ${index + 1}`)
      await answers.getByText(answer).waitFor()
      // While an answer is being written, Enter asks nothing.
      await page.getByRole('button', { name: 'Ask again' }).nth(index).waitFor()
    }
    await answerWith(page, 'another')
    await page.getByRole('button', { name: 'Ask again' }).last().click()
    await answers.getByText('another').waitFor()
    // By the keyboard alone: Escape leaves the question as it is, Enter sends it.
    const change = page.getByRole('button', { name: 'Change the question' })
    await change.nth(1).press('Enter')
    await page.keyboard.press('Escape')
    expect(await change.nth(1).evaluate((button) => button.matches(':focus'))).toBe(true)
    await page.keyboard.press('Enter')
    await page.getByLabel('The question', { exact: true }).fill('In other words')
    const sent = page.waitForRequest('**/v1/chat/completions')
    await answerWith(page, 'last')
    await page.keyboard.press('Enter')
    expect((await sent).postDataJSON()).toMatchObject({
      messages: [{ content: 'Question 1' }, { content: 'one' }, { content: 'In other words' }],
    })
    await answers.getByText('last').waitFor()
    expect(await answers.allInnerTexts()).toEqual(['one', 'last'])
    await page.getByText('Asked again; 1 later turn removed.').waitFor()
    await page.getByRole('button', { name: 'Undo' }).click()
    await expect.poll(() => answers.allInnerTexts()).toEqual(['one', 'two', 'another'])
    await page.getByRole('button', { name: 'Undo' }).click()
    await expect.poll(() => answers.allInnerTexts()).toEqual(['one', 'two', 'three'])
    expect(await page.getByRole('button', { name: 'Undo' }).count()).toBe(0)
    expect(errors).toEqual([])
  })
})

async function ask(page: Page, question: string): Promise<void> {
  await page.getByLabel('Your question').fill(question)
  await page.keyboard.press('Enter')
}

/** Puts a reply in place of the model's, from the next one on. */
async function answerWith(page: Page, text: string): Promise<void> {
  await page.unroute('**/v1/chat/completions')
  await page.route('**/v1/chat/completions', (route) => {
    const events = text.match(/[\s\S]{1,7}/g)!.map((content) => ({ choices: [{ index: 0, delta: { content } }] }))
    const end = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }
    const body = [...events, end].map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')
    return route.fulfill({ contentType: 'text/event-stream', body: `${body}data: [DONE]\n\n` })
  })
}
