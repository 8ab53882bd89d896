import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import sharp from 'sharp'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { parseMarkup } from '../../src/grounding/markup-parser.ts'
import {
  CHROMIUM,
  catchReply,
  closeBrowser,
  openStudio,
  prepareStudio,
  type StudioPage,
  scriptErrors,
  violationsInBothThemes,
} from '../support/browser.ts'
import { paddedPng } from '../support/padded-png.ts'
import { makePdf } from '../support/pdf.ts'
import { KEY, type TestServer } from '../support/server.ts'
import { startShippedServer } from '../support/shipped-model.ts'
import { makeVideo } from '../support/video.ts'

const VIDEO_S = 5

describe.skipIf(CHROMIUM === null)('media in the Studio', () => {
  let server: TestServer
  let origin: Server
  let address: string
  let studio: StudioPage
  let folder: string

  beforeAll(async () => {
    await prepareStudio()
    folder = await mkdtemp(join(tmpdir(), 'lookout-media-'))
    const picture = await readFile(new URL('../../docs/pictures/shapes.png', import.meta.url))
    origin = createServer((request, response) => {
      if (request.url === '/shapes.png') response.end(picture)
      else response.writeHead(404).end()
    }).listen(0, '127.0.0.1')
    await once(origin, 'listening')
    address = `http://localhost:${(origin.address() as AddressInfo).port}`
    server = await startShippedServer({ environment: { LOOKOUT_MEDIA_HOSTS: new URL(address).host } })
  })
  afterEach(() => studio?.close())
  afterAll(async () => {
    await closeBrowser()
    await server?.close()
    origin?.close()
    await rm(folder, { recursive: true, force: true })
  })

  const media = (page: Page) => page.getByRole('list', { name: 'Media' }).getByRole('button', { name: /^Show / })
  const names = async (page: Page) =>
    (await media(page).all()).length === 0
      ? []
      : media(page).evaluateAll((all) => all.map((one) => one.getAttribute('title')))
  const choose = (page: Page, files: { name: string; mimeType: string; buffer: Buffer }[]) =>
    page.getByLabel('Files', { exact: true }).setInputFiles(files)
  const position = async (page: Page) =>
    Number(await page.getByRole('slider', { name: 'Position' }).getAttribute('aria-valuenow'))

  test('a PDF becomes a picture for each of its pages', async () => {
    studio = await openStudio(server.url)
    const { page, errors } = studio
    const square = { box: [0, 0, 600, 600], content: '0.86 0.15 0.15 rg 60 400 120 120 re f' } as const
    const chosen = (name: string, buffer: Buffer) => choose(page, [{ name, mimeType: 'application/pdf', buffer }])
    await chosen('report.pdf', makePdf([square, {}]))
    await expect.poll(() => names(page)).toEqual(['report.pdf, page 1', 'report.pdf, page 2'])
    expect(errors).toEqual([])
    await chosen('broken.pdf', Buffer.from('%PDF-1.7'))
    await page.getByText('broken.pdf: The document is damaged or no PDF').waitFor()
    expect(await names(page)).toHaveLength(2)
  })

  test('clips of a video lie on a timeline where the reply says, and lead there', async () => {
    studio = await openStudio(server.url)
    const { page, errors } = studio
    await page.getByRole('button', { name: 'Moving shapes' }).click()
    const reply = await catchReply(page)
    await page.getByRole('button', { name: 'When does the red circle appear?' }).click()
    await page.getByText(/\d+ \+ \d+ tokens/).waitFor()
    const [clip] = parseMarkup(reply()).flatMap((piece) => (piece.kind === 'clip' ? [piece] : []))
    const span = page.locator('.span').first()
    const box = (await span.boundingBox())!
    const track = (await page.locator('.playhead-track').boundingBox())!
    expect((box.x - track.x) / track.width).toBeCloseTo(clip!.start / VIDEO_S, 1)
    expect((box.x + box.width - track.x) / track.width).toBeCloseTo(Math.min(1, clip!.end! / VIDEO_S), 1)

    await span.hover()
    expect(await page.locator('.chip.lit').count()).toBe(1)
    await page.locator('.chip').first().hover()
    await page.locator('.span.lit').waitFor()
    await page.locator('.chip').first().click()
    await expect.poll(() => position(page)).toBe(clip!.start)
    // Again, after playback has moved on.
    await page.getByRole('slider', { name: 'Position' }).press('Home')
    await expect.poll(() => position(page)).toBe(0)
    await page.locator('.chip').first().click()
    await expect.poll(() => position(page)).toBe(clip!.start)
    expect(errors).toEqual([])
  })

  test('a video plays, steps and is scrubbed by keyboard and pointer', async () => {
    studio = await openStudio(server.url)
    const { page, errors } = studio
    await page.getByRole('button', { name: 'Moving shapes' }).click()
    const slider = page.getByRole('slider', { name: 'Position' })
    await slider.press('Shift+ArrowRight')
    await expect.poll(() => position(page)).toBe(1)
    const time = () => page.evaluate<number>('document.querySelector(".sheet video").currentTime')
    await slider.press('ArrowRight')
    await expect.poll(time).toBeGreaterThan(1)
    expect(await time()).toBeLessThan(1.2)
    const bar = (await slider.boundingBox())!
    await page.mouse.click(bar.x + bar.width * 0.8, bar.y + bar.height / 2)
    await expect.poll(() => position(page)).toBeCloseTo(0.8 * VIDEO_S, 1)
    await slider.press('Home')
    await slider.press(' ')
    await page.getByRole('button', { name: 'Pause' }).waitFor()
    await expect.poll(() => position(page)).toBeGreaterThan(0)
    await slider.press(' ')
    await page.getByRole('button', { name: 'Play', exact: true }).waitFor()
    expect(errors).toEqual([])
  })

  test('the soundtrack is sent when it is wanted', async () => {
    studio = await openStudio(server.url)
    const { page, errors } = studio
    await page.getByRole('button', { name: 'Moving shapes' }).click()
    const asked = page.waitForRequest((request) => request.url().endsWith('/v1/chat/completions'))
    await page.getByRole('button', { name: 'What is said?' }).click()
    expect((await asked).postDataJSON()).toMatchObject({ vision_config: { enable_audio_in_video: true } })
    await page.getByText(/\d+ \+ \d+ tokens/).waitFor()
    await page.getByLabel('Include its sound').uncheck()
    const again = page.waitForRequest((request) => request.url().endsWith('/v1/chat/completions'))
    await page.getByLabel('Your question').fill('What appears first?')
    await page.getByLabel('Your question').press('Enter')
    expect((await again).postDataJSON()).not.toHaveProperty('vision_config')
    await page
      .getByText(/\d+ \+ \d+ tokens/)
      .nth(1)
      .waitFor()
    expect(errors).toEqual([])
  })

  test('a sound shows its waveform and is heard', async () => {
    studio = await openStudio(server.url)
    const { page, errors } = studio
    await page.getByRole('button', { name: 'A voice' }).click()
    await expect.poll(() => page.locator('.waveform path').getAttribute('d')).toMatch(/^M0\.\d+ /)
    const asked = page.waitForRequest((request) => request.url().endsWith('/v1/chat/completions'))
    await page.getByRole('button', { name: 'What is said?' }).click()
    const { messages } = (await asked).postDataJSON() as { messages: { content: object[] }[] }
    expect(messages[0]!.content[0]).toMatchObject({ type: 'input_audio', input_audio: { format: 'mp3' } })
    await page.getByText(/\d+ \+ \d+ tokens/).waitFor()
    expect(errors).toEqual([])
  })

  test('a recording of sound alone is a sound, though browsers take its file for a video', async () => {
    studio = await openStudio(server.url)
    const { page, errors } = studio
    // The browser plays sounds only once somebody has used the page.
    await page.getByLabel('Your question').click()
    const bytes = (await page.evaluate(`(async () => {
      const context = new AudioContext()
      const [tone, end] = [context.createOscillator(), context.createMediaStreamDestination()]
      tone.connect(end)
      tone.start()
      const recorder = new MediaRecorder(end.stream, { mimeType: 'audio/webm' })
      const pieces = []
      const whole = new Promise((resolve) => {
        recorder.onstop = resolve
        recorder.ondataavailable = ({ data }) => {
          pieces.push(data)
          if (data.size > 0 && recorder.state === 'recording') recorder.stop()
        }
      })
      recorder.start(300)
      await whole
      return [...new Uint8Array(await new Blob(pieces).arrayBuffer())]
    })()`)) as number[]
    await choose(page, [{ name: 'memo.webm', mimeType: 'video/webm', buffer: Buffer.from(bytes) }])
    await page.getByRole('heading', { name: 'memo.webm' }).waitFor()
    const asked = page.waitForRequest((request) => request.url().endsWith('/v1/chat/completions'))
    await page.getByLabel('Your question').fill('What is heard?')
    await page.getByLabel('Your question').press('Enter')
    expect((await asked).postData()).toContain('"format":"webm"')
    await page.getByText(/\d+ \+ \d+ tokens/).waitFor()
    await page.getByRole('button', { name: 'Show the request' }).click()
    await page.getByText('It reads memo.webm from the current folder.').waitFor()
    // A video whose codec the browser does not know is no sound: the server may know it.
    const frames = [{ width: 64, height: 48, data: new Uint8Array(64 * 48 * 3) }]
    for (const [format, codec, other] of [
      ['webm', 'V_VP8', 'V_VP7'],
      ['mp4', 'avc1', 'mp4v'],
    ] as const) {
      const bytes = (await makeVideo({ format, frames, audioSeconds: 1 })).toString('latin1')
      const buffer = Buffer.from(bytes.replaceAll(codec, other), 'latin1')
      await choose(page, [{ name: `seen.${format}`, mimeType: `video/${format}`, buffer }])
      await page.getByRole('button', { name: `Show seen.${format}` }).waitFor()
      expect(await page.getByRole('heading', { name: `seen.${format}` }).count()).toBe(0)
    }
    expect(errors).toEqual([])
  })

  test('several media are chosen and removed; other formats become PNG or are refused with a sentence', async () => {
    studio = await openStudio(server.url)
    const { page, errors } = studio
    const plain = sharp({ create: { width: 40, height: 30, channels: 3, background: 'red' } })
    const png = await plain.png().toBuffer()
    const blue = await plain.clone().linear([0, 0, 0], [0, 0, 255]).png().toBuffer()
    const gif = await sharp([png, blue], { join: { animated: true } })
      .gif()
      .toBuffer()
    await choose(page, [
      { name: 'one.png', mimeType: 'image/png', buffer: png },
      { name: 'two.gif', mimeType: 'image/gif', buffer: gif },
      { name: 'photo.heic', mimeType: '', buffer: Buffer.from('\0\0\0\x18ftypheic') },
      { name: 'film.mkv', mimeType: 'video/x-matroska', buffer: Buffer.from('no video') },
      { name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('words') },
    ])
    const notice = page.getByRole('alert')
    await notice.waitFor()
    expect(await notice.innerText()).toContain('cannot read photo.heic. Save it as PNG or JPEG.')
    expect(await notice.innerText()).toContain('film.mkv is in a format that the server does not support.')
    expect(await notice.innerText()).toContain('notes.txt is not an image, a video or a sound.')
    expect(await notice.innerText()).toContain('two.gif has 2 frames; the model sees only the first.')
    expect(await notice.innerText()).not.toContain('one.png')
    expect(await names(page)).toEqual(['one.png', 'two.gif'])
    await page.getByRole('button', { name: 'Show two.gif' }).click()
    await page.getByRole('group', { name: /^two.gif, 40 by 30 pixels/ }).waitFor()
    const asked = page.waitForRequest((request) => request.url().endsWith('/v1/chat/completions'))
    await page.getByLabel('Your question').fill('What is this?')
    await page.getByLabel('Your question').press('Enter')
    const { messages } = (await asked).postDataJSON() as { messages: { content: { image_url: { url: string } }[] }[] }
    expect(messages[0]!.content.slice(0, 2).map(({ image_url: { url } }) => url.slice(0, 15))).toEqual([
      'data:image/png;',
      'data:image/png;',
    ])
    await page.getByText(/\d+ \+ \d+ tokens/).waitFor()
    await page.getByRole('button', { name: 'Remove two.gif' }).click()
    await page.getByRole('group', { name: /^one.png/ }).waitFor()
    await page.getByRole('button', { name: 'Dismiss' }).click()
    await notice.waitFor({ state: 'detached' })
    await page.getByRole('button', { name: 'Remove one.png' }).click()
    await page.getByText('Drop an image, a video or a sound').waitFor()
    expect(errors).toEqual([])
  })

  test('a file may change on the disk once it is on the stage, also for the session', async () => {
    studio = await openStudio(server.url)
    const { page, errors } = studio
    const path = join(folder, 'plot.png')
    const picture = await sharp({ create: { width: 40, height: 30, channels: 3, background: 'red' } })
      .png()
      .toBuffer()
    await writeFile(path, picture)
    await page.getByLabel('Files', { exact: true }).setInputFiles(path)
    await page.getByRole('group', { name: /^plot.png, 40 by 30 pixels/ }).waitFor()
    await writeFile(path, 'no picture')
    const asked = page.waitForRequest((request) => request.url().endsWith('/v1/chat/completions'))
    await page.getByLabel('Your question').fill('What is this?')
    await page.getByLabel('Your question').press('Enter')
    expect((await asked).postData()).toContain(picture.toString('base64'))
    await page.getByText(/\d+ \+ \d+ tokens/).waitFor()
    await page.getByRole('button', { name: 'Sessions' }).click()
    await page.getByRole('button', { name: 'New session' }).click()
    await page.getByText('Drop an image, a video or a sound').waitFor()
    await page.getByRole('button', { name: 'Sessions' }).click()
    await page.getByRole('list', { name: 'Sessions' }).getByText('What is this?').click()
    await page.getByRole('group', { name: /^plot.png, 40 by 30 pixels/ }).waitFor()
    expect(errors).toEqual([])
  })

  test('a large file is sent again where the server has lost it, or named where it has changed', async () => {
    studio = await openStudio(server.url)
    const { page } = studio
    const path = join(folder, 'large.png')
    await writeFile(path, await paddedPng(15 * 2 ** 20))
    await page.getByLabel('Files', { exact: true }).setInputFiles(path)
    await page.getByRole('group', { name: /^large.png/ }).waitFor()
    const ids: string[] = []
    page.on('request', (request) => {
      const id = /"file_id":"([^"]+)"/.exec(request.postData() ?? '')?.[1]
      if (request.url().endsWith('/v1/chat/completions')) ids.push(id ?? 'none')
    })
    const loseIt = async () => {
      const headers = { authorization: `Bearer ${KEY}` }
      expect((await fetch(`${server.url}/v1/files/${ids.at(-1)}`, { method: 'DELETE', headers })).status).toBe(200)
    }
    const answers = page.getByText(/\d+ \+ \d+ tokens/)
    await page.getByLabel('Your question').fill('What is this?')
    await page.getByLabel('Your question').press('Enter')
    await answers.waitFor()
    await loseIt()
    await page.getByLabel('Your question').fill('And now?')
    await page.getByLabel('Your question').press('Enter')
    await answers.nth(1).waitFor()
    expect(new Set(ids).size).toBe(2)
    await loseIt()
    await writeFile(path, 'no picture')
    await page.getByLabel('Your question').fill('Is it still there?')
    await page.getByLabel('Your question').press('Enter')
    await page.getByText('large.png has been changed or removed on the disk: add it again.').waitFor()
    await page.getByRole('button', { name: 'Go on without it' }).click()
    await answers.nth(2).waitFor()
    expect(scriptErrors(studio)).toEqual([])
  })

  test('media is fetched by its address, which is typed, pasted or dragged from another page', async () => {
    studio = await openStudio(server.url)
    const { page, errors } = studio
    await page.getByRole('button', { name: 'From URL' }).click()
    const field = page.getByRole('textbox', { name: 'Address' })
    await field.fill('http://127.0.0.1/secret.png')
    await page.getByRole('button', { name: 'Fetch', exact: true }).click()
    expect(await page.getByRole('alert').innerText()).toContain('its address is not public')
    // What is cancelled does not come.
    const slow = page.waitForRequest('**/studio/fetch')
    await page.route('**/studio/fetch', () => {})
    await field.fill(`${address}/shapes.png`)
    await field.press('Enter')
    const failed = page.waitForEvent('requestfailed', (request) => request.url().endsWith('/studio/fetch'))
    await slow
    await page.getByRole('button', { name: 'Cancel' }).click()
    await failed
    expect(await page.getByText(/^Fetching/).count()).toBe(0)
    await page.unroute('**/studio/fetch')
    await page.getByRole('button', { name: 'From URL' }).click()
    await field.fill(`${address}/shapes.png`)
    await field.press('Enter')
    await page.getByRole('group', { name: /^shapes.png, 512 by 384 pixels/ }).waitFor()
    expect(await page.getByRole('dialog').count()).toBe(0)

    const url = JSON.stringify(`${address}/shapes.png`)
    await page.evaluate(`{
      const clipboardData = new DataTransfer()
      clipboardData.setData('text/plain', ${url})
      document.body.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true }))
    }`)
    await expect.poll(() => names(page)).toHaveLength(2)
    await page.evaluate(`{
      const dataTransfer = new DataTransfer()
      dataTransfer.setData('text/uri-list', 'https://example.com/article')
      dataTransfer.setData('text/html', '<a href="https://example.com/article"><img src="' + ${url} + '"></a>')
      document.body.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }))
    }`)
    await expect.poll(() => names(page)).toHaveLength(3)
    // The refused address; nothing else went wrong.
    expect(errors.filter((message) => !message.includes('status of 400'))).toEqual([])
  })

  test('a camera takes a picture; without permission the page says what to do', async () => {
    studio = await openStudio(server.url, { permissions: ['camera'], hasCamera: true })
    await studio.page.getByRole('button', { name: 'Use the camera' }).click()
    await studio.page.getByRole('dialog').getByRole('button', { name: 'Take a picture' }).click()
    await studio.page.getByRole('group', { name: /^camera-\d+\.jpg, \d+ by \d+ pixels/ }).waitFor()
    expect(studio.errors).toEqual([])
    await studio.close()

    studio = await openStudio(server.url, { hasCamera: true })
    await studio.page.getByRole('button', { name: 'Use the camera' }).click()
    expect(await studio.page.getByRole('alert').innerText()).toContain('Allow it in the address bar')
    await studio.page.keyboard.press('Escape')
    await studio.page.getByText('Drop an image, a video or a sound').waitFor()
    expect(studio.errors).toEqual([])
  })

  test('is accessible, on a desk and on a phone', async () => {
    studio = await openStudio(server.url)
    const { page, errors } = studio
    await page.getByRole('button', { name: 'Moving shapes' }).click()
    await page.getByRole('button', { name: 'What happens?' }).click()
    await page.getByText(/\d+ \+ \d+ tokens/).waitFor()
    expect(await violationsInBothThemes(page, { isNarrow: true })).toEqual([])
    for (const width of [1360, 390]) {
      await page.setViewportSize({ width, height: 820 })
      expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width)
    }
    await page.getByRole('button', { name: 'From URL' }).click()
    expect(await violationsInBothThemes(page)).toEqual([])
    expect(errors).toEqual([])
  })
})
