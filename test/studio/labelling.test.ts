import { readFile } from 'node:fs/promises'
import type { Locator, Page } from 'playwright-core'
import sharp from 'sharp'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import {
  CHROMIUM,
  closeBrowser,
  openStudio,
  prepareStudio,
  type StudioPage,
  violationsInBothThemes,
} from '../support/browser.ts'
import { startTestServer, type TestServer } from '../support/server.ts'

/** An object: its class, and left, top, right and bottom in pixels. */
type Box = readonly [label: string, left: number, top: number, right: number, bottom: number]

/** What the model gets wrong about one object of a picture, or adds. */
type Fault =
  | { readonly kind: 'class'; readonly label: string }
  | { readonly kind: 'place'; readonly dx: number; readonly dy: number }
  | { readonly kind: 'size'; readonly corner: 'se' | 'nw'; readonly dx: number; readonly dy: number }
  | { readonly kind: 'extra' }

interface Shot {
  readonly name: string
  readonly bytes: Buffer
  readonly truth: readonly Box[]
  readonly found: readonly Box[]
  /** Presses that make of what is found what is true. */
  readonly keys: readonly string[]
}

const CLASSES = ['car', 'person', 'dog', 'bicycle', 'tree', 'sign']
const [WIDTH, HEIGHT] = [640, 480]

/**
 * One for each picture, in turn. Of six keys, one or two choose among four objects and one accepts, so three are left:
 * a class or a false box takes one of them; a shift or one corner takes as many as it has tens and ones, counted up or
 * down (19 is 20 less 1); beyond three, E finds what the picture shows, up to 15 % of the box at each side.
 */
const FAULTS: readonly Fault[] = [
  { kind: 'class', label: 'dog' },
  { kind: 'place', dx: 3, dy: 0 },
  { kind: 'size', corner: 'se', dx: 10, dy: -1 },
  { kind: 'extra' },
  { kind: 'place', dx: -10, dy: 1 },
  { kind: 'class', label: 'sign' },
  { kind: 'size', corner: 'nw', dx: 1, dy: -10 },
  { kind: 'place', dx: 20, dy: -1 },
  { kind: 'extra' },
  { kind: 'size', corner: 'se', dx: -8, dy: 0 },
  { kind: 'place', dx: 1, dy: -9 },
  { kind: 'class', label: 'tree' },
  { kind: 'size', corner: 'se', dx: 2, dy: 1 },
  { kind: 'place', dx: 5, dy: -7 },
  { kind: 'size', corner: 'nw', dx: -6, dy: 4 },
]

describe.skipIf(CHROMIUM === null)('labelling in the Studio', () => {
  let server: TestServer
  let studio: StudioPage

  beforeAll(async () => {
    await prepareStudio()
    server = await startTestServer()
  })
  afterEach(() => studio?.close())
  afterAll(async () => {
    await closeBrowser()
    await server?.close()
  })

  /** Opens the pictures in Detect and searches all of them; each has the answer that goes with it. */
  async function search(shots: readonly Shot[]): Promise<Page> {
    studio = await openStudio(server.url)
    const { page } = studio
    const answers = new Map(shots.map(({ bytes, found }) => [bytes.toString('base64'), found]))
    await page.route('**/v1/detect', (route) => {
      const { media } = route.request().postDataJSON() as { media: { image_url: string } }
      const found = answers.get(media.image_url.split(',')[1]!)!
      const detections = found.map(([mention, left, top, right, bottom]) => {
        return { mention, point_box: { top_left: { x: left, y: top }, bottom_right: { x: right, y: bottom } } }
      })
      return route.fulfill({ json: { detections, finish_reason: 'complete' } })
    })
    await page.getByRole('navigation', { name: 'Modes' }).getByText('Detect').click()
    const files = shots.map(({ name, bytes: buffer }) => ({ name, mimeType: 'image/png', buffer }))
    await page.getByLabel('Files', { exact: true }).setInputFiles(files)
    await page.getByRole('radio', { name: `All ${shots.length}` }).click()
    await page.getByLabel('What to find').fill(CLASSES.join(', '))
    await page.getByRole('button', { name: 'Detect', exact: true }).last().click()
    await page.getByText(`0 of ${shots.length} reviewed`).waitFor()
    await expect.poll(() => page.getByRole('list', { name: 'Pictures' }).innerText()).not.toMatch(/[–…]/)
    return page
  }

  const chosen = (page: Page) => page.getByRole('status', { name: 'Chosen' })

  test('pictures with a fault each are right after six keys each, at most', async () => {
    const shots = await Promise.all(Array.from({ length: FAULTS.length }, (_, index) => shotOf(index, FAULTS)))
    expect(Math.max(...shots.map(({ keys }) => keys.length))).toBeLessThanOrEqual(6)
    const page = await search(shots)
    for (const { keys } of shots) for (const key of keys) await page.keyboard.press(key)
    await page.getByText('15 of 15 reviewed').waitFor()
    await page.getByRole('radio', { name: 'Export' }).click()
    const exported = async () => {
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('button', { name: 'COCO', exact: true }).click(),
      ])
      return boxesOf(await readFile(await download.path(), 'utf8'))
    }
    // A picture is decoded before its edges are known.
    await expect
      .poll(exported)
      .toEqual(Object.fromEntries(shots.map(({ name, truth }) => [name, truth.toSorted(byPlace)])))
    expect(studio.errors).toEqual([])
  })

  test('keys choose, name and draw where nothing is typed, and each step is undone where it was made', async () => {
    const page = await search(await Promise.all([0, 1, 2].map((index) => shotOf(index, [{ kind: 'extra' }]))))
    const { keyboard } = page
    const classes = () =>
      page.locator('.mark.box').evaluateAll((marks) => marks.map((mark) => mark.getAttribute('data-label')))
    await keyboard.press('d')
    await expect.poll(() => chosen(page).innerText()).toBe('Picture 2 of 3: shot-02.png, 4 objects')

    // With nothing chosen, arrows move the picture.
    const left = async () => (await page.locator('.sheet').boundingBox())!.x
    const before = await left()
    await keyboard.press('ArrowRight')
    await expect.poll(left).toBeLessThan(before)
    await keyboard.press('n')
    await expect.poll(() => chosen(page).innerText()).toMatch(/^1 of 4: car, at 300, 2\d, 30 by 4\d$/)
    const moved = await left()
    await keyboard.press('ArrowRight')
    expect(await left()).toBe(moved)
    await expect.poll(() => chosen(page).innerText()).toMatch(/^1 of 4: car, at 301/)

    // Tab goes through the objects and then on.
    for (let turn = 0; turn < 3; turn++) await keyboard.press('Tab')
    await expect.poll(() => chosen(page).innerText()).toMatch(/^4 of 4/)
    const focused = () => page.locator('.image-stage:focus').count()
    await expect.poll(focused).toBe(1)
    await keyboard.press('Tab')
    await expect.poll(focused).toBe(0)

    await keyboard.press('p')
    await keyboard.press('c')
    await keyboard.type('TR')
    await expect.poll(() => chosen(page).innerText()).toBe('tree, first of 1')
    await keyboard.press('Enter')
    await expect.poll(() => chosen(page).innerText()).toMatch(/^3 of 4: tree/)

    await page.getByLabel('What to find').pressSequentially('wasdn1')
    await page.getByLabel('What to find').fill('')
    expect(await classes()).toHaveLength(4)
    await page.locator('.image-stage').focus()
    await keyboard.press('w')
    await keyboard.press('6')
    const sheet = (await page.locator('.sheet').boundingBox())!
    await page.mouse.move(sheet.x + sheet.width * 0.4, sheet.y + sheet.height * 0.8)
    await page.mouse.down()
    await page.mouse.move(sheet.x + sheet.width * 0.5, sheet.y + sheet.height * 0.9, { steps: 3 })
    await page.mouse.up()
    await expect.poll(async () => (await classes()).at(-1)).toBe('sign')
    await keyboard.press('Space')
    await page.getByText('1 of 3 reviewed').waitFor()
    await expect.poll(() => chosen(page).innerText()).toMatch(/^Picture 3 of 3/)

    await keyboard.press('Control+z')
    await page.getByText('0 of 3 reviewed').waitFor()
    await expect.poll(() => chosen(page).innerText()).toMatch(/^Picture 2 of 3: .* 5 objects/)
    await keyboard.press('Control+z')
    await expect.poll(classes).toHaveLength(4)
    expect(studio.errors).toEqual([])
  })

  test('what is reviewed is kept, and the list shows the picture that is on the stage', async () => {
    const shots = await Promise.all(Array.from({ length: 12 }, (_, index) => shotOf(index, FAULTS)))
    const page = await search(shots)
    const list = page.getByRole('list', { name: 'Pictures' })
    const current = list.locator('[aria-current]')
    for (let turn = 0; turn < 9; turn++) await page.keyboard.press('s')
    await page.getByText('9 of 12 reviewed').waitFor()
    await current.getByText('shot-10.png').waitFor()
    await expect.poll(() => isSeen(current, list)).toBe(true)
    const thumbnail = page.getByRole('button', { name: 'Show shot-10.png' })
    await expect.poll(() => isSeen(thumbnail, page.locator('.media-strip'))).toBe(true)
    // After the last one comes the first that is left.
    for (const key of ['a', 'a', 'd', 'd', 'd', 'd', 's', 's']) await page.keyboard.press(key)
    await current.getByText('shot-11.png').waitFor()
    await expect.poll(() => reviewedInStore(page)).toBe(11)
    await page.reload()
    await page.getByText('11 of 12 reviewed').waitFor()
    await page.keyboard.press('s')
    await page.getByText('12 of 12 reviewed').waitFor()
    expect(studio.errors).toEqual([])
  })

  test('axe finds no violation, on a desk and on a phone', async () => {
    const page = await search(await Promise.all([0, 1, 2].map((index) => shotOf(index, FAULTS))))
    for (const key of ['s', 'n', 'c']) await page.keyboard.press(key)
    await page.getByRole('textbox', { name: 'Class' }).waitFor()
    expect(await violationsInBothThemes(page, { isNarrow: true })).toEqual([])
  })
})

/** Whether an item is within what scrolls it. */
async function isSeen(item: Locator, frame: Locator): Promise<boolean> {
  const [inner, outer] = [(await item.boundingBox())!, (await frame.boundingBox())!]
  const isWithin = (from: number, size: number, start: number, length: number) =>
    from > start - 1 && from + size < start + length + 1
  return isWithin(inner.x, inner.width, outer.x, outer.width) && isWithin(inner.y, inner.height, outer.y, outer.height)
}

/** How many pictures of all sessions of the browser are reviewed. */
function reviewedInStore(page: Page): Promise<number> {
  return page.evaluate(`new Promise((resolve) => {
    indexedDB.open('lookout-studio').onsuccess = ({ target: { result: database } }) => {
      database.transaction('parts').objectStore('parts').getAll().onsuccess = ({ target: { result } }) => {
        database.close()
        const pictures = result.flatMap(({ detect }) => detect?.pictures ?? [])
        resolve(pictures.filter((picture) => picture.result.isReviewed).length)
      }
    }
  })`)
}

/** A picture with two to four objects, one of which the model gets wrong. */
async function shotOf(index: number, faults: readonly Fault[]): Promise<Shot> {
  const fault = faults[index % faults.length]!
  const truth = Array.from({ length: 2 + (index % 3) }, (_, at): Box => {
    const [left, top] = [40 + (at % 2) * 290 + ((index * 7) % 50), 40 + Math.floor(at / 2) * 200 + ((index * 11) % 40)]
    const label = CLASSES.filter((name) => fault.kind !== 'class' || name !== fault.label)[(index + at) % 5]!
    return [label, left, top, left + 120 + ((index * 13 + at * 17) % 60), top + 80 + ((index * 5 + at * 23) % 50)]
  })
  // What is wrong stands anywhere in the order.
  const at = Math.floor(index / 3) % truth.length
  const found =
    fault.kind === 'extra'
      ? truth.toSpliced(at, 0, ['car', 300, 20 + at, 330, 60 + at])
      : truth.with(at, spoilt(truth[at]!, fault))
  const wrong = found.find((box) => !truth.includes(box))!
  const place = found.toSorted(byPlace).indexOf(wrong)
  const choice =
    place < found.length / 2 ? Array<string>(place + 1).fill('n') : Array<string>(found.length - place).fill('p')
  const name = `shot-${String(index + 1).padStart(2, '0')}.png`
  return { name, bytes: await drawn(truth), truth, found, keys: [...choice, ...mending(fault, truth[at]!), 's'] }
}

function spoilt([label, left, top, right, bottom]: Box, fault: Exclude<Fault, { kind: 'extra' }>): Box {
  if (fault.kind === 'class') return [fault.label, left, top, right, bottom]
  const { dx, dy } = fault
  if (fault.kind === 'place') return [label, left + dx, top + dy, right + dx, bottom + dy]
  return fault.corner === 'se'
    ? [label, left, top, right + dx, bottom + dy]
    : [label, left + dx, top + dy, right, bottom]
}

/** The presses for a fault of the object that is chosen. */
function mending(fault: Fault, [label]: Box): string[] {
  if (fault.kind === 'class') return [String(CLASSES.indexOf(label) + 1)]
  if (fault.kind === 'extra') return ['Delete']
  const arrows = [...arrowsOf(-fault.dx, 'ArrowLeft', 'ArrowRight'), ...arrowsOf(-fault.dy, 'ArrowUp', 'ArrowDown')]
  // The edges of the picture say the rest.
  if (arrows.length > 3) return ['e']
  if (fault.kind === 'place') return arrows
  return [...(fault.corner === 'nw' ? ['x'] : []), ...arrows.map((key) => `Control+${key}`)]
}

function arrowsOf(by: number, back: string, forth: string): string[] {
  const tens = Math.round(by / 10)
  const presses = (count: number, prefix: string) =>
    Array<string>(Math.abs(count)).fill(`${prefix}${count < 0 ? back : forth}`)
  return [...presses(tens, 'Shift+'), ...presses(by - 10 * tens, '')]
}

function byPlace(one: Box, other: Box): number {
  return one[2] - other[2] || one[1] - other[1]
}

async function drawn(boxes: readonly Box[]): Promise<Buffer> {
  const shapes = boxes.map(([label, left, top, right, bottom]) => {
    const hue = CLASSES.indexOf(label) * 60
    return `<rect x="${left}" y="${top}" width="${right - left}" height="${bottom - top}" fill="hsl(${hue}, 60%, 40%)"/>`
  })
  return sharp(
    Buffer.from(`<svg width="${WIDTH}" height="${HEIGHT}">
    <rect width="100%" height="100%" fill="#d8dde2"/>${shapes.join('')}</svg>`),
  )
    .png()
    .toBuffer()
}

/** The boxes of a COCO file by the pictures' names. */
function boxesOf(file: string): Record<string, Box[]> {
  const { images, annotations, categories } = JSON.parse(file) as {
    images: { id: number; file_name: string }[]
    annotations: { image_id: number; category_id: number; bbox: [number, number, number, number] }[]
    categories: { id: number; name: string }[]
  }
  const names = new Map(categories.map(({ id, name }) => [id, name]))
  return Object.fromEntries(
    images.map(({ id, file_name }) => {
      const own = annotations.filter(({ image_id }) => image_id === id)
      const boxes = own.map(({ category_id, bbox: [x, y, width, height] }): Box => {
        return [names.get(category_id)!, x, y, x + width, y + height]
      })
      return [file_name, boxes.toSorted(byPlace)]
    }),
  )
}
