import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { CHROMIUM, closeBrowser, openStudio, prepareStudio, type StudioPage } from '../support/browser.ts'
import { KEY, type TestServer } from '../support/server.ts'
import { startShippedServer } from '../support/shipped-model.ts'
import { makeVideo } from '../support/video.ts'

describe.skipIf(CHROMIUM === null)('sessions of the Studio', () => {
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

  test('come back after the page is loaded again, with media, marks, options and draft', async () => {
    studio = await openStudio(server.url)
    const { page, errors } = studio
    await detectShapes(page)
    await page.getByRole('radio', { name: 'Boxes' }).click()
    await page.getByLabel('Your question').fill('Half a question')
    const [text, marks] = [await page.locator('.reply-text').innerText(), await marksOf(page)]
    await kept(page, 'Half a question')
    await page.reload()
    await page.getByText(/\d+ \+ \d+ tokens/).waitFor()
    expect(await page.locator('.reply-text').innerText()).toBe(text)
    expect(await marksOf(page)).toEqual(marks)
    expect(await page.getByLabel('Your question').inputValue()).toBe('Half a question')
    expect(await page.getByRole('radio', { name: 'Boxes' }).getAttribute('aria-checked')).toBe('true')
    // It goes on where it was: the picture is sent again.
    await page.getByLabel('Your question').fill('Where is the red circle?')
    await page.keyboard.press('Enter')
    await page
      .getByText(/\d+ \+ \d+ tokens/)
      .nth(1)
      .waitFor()
    expect(
      await page
        .getByText(/\d+ \+ \d+ tokens/)
        .nth(1)
        .innerText(),
    ).toMatch(/^[2-9]\d\d/)
    expect(errors).toEqual([])
  })

  test('survive a crash of the tab', async () => {
    studio = await openStudio(server.url)
    const { page } = studio
    await page.getByRole('button', { name: 'Six shapes' }).click()
    await page.getByLabel('Your question').fill('Not yet asked')
    await kept(page, 'Not yet asked')
    const next = await page.context().newPage()
    const crashed = page.waitForEvent('crash')
    await page.goto('chrome://crash').catch(() => {})
    await crashed
    await next.goto(`${server.url}/studio#key=${KEY}`)
    expect(await next.getByLabel('Your question').inputValue()).toBe('Not yet asked')
    await next.getByRole('button', { name: 'Show shapes.png' }).waitFor()
  })

  test('are listed, named, left, opened and deleted', async () => {
    studio = await openStudio(server.url)
    const { page, errors } = studio
    await detectShapes(page)
    const list = page.getByRole('list', { name: 'Sessions' })
    await page.getByRole('button', { name: 'Sessions' }).click()
    const isFocused = (text: string) => expect.poll(() => page.locator(':focus').innerText()).toContain(text)
    await page.getByRole('button', { name: 'Rename Detect all objects.' }).click()
    await page.getByLabel('Title').fill('Shapes')
    await page.keyboard.press('Enter')
    await list.getByText('Shapes').waitFor()
    await isFocused('Shapes')
    await page.getByRole('button', { name: 'New session' }).click()
    await page.getByRole('heading', { name: /^Drop/ }).waitFor()
    expect(await page.locator('.turn').count()).toBe(0)
    await page.getByLabel('Your question').fill('Another')
    await page.getByRole('button', { name: 'Sessions' }).click()
    await list.getByText('Shapes').click()
    await page.getByText(/\d+ \+ \d+ tokens/).waitFor()
    expect(await page.getByLabel('Your question').inputValue()).toBe('')
    await page.getByRole('button', { name: 'Sessions' }).click()
    await page.getByRole('button', { name: 'Delete Shapes' }).click()
    await isFocused('Keep')
    await page.keyboard.press('Enter')
    await isFocused('Shapes')
    await page.getByRole('button', { name: 'Delete Shapes' }).click()
    await page.getByRole('button', { name: 'Delete', exact: true }).click()
    await list.getByText('Shapes').waitFor({ state: 'detached' })
    await isFocused('New session')
    await list.getByText('Another').waitFor()
    expect(errors).toEqual([])
  })

  test('go to a file without the key, and come back by dropping it', async () => {
    studio = await openStudio(server.url)
    const { page } = studio
    await detectShapes(page)
    const marks = await marksOf(page)
    const file = await saved(page)
    expect(file).not.toContain(KEY)
    expect(JSON.parse(file)).toMatchObject({
      lookout_session: 1,
      title: 'Detect all objects.',
      media: [{ kind: 'image', name: 'shapes.png', data: expect.stringMatching(/^data:image\/png;base64,/) }],
    })
    await studio.close()

    studio = await openStudio(server.url)
    await drop(studio.page, 'shapes.lookout.json', file)
    await studio.page.getByText(/\d+ \+ \d+ tokens/).waitFor()
    expect(await marksOf(studio.page)).toEqual(marks)
    // Saved again, it is the same.
    const { saved_at: _, ...again } = JSON.parse(await saved(studio.page))
    const { saved_at: __, ...first } = JSON.parse(file)
    expect(again).toEqual(first)
    expect(studio.errors).toEqual([])
  })

  test('a file that is broken, newer or partly damaged is a sentence, and what is there stays', async () => {
    studio = await openStudio(server.url)
    const { page, errors } = studio
    await detectShapes(page)
    const file = await saved(page)
    await drop(page, 'cut.json', file.slice(0, -20))
    await page.getByText('cut.json is damaged: it is not a complete session.').waitFor()
    await drop(page, 'newer.json', file.replace('"lookout_session": 1', '"lookout_session": 2'))
    await page.getByText('newer.json was saved by a newer Studio. Update this server to open it.').waitFor()
    expect(await page.locator('.mark').count()).toBeGreaterThan(0)
    const { parts, ...rest } = JSON.parse(file)
    const damaged = { ...rest, parts: { ...parts, ask: { draft: 'x', turns: [{ id: 5 }] }, future: { kept: true } } }
    await drop(page, 'damaged.json', JSON.stringify(damaged))
    await page.getByText('A part of this session is damaged and was left out: ask.').waitFor()
    await page.getByRole('button', { name: 'Show shapes.png' }).waitFor()
    // What only newer pages know is not lost.
    expect(JSON.parse(await saved(page)).parts.future).toEqual({ kept: true })
    expect(errors).toEqual([])
  })

  test('"Start over" leaves the conversation among them with the media on the stage, and can be undone', async () => {
    studio = await openStudio(server.url)
    const { page, errors } = studio
    await detectShapes(page)
    const marks = await marksOf(page)
    await page.getByRole('button', { name: 'Start over' }).click()
    await page.getByText('Started over.').waitFor()
    expect(await page.locator('.turn').count()).toBe(0)
    await page.getByRole('button', { name: 'Show shapes.png' }).waitFor()
    await page.getByLabel('Your question').fill('Already written')
    await page.getByRole('button', { name: 'Undo' }).click()
    await page.getByText(/\d+ \+ \d+ tokens/).waitFor()
    expect(await marksOf(page)).toEqual(marks)
    await expect.poll(() => page.getByLabel('Your question').inputValue()).toBe('Already written')
    const titles = page.locator('.session-title')
    await page.getByRole('button', { name: 'Sessions' }).click()
    expect(await titles.allInnerTexts()).toEqual(['Detect all objects.'])
    await page.keyboard.press('Escape')
    // Not undone, it stays there.
    await page.getByRole('button', { name: 'Start over' }).click()
    await page.getByText('Started over.').waitFor()
    await kept(page, 'Already written')
    await page.getByLabel('Your question').fill('Another')
    await kept(page, 'Another')
    await page.getByRole('button', { name: 'Sessions' }).click()
    await titles.getByText('Detect all objects.').click()
    await page.getByText(/\d+ \+ \d+ tokens/).waitFor()
    expect(await marksOf(page)).toEqual(marks)
    expect(errors).toEqual([])
  })

  // Plain HTTP from another machine has no locks.
  test.each([true, false])('two tabs do not write over one another; with locks: %s', async (hasLocks) => {
    studio = await openStudio(server.url)
    const { page } = studio
    if (!hasLocks) {
      await page.context().addInitScript('Object.defineProperty(navigator, "locks", { value: undefined })')
      await page.reload()
    }
    await page.getByLabel('Your question').fill('Of the first tab')
    await kept(page, 'Of the first tab')
    const other = await page.context().newPage()
    await other.goto(`${server.url}/studio#key=${KEY}`)
    expect(await other.getByLabel('Your question').inputValue()).toBe('')
    await other.getByRole('button', { name: 'Sessions' }).click()
    await other.getByText('Of the first tab').click()
    await other.getByText('That session is open in another tab.').waitFor()
    // A name that another tab gives stays.
    await other.getByRole('button', { name: 'Sessions' }).click()
    await other.getByRole('button', { name: 'Rename Of the first tab' }).click()
    await other.getByLabel('Title').fill('Named')
    await other.keyboard.press('Enter')
    await other.getByRole('button', { name: 'Rename Named' }).waitFor()
    const named = (tab: Page) => tab.locator('.session-title', { hasText: 'Named' })
    await page.getByRole('button', { name: 'Sessions' }).click()
    await named(page).waitFor()
    await page.keyboard.press('Escape')
    await page.getByLabel('Your question').fill('It goes on')
    await kept(page, 'It goes on')
    await page.goto('about:blank')
    // What a tab has left can be opened, as it is now.
    await other.reload()
    await other.getByRole('button', { name: 'Sessions' }).click()
    await named(other).click()
    await expect.poll(() => other.getByLabel('Your question').inputValue()).toBe('It goes on')
  })

  test('have what is written and chosen in all modes, also what the server will refuse', async () => {
    studio = await openStudio(server.url)
    const { page, errors } = studio
    const show = (name: string) => page.getByRole('navigation').getByRole('button', { name }).click()
    await page.getByRole('button', { name: 'Six shapes' }).click()
    await show('Decisions')
    await page.getByRole('textbox', { name: 'Question 1' }).fill('How many squares are there?')
    await page.getByLabel('Type of question 1').selectOption('x_count')
    await page.getByLabel('The largest number').fill('-5')
    await show('Structure')
    await page.getByRole('radio', { name: 'Regex' }).click()
    await show('Detect')
    await page.getByRole('radio', { name: 'Thorough' }).click()
    await page.getByLabel('What to find').fill('red circ')
    await show('Ask')
    await page.getByLabel('Your question').fill('The last change')
    await kept(page, 'The last change')
    await page.reload()
    await show('Decisions')
    expect(await page.getByLabel('The largest number').inputValue()).toBe('-5')
    await show('Structure')
    expect(await page.getByRole('radio', { name: 'Regex' }).getAttribute('aria-checked')).toBe('true')
    await show('Detect')
    expect(await page.getByRole('radio', { name: 'Thorough' }).getAttribute('aria-checked')).toBe('true')
    expect(await page.getByLabel('What to find').inputValue()).toBe('red circ')
    expect(await page.getByText('is damaged').count()).toBe(0)
    expect(errors).toEqual([])
  })

  test('keep their answers when they are opened while another one waits for its own', async () => {
    studio = await openStudio(server.url)
    const { page, errors } = studio
    const show = (name: string) => page.getByRole('navigation').getByRole('button', { name }).click()
    const list = page.getByRole('list', { name: 'Sessions' })
    const submit = () => page.locator('.panel button[type=submit]').click()
    const answers = page.locator('.row-status', { hasText: /token/ })
    await show('Multilook')
    await page.getByRole('textbox', { name: 'Question 1' }).fill('Is there a red circle?')
    await submit()
    await answers.waitFor()
    await page.getByRole('button', { name: 'Sessions' }).click()
    await page.getByRole('button', { name: 'New session' }).click()
    await page.getByRole('dialog', { name: 'Sessions' }).waitFor({ state: 'detached' })
    const never = () => new Promise<void>(() => {})
    await page.route('**/multilook', never)
    await page.route('**/v1/detect', never)
    await page.getByRole('textbox', { name: 'Question 1' }).fill('Is there a star?')
    await submit()
    await page.getByText('waiting').waitFor()
    // QuickTime is uploaded, which nothing stops.
    await page.route('**/v1/files', never)
    const frames = [{ width: 64, height: 48, data: new Uint8Array(64 * 48 * 3) }]
    const film = { name: 'film.mov', mimeType: 'video/quicktime', buffer: await makeVideo({ format: 'mov', frames }) }
    const pictures = ['docs/pictures/shapes.png', 'docs/pictures/shapes.png']
    for (const [index, file] of [film, ...pictures].entries()) {
      await page.getByRole('button', { name: 'Choose files' }).waitFor()
      await page.getByLabel('Files', { exact: true }).setInputFiles(file)
      await expect.poll(() => page.locator('.thumb').count()).toBe(index + 1)
    }
    await show('Decisions')
    await page.getByRole('textbox', { name: 'Question 1' }).fill('Is it a film?')
    await submit()
    await page.getByRole('button', { name: 'Stop' }).waitFor()
    await show('Detect')
    await page.getByRole('radio', { name: 'All 2' }).click()
    await submit()
    await page.getByText('1 of 2: shapes.png').waitFor()
    await page.getByRole('button', { name: 'Sessions' }).click()
    await list.getByText('Is there a red circle?').click()
    await answers.waitFor()
    await show('Detect')
    expect(await page.getByText('Stopped after').count()).toBe(0)
    await show('Decisions')
    await page.locator('.panel button[type=submit]').waitFor()
    await page.reload()
    await show('Multilook')
    await answers.waitFor()
    expect(errors).toEqual([])
  })

  test('when the storage is full, nothing is lost, and the session goes to a file', async () => {
    studio = await openStudio(server.url, { isAlone: true })
    const { page } = studio
    const devtools = await page.context().newCDPSession(page)
    await devtools.send('Storage.overrideQuotaForOrigin', { origin: server.url, quotaSize: 1 })
    await detectShapes(page)
    await page.getByText(/^The browser's storage is full, so this session is not saved/).waitFor()
    expect(await page.locator('.mark').count()).toBeGreaterThan(0)
    const download = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Save to a file' }).click()
    expect(JSON.parse(await readFile(await (await download).path(), 'utf8')).media).toHaveLength(1)
    await devtools.send('Storage.overrideQuotaForOrigin', { origin: server.url })
    await page.getByLabel('Your question').fill('There is room again')
    await page.getByText(/^The browser's storage is full/).waitFor({ state: 'detached' })
    await kept(page, 'There is room again')
  })
})

async function detectShapes(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Six shapes' }).click()
  await page.getByRole('button', { name: 'Detect all objects.' }).click()
  await page.getByText(/\d+ \+ \d+ tokens/).waitFor()
}

function marksOf(page: Page): Promise<(string | null)[]> {
  return page.locator('.mark').evaluateAll((marks) => marks.map((mark) => mark.querySelector('.shape')!.outerHTML))
}

/** Waits until the browser has stored a draft. */
async function kept(page: Page, draft: string): Promise<void> {
  const isStored = `new Promise((resolve) => {
    indexedDB.open('lookout-studio').onsuccess = ({ target: { result: database } }) => {
      database.transaction('parts').objectStore('parts').getAll().onsuccess = ({ target: { result } }) => {
        database.close()
        resolve(result.some(({ ask }) => ask?.draft === ${JSON.stringify(draft)}))
      }
    }
  })`
  await expect.poll(() => page.evaluate(isStored)).toBe(true)
}

/** The session on the page as a file. */
async function saved(page: Page): Promise<string> {
  await page.getByRole('button', { name: 'Sessions' }).click()
  const download = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Save to a file' }).click()
  expect((await download).suggestedFilename()).toMatch(/[.]lookout[.]json$/)
  await page.keyboard.press('Escape')
  return readFile(await (await download).path(), 'utf8')
}

async function drop(page: Page, name: string, content: string): Promise<void> {
  // The page listens from its first paint on.
  await page.getByRole('heading', { name: 'Lookout' }).waitFor()
  await page.evaluate(`{
    const data = new DataTransfer()
    data.items.add(new File([${JSON.stringify(content)}], ${JSON.stringify(name)}, { type: 'application/json' }))
    for (const type of ['dragenter', 'dragover', 'drop']) {
      document.body.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }))
    }
  }`)
}
