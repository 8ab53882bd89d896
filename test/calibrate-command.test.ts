import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { ReadQuestion } from '../src/inference/contract/work.ts'
import { changedCard, type TemporaryCard } from './support/changed-card.ts'
import { type Outcome, outcomeOf, startLookout } from './support/command-line.ts'
import { KEY, startTestServer, type TestServer } from './support/server.ts'

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

async function picture(name: string): Promise<void> {
  await sharp({ create: { width: 64, height: 64, channels: 3, background: '#808080' } })
    .png()
    .toFile(place(name))
}

async function examples(lines: readonly (object | string)[], name = 'list.jsonl'): Promise<string> {
  await writeFile(place(name), lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n'))
  return place(name)
}

function calibrate(args: readonly string[]): Promise<Outcome> {
  return outcomeOf(startLookout(['calibrate', ...args], { LOOKOUT_URL: server.url, LOOKOUT_API_KEY: KEY }))
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
  const run = await calibrate([list, '--json'])
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
