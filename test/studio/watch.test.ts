import type { Locator, Page } from 'playwright-core'
import sharp from 'sharp'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { Accounts } from '../../src/accounts/accounts.ts'
import type { Scope } from '../../src/accounts/api-key.ts'
import { Database } from '../../src/storage/database.ts'
import {
  CHROMIUM,
  closeBrowser,
  openStudio,
  prepareStudio,
  type StudioPage,
  type StudioPageOptions,
  scriptErrors,
  violationsOf,
} from '../support/browser.ts'
import { encodeCameraVideo } from '../support/camera-video.ts'
import { RtspCamera } from '../support/rtsp-camera.ts'
import { jsonOf, type TestServer } from '../support/server.ts'
import { startShippedServer } from '../support/shipped-model.ts'
import { makeVideo } from '../support/video.ts'
import { newKey } from '../support/watch-client.ts'

const SIZE = { width: 480, height: 360 }
const CIRCLE = { left: 94, top: 199, right: 206, bottom: 311 }
const QUESTION = 'Is there a red circle?'
/** Seconds in the video at which there is one, and none. */
const SEEN = 90
const UNSEEN = 30
/** What the browser keeps of all sessions, as a text. */
const STORED = `new Promise((resolve) => {
  indexedDB.open('lookout-studio').onsuccess = ({ target: { result: database } }) => {
    database.transaction('parts').objectStore('parts').getAll().onsuccess = ({ target: { result } }) => {
      database.close()
      resolve(JSON.stringify(result))
    }
  }
})`

interface WatchEvent {
  readonly type: string
  readonly data: {
    readonly seq: number
    readonly happening?: string
    readonly box?: Record<string, number> | null
    readonly clip?: object
  }
}

describe.skipIf(CHROMIUM === null)('watches in the Studio', () => {
  let server: TestServer
  let database: Database
  let studio: StudioPage
  let page: Page
  let key: string
  let camera: RtspCamera
  let video: { name: string; mimeType: string; buffer: Buffer }

  beforeAll(async () => {
    await prepareStudio()
    // A database of its own: servers of other tests are not to run its watches.
    const frames = await Promise.all(
      [false, true, true].map(async (hasCircle) => ({ ...SIZE, data: await pixels(hasCircle) })),
    )
    const login = { scheme: 'digest', username: 'look', password: 'out' } as const
    camera = await RtspCamera.start(encodeCameraVideo({ codec: 'h264', frames: frames.slice(1) }), { login })
    server = await startShippedServer({
      environment: {
        DATABASE_URL: '',
        LOOKOUT_WATCHES: '16',
        LOOKOUT_CAMERA_HOSTS: '127.0.0.1/32',
        LOOKOUT_SECRET: 'at least thirty-two characters of it',
        LOOKOUT_CAMERAS: JSON.stringify([{ name: 'dock-1', url: camera.url, username: 'look', password: 'out' }]),
      },
    })
    database = await Database.open({ url: null, directory: `${server.directory}/database`, cacheDirectory: '' })
    const buffer = await makeVideo({ format: 'webm', frames, times: [0, 60_000, 119_900], interval: 1 })
    video = { name: 'door.webm', mimeType: 'video/webm', buffer }
  })
  afterEach(async () => {
    await studio?.close()
    await endWatches()
  })
  afterAll(async () => {
    await closeBrowser()
    await database?.close()
    await server?.close()
    await camera?.[Symbol.asyncDispose]()
  })

  async function open(options: StudioPageOptions = {}, scopes?: readonly Scope[]): Promise<void> {
    key = (await newKey(database, scopes && { scopes })).key
    studio = await openStudio(server.url, { key, ...options })
    page = studio.page
    await mode('Watch')
  }
  const mode = (name: string) => page.getByRole('navigation', { name: 'Modes' }).getByRole('button', { name }).click()
  const press = (name: string) => page.locator('#panel').getByRole('button', { name, exact: true }).click()
  const events = () => page.locator('.watch-event')
  const view = () => page.locator('video.watch-view')

  /** Holds the video at a time, whose frame goes on being sent. */
  async function hold(seconds: number): Promise<void> {
    await view().evaluate((one, at) => {
      const video = one as unknown as { pause(): void; currentTime: number }
      video.pause()
      video.currentTime = at
    }, seconds)
  }

  const ask = (path: string, init: RequestInit = {}) =>
    fetch(`${server.url}/v1/watches${path}`, {
      ...init,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    })

  /** Registers a watch without the page. */
  async function made(name: string, changes: object = {}): Promise<string> {
    const rule = { for_seconds: 0, clear_seconds: 0 }
    const question = { name: QUESTION, type: 'predicate', instructions: QUESTION, event: rule }
    const body = {
      model: 'service-mk1.5',
      name,
      source: { type: 'push' },
      fps: 10,
      motion: null,
      questions: [question],
      ...changes,
    }
    const response = await ask('', { method: 'POST', body: JSON.stringify(body) })
    expect(response.status).toBe(201)
    return (await jsonOf<{ id: string }>(response)).id
  }

  /** Those of the key: looks at a camera would take time from the tests that follow. */
  async function endWatches(): Promise<void> {
    const { data = [] } = await jsonOf<{ data?: { id: string }[] }>(await ask(''))
    for (const { id } of data) expect((await ask(`/${id}`, { method: 'DELETE' })).status).toBe(200)
  }

  /** Pushes a picture until it is looked at. */
  async function look(id: string, hasCircle: boolean): Promise<void> {
    const raw = { ...SIZE, channels: 3 } as const
    const body = new Uint8Array(
      await sharp(await pixels(hasCircle), { raw })
        .png()
        .toBuffer(),
    )
    const push = async () => (await ask(`/${id}/frames?wait=true`, { method: 'POST', body })).status
    await expect.poll(push, { interval: 50 }).toBe(200)
  }

  test('a watch is made, sees something begin and end in a video, and knows it after a reload', async () => {
    await open()
    await page.getByLabel('Name', { exact: true }).fill('Door')
    const question = page.getByRole('textbox', { name: 'Question 1', exact: true })
    await question.fill(QUESTION)
    await page.getByLabel(/^Box around/).fill('red circle')
    await page.getByText('Starts at 0.7 for 2 s').click()
    await page.getByLabel('Seconds to start').fill('0')
    await page.getByLabel('Seconds to end').fill('0')
    expect(await violationsOf(page)).toEqual([])
    await question.press('Control+Enter')

    await page.getByRole('heading', { name: 'Door' }).waitFor()
    await page.getByText('No events yet.').waitFor()
    await page.getByLabel('Video to push').setInputFiles(video)
    await hold(SEEN)
    await events()
      .filter({ hasText: /started/ })
      .waitFor()
    const chart = page.getByRole('list', { name: 'Questions' }).getByRole('listitem')
    await chart.filter({ hasText: /On since/ }).waitFor()
    expect(await chart.locator('strong').innerText()).toMatch(/^9\d/)
    expect(await chart.locator('.level').count()).toBe(2)
    expect(await violationsOf(page)).toEqual([])
    await hold(UNSEEN)
    await events()
      .filter({ hasText: /started .* ended/ })
      .waitFor()
    await chart.filter({ hasText: 'Not now' }).waitFor()
    await page.getByText('Online').first().waitFor()
    await press('Stop')
    // A video that is dropped goes to the watch, too.
    const bytes = video.buffer.toString('base64')
    await page.evaluate(`{
      const dataTransfer = new DataTransfer()
      const bytes = Uint8Array.from(atob('${bytes}'), (one) => one.charCodeAt(0))
      dataTransfer.items.add(new File([bytes], 'dropped.webm', { type: 'video/webm' }))
      document.body.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }))
    }`)
    await page.getByLabel('dropped.webm').waitFor()
    await press('Stop')

    const [{ id }] = (await jsonOf<{ data: [{ id: string }] }>(await ask(''))).data
    const { data } = await jsonOf<{ data: WatchEvent[] }>(await ask(`/${id}/events`))
    const box = data[0]!.data.box!
    await page.reload()
    await page.locator('.watch-event .mark rect').waitFor()
    expect(await events().count()).toBe(new Set(data.flatMap((one) => one.data.happening ?? [])).size)
    const drawn = await page
      .locator('.watch-event .mark rect')
      .first()
      .evaluate((one) => ['x', 'y', 'width', 'height'].map((side) => Number(one.getAttribute(side))))
    const { left, top, right, bottom } = box as Record<keyof typeof CIRCLE, number>
    for (const [i, side] of [left * 480, top * 360, (right - left) * 480, (bottom - top) * 360].entries()) {
      expect(drawn[i]).toBeCloseTo(side, 3)
    }
    // The box is where the circle is.
    expect(Math.abs(left * 480 - CIRCLE.left) + Math.abs(bottom * 360 - CIRCLE.bottom)).toBeLessThan(60)
    await page
      .getByRole('button', { name: /^Enlarge/ })
      .first()
      .click()
    await page.getByRole('dialog').locator('.mark rect').waitFor()
    expect(await violationsOf(page)).toEqual([])
    await page.keyboard.press('Escape')

    expect(studio.errors).toEqual([])
    await press('Delete')
    await page.getByRole('alertdialog').getByRole('button', { name: 'Delete it' }).click()
    await page.getByRole('heading', { name: 'New watch' }).waitFor()
    expect((await jsonOf<{ data: object[] }>(await ask(''))).data).toEqual([])
    // The page may ask for its state while it is deleted.
    expect(scriptErrors(studio)).toEqual([])
  })

  test('what the server does not accept is said at its field, which has the focus', async () => {
    await open({ colorScheme: 'dark' })
    /** @returns what is said of the field that has the focus. */
    const faultOf = async (field: Locator) => {
      await expect.poll(() => field.evaluate((one) => one.matches('[aria-invalid]:focus'))).toBe(true)
      const id = await field.getAttribute('aria-describedby')
      return page.locator(`[id="${id}"]`).innerText()
    }
    await page.getByRole('textbox', { name: 'Question 1', exact: true }).fill(QUESTION)
    const fps = page.getByLabel('Looks per second, at most')
    await fps.fill('-50')
    await expect.poll(() => page.evaluate(STORED)).toContain('"fps":-50')
    await page.reload()
    await press('Create the watch')
    expect(await faultOf(fps)).toBe('Expected at least 0.05')
    expect(await violationsOf(page)).toEqual([])
    await fps.fill('1')
    await page.getByText('Starts at 0.7 for 2 s').click()
    const below = page.getByLabel('Ends below')
    await below.fill('0.9')
    await page.getByText('Starts at 0.7 for 2 s').click()
    await press('Create the watch')
    expect(await faultOf(below)).toBe("Expected less than 'above', which is 0.7")
    await below.fill('0.4')
    // Long questions may begin alike.
    const long = `${QUESTION} ${'And is it red? '.repeat(20)}`
    await page.getByRole('textbox', { name: 'Question 1', exact: true }).fill(`${long}Really?`)
    await page.getByRole('textbox', { name: 'Question 1', exact: true }).press('Enter')
    await page.getByRole('textbox', { name: 'Question 2', exact: true }).fill(`${long}Surely?`)
    await press('Create the watch')
    await page.getByRole('heading', { name: long }).waitFor()
    await press('Delete')
    await press('Delete it')
    await page.getByRole('textbox', { name: 'Question 1', exact: true }).fill(QUESTION)
    // The second question is that of the first.
    await page.getByRole('textbox', { name: 'Question 1', exact: true }).press('Enter')
    await page.getByRole('textbox', { name: 'Question 2', exact: true }).fill(QUESTION)
    await press('Create the watch')
    const second = page.locator('.question-row').nth(1)
    await second.getByRole('alert').filter({ hasText: 'Another question has this name' }).waitFor()
    await second.getByRole('button', { name: 'Remove question 2' }).click()
    // The session that is opened meanwhile has a draft of its own.
    await page.route('**/v1/watches', () => {})
    const stopped = page.waitForEvent('requestfailed', (request) => request.method() === 'POST')
    await press('Create the watch')
    await page.getByRole('button', { name: 'Sessions' }).click()
    await page.getByRole('button', { name: 'New session' }).click()
    await stopped
    await page.unroute('**/v1/watches')
    await page.getByRole('textbox', { name: 'Question 1', exact: true }).fill(QUESTION)
    await press('Create the watch')
    await page.getByRole('heading', { name: QUESTION }).waitFor()
    expect(scriptErrors(studio)).toEqual([])
  })

  test('a stream that breaks goes on where it was, and shows no event twice', async () => {
    key = (await newKey(database)).key
    const id = await made('Gate')
    for (const hasCircle of [true, false, true]) await look(id, hasCircle)
    const { data } = await jsonOf<{ data: WatchEvent[] }>(await ask(`/${id}/events`))
    studio = await openStudio(server.url, { key })
    page = studio.page
    const lines = (told: readonly WatchEvent[]) =>
      told.map((event) => `id: ${event.data.seq}\ndata: ${JSON.stringify(event)}\n\n`).join('')
    const connections: (string | undefined)[] = []
    await page.route('**/stream?*', (route) => {
      connections.push(route.request().headers()['last-event-id'])
      if (connections.length > 2) return route.continue()
      // The first two events twice; then one that has been told already.
      const told = connections.length === 1 ? [...data.slice(0, 2), ...data.slice(0, 2)] : data.slice(1, 2)
      return route.fulfill({ contentType: 'text/event-stream', body: lines(told) })
    })
    await mode('Watch')
    await expect.poll(() => events().count()).toBe(2)
    await look(id, false)
    await expect.poll(() => events().filter({ hasText: 'ended' }).count()).toBe(2)
    expect(await events().count()).toBe(2)
    expect(connections.slice(0, 3)).toEqual([undefined, String(data[1]!.data.seq), String(data[1]!.data.seq)])
    // Frames that others push are shown too.
    await page.getByRole('img', { name: 'The newest frame' }).waitFor()
    await page.getByRole('img', { name: /looks: now/ }).waitFor()
    expect(studio.errors).toEqual([])
  })

  test('looks that were on another server are asked for again after a while', async () => {
    key = (await newKey(database)).key
    await look(await made('Gate'), true)
    studio = await openStudio(server.url, { key, isAlone: true })
    page = studio.page
    await page.clock.install()
    const asked: boolean[] = []
    await page.route('**/stream?*', (route) => {
      asked.push(route.request().url().includes('looks=true'))
      if (asked.length > 1) return route.continue()
      const error = { message: 'Another server', type: 'server_error', param: null, code: 'watch_elsewhere' }
      return route.fulfill({ status: 503, json: { error } })
    })
    await mode('Watch')
    await expect.poll(() => asked).toEqual([true, false])
    await expect.poll(() => events().count()).toBe(1)
    await page.clock.runFor(35_000)
    await expect.poll(() => asked).toEqual([true, false, true])
  })

  test('the camera is looked through until the page is left', async () => {
    await open({ permissions: ['camera'], hasCamera: true, width: 390, height: 844 })
    let frames = 0
    page.on('request', (request) => {
      if (request.url().includes('/frames')) frames++
    })
    await page.getByRole('textbox', { name: 'Question 1', exact: true }).fill('Is there a clock?')
    await press('Create the watch')
    await press('Use the camera')
    await page.getByText(/^Frame (?!1:)\d+: /).waitFor()
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390)
    const camera = await view().evaluateHandle((one) => {
      const { srcObject } = one as unknown as { srcObject: { getTracks(): { readyState: string }[] } }
      return srcObject.getTracks()[0]!
    })
    await press('Pause')
    await expect.poll(() => camera.evaluate((track) => track.readyState)).toBe('ended')
    await press('Resume')
    await press('Use the camera')
    await page.getByText(/^Frame \d+: /).waitFor()
    await mode('Ask')
    const sent = frames
    await mode('Watch')
    await page.getByRole('button', { name: 'Use the camera' }).waitFor()
    expect(frames).toBe(sent)
    // The frame that was looked at when the watch was paused has failed.
    expect(scriptErrors(studio)).toEqual([])
  })

  test('one click shows a watch at work, in any browser that may use watches', async () => {
    await open({ colorScheme: 'dark', width: 390, height: 844, hasTouch: true })
    await press('Try it with a sample')
    // Whether a busy machine looks often enough to see something begin is another matter.
    await page.getByText(/looked at in/).waitFor()
    expect(await violationsOf(page)).toEqual([])
    await press('Pause')
    await page.getByText('Paused').first().waitFor()
    await page.getByRole('button', { name: 'Sample' }).waitFor()
    await press('Resume')
    expect(scriptErrors(studio)).toEqual([])
  })

  test('a camera that the server speaks to is chosen by name or address, and shows what it sees or why not', async () => {
    await open({}, ['inference', 'files', 'watch', 'admin'])
    await page.getByRole('textbox', { name: 'Question 1', exact: true }).fill(QUESTION)
    const source = page.getByLabel('Frames come from')
    await source.selectOption('RTSP address')
    const address = page.getByRole('textbox', { name: 'RTSP address' })
    await address.fill('rtsps://10.1.2.3/live')
    await page.getByRole('textbox', { name: 'Certificate (optional)' }).fill('any')
    await press('Create the watch')
    await page.getByRole('alert').filter({ hasText: 'LOOKOUT_CAMERA_HOSTS' }).waitFor()
    await expect.poll(() => address.evaluate((one) => one.matches('[aria-invalid]:focus'))).toBe(true)
    await address.fill(camera.url)
    await page.getByLabel('User name').fill('look')
    await page.getByLabel('Password').fill('wrong-word')
    expect(await violationsOf(page)).toEqual([])
    await press('Create the watch')
    await page.getByText('No frames: the camera does not take the user name and password (unauthorized).').waitFor()
    expect(await violationsOf(page)).toEqual([])

    await press('New watch')
    await page.getByRole('textbox', { name: 'Question 1', exact: true }).fill(QUESTION)
    await source.selectOption('Camera dock-1')
    await page.getByLabel(/^Keep a video/).check()
    await press('Create the watch')
    await page.getByRole('img', { name: 'The newest frame' }).waitFor()
    await page.getByText('Online').first().waitFor()
    await page.getByRole('img', { name: /looks: now/ }).waitFor()
    expect(await page.getByRole('button', { name: /Use the camera|Choose a video|Sample/ }).count()).toBe(0)
    await events().getByRole('button', { name: 'Video' }).click()
    const clip = page.getByRole('dialog').locator('video')
    const played = () => clip.evaluate((one) => (one as unknown as { currentTime: number }).currentTime)
    await expect.poll(played).toBeGreaterThan(1)
    expect(await violationsOf(page)).toEqual([])
    await page.keyboard.press('Escape')
    expect(await violationsOf(page)).toEqual([])
    expect(scriptErrors(studio)).toEqual([])

    await studio.close()
    await endWatches()
    await open()
    // Addresses are for administrators.
    const choices = page.getByLabel('Frames come from').locator('option')
    await expect.poll(() => choices.allInnerTexts()).toEqual([expect.stringMatching(/^This computer/), 'Camera dock-1'])
  })

  test('a region is drawn on the frame of a camera, and is all that is looked at', async () => {
    key = (await newKey(database)).key
    const id = await made('Dock', { source: { type: 'camera', camera: 'dock-1' } })
    studio = await openStudio(server.url, { key })
    page = studio.page
    await mode('Watch')
    await page.getByRole('img', { name: 'The newest frame' }).waitFor()
    const region = async () => (await jsonOf<{ region: Record<string, number> | null }>(await ask(`/${id}`))).region
    const chance = () => page.getByRole('list', { name: 'Questions' }).locator('strong').innerText()
    await expect.poll(chance).toMatch(/^9\d/)
    await press('Choose a region')
    const frame = (await page.locator('.watch-region-layer').boundingBox())!
    const drag = async (from: [x: number, y: number], to: [x: number, y: number]) => {
      await page.mouse.move(frame.x + from[0] * frame.width, frame.y + from[1] * frame.height)
      await page.mouse.down()
      await page.mouse.move(frame.x + to[0] * frame.width, frame.y + to[1] * frame.height, { steps: 3 })
      await page.mouse.up()
    }
    const fields = () =>
      Promise.all(['Left', 'Top', 'Right', 'Bottom'].map((side) => page.getByLabel(`${side}, %`).inputValue()))
    const near = (...sides: number[]) => sides.map((side) => expect.closeTo(side, 0))
    await drag([0.95, 0.9], [0.5, 0.1])
    expect((await fields()).map(Number)).toEqual(near(50, 10, 95, 90))
    // It is moved as a whole, and at a corner.
    await drag([0.7, 0.5], [0.75, 0.5])
    await drag([0.55, 0.1], [0.6, 0.2])
    expect((await fields()).map(Number)).toEqual(near(60, 20, 100, 90))
    const drawn = page.getByRole('application', { name: /^Region/ })
    await drawn.focus()
    await page.keyboard.press('ArrowUp')
    await page.keyboard.press('Control+Shift+ArrowLeft')
    expect((await fields()).map(Number)).toEqual(near(60, 19, 90, 89))
    await page.getByLabel('Right, %').fill('50')
    expect(await page.getByRole('button', { name: 'Look only there' }).isDisabled()).toBe(true)
    await page.getByLabel('Right, %').fill('90')
    expect(await violationsOf(page)).toEqual([])
    await press('Look only there')
    await page.getByText('Looks at 30 % × 70 % of the frame').waitFor()
    expect(await region()).toEqual({
      left: expect.closeTo(0.6),
      top: expect.closeTo(0.19),
      right: 0.9,
      bottom: expect.closeTo(0.89),
    })
    // The circle is elsewhere.
    await expect.poll(chance).toMatch(/^\d\s%/)
    expect(await violationsOf(page)).toEqual([])
    await press('Change the region')
    await press('Look at the whole frame')
    await page.getByRole('button', { name: 'Choose a region' }).waitFor()
    expect(await region()).toBeNull()
    expect(studio.errors).toEqual([])
  })

  test('thresholds are dragged on the graph, and moved by keys', async () => {
    key = (await newKey(database)).key
    const id = await made('Gate', { region: { top: 0.5, left: 0, bottom: 1, right: 0.5 } })
    await look(id, false)
    studio = await openStudio(server.url, { key, colorScheme: 'dark', width: 390, height: 844 })
    page = studio.page
    await mode('Watch')
    const [above, below] = ['Starts at', 'Ends below'].map((name) => page.getByRole('slider', { name })) as [
      Locator,
      Locator,
    ]
    const levels = async () => {
      const watch = await jsonOf<{ questions: { event: { above: number; below: number } }[] }>(await ask(`/${id}`))
      const { above, below } = watch.questions[0]!.event
      return [above, below]
    }
    await above.waitFor()
    // What was seen before the page was opened is dimmed too.
    await page.locator('.watch-region').waitFor()
    expect(await violationsOf(page)).toEqual([])
    await above.scrollIntoViewIfNeeded()
    const chart = (await page.locator('.watch-chart').boundingBox())!
    const grip = (await above.boundingBox())!
    await page.mouse.move(chart.x + 20, grip.y + 8)
    await page.mouse.down()
    await page.mouse.move(chart.x + 20, chart.y + chart.height * 0.1, { steps: 3 })
    expect(await above.getAttribute('aria-valuetext')).toBe('90 %')
    expect(await levels()).toEqual([0.7, 0.4])
    await page.mouse.up()
    await expect.poll(levels).toEqual([0.9, 0.4])
    // Neither passes the other.
    await below.focus()
    await page.keyboard.press('End')
    await page.keyboard.press('ArrowDown')
    await expect.poll(levels).toEqual([0.9, 0.88])
    await above.focus()
    await page.keyboard.press('Home')
    await expect.poll(levels).toEqual([0.89, 0.88])
    expect(await above.getAttribute('aria-valuemin')).toBe('89')
    expect(studio.errors).toEqual([])
  })

  test('an event shows its video once there is one', async () => {
    key = (await newKey(database)).key
    const id = await made('Ramp')
    for (const hasCircle of [true, false]) await look(id, hasCircle)
    const { data } = await jsonOf<{ data: WatchEvent[] }>(await ask(`/${id}/events`))
    const started = data.find(({ type }) => type === 'watch.event.started')!
    const withClip = (status: string, event: WatchEvent, seq = event.data.seq): WatchEvent => ({
      ...event,
      ...(seq > data.length && { type: 'watch.event.clip' }),
      data: { ...event.data, seq, clip: { status, file_id: null } },
    })
    studio = await openStudio(server.url, { key })
    page = studio.page
    let told: WatchEvent[] = [withClip('pending', started), ...data.slice(data.indexOf(started) + 1)]
    const first = Promise.withResolvers<void>()
    await page.route('**/stream?*', async (route) => {
      if (told.length === 1) await first.promise
      const body = told.map((event) => `id: ${event.data.seq}\ndata: ${JSON.stringify(event)}\n\n`).join('')
      told = [withClip('available', started, data.length + 1)]
      await route.fulfill({ contentType: 'text/event-stream', body })
    })
    await page.route(`**/events/${started.data.seq}/clip`, (route) =>
      route.fulfill({ contentType: video.mimeType, body: video.buffer }),
    )
    await mode('Watch')
    await events().filter({ hasText: 'its video is being made' }).waitFor()
    first.resolve()
    await events().getByRole('button', { name: 'Video' }).click()
    const clip = page.getByRole('dialog').locator('video')
    await expect
      .poll(() => clip.evaluate((one) => (one as unknown as { readyState: number }).readyState))
      .toBeGreaterThan(1)
    expect(await events().count()).toBe(1)
    expect(await violationsOf(page)).toEqual([])
    expect(studio.errors).toEqual([])
  })

  test('asks for another key where its own is revoked while it only looks on', async () => {
    const accounts = new Accounts(database)
    const { organisation } = await newKey(database)
    const { key: own, about } = await accounts.createKey({ organisation })
    key = own
    await made('Gate')
    studio = await openStudio(server.url, { key })
    page = studio.page
    await mode('Watch')
    await page.getByRole('heading', { name: 'Gate' }).waitFor()
    await accounts.revokeKey(about.id)
    await page.getByText('The server does not accept this key. It may have been revoked.').first().waitFor()
    await page.getByRole('button', { name: 'Enter a key' }).first().click()
    key = (await accounts.createKey({ organisation })).key
    await page.getByLabel('API key').fill(key)
    await page.keyboard.press('Enter')
    await page.getByText('The server does not accept this key').first().waitFor({ state: 'detached' })
    expect(scriptErrors(studio)).toEqual([])
  })

  test('a key without the scope learns how to get one', async () => {
    studio = await openStudio(server.url, { key: (await newKey(database, { scopes: ['inference'] })).key })
    page = studio.page
    await mode('Watch')
    await page.getByText('This key may not use watches').waitFor()
    await page.getByText('lookout keys create --scopes inference,files,watch').waitFor()
    expect(await violationsOf(page)).toEqual([])
    expect(scriptErrors(studio)).toEqual([])
  })
})

async function pixels(hasCircle: boolean): Promise<Buffer> {
  const circle = hasCircle ? '<circle cx="150" cy="255" r="56" fill="#d81e1e"/>' : ''
  const { width, height } = SIZE
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"><rect width="100%" height="100%" fill="#f2efe6"/>${circle}</svg>`
  return sharp(Buffer.from(svg)).removeAlpha().raw().toBuffer()
}
