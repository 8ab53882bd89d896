import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { calibrate as command } from '../src/commands/calibrate.ts'
import { toCoco } from '../src/exports/coco.ts'
import { toYolo } from '../src/exports/yolo.ts'
import { cannotRead } from '../src/inference/contract/cannot-read.ts'
import type { ReadQuestion } from '../src/inference/contract/work.ts'
import { internalError } from '../src/lib/errors/errors.ts'
import { changedCard, type TemporaryCard } from './support/changed-card.ts'
import { type Outcome, outcomeHere, outcomeOf, startLookout } from './support/command-line.ts'
import { jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'

let server: TestServer
let card: TemporaryCard
let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-calibrate-'))
  // What is asked for is what the model gives, not what its card makes of it.
  const temperature = { predicate: 7, choice: 7, score: 7 }
  card = await changedCard((shipped) => ({ ...shipped, decision: { temperature } }))
  server = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: card.path } })
  for (let i = 0; i < FILES; i++) await picture(`${i}.png`)
})
afterAll(async () => {
  await server?.close()
  await card?.remove()
  await rm(directory, { recursive: true, force: true })
})
beforeEach(() => {
  server.engine.script = {}
  server.engine.readWorks.length = 0
})

const FILES = 10
const place = (name: string) => join(directory, name)

async function picture(name: string, width = 64, height = 64): Promise<void> {
  await sharp({ create: { width, height, channels: 3, background: '#808080' } })
    .png()
    .toFile(place(name))
}

async function examples(lines: readonly (object | string)[], name = 'list.jsonl'): Promise<string> {
  await writeFile(place(name), lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n'))
  return place(name)
}

const environment = () => ({ LOOKOUT_URL: server.url, LOOKOUT_API_KEY: KEY })

function calibrate(args: readonly string[]): Promise<Outcome> {
  return outcomeHere(command, args, environment())
}

/** Always as sure of the same reply, however often it is right. */
function sureOf(odds: Readonly<Record<string, number>>) {
  return ({ replies }: ReadQuestion) => replies.map((reply) => Math.log(odds[reply] ?? 0))
}

/** Twenty about each file. The first is right in a given number of ten. */
function asked(question: object, first: unknown, second: unknown, right: number): object[] {
  return Array.from({ length: 20 * FILES }, (_, i) => ({
    file: `${i % FILES}.png`,
    instructions: `Question ${i}?`,
    ...question,
    answer: Math.floor(i / FILES) % 10 < right ? first : second,
  }))
}

test('fits a temperature for each type, and shows how good the model is before and after', async () => {
  server.engine.script = {
    read: sureOf({ 'Yes.': 0.98, 'No.': 0.02, 'Red.': 0.6, 'Blue.': 0.4, 0: 0.01, 1: 0.99 }),
  }
  const list = await examples([
    ...asked({}, true, false, 8),
    ...asked({ choices: ['red', 'blue'] }, 'red', 'blue', 9),
    ...asked({ type: 'count', max: 1 }, 1, 0, 7),
  ])
  // In a process of its own, as a user runs it.
  const run = await outcomeOf(startLookout(['calibrate', list, '--json'], environment()))
  expect({ ...run, stdout: '' }).toEqual({ code: 0, stdout: '', stderr: '' })
  const { decision, types } = JSON.parse(run.stdout)
  const logit = (p: number) => Math.log(p / (1 - p))
  expect(decision.temperature.predicate).toBeCloseTo(logit(0.98) / logit(0.8), 1)
  // Below 0.25, it would say that it never errs.
  expect(decision.temperature.choice).toBe(0.25)
  expect(decision.temperature.score).toBeCloseTo(logit(0.99) / logit(0.7), 1)
  const { before, after } = types.predicate
  expect(before).toMatchObject({ questions: 200, accuracy: 0.8 })
  expect(before.ece).toBeCloseTo(0.18, 9)
  expect(before.brier).toBeCloseTo(0.8 * 0.02 ** 2 + 0.2 * 0.98 ** 2, 9)
  expect(after.ece).toBeLessThan(0.01)
  expect(after.brier).toBeCloseTo(0.16, 2)
  expect(server.engine.readWorks).toHaveLength(FILES)
})

test('a folder, and a table with what belongs into the card', async () => {
  await mkdir(place('album'))
  await picture('album/a.png')
  server.engine.script = { read: sureOf({ 'Small.': 0.5, 'Large.': 0.5 }) }
  const question = { file: 'a.png', instructions: 'How big?', levels: ['small', 'large'] }
  await examples([{ ...question, answer: 'small' }, '', { ...question, answer: 'large' }], 'album/examples.jsonl')
  const run = await calibrate([place('album')])
  expect(run.code).toBe(0)
  expect(run.stdout).toMatch(
    /^TYPE +QUESTIONS +RIGHT +BRIER +AFTER +ECE +AFTER +TEMPERATURE\nscore +2 +0\.500 +0\.500 +- +0\.000 +- +[\d.]+\n/,
  )
  expect(run.stdout).toMatch(/"decision": \{"temperature":\{"score":[\d.]+\}\}\n$/)
  expect(run.stderr).toBe('lookout: 2 examples of type score are few: a few hundred are better\n')
})

test('a file that the server fails at is left out', async () => {
  let reads = 0
  server.engine.script = {
    read: sureOf({ 'Yes.': 0.98, 'No.': 0.02 }),
    get readRefusal() {
      return reads++ === 0 ? internalError(new Error('broken')) : undefined
    },
  }
  const run = await calibrate([await examples(asked({}, true, false, 8)), '--json'])
  expect(run).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/\d\.png: .*\n.*20 of 200 questions got no answer/),
  })
  expect(JSON.parse(run.stdout).types.predicate.before.questions).toBe(180)
  server.engine.script = { readRefusal: internalError(new Error('broken')) }
  const all = await calibrate([await examples([{ file: '0.png', instructions: 'Is it?', answer: true }])])
  expect(all).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(/\nlookout: no example could be asked\n$/),
  })
})

test('draws a reliability diagram of questions', async () => {
  server.engine.script = { read: sureOf({ 'Yes.': 0.98, 'No.': 0.02 }) }
  const list = await examples(asked({}, true, false, 8))
  const run = await calibrate([list, '--output', place('questions.svg')])
  expect({ ...run, stdout: '' }).toEqual({ code: 0, stdout: '', stderr: '' })
  const titles = await titlesOf(place('questions.svg'))
  expect(titles).toContain('predicate, before, 0.93 to 1: 160 of 200 right')
  expect(titles.join('\n')).toMatch(/^predicate, after, 0\.(73 to 0\.8|8 to 0\.87): /m)
})

test('refuses an output that it cannot draw before it asks anything', async () => {
  const list = await examples(asked({}, true, false, 8))
  for (const [output, problem] of [
    ['a.jpg', 'expected a file that ends with .svg or .png'],
    ['folder/', 'expected a file that ends with .svg or .png'],
    ['0.png', 'is a picture that is asked about'],
    ['list.jsonl/a.svg', 'is not a folder'],
  ] as const) {
    const run = await calibrate([list, '-o', place(output)])
    expect(run).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining(problem) })
  }
  expect(server.engine.readWorks).toEqual([])
})

async function titlesOf(path: string): Promise<readonly string[]> {
  return [...(await readFile(path, 'utf8')).matchAll(/<title>(.*?)<\/title>/g)].map(([, title]) => title!)
}

test('errors name the file and the line', async () => {
  const good = { file: '0.png', instructions: 'Is it?', answer: true }
  const choice = { ...good, choices: ['red', 'blue'], answer: 'red' }
  for (const [line, problem] of [
    ['{"file":', 'expected a JSON object'],
    [{ ...good, file: undefined }, "expected 'file', the path of a picture"],
    [{ ...good, answer: undefined }, "expected 'answer', the right one"],
    [{ ...good, answer: 'yes' }, `'answer': expected one of true, false, not "yes"`],
    [{ ...choice, answer: 'green' }, `'answer': expected one of "red", "blue", not "green"`],
    [{ ...good, type: 'count', answer: 21 }, `'answer': expected one of 0, 1, 2, 3, 4 and so on, not 21`],
    [
      { ...good, type: 'box' },
      "type 'x_box': expected predicate, choice, score or count, whose answers have probabilities",
    ],
    [{ ...good, file: 'none.png' }, `${place('none.png')} cannot be read: ENOENT`],
    [{ ...choice, choices: ['red', 'red'] }, 'it is given twice'],
    [{ ...good, colour: 'red' }, 'colour'],
  ] as const) {
    const list = await examples([good, line, good])
    const run = await calibrate([list])
    expect(run.code).toBe(1)
    expect(run.stderr).toContain(`${list}:2: `)
    expect(run.stderr).toContain(problem)
  }
  const none = await calibrate([await examples([])])
  expect(none).toEqual({ code: 1, stdout: '', stderr: `lookout: ${place('list.jsonl')} has no examples\n` })
})

describe('boxes', () => {
  const KNOWN = { label: 'cat', left: 8, top: 8, right: 24, bottom: 24 }
  const OTHER = { label: 'cat', left: 32, top: 32, right: 48, bottom: 56 }
  const line = (i: number) => {
    const { label, left, top, right, bottom } = KNOWN
    return {
      file: `${i}.png`,
      categories: ['cat', 'dog'],
      boxes: [{ mention: label, box: [left, top, right, bottom] }],
    }
  }
  const lines = Array.from({ length: FILES }, (_, i) => line(i))

  /** A cat that is there, and one that is not, of which the model is less sure. No dog. */
  const twoCats = () => {
    const onGrid = (pixel: number) => Math.round((pixel / 64) * 1000)
    const tokens = ({ left, top, right, bottom }: typeof KNOWN) => {
      const [from, to] = [[left, top].map(onGrid), [right, bottom].map(onGrid)]
      return ['<point_box mention="cat">', ...` (${from}) (${to}) </point_box>`.split(/(?=\D)|(?<=\D)/)]
    }
    server.engine.script = {
      branch: (_, index) =>
        index === 0 ? { texts: [...tokens(KNOWN), '\n', ...tokens(OTHER)] } : { texts: ['None.'] },
      alternatives: (text, before) => {
        if (text === '') return [{ text: '\n', mass: 0.1 }]
        if (text === '\n') return [{ text: '', mass: 0.3 }]
        return before.includes('\n') && /^\d+$/.test(text) ? [{ text: '9', mass: 0.2 }] : []
      },
      readRefusal: cannotRead(),
    }
  }

  test('how sure a model is of its boxes, before and after, and the field of the card', async () => {
    twoCats()
    const run = await calibrate([await examples([lines, lines, lines].flat(), 'boxes.jsonl'), '--json'])
    expect({ ...run, stdout: '' }).toEqual({ code: 0, stdout: '', stderr: '' })
    const { detection, boxes, lists } = JSON.parse(run.stdout)
    const { before, after } = boxes.plain
    expect(before).toMatchObject({ boxes: 6 * FILES, right: 0.5, ap50: 1 })
    expect(before.thresholds[0]).toEqual({ confidence: 0.3, precision: 0.5, recall: 1 })
    expect(after.brier).toBeLessThan(before.brier / 2)
    expect(lists.before).toMatchObject({ lists: 6 * FILES, whole: 1, auc: null })

    const fitted = await changedCard((shipped) => ({ ...shipped, detection }))
    await using stack = new AsyncDisposableStack()
    stack.defer(() => fitted.remove())
    const other = await startTestServer({ engine: server.engine, environment: { LOOKOUT_MODEL_CARD: fitted.path } })
    stack.defer(() => other.close())
    const url = `data:image/png;base64,${(await readFile(place('0.png'))).toString('base64')}`
    const body = { media: { type: 'image', image_url: url }, categories: ['cat', 'dog'], config: { confidence: true } }
    const answer = await jsonOf<{ detections: { confidence: number }[]; confidence: object }>(
      await other.post('/v1/detect', body),
    )
    expect(answer.confidence).toEqual({ calibrated: true })
    const [right, wrong] = answer.detections
    expect(right!.confidence).toBeGreaterThan(0.9)
    expect(wrong!.confidence).toBeLessThan(0.1)
  })

  test('from what detect --format yolo and coco write, as from lines', async () => {
    twoCats()
    const few = lines.slice(0, 3)
    const fromLines = await calibrate([await examples(few, 'boxes.jsonl'), '--json'])
    expect(fromLines.code).toBe(0)
    const pictures = few.map(({ file }) => ({ name: file, width: 64, height: 64, boxes: [KNOWN] }))
    const origin = { asked: ['cat', 'dog'], model: null, version: null, date: new Date(0) }
    await mkdir(place('marked'))
    for (const [name, text] of toYolo(pictures, origin)) await writeFile(place(`marked/${name}`), text)
    for (const { file } of few) await picture(`marked/${file}`)
    expect(await calibrate([place('marked'), '--json'])).toEqual(fromLines)
    await writeFile(place('coco.json'), JSON.stringify(toCoco(pictures, origin)))
    expect(await calibrate(['--coco', place('coco.json'), '--json'])).toEqual(fromLines)
    // Programs on Windows begin texts with a mark.
    for (const name of ['boxes.jsonl', 'coco.json', 'marked/0.txt']) {
      await writeFile(place(name), `\ufeff${await readFile(place(name), 'utf8')}`)
    }
    expect(await calibrate([place('boxes.jsonl'), '--json'])).toEqual(fromLines)
    expect(await calibrate([place('marked'), '--json'])).toEqual(fromLines)
    expect(await calibrate(['--coco', place('coco.json'), place('marked'), '--json'])).toEqual(fromLines)
  })

  test('from COCO whose boxes are on a copy in another size, or on the picture before EXIF turns it', async () => {
    twoCats()
    const origin = { asked: ['cat', 'dog'], model: null, version: null, date: new Date(0) }
    const entry = (name: string, width: number, height: number, [left, top, right, bottom]: readonly number[]) => {
      const box = { label: 'cat', left: left!, top: top!, right: right!, bottom: bottom! }
      return { name, width, height, boxes: [box] }
    }
    const judge = async (entries: readonly ReturnType<typeof entry>[]) => {
      await writeFile(place('other.json'), JSON.stringify(toCoco(entries, origin)))
      return calibrate(['--coco', place('other.json')])
    }
    // The cat is where the model sees it: from 1/8 to 3/8 of the sides.
    const entries = [entry('0.png', 32, 32, [4, 4, 12, 12])]
    for (const [orientation, box] of [
      [5, [12, 6, 36, 18]],
      [6, [12, 30, 36, 42]],
      [7, [60, 30, 84, 42]],
      [8, [60, 6, 84, 18]],
    ] as const) {
      const name = `turned-${orientation}.jpg`
      const white = { create: { width: 24, height: 12, channels: 3, background: 'white' } } as const
      await sharp({ create: { width: 96, height: 48, channels: 3, background: 'black' } })
        .composite([{ input: await sharp(white).png().toBuffer(), left: box[0], top: box[1] }])
        .withMetadata({ orientation })
        .toFile(place(name))
      const cat = { left: 9, top: 18, width: 6, height: 12 }
      expect(Math.min(...(await sharp(place(name)).autoOrient().extract(cat).raw().toBuffer()))).toBeGreaterThan(200)
      const double = box.map((side) => 2 * side)
      entries.push(entry(name, 96, 48, box), entry(name, 192, 96, double), entry(name, 48, 96, [6, 12, 18, 36]))
    }
    // The picture may be the smaller one, with a rounded side.
    await picture('small-copy.png', 1024, 683)
    entries.push(entry('small-copy.png', 6000, 4000, [750, 500, 2250, 1500]))
    const all = await judge(entries)
    expect(all).toMatchObject({ code: 0, stdout: expect.stringMatching(/^plain +28 +0\.500 /m) })
    expect(await judge([entry('0.png', 64, 32, [8, 8, 24, 24])])).toEqual({
      code: 1,
      stdout: '',
      stderr: `lookout: ${place('other.json')}: image 1: its boxes are for a picture of 64 x 32 pixels, but ${place('0.png')} has 64 x 64\n`,
    })
  })

  test('from YOLO data sets as others lay them out', async () => {
    twoCats()
    const few = lines.slice(0, 3)
    const fromLines = await calibrate([await examples(few, 'boxes.jsonl'), '--json'])
    const pictures = few.map(({ file }) => ({ name: file, width: 64, height: 64, boxes: [KNOWN] }))
    const written = toYolo(pictures, { asked: ['cat', 'dog'], model: null, version: null, date: new Date(0) })
    await mkdir(place('set/valid/images'), { recursive: true })
    await mkdir(place('set/valid/labels'), { recursive: true })
    await mkdir(place('set/here'), { recursive: true })
    for (const { file } of few) {
      await picture(`set/valid/images/${file}`)
      const labels = file.replace('.png', '.txt')
      await writeFile(place(`set/valid/labels/${labels}`), written.get(labels)!)
    }
    const list = place('set/list.txt')
    await writeFile(list, few.map(({ file }) => `${place(`set/valid/images/${file}`)}\n`).join(''))
    for (const [folder, val] of [
      // As Roboflow exports it: the path leads out of the data set.
      ['set', '../valid/images'],
      ['set/here', '../valid/images'],
      ['set/here', place('set/valid/images')],
      ['set/here', [list]],
    ] as const) {
      await writeFile(place(`${folder}/data.yaml`), JSON.stringify({ val, names: ['cat', 'dog'] }))
      expect(await calibrate([place(folder), '--json'])).toEqual(fromLines)
    }
    await rm(place('set/valid/labels'), { recursive: true })
    const { code, stderr } = await calibrate([place('set/here'), '--json'])
    expect(code).toBe(1)
    expect(stderr).toMatch(/data\.yaml: none of its pictures has labels; there is no file .*valid\/labels\/.*\.txt\n$/)
  })

  test('draws what it prints: precision and recall, and a dot for each range of confidence', async () => {
    twoCats()
    const list = await examples([lines, lines, lines].flat(), 'boxes.jsonl')
    const run = await calibrate([list, '--json', '-o', place('made/boxes.svg')])
    expect({ ...run, stdout: '' }).toEqual({ code: 0, stdout: '', stderr: '' })
    const titles = await titlesOf(place('made/boxes.svg'))
    for (const [when, quality] of Object.entries<{ boxes: number; thresholds: Record<string, number>[] }>(
      JSON.parse(run.stdout).boxes.plain,
    )) {
      const own = titles.filter((title) => title.startsWith(`plain, ${when}, `))
      const counts = own.flatMap((title) => / of (\d+) right$/.exec(title)?.[1] ?? [])
      expect(counts.reduce((sum, count) => sum + Number(count), 0)).toBe(quality.boxes)
      const marks = quality.thresholds.filter(({ precision }) => precision !== null)
      expect(own.filter((title) => title.includes('recall'))).toEqual(
        marks.map(
          ({ confidence, precision, recall }) =>
            `plain, ${when}, confidence ${confidence}: precision ${precision!.toFixed(3)}, recall ${recall!.toFixed(3)}`,
        ),
      )
    }

    expect((await calibrate([await examples(lines.slice(0, 3)), '-o', place('boxes.png')])).code).toBe(0)
    expect(await sharp(place('boxes.png')).metadata()).toMatchObject({ format: 'png', hasAlpha: false })
  })

  test('a table, a warning of few errors, and the card', async () => {
    twoCats()
    const run = await calibrate([await examples(lines.slice(0, 4), 'few.jsonl')])
    expect(run.code).toBe(0)
    expect(run.stdout).toMatch(
      /^EVIDENCE +BOXES +RIGHT +AP +AP50 +ECE +BRIER\nplain +8 +0\.500 .*\n {2}after +8 +0\.500 /,
    )
    expect(run.stdout).toMatch(/\nCONFIDENCE +PRECISION, plain +RECALL\n0\.3 /)
    expect(run.stdout).toMatch(/\n {2}"detection": \{"confidence":\{"bias":.*\}\n$/)
    expect(run.stderr).toMatch(/^lookout: 4 wrong boxes are too few to learn from/)
  })

  test('errors name the file, the line and the field', async () => {
    const good = line(0)
    const [box] = good.boxes
    for (const [bad, problem] of [
      [{ ...good, boxes: [{ ...box, mention: 'cow' }] }, "'boxes[0].mention': 'cow' is not one of the categories"],
      [{ ...good, boxes: [{ ...box, box: [5, 5, 1, 9] }] }, "'boxes[0].box': expected [left, top, right, bottom]"],
      [{ ...good, categories: [] }, "'categories'"],
      [{ file: '0.png', instructions: 'Is it?', answer: true }, "'categories'"],
    ] as const) {
      const list = await examples([good, bad], 'bad.jsonl')
      const run = await calibrate([list])
      expect(run.code).toBe(1)
      expect(run.stderr).toContain(`${list}:2: `)
      expect(run.stderr).toContain(problem)
    }
    await writeFile(place('bad.json'), '{"images": []}')
    expect((await calibrate(['--coco', place('bad.json')])).stderr).toContain(`${place('bad.json')}: 'images'`)
    await writeFile(place('bad.json'), '{"images":\n[1 2]}')
    const { stderr } = await calibrate(['--coco', place('bad.json')])
    expect(stderr).toMatch(/bad\.json is not JSON: [^\n]*\(line 2 column 4\)\n$/)
  })
})
