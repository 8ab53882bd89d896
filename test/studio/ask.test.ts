import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { parseMarkup } from '../../src/grounding/index.ts'
import { CHROMIUM, closeBrowser, openStudio, prepareStudio, type StudioPage } from '../support/browser.ts'
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
})
