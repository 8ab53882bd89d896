import { readFile } from 'node:fs/promises'
import type { Download, Page, Route } from 'playwright-core'
import sharp from 'sharp'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import {
  CHROMIUM,
  closeBrowser,
  openStudio,
  prepareStudio,
  type StudioPage,
  scriptErrors,
  violationsInBothThemes,
  violationsOf,
} from '../support/browser.ts'
import { paddedPng } from '../support/padded-png.ts'
import { makePdf } from '../support/pdf.ts'
import { KEY, type TestServer } from '../support/server.ts'
import { startShippedServer } from '../support/shipped-model.ts'

interface Detected {
  readonly mention: string
  readonly point_box: { readonly top_left: Pixel; readonly bottom_right: Pixel }
}
interface Pixel {
  readonly x: number
  readonly y: number
}

/** A response as the server gives it, with boxes as [left, top, right, bottom]. */
function detectionsOf(boxes: readonly (readonly [string, number, number, number, number])[]) {
  const detections = boxes.map(([mention, left, top, right, bottom]) => {
    return { mention, point_box: { top_left: { x: left, y: top }, bottom_right: { x: right, y: bottom } } }
  })
  return { detections, finish_reason: 'complete' }
}

describe.skipIf(CHROMIUM === null)('detecting in the Studio', () => {
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

  async function open(): Promise<Page> {
    studio = await openStudio(server.url)
    const { page } = studio
    await page.getByRole('button', { name: 'Six shapes' }).click()
    await page.getByRole('navigation', { name: 'Modes' }).getByText('Detect').click()
    return page
  }

  const detect = (page: Page) => page.locator('.search-form').getByRole('button', { name: 'Detect' }).click()
  const found = (page: Page) => page.getByText(/found ·/).waitFor()
  const rows = (page: Page) => page.locator('tbody tr[data-row]').allInnerTexts()

  /** The boxes on the picture, in its pixels. */
  const shapes = (page: Page) =>
    page.locator('.mark.box').evaluateAll((marks) =>
      marks.map((mark) => {
        const number = (name: string) => Number(mark.querySelector('rect.shape')!.getAttribute(name))
        const [x, y, width, height] = [number('x'), number('y'), number('width'), number('height')]
        return [mark.getAttribute('data-label'), ...[x, y, x + width, y + height].map(Math.round)]
      }),
    )

  /** The middle of a box of the picture, or another part of it, on the page. */
  async function placeOn(page: Page, label: string, x = 0.5, y = 0.5): Promise<Pixel> {
    const box = (await page.locator(`.mark[data-label="${label}"] rect.shape`).boundingBox())!
    return { x: box.x + box.width * x, y: box.y + box.height * y }
  }

  async function drag(page: Page, from: Pixel, to: Pixel): Promise<void> {
    await page.mouse.move(from.x, from.y)
    await page.mouse.down()
    await page.mouse.move((from.x + to.x) / 2, (from.y + to.y) / 2)
    await page.mouse.move(to.x, to.y)
    await page.mouse.up()
  }

  /** Answers searches with boxes that the test knows. */
  async function answerWith(page: Page, boxes: Parameters<typeof detectionsOf>[0]): Promise<void> {
    await page.route('**/v1/detect', (route) => route.fulfill({ json: detectionsOf(boxes) }))
  }

  test('pasted categories are searched, and the boxes stand in the table and on the picture', async () => {
    const page = await open()
    await page.getByLabel('What to find').fill('circle, star,heart')
    const replied = page.waitForResponse((response) => response.url().endsWith('/v1/detect'))
    await page.getByRole('button', { name: 'Remove star' }).click()
    await detect(page)
    const response = await replied
    expect(response.request().postDataJSON()).toMatchObject({
      categories: ['circle', 'heart'],
      config: { output: 'box', enable_thinking: false },
    })
    await found(page)
    const { detections } = (await response.json()) as { detections: Detected[] }
    expect(detections.length).toBeGreaterThan(0)
    const expected = detections.map(({ mention, point_box: { top_left: from, bottom_right: to } }) => {
      return [mention, from.x, from.y, to.x, to.y] as const
    })
    expect(await shapes(page)).toEqual(expected)
    expect(await rows(page)).toEqual(
      expected.map(([label, left, top, right, bottom]) => {
        return `${label}\t${left}, ${top} – ${right}, ${bottom}\t${right - left} × ${bottom - top}`
      }),
    )
    // A row and its box light up together, either way.
    await page.locator('tbody tr').last().hover()
    expect(await page.locator('.mark.lit').getAttribute('data-label')).toBe(expected.at(-1)![0])
    const { x, y } = await placeOn(page, expected[0]![0])
    await page.mouse.move(x, y)
    expect(await page.locator('tbody tr.lit').innerText()).toContain(expected[0]![0])
    expect(studio.errors).toEqual([])
  })

  test('boxes are moved, resized, renamed, drawn and deleted, and every step can be undone', async () => {
    const page = await open()
    await answerWith(page, [
      ['cat', 100, 100, 200, 200],
      ['dog', 300, 200, 400, 300],
    ])
    await detect(page)
    await found(page)
    await page.locator('.mark[data-label="cat"] rect.shape').click()
    const middle = await placeOn(page, 'cat')
    const scale = (await page.locator('.sheet').boundingBox())!.width / 512
    await drag(page, middle, { x: middle.x + 50 * scale, y: middle.y - 20 * scale })
    expect(await shapes(page)).toContainEqual(['cat', 150, 80, 250, 180])
    const corner = await placeOn(page, 'cat', 1, 1)
    await drag(page, corner, { x: corner.x + 10 * scale, y: corner.y + 40 * scale })
    expect(await shapes(page)).toContainEqual(['cat', 150, 80, 260, 220])
    await page.getByLabel('Label', { exact: true }).fill('lion')
    await page.getByLabel('Label', { exact: true }).press('Enter')
    await page.getByLabel('Width').fill('120')
    await page.getByLabel('Width').press('Enter')
    expect(await shapes(page)).toContainEqual(['lion', 150, 80, 270, 220])
    expect(await page.locator('tbody tr').filter({ hasText: 'changed by hand' }).count()).toBe(1)

    await page.getByRole('button', { name: 'Draw a box' }).click()
    const sheet = (await page.locator('.sheet').boundingBox())!
    const at = (x: number, y: number) => ({ x: sheet.x + x * scale, y: sheet.y + y * scale })
    await drag(page, at(20, 300), at(90, 360))
    // The name of the new box can be typed at once.
    await page.keyboard.type('bird')
    await page.keyboard.press('Enter')
    expect(await shapes(page)).toContainEqual(['bird', 20, 300, 90, 360])

    await page.locator('tbody tr').filter({ hasText: 'dog' }).click()
    await page.keyboard.press('Delete')
    expect((await shapes(page)).map(([label]) => label)).toEqual(['lion', 'bird'])
    // Back through: delete, rename, draw.
    for (let step = 0; step < 3; step++) await page.keyboard.press('Control+z')
    expect((await shapes(page)).map(([label]) => label)).toEqual(['lion', 'dog'])
    await page.keyboard.press('Control+Shift+z')
    expect(await shapes(page)).toHaveLength(3)
    await page.getByRole('button', { name: /restore/ }).click()
    expect(await shapes(page)).toEqual([
      ['cat', 100, 100, 200, 200],
      ['dog', 300, 200, 400, 300],
    ])
    expect(studio.errors).toEqual([])
  })

  test('an example and a picture without are sent with the request', async () => {
    const page = await open()
    await page.getByLabel('Files', { exact: true }).setInputFiles('docs/pictures/demo.png')
    await page.getByRole('button', { name: 'Show demo.png' }).waitFor()
    await page.getByRole('button', { name: 'Negative example' }).click()
    await page.getByRole('button', { name: 'Show shapes.png' }).click()
    await page.getByRole('button', { name: 'Show an example' }).click()
    const sheet = (await page.locator('.sheet').boundingBox())!
    const scale = sheet.width / 512
    const at = (x: number, y: number) => ({ x: sheet.x + x * scale, y: sheet.y + y * scale })
    await drag(page, at(220, 250), at(290, 318))
    await page.keyboard.type('orange square')
    expect(await page.getByRole('list', { name: 'Legend' }).innerText()).toContain('example')
    const replied = page.waitForResponse((response) => response.url().endsWith('/v1/detect'))
    await detect(page)
    const response = await replied
    expect(response.status()).toBe(200)
    expect(response.request().postDataJSON()).toMatchObject({
      exemplars: [
        {
          annotations: [
            { mention: 'orange square', point_box: { top_left: { x: 220, y: 250 }, bottom_right: { x: 290, y: 318 } } },
          ],
        },
      ],
      negative_exemplars: [{ media: { type: 'image' } }],
    })
    await found(page)
    expect(studio.errors).toEqual([])
  })

  test('a picture that is too large for a request is uploaded once', async () => {
    const page = await open()
    const buffer = await paddedPng(14 * 2 ** 20)
    await page.getByLabel('Files', { exact: true }).setInputFiles({ name: 'large.png', mimeType: 'image/png', buffer })
    await page.getByRole('img', { name: 'large.png' }).waitFor()
    await page.getByLabel('What to find').fill('star')
    let uploads = 0
    page.on('request', (request) => {
      if (request.url().endsWith('/v1/files')) uploads++
    })
    let address = ''
    for (let time = 0; time < 2; time++) {
      const replied = page.waitForResponse((response) => response.url().endsWith('/v1/detect'))
      await detect(page)
      const response = await replied
      expect(response.status()).toBe(200)
      const { media } = response.request().postDataJSON() as { media: { image_url: string } }
      address = media.image_url
      expect(address).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/v1\/files\/file-[^/]+\/content$/)
      await found(page)
    }
    expect(uploads).toBe(1)
    // Somebody deletes it on the server.
    const headers = { authorization: `Bearer ${KEY}` }
    await fetch(address.replace('/content', ''), { method: 'DELETE', headers })
    const again = page.waitForResponse((response) => response.url().endsWith('/v1/detect') && response.ok())
    await detect(page)
    await again
    await found(page)
    expect(uploads).toBe(2)
    expect(scriptErrors(studio)).toEqual([])
  })

  test('several pictures are searched in a row; what is done stays when it stops, and it goes on', async () => {
    const page = await open()
    await page.getByLabel('Files', { exact: true }).setInputFiles('docs/pictures/demo.png')
    await page.getByRole('radio', { name: 'All 2' }).click()
    let count = 0
    let held = () => {}
    const isHeld = new Promise<void>((resolve) => {
      held = resolve
    })
    await page.route('**/v1/detect', (route) => {
      if (++count === 2) return held()
      return route.fulfill({ json: detectionsOf([['cat', 10, 10, 60, 60]]) })
    })
    await detect(page)
    await isHeld
    expect(await page.getByText('2 of 2: demo.png').isVisible()).toBe(true)
    await page.getByRole('button', { name: 'Stop' }).click()
    await page.getByText('Stopped after 1 of 2 pictures.').waitFor()
    const pictures = page.getByRole('list', { name: 'Pictures' }).getByRole('listitem')
    expect(await pictures.allInnerTexts()).toEqual(['shapes.png\n1', 'demo.png\n–'])
    await page.getByRole('button', { name: 'Go on' }).click()
    await pictures.getByText('demo.png').click()
    await found(page)
    expect(await pictures.allInnerTexts()).toEqual(['shapes.png\n1', 'demo.png\n1'])
    expect(count).toBe(3)
    expect(studio.errors).toEqual([])
  })

  test('a picture that a proxy refuses does not keep the others from being searched; two in a row do', async () => {
    const page = await open()
    const large = await paddedPng(1_000_000)
    const small = await readFile('docs/pictures/demo.png')
    await page.getByLabel('Files', { exact: true }).setInputFiles([
      { name: 'large.png', mimeType: 'image/png', buffer: large },
      { name: 'small.png', mimeType: 'image/png', buffer: small },
    ])
    await page.getByRole('radio', { name: 'All 3' }).click()
    let limit = 1_000_000
    let tries = 0
    await page.route('**/v1/detect', (route) => {
      tries++
      return route.request().postDataBuffer()!.length > limit
        ? route.abort('connectionreset')
        : route.fulfill({ json: detectionsOf([['cat', 1, 1, 9, 9]]) })
    })
    await detect(page)
    const sentence = 'The connection broke before an answer came, although the server is running.'
    const refused = page.getByRole('alert').getByText(`${sentence} The request may be larger than a proxy on the way`)
    const pictures = page.getByRole('list', { name: 'Pictures' }).getByRole('listitem')
    await expect.poll(() => pictures.allInnerTexts()).toEqual(['shapes.png\n1', 'large.png\n–', 'small.png\n1'])
    await refused.waitFor()

    // The third is not tried, and the two are tried again with it.
    limit = 0
    tries = 0
    await detect(page)
    await expect.poll(() => page.getByRole('alert').count()).toBe(2)
    expect(await page.getByRole('alert').first().innerText()).toContain(sentence)
    expect(await page.getByRole('progressbar', { name: 'Pictures searched' }).count()).toBe(0)
    expect(tries).toBe(6)
    limit = Number.POSITIVE_INFINITY
    await page.getByRole('button', { name: 'Try again' }).last().click()
    await expect.poll(() => pictures.allInnerTexts()).toEqual(['shapes.png\n1', 'large.png\n1', 'small.png\n1'])
    await expect.poll(() => tries).toBe(9)
    expect(await page.getByRole('alert').count()).toBe(0)
    expect(scriptErrors(studio)).toEqual([])
  })

  test('a failure says why and leads on', async () => {
    const page = await open()
    await page.route('**/v1/detect', failOnce, { times: 1 })
    await detect(page)
    await page.getByRole('alert').getByText('It broke.').waitFor()
    await page.getByLabel('What to find').fill('star')
    await page.getByRole('button', { name: 'Try again' }).click()
    await found(page)
    expect(await page.getByRole('alert').count()).toBe(0)
  })

  test('every export holds what is on the picture', async () => {
    const page = await open()
    await answerWith(page, [
      ['cat', 128, 96, 256, 192],
      ['big, dog', 0, 0, 512, 384],
    ])
    await page.getByLabel('What to find').fill('bird')
    await detect(page)
    await found(page)
    await page.getByRole('radio', { name: 'Export' }).click()
    const save = async (name: string) => {
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('button', { name, exact: true }).click(),
      ])
      return { name: download.suggestedFilename(), bytes: await bytesOf(download) }
    }
    const png = await save('PNG')
    expect(png.name).toBe('shapes.png')
    expect(await sharp(png.bytes).metadata()).toMatchObject({ width: 512, height: 384 })
    const pixel = { left: 128, top: 150, width: 1, height: 1 }
    const colour = /--mark: ?(#\w{6})/.exec((await page.locator('.mark[data-label="cat"]').getAttribute('style'))!)![1]!
    expect((await sharp(png.bytes).extract(pixel).removeAlpha().raw().toBuffer()).toString('hex')).toBe(colour.slice(1))

    expect(JSON.parse((await save('COCO')).bytes.toString())).toMatchObject({
      info: { model: 'service-mk1.5', prompt: ['bird'] },
      images: [{ file_name: 'shapes.png', width: 512, height: 384 }],
      categories: [{ name: 'bird' }, { name: 'cat' }, { name: 'big, dog' }],
      annotations: [{ category_id: 2, bbox: [128, 96, 128, 96] }, { category_id: 3 }],
    })
    const yolo = (await save('YOLO')).bytes.toString('latin1')
    for (const name of ['labels/shapes.txt', 'data.yaml', 'classes.txt']) expect(yolo).toContain(name)
    expect(yolo).toContain('./images/shapes.png\n')
    expect(yolo).toContain('1 0.375000 0.375000 0.250000 0.250000\n')
    expect(JSON.parse((await save('LabelMe')).bytes.toString())).toMatchObject({
      imagePath: 'shapes.png',
      shapes: [{ label: 'cat', points: [[128, 96], [256, 192]] }, { label: 'big, dog' }], // biome-ignore format: corners
    })
    expect((await save('CSV')).bytes.toString()).toBe(
      'file,label,left,top,right,bottom\r\nshapes.png,cat,128,96,256,192\r\nshapes.png,"big, dog",0,0,512,384\r\n',
    )
    expect(studio.errors).toEqual([])
  })

  test('exports name the pictures as they are called, and files beside each other apart', async () => {
    const page = await open()
    await answerWith(page, [['cat', 1, 1, 2, 2]])
    const plain = sharp({ create: { width: 8, height: 8, channels: 3, background: 'red' } })
    await page.getByLabel('Files', { exact: true }).setInputFiles([
      { name: 'a.jpg', mimeType: 'image/jpeg', buffer: await plain.jpeg().toBuffer() },
      { name: 'a.png', mimeType: 'image/png', buffer: await plain.png().toBuffer() },
      { name: 'a.png', mimeType: 'image/png', buffer: await plain.png().toBuffer() },
      { name: 'doc.pdf', mimeType: 'application/pdf', buffer: makePdf([{}, {}]) },
    ])
    await page.getByRole('radio', { name: 'All 6' }).click()
    await detect(page)
    await page.getByRole('radio', { name: 'Export' }).click()
    await page.getByText('6 pictures, with all edits.').waitFor()
    const save = async (name: string) => {
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('button', { name, exact: true }).click(),
      ])
      return (await bytesOf(download)).toString('latin1')
    }
    const names = ['shapes.png', 'a.jpg', 'a.png', 'a-2.png', 'doc.pdf, page 1', 'doc.pdf, page 2']
    const { images } = JSON.parse(await save('COCO')) as { images: { file_name: string }[] }
    expect(images.map(({ file_name }) => file_name)).toEqual(names)
    const csv = await save('CSV')
    for (const name of names) expect(csv).toContain(name.includes(',') ? `\r\n"${name}",` : `\r\n${name},`)
    const beside = ['shapes', 'a', 'a-2', 'a-3', 'doc.pdf, page 1', 'doc.pdf, page 2']
    const [yolo, labelMe, png] = [await save('YOLO'), await save('LabelMe'), await save('PNG')]
    expect(yolo).toContain('./images/doc.pdf, page 2.png\n')
    for (const name of beside) {
      expect(yolo).toContain(`labels/${name}.txt`)
      expect(labelMe).toContain(`${name}.json`)
      expect(png).toContain(`${name}.png`)
    }
    expect(studio.errors).toEqual([])
  })

  test('known boxes show what is matched, missed and extra', async () => {
    const page = await open()
    await answerWith(page, [
      ['cat', 100, 100, 200, 200],
      ['cat', 300, 200, 400, 300],
    ])
    await detect(page)
    await found(page)
    await page.getByRole('radio', { name: 'Compare' }).click()
    const file = {
      images: [
        { id: 1, file_name: 'train/shapes.png', width: 512, height: 384 },
        { id: 2, file_name: 'other.png' },
      ],
      categories: [{ id: 1, name: 'Cat' }],
      annotations: [
        { id: 1, image_id: 1, category_id: 1, bbox: [100, 100, 100, 125] },
        { id: 2, image_id: 1, category_id: 1, bbox: [10, 10, 50, 50] },
      ],
    }
    const known = (text: string) => ({ name: 'known.json', mimeType: 'application/json', buffer: Buffer.from(text) })
    await page.getByLabel('COCO file').setInputFiles(known('[]'))
    await page.getByRole('alert').getByText('needs the lists').waitFor()
    await page.getByLabel('COCO file').setInputFiles(known(JSON.stringify(file)))
    const scores = page.getByRole('table', { name: 'Agreement' })
    await scores.waitFor()
    expect(await scores.locator('tbody tr').innerText()).toBe('Cat\t1\t1\t1\t0.50\t0.50\t0.80')
    const roles = () =>
      page.locator('.mark').evaluateAll((marks) => marks.map((mark) => mark.getAttribute('class')!.split(' ')[2]))
    expect(await roles()).toEqual(['missed', 'matched', 'extra'])
    expect(await page.getByRole('list', { name: 'Legend' }).getByRole('listitem').count()).toBe(3)
    await page.getByLabel('Same object at IoU').fill('0.85')
    expect(await roles()).toEqual(['missed', 'missed', 'extra', 'extra'])
    await page.getByText('1 picture of the file is not on the stage').waitFor()
    file.images[1]!.file_name = 'val/shapes.png'
    await page.getByLabel('COCO file').setInputFiles(known(JSON.stringify(file)))
    await page.getByText('several pictures have the same name: shapes.png.').waitFor()
    expect(await roles()).not.toContain('missed')
    expect(await scores.count()).toBe(0)
    file.images[1]!.file_name = 'other.png'
    await page.getByLabel('COCO file').setInputFiles(known(JSON.stringify(file)))
    await scores.waitFor()
    const buffer = await readFile('docs/pictures/demo.png')
    await page.getByLabel('Files', { exact: true }).setInputFiles({ name: 'shapes.png', mimeType: 'image/png', buffer })
    await page.getByText('several pictures have the same name: shapes.png.').waitFor()
    expect(await scores.count()).toBe(0)
    expect(studio.errors).toEqual([])
  })

  test('each box says how sure it is, and what is less sure than wanted is drawn faintly alone', async () => {
    const page = await open()
    const { detections, ...plain } = detectionsOf([
      ['cat', 120, 100, 200, 200],
      ['cat', 300, 200, 400, 300],
    ])
    await page.route('**/v1/detect', (route) =>
      route.fulfill({
        json: {
          ...plain,
          detections: detections.map((one, index) => ({ ...one, confidence: [0.9746, 0.415][index] })),
          categories: [{ mention: 'cat', complete: 0.882 }],
          confidence: { calibrated: false },
        },
      }),
    )
    await page.getByLabel('What to find').fill('cat')
    await page.getByRole('radio', { name: 'Confidence', exact: true }).click()
    const asked = page.waitForRequest('**/v1/detect')
    await detect(page)
    expect((await asked).postDataJSON()).toMatchObject({ config: { confidence: true } })
    await found(page)
    await page.getByText('cat 88\u00a0%').waitFor()
    await page.getByText(/^Not calibrated for this model/).waitFor()
    const shownLabels = () => page.locator('.overlay .label').filter({ visible: true }).allTextContents()
    const sure = async () => (await rows(page)).map((row) => row.split('\t').at(-1))
    expect([await shownLabels(), await sure()]).toEqual([
      ['cat 97\u00a0%', 'cat 42\u00a0%'],
      ['97\u00a0%', '42\u00a0%'],
    ])
    await page.getByLabel('Least confidence').fill('0.5')
    await page.getByText('1 hidden').waitFor()
    expect([await shownLabels(), await sure()]).toEqual([['cat 97\u00a0%'], ['97\u00a0%']])
    expect(await page.locator('.mark.unsure').count()).toBe(1)
    expect(await violationsOf(page)).toEqual([])

    await page.getByRole('radio', { name: 'Export' }).click()
    const save = async (name: string) => {
      const [file] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('button', { name, exact: true }).click(),
      ])
      return (await bytesOf(file)).toString()
    }
    expect(JSON.parse(await save('COCO')).annotations).toMatchObject([{ bbox: [120, 100, 80, 100], score: 0.9746 }])
    // What a person changes is sure.
    await page.locator('.mark.unsure rect.shape').click()
    await page.getByLabel('Width').fill('90')
    await page.getByLabel('Width').press('Enter')
    await page.getByText('0 hidden').waitFor()
    expect(await save('CSV')).toBe(
      'file,label,left,top,right,bottom,confidence\r\n' +
        'shapes.png,cat,120,100,200,200,0.975\r\nshapes.png,cat,300,200,390,300,\r\n',
    )
    expect(studio.errors).toEqual([])
  })

  test('objects are followed through a video, each with a row on the timeline', async () => {
    studio = await openStudio(server.url)
    const { page } = studio
    await page.getByRole('button', { name: 'Moving shapes' }).click()
    await page.getByRole('navigation', { name: 'Modes' }).getByText('Detect').click()
    const box = (left: number, track: number, timestamp: number) => {
      return { ...detectionsOf([['cat', left, 20, left + 60, 80]]).detections[0], track, timestamp }
    }
    const bodies: unknown[] = []
    const replies = [
      { detections: [box(10, 1, 0), box(20, 1, 0.5), box(200, 2, 0.5)], timestamps: [0, 0.5], state: 'so far' },
      { detections: [box(30, 1, 3)], timestamps: [3], state: 'at the end' },
    ]
    await page.route('**/v1/detect', (route) => {
      const reply = replies[bodies.push(route.request().postDataJSON()) - 1]!
      const rest = bodies.length === 1 ? { frames_left: 1, finish_reason: 'length' } : { finish_reason: 'complete' }
      return route.fulfill({ json: { ...reply, ...rest } })
    })
    await page.getByLabel('What to find').fill('cat')
    await page.getByRole('button', { name: 'Follow' }).click()
    await page.getByText('2 objects followed through 3 frames').waitFor()
    expect(bodies).toMatchObject([
      { media: { type: 'video' }, categories: ['cat'], config: { tracks: true, state: null } },
      { media: { type: 'video' }, config: { tracks: true, state: 'so far' } },
    ])
    const lanes = page.getByRole('list', { name: 'When' }).getByRole('listitem')
    expect(await lanes.allInnerTexts()).toEqual(['cat 1', 'cat 2'])
    expect(await lanes.first().getByRole('button').count()).toBe(3)
    // The frame of the object that is clicked, with all that was found in it.
    await page.getByRole('list', { name: 'Tracks' }).getByText('cat 2').click()
    await page.locator('.mark[data-label="cat 2"].lit').waitFor()
    expect(await shapes(page)).toEqual([
      ['cat 1', 20, 20, 80, 80],
      ['cat 2', 200, 20, 260, 80],
    ])
    // Beyond the time, which may be rounded down: players would show the frame before.
    expect(await page.evaluate("document.querySelector('video').currentTime")).toBeGreaterThan(0.5)
    expect(await violationsOf(page)).toEqual([])
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'MOT', exact: true }).click(),
    ])
    expect(download.suggestedFilename()).toBe('shapes.txt')
    expect((await bytesOf(download)).toString()).toMatch(/^1,1,10,20,60,60,.*\n2,1,20,.*\n2,2,200,.*\n3,1,30,.*\n$/)
    const isStored = `new Promise((resolve) => {
      indexedDB.open('lookout-studio').onsuccess = ({ target: { result: database } }) => {
        database.transaction('parts').objectStore('parts').getAll().onsuccess = ({ target: { result } }) => {
          database.close()
          resolve(result.some(({ detect }) => detect?.videos?.length === 1))
        }
      }
    })`
    await expect.poll(() => page.evaluate(isStored)).toBe(true)
    await page.reload()
    await lanes.nth(1).waitFor()
    expect(await lanes.allInnerTexts()).toEqual(['cat 1', 'cat 2'])
    expect(studio.errors).toEqual([])
  })

  test('300 boxes: panning moves one element, and a lit box changes no other', async () => {
    const page = await open()
    const picture = sharp({ create: { width: 1000, height: 750, channels: 3, background: '#8a9a7b' } })
    const buffer = await picture.jpeg().toBuffer()
    await page.getByLabel('Files', { exact: true }).setInputFiles({ name: 'large.jpg', mimeType: 'image/jpeg', buffer })
    await page.getByRole('img', { name: 'large.jpg' }).waitFor()
    const boxes = Array.from({ length: 300 }, (_, index) => {
      const [x, y] = [(index % 20) * 49 + 5, Math.floor(index / 20) * 49 + 5]
      return [`kind ${index % 7}`, x, y, x + 38, y + 35] as const
    })
    await answerWith(page, boxes)
    await detect(page)
    await found(page)
    expect(await page.locator('.mark').count()).toBe(300)
    const changed = (action: () => Promise<void>) => changesDuring(page, action)
    // Beside the picture, so that the pointer lights nothing.
    const frame = (await page.locator('.image-stage').boundingBox())!
    const [x, y] = [frame.x + 4, frame.y + frame.height / 2]
    await page.mouse.move(x, y)
    for (let turn = 0; turn < 5; turn++) await page.mouse.wheel(0, -200)
    expect(await changed(() => drag(page, { x, y }, { x: x + 200, y: y + 90 }))).toEqual(['sheet'])
    await page.locator('tbody tr').nth(150).hover()
    const lit = await changed(() => page.locator('tbody tr').nth(151).hover())
    expect(lit.filter((name) => name.startsWith('mark'))).toHaveLength(2)
    expect(studio.errors).toEqual([])
  })

  test('axe finds no violation, on a desk and on a phone', async () => {
    const page = await open()
    await answerWith(page, [['cat', 100, 100, 200, 200]])
    await page.getByLabel('What to find').fill('cat')
    await detect(page)
    await found(page)
    await page.locator('tbody tr').click()
    for (const view of ['Objects', 'Export', 'Compare']) {
      await page.getByRole('radio', { name: view }).click()
      expect(await violationsInBothThemes(page, { isNarrow: true })).toEqual([])
    }
  })
})

async function bytesOf(download: Download): Promise<Buffer> {
  return readFile(await download.path())
}

/** The classes of elements on the stage that change, each element once. */
async function changesDuring(page: Page, action: () => Promise<void>): Promise<string[]> {
  await page.evaluate(`
    window.changed = new Set()
    new MutationObserver((records) => records.forEach(({ target }) => window.changed.add(target)))
      .observe(document.querySelector('.stage'), { subtree: true, attributes: true, childList: true })`)
  await action()
  // Two frames later, what the page does asynchronously is done.
  return page.evaluate(`new Promise((resolve) => {
    requestAnimationFrame(() => requestAnimationFrame(() => {
      resolve([...window.changed].map((element) => element.getAttribute('class') ?? ''))
    }))
  })`)
}

function failOnce(route: Route): Promise<void> {
  const error = { message: 'It broke.', type: 'server_error', param: null, code: null }
  return route.fulfill({ status: 500, json: { error } })
}
