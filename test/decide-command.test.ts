import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { batch } from '../src/commands/batch.ts'
import { chat } from '../src/commands/chat.ts'
import { decide as command } from '../src/commands/decide.ts'
import type { ReadQuestion } from '../src/inference/contract/work.ts'
import { type TemporaryCard, uncalibratedCard } from './support/changed-card.ts'
import { type Outcome, outcomeHere, outcomeOf, startLookout } from './support/command-line.ts'
import { FakeEngine } from './support/fake-engine.ts'
import { KEY, startTestServer, type TestServer } from './support/server.ts'

let server: TestServer
let card: TemporaryCard
let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-decide-'))
  card = await uncalibratedCard()
  server = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: card.path } })
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

const place = (name: string) => join(directory, name)

async function picture(name: string, width = 64): Promise<string> {
  await sharp({ create: { width, height: 64, channels: 3, background: '#808080' } })
    .png()
    .toFile(place(name))
  return place(name)
}

async function questions(text: string, name = 'questions.yaml'): Promise<string> {
  await writeFile(place(name), text)
  return place(name)
}

function probable(odds: Readonly<Record<string, number>>) {
  return ({ replies }: ReadQuestion) => replies.map((reply) => Math.log(odds[reply] ?? 0))
}

const settings = ({ url } = server) => ({ LOOKOUT_URL: url, LOOKOUT_API_KEY: KEY })

const decide = (args: readonly string[]): Promise<Outcome> => outcomeHere(command, args, settings())

/** As a user does. */
const decideByProgram = (args: readonly string[], input?: string): Promise<Outcome> =>
  outcomeOf(startLookout(['decide', ...args], settings()), input)

const ALL = `
there: Is there a heart?
colour:
  instructions: Which colour?
  choices: [red, {value: blue, description: like the sky}, 7]
size: {instructions: How big?, levels: [small, large]}
hearts: {type: count, instructions: How many?, max: 3}
where: {type: box, instructions: heart}
`

test('prints a table with bars', async () => {
  server.engine.script = {
    texts: ['None.'],
    read: probable({
      'Yes.': 0.1,
      'No.': 0.3,
      'Blue.': 0.5,
      'Red.': 0.25,
      7: 0.25,
      'Small.': 0.5,
      'Large.': 0.5,
      2: 1,
    }),
  }
  const run = await decideByProgram([await picture('one.png'), await questions(ALL)])
  expect(run).toEqual({
    code: 0,
    stderr: '',
    stdout: `QUESTION  ANSWER     PROBABILITY
there     no         0.750        ███████████████
colour    blue       0.500        ██████████
          red        0.250        █████
          7          0.250        █████
size      0.50
          0 small    0.500        ██████████
          1 large    0.500        ██████████
hearts    2          1.000        ████████████████████
where     not found  0.333        ██████▋
`,
  })
  expect(server.engine.readWorks[0]!.questions[3]!.replies).toEqual(['0', '1', '2', '3'])
})

test('a question in words, a folder in the order of its answers, and CSV in a file', async () => {
  await mkdir(place('album'))
  for (const [i, name] of ['a.png', 'b.png', 'c.png'].entries()) await picture(`album/${name}`, 64 + 32 * i)
  let asked = 0
  server.engine.script = {
    read: () => [0.2, 0.6, 0.4].slice(asked, ++asked).flatMap((yes) => [Math.log(yes), Math.log(1 - yes)]),
  }
  const run = await decide([place('album'), 'Is there a heart?', '--sort', '-o', place('out.csv')])
  expect(run).toEqual({ code: 0, stdout: '', stderr: '' })
  const [head, ...rows] = (await readFile(place('out.csv'), 'utf8')).trim().split('\r\n')
  expect(head).toBe('file,question,type,answer,probability,confidence')
  expect(rows.map((row) => row.split(',').slice(0, 4))).toEqual([
    [place('album/b.png'), 'Is there a heart?', 'predicate', 'yes'],
    [place('album/c.png'), 'Is there a heart?', 'predicate', 'no'],
    [place('album/a.png'), 'Is there a heart?', 'predicate', 'no'],
  ])
})

test('JSON, questions in JSON, and text from standard input', async () => {
  const file = await questions(
    '{"questions": [{"type": "predicate", "instructions": "Is it short?", "name": "short"}]}',
    'q.json',
  )
  const run = await decideByProgram(['-', file, '--json'], 'A story.')
  expect(JSON.parse(run.stdout)).toEqual([
    {
      file: '-',
      answers: [{ type: 'predicate', name: 'short', probability: 0.5, x_label_mass: expect.closeTo(0.5, 9) }],
    },
  ])
})

test.each<[string, string, string]>([
  ['what is no YAML', 'a: [1\nb: 2', ':2:1: '],
  ['what is no question', 'a: Is it?\nb: 3', ':2:4: expected a question'],
  ['no list', 'Is it?', ': expected a list of questions'],
  ['an empty list', '[]', ' has no questions'],
  [
    'a choice that is given twice',
    '- {instructions: a, choices: [b, c]}\n- instructions: a\n  choices:\n  - d\n  - e\n  - d\n',
    ":6:5: Invalid 'questions[1].choices[2].value'",
  ],
  ['an unknown field', 'questions:\n  here: {instructions: a, choices: [b, c], colour: d}', ':2:52: '],
  ['an unknown type', 'a: {type: polygon, instructions: b}', ':1:11: '],
])('names the line of %s', async (_name, text, message) => {
  const file = await questions(text)
  const run = await decide([await picture('one.png'), file])
  expect(run).toMatchObject({ code: 1, stdout: '' })
  expect(run.stderr).toMatch(/^lookout: .*\n$/)
  expect(run.stderr).toContain(file + message)
})

test.each<[string, readonly string[], string]>([
  ['no questions', ['one.png'], 'expected questions'],
  ['two files with questions', ['one.png', 'a.yaml', 'b.yaml'], 'expected one file with questions'],
  ['questions twice', ['one.png', 'a.yaml', 'Is it?'], 'not both'],
  ['no picture', ['Is it?'], 'expected a picture'],
  ['a file that is missing', ['none.png', 'Is it?'], "there is no file 'none.png'"],
  ['questions that are missing', ['one.png', 'none.yaml'], 'none.yaml cannot be read: ENOENT'],
  ['another format', ['one.png', 'Is it?', '--format', 'xml'], '--format: expected'],
  ['a drawing', ['one.png', 'Is it?', '-o', 'out.png'], 'expected a .json or .csv file'],
])('refuses %s', async (_name, args, message) => {
  await picture('one.png')
  await questions('Is it?: Is it?', 'a.yaml')
  const places = args.map((arg) => (/^(one\.png|a\.yaml|none\.yaml)$/.test(arg) ? place(arg) : arg))
  const run = await decide(places)
  expect(run).toMatchObject({ code: 1, stdout: '' })
  expect(run.stderr).toContain(message)
})

test('when one of several pictures is broken, the others are decided on', async () => {
  await mkdir(place('mixed'))
  await picture('mixed/a.png')
  await writeFile(place('mixed/b.png'), (await readFile(await picture('one.png'))).subarray(0, 60))
  const run = await decideByProgram([place('mixed'), 'Is it?', '--json'])
  expect(run.code).toBe(1)
  expect(JSON.parse(run.stdout)).toHaveLength(1)
  expect(run.stderr).toContain('1 of 2 files')
})

test('what is too long for the model is named, and the others are decided on', async () => {
  const engine = new FakeEngine({ contextTokens: 200 })
  engine.countTokens = async (parts) =>
    parts.some((part) => part.type === 'image' && part.image.width > part.image.height) ? 500 : 10
  const other = await startTestServer({ engine })
  onTestFinished(() => other.close())
  await mkdir(place('sizes'))
  await picture('sizes/a.png')
  await picture('sizes/b.png', 128)
  await picture('sizes/c.png')
  const file = await questions('there: Is it?', 'sizes.yaml')
  const run = await outcomeHere(command, [place('sizes'), file, '--json'], settings(other))
  const named = /^lookout: \S+b\.png: The prompt is too long: .* is 200 tokens\nlookout: 1 of 3 files/
  expect(run).toMatchObject({ code: 1, stderr: expect.stringMatching(named) })
  expect(JSON.parse(run.stdout)).toHaveLength(2)
  const asked = ['--ask', 'Is it?', '-o', place('sizes.csv')]
  for (const [asking, words] of [
    [chat, [place('sizes'), 'Is it?']],
    [batch, [place('sizes'), ...asked]],
  ] as const) {
    expect(await outcomeHere(asking, words, settings(other))).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/b\.png: .* too long.*\n.*1 of 3/),
    })
  }
})
