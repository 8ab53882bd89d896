/**
 * The Studio in a browser: first paint, panning a large picture with many boxes, the first box after its tag, and memory
 * after many questions. The server has the shipped model; where the goal is about the page alone, the benchmark answers in
 * its place.
 */

import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { type Browser, chromium, type Page } from 'playwright-core'
import sharp from 'sharp'
import { type Benchmark, print } from './support/benchmark.ts'
import { type BenchServer, startLookout } from './support/server.ts'
import { median } from './support/statistics.ts'
import { table } from './support/table.ts'

const BROWSERS = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']
const SIZE = { width: 4000, height: 3000 }
const BOXES = 300
const QUESTIONS = 100
const PAN_MS = 3000
const MODEL = 'service-mk1.5'

export const studio: Benchmark = {
  summary: 'the Studio in chromium: first paint, panning 300 boxes, the first box, memory after 100 questions',
  withPeer: false,

  async run({ quick, repetitions }) {
    const executablePath = BROWSERS.find(existsSync)
    if (executablePath === undefined) return print('SKIPPED: there is no chromium on this machine.')
    const runs = repetitions ?? (quick ? 3 : 9)
    const questions = quick ? QUESTIONS / 5 : QUESTIONS
    await using server = await startLookout(null, MODEL)
    const browser = await chromium.launch({
      executablePath,
      // Memory is read after a collection of garbage. Without a zygote, what pages' processes took counts as this benchmark's.
      args: ['--no-sandbox', '--no-zygote', '--js-flags=--expose-gc', '--enable-precise-memory-info'],
    })
    try {
      const paints = await repeated(runs, () => firstPaint(browser, server))
      const boxes = await repeated(runs, () => firstBox(browser, server))
      const pans = await repeated(Math.ceil(runs / 3), () => panning(browser, server))
      const empty = await withPage(browser, () => pageBytes(browser))
      const memory = await memoryAfter(browser, server, questions)
      const ms = (values: readonly number[]) => `${median(values).toFixed(0)} ms`
      const rows = [
        ['first paint, of a browser that has never been there', ms(paints.map(({ first }) => first)), '300 ms'],
        ['until its samples are there to click', ms(paints.map(({ samples }) => samples)), ''],
        ['from the first whole tag in the page to its box on the picture', ms(boxes), '1000 ms'],
        [
          `frames a second while panning ${BOXES} boxes on ${(SIZE.width * SIZE.height) / 1e6} megapixels`,
          median(pans.map(({ rate }) => rate)).toFixed(1),
          '60',
        ],
        ['longest frame of 100 meanwhile', ms(pans.map(({ slow }) => slow)), ''],
        [`JavaScript's memory after ${questions} questions`, `${memory.heap.toFixed(0)} MB`, ''],
        [`memory of the page's process then`, `${memory.process.toFixed(0)} MB`, '150 MB'],
        ["of an empty page's process", `${(empty / 1e6).toFixed(0)} MB`, ''],
      ]
      print(`### Studio\n\n${table(['', 'measured', 'goal'], rows)}\nChromium ${browser.version()}, headless.\n`)
    } finally {
      await browser.close()
    }
  },
}

async function repeated<Result>(times: number, work: () => Promise<Result>): Promise<Result[]> {
  const results: Result[] = []
  for (let i = 0; i < times; i++) results.push(await work())
  return results
}

async function withPage<Result>(browser: Browser, work: (page: Page) => Promise<Result>): Promise<Result> {
  const context = await browser.newContext({ viewport: { width: 1360, height: 820 } })
  try {
    return await work(await context.newPage())
  } finally {
    await context.close()
  }
}

const open = (page: Page, { url, apiKey }: BenchServer) => page.goto(`${url}/studio#key=${apiKey}`)

/** In ms from the start of the navigation: the top bar, and the frame after the samples are there. */
function firstPaint(
  browser: Browser,
  server: BenchServer,
): Promise<{ readonly first: number; readonly samples: number }> {
  return withPage(browser, async (page) => {
    await page.addInitScript(`
      globalThis.samplesMs = new Promise((resolve) => {
        const observer = new MutationObserver(() => {
          if (!document.body?.textContent.includes('Six shapes')) return
          observer.disconnect()
          requestAnimationFrame(() => setTimeout(() => resolve(performance.now())))
        })
        observer.observe(document, { subtree: true, childList: true })
      })`)
    await open(page, server)
    const samples = await page.evaluate<number>('samplesMs')
    const first = await page.evaluate<number>(
      `new Promise((resolve) => new PerformanceObserver((list) => {
        const paint = list.getEntries().find(({ name }) => name === 'first-contentful-paint')
        if (paint) resolve(paint.startTime)
      }).observe({ type: 'paint', buffered: true }))`,
    )
    return { first, samples }
  })
}

/** In ms from the end of the first tag, as the page reads it, to the frame after the box is there. */
function firstBox(browser: Browser, server: BenchServer): Promise<number> {
  return withPage(browser, async (page) => {
    await page.addInitScript(`{
      const read = ReadableStreamDefaultReader.prototype.read
      let text = ''
      ReadableStreamDefaultReader.prototype.read = async function () {
        const piece = await read.call(this)
        if (piece.value) text += new TextDecoder().decode(piece.value)
        if (text.includes('</point_box>')) globalThis.tagMs ??= performance.now()
        return piece
      }
      globalThis.boxMs = new Promise((resolve) => {
        new MutationObserver(() => {
          if (document.querySelector('.mark.box')) requestAnimationFrame(() => resolve(performance.now()))
        }).observe(document, { subtree: true, childList: true })
      })
    }`)
    await open(page, server)
    await page.getByRole('button', { name: 'Six shapes' }).click()
    await page.getByRole('button', { name: 'Detect all objects.' }).click()
    return page.evaluate<number>('boxMs.then((box) => box - tagMs)')
  })
}

/** While the picture, which is larger than the stage, is dragged to and fro. */
function panning(browser: Browser, server: BenchServer): Promise<{ readonly rate: number; readonly slow: number }> {
  return withPage(browser, async (page) => {
    await page.route('**/v1/chat/completions', (route) =>
      route.fulfill({ contentType: 'text/event-stream', body: replyWith(boxes()) }),
    )
    await open(page, server)
    const buffer = await picture()
    await page
      .getByLabel('Files', { exact: true })
      .setInputFiles([{ name: 'large.jpg', mimeType: 'image/jpeg', buffer }])
    const stage = page.getByRole('group', { name: /^large/ })
    await stage.waitFor()
    await page.getByLabel('Your question').fill('Detect all objects.')
    await page.getByLabel('Your question').press('Enter')
    await page
      .locator('.mark.box')
      .nth(BOXES - 1)
      .waitFor({ state: 'attached' })
    for (let i = 0; i < 4; i++) await stage.press('+')
    const { x, y, width, height } = (await stage.boundingBox())!
    const centre = { x: x + width / 2, y: y + height / 2 }
    await page.mouse.move(centre.x, centre.y)
    await page.mouse.down()
    const frames = page.evaluate<number[]>(`new Promise((resolve) => {
      const gaps = []
      let [first, last] = [null, null]
      const onFrame = (now) => {
        if (last !== null) gaps.push(now - last)
        first ??= now
        last = now
        if (now - first < ${PAN_MS}) requestAnimationFrame(onFrame)
        else resolve(gaps)
      }
      requestAnimationFrame(onFrame)
    })`)
    let isDone = false
    void frames.finally(() => (isDone = true))
    for (let step = 0; !isDone; step++) {
      const angle = step / 12
      await page.mouse.move(centre.x + Math.sin(angle) * 220, centre.y + Math.cos(angle) * 160)
    }
    await page.mouse.up()
    const gaps = (await frames).sort((a, b) => a - b)
    const total = gaps.reduce((sum, gap) => sum + gap, 0)
    return { rate: (gaps.length / total) * 1000, slow: gaps[Math.floor(gaps.length * 0.99)]! }
  })
}

/** In MB, after questions that the model answers with boxes. Together they would be too long for the model's context. */
function memoryAfter(
  browser: Browser,
  server: BenchServer,
  questions: number,
): Promise<{ readonly heap: number; readonly process: number }> {
  return withPage(browser, async (page) => {
    await open(page, server)
    await page.getByRole('button', { name: 'Six shapes' }).click()
    await page.getByRole('button', { name: 'Settings' }).click()
    await page.getByLabel('Send the earlier turns with each question').uncheck()
    // By selectors alone: searches for texts and labels make the driver create garbage in the page that users do not create.
    const field = page.locator('[data-draft]')
    for (let i = 1; i <= questions; i++) {
      await field.fill('Detect all objects.')
      await field.press('Enter')
      await page
        .locator('.reply-facts')
        .nth(i - 1)
        .waitFor()
    }
    await page.evaluate('gc()')
    const heap = await page.evaluate<number>('performance.memory.usedJSHeapSize')
    return { heap: heap / 1e6, process: (await pageBytes(browser)) / 1e6 }
  })
}

/**
 * Memory that the page's process has for itself alone: what it shares with other processes is chromium's code. Of several
 * processes the largest is the page's: the others are spare.
 */
async function pageBytes(browser: Browser): Promise<number> {
  const session = await browser.newBrowserCDPSession()
  const { processInfo } = await session.send('SystemInfo.getProcessInfo')
  const sizes = await Promise.all(
    processInfo.filter(({ type }) => type === 'renderer').map(({ id }) => privateBytes(id)),
  )
  return Math.max(...sizes)
}

async function privateBytes(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8')
  return [...text.matchAll(/^Private_\w+: +(\d+) kB/gm)].reduce((sum, [, size]) => sum + Number(size) * 1024, 0)
}

/** Soft shapes and a little noise, as a photo has. */
async function picture(): Promise<Buffer> {
  const noise = { type: 'gaussian', mean: 128, sigma: 50 } as const
  const small = { width: 200, height: 150, channels: 3, background: '#808080', noise } as const
  return sharp(await sharp({ create: small }).png().toBuffer())
    .resize(SIZE.width, SIZE.height)
    .jpeg()
    .toBuffer()
}

/** A grid of boxes, of five labels. */
function boxes(): string {
  const columns = 20
  return Array.from({ length: BOXES }, (_, index) => {
    const [left, top] = [10 + (index % columns) * 49, 10 + Math.floor(index / columns) * 65]
    return `<point_box mention="thing ${index % 5}"> (${left},${top}) (${left + 40},${top + 55}) </point_box>`
  }).join('\n')
}

function replyWith(content: string): string {
  const chunk = { id: 'bench', object: 'chat.completion.chunk', created: 0, model: MODEL }
  const choices = [{ index: 0, delta: { role: 'assistant', content }, finish_reason: null }]
  const end = [{ index: 0, delta: {}, finish_reason: 'stop' }]
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
  return [
    { ...chunk, choices },
    { ...chunk, choices: end, usage },
  ]
    .map((event) => `data: ${JSON.stringify(event)}\n\n`)
    .concat('data: [DONE]\n\n')
    .join('')
}
