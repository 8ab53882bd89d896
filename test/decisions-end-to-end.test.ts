import { execFile, execFileSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { choice, noul, score, TypeSafeClient } from '@typesafe-ai/sdk'
import OpenAI from 'openai'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { TestServer } from './support/server.ts'
import { startShippedServer } from './support/shipped-model.ts'

/** Decisions with the real engine, the shipped model and the official clients. What it answers is not judged. */
const MODEL = 'service-mk1.5'
/** On one machine, the numbers of a question depend on the input and the question alone. */
const SAME = 1e-6

let server: TestServer
let image: OpenAI.Decisions.DecisionInputImage
let input: OpenAI.DecisionCreateParams['input']
let client: OpenAI

beforeAll(async () => {
  const png = await readFile('docs/pictures/shapes.png')
  image = { type: 'input_image', image_url: `data:image/png;base64,${png.toString('base64')}` }
  input = [{ role: 'user', content: [image] }]
  server = await startShippedServer()
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.service.apiKey!, maxRetries: 0 })
})
afterAll(() => server?.close())

type Question = OpenAI.DecisionCreateParams['questions'][number]
type Answer = OpenAI.Decision['answers'][number]

const COLOURS = ['red', 'green', 'blue', 'yellow', 'orange', 'purple']
const SHAPES = ['circle', 'square', 'triangle', 'star', 'heart', 'a shape with five corners']

/** Different questions of all types, some with options of several tokens, one of which begins with another. */
function questionsOf(count: number): Question[] {
  return Array.from({ length: count }, (_, i): Question => {
    const shape = SHAPES[i % SHAPES.length]!
    const colour = COLOURS[Math.floor(i / SHAPES.length) % COLOURS.length]!
    const instructions = `${'Look closely. '.repeat(Math.floor(i / 36))}Is there a ${colour} ${shape}?`
    if (i % 3 === 0) return { type: 'predicate', instructions, name: `q${i}` }
    const names = i % 2 ? COLOURS : ['square', 'square with a hole', ...SHAPES.slice(2)]
    if (i % 3 === 1) {
      return { type: 'choice', instructions: `What is it? ${instructions}`, choices: names.map((value) => ({ value })) }
    }
    return { type: 'score', instructions, levels: [{ label: 'small' }, { label: 'medium' }, { label: 'very large' }] }
  })
}

async function decide(questions: Question[], about = input): Promise<Answer[]> {
  return (await client.decisions.create({ model: MODEL, input: about, questions })).answers
}

function numbersOf(answer: Answer): number[] {
  switch (answer.type) {
    case 'predicate':
      return [answer.probability]
    case 'choice':
      return [...answer.probabilities.map(({ probability }) => probability), answer.confidence]
    case 'score':
      return [...answer.probabilities.map(({ probability }) => probability), answer.confidence, answer.score]
    default:
      throw new Error(`An answer is a ${answer.type}`)
  }
}

function expectSame(found: readonly Answer[], wanted: readonly Answer[]): void {
  const differences = found.flatMap((answer, i) => {
    const others = numbersOf(wanted[i]!)
    return numbersOf(answer).map((number, k) => Math.abs(number - others[k]!))
  })
  expect(Math.max(...differences)).toBeLessThanOrEqual(SAME)
}

test('probabilities add up to 1, and belong to what was asked', async () => {
  const questions = questionsOf(36)
  const answers = await decide(questions)
  for (const [i, answer] of answers.entries()) {
    expect(answer.type).toBe(questions[i]!.type)
    const numbers = numbersOf(answer)
    for (const number of numbers.slice(0, -1)) expect(number >= 0 && number <= 1).toBe(true)
    if (answer.type === 'predicate') continue
    if (answer.type === 'refusal') throw new Error('refused')
    expect(answer.probabilities.reduce((sum, { probability }) => sum + probability, 0)).toBeCloseTo(1, 9)
    const top = Math.max(...answer.probabilities.map(({ probability }) => probability))
    expect(answer.confidence).toBeLessThanOrEqual(top)
    if (answer.type === 'choice') {
      expect(answer.probabilities.find(({ value }) => value === answer.choice)!.probability).toBe(top)
    } else {
      expect(answer.score).toBeCloseTo(
        answer.probabilities.reduce((sum, { value, probability }) => sum + value * probability, 0),
        9,
      )
    }
  }
})

test('a question gets the same numbers alone, among 400, in any order, and beside other traffic', async () => {
  const questions = questionsOf(400)
  const all = await decide(questions)
  const isTenth = (_: unknown, i: number) => i % 10 === 0
  const backwards = (await decide(questions.filter(isTenth).reverse())).reverse()
  expectSame(backwards, all.filter(isTenth))
  const some = [0, 1, 2, 57, 200, 398, 399]
  const traffic = client.chat.completions.create({
    model: MODEL,
    messages: [{ role: 'user', content: 'What is in the image?' }],
    max_completion_tokens: 200,
  })
  for (const i of some) expectSame(await decide([questions[i]!]), [all[i]!])
  await traffic
})

test('a reply does not compute the picture of decisions again', async () => {
  const png = await readFile('docs/pictures/demo.png')
  const seen = { type: 'input_image', image_url: `data:image/png;base64,${png.toString('base64')}` } as const
  await decide(questionsOf(1), [{ role: 'user', content: [seen] }])
  const { usage } = await client.responses.create({
    model: MODEL,
    input: [{ role: 'user', content: [{ ...seen, detail: 'auto' }] }],
    max_output_tokens: 16,
  })
  expect(usage!.input_tokens_details.cached_tokens).toBeGreaterThan(100)
})

test('a choice of 255 options', async () => {
  const choices = Array.from({ length: 255 }, (_, i) => ({ value: `${COLOURS[i % 6]} thing number ${i}` }))
  const [answer] = await decide([{ type: 'choice', instructions: 'Which?', choices }])
  expect(answer).toMatchObject({ type: 'choice' })
  expect(numbersOf(answer!)).toHaveLength(256)
})

test('a text, a picture in the question, and our own types', async () => {
  const response = await server.post('/v1/decisions', {
    model: MODEL,
    input,
    questions: [
      { type: 'predicate', instructions: [{ type: 'input_text', text: 'Is it this?' }, image] },
      { type: 'x_count', instructions: 'How many shapes are there?', max: 30, name: 'count' },
      { type: 'x_box', instructions: 'heart' },
      { type: 'x_point', instructions: 'star' },
    ],
  })
  const { answers, usage } = (await response.json()) as {
    answers: Record<string, unknown>[]
    usage: OpenAI.Decision.Usage
  }
  expect(answers).toMatchObject([
    { type: 'predicate' },
    { type: 'x_count', name: 'count' },
    { type: 'x_box' },
    { type: 'x_point' },
  ])
  expect(answers[1]!.probabilities).toHaveLength(31)
  expect(usage.output_tokens).toBeGreaterThan(0)
  expect(usage.total_tokens).toBe(usage.input_tokens + usage.output_tokens)
  expect(await decide(questionsOf(3), 'A red circle.')).toHaveLength(3)
})

test('TypeSafe’s client', async () => {
  const typeSafe = new TypeSafeClient({
    baseURL: `${server.url}/typesafe`,
    apiKey: server.service.apiKey!,
    defaultModel: MODEL,
  })
  expect((await typeSafe.models.list()).map(({ name }) => name)).toContain(MODEL)
  const { answers, usage } = await typeSafe.systemOne({
    state: ['A red circle.', { and: 'a blue star' }],
    questions: {
      red: noul('Is there a red circle?'),
      colour: choice('What colour is the star?', { red: null, blue: 'like the sky' }),
      size: score('How large is it?', ['small', 'large']),
    },
  })
  expect(answers.red.noul).toBeGreaterThan(0)
  expect(answers.colour.probabilities.red + answers.colour.probabilities.blue).toBeCloseTo(1, 9)
  expect(answers.size.score).toBeCloseTo(answers.size.probabilities[1], 9)
  expect(usage.input_tokens).toBeGreaterThan(0)
})

/** A Python with `openai` 3 and `typesafe-sdk`. */
const PYTHON = process.env.LOOKOUT_TEST_OPENAI_PYTHON ?? 'python3'

function hasPythonClients(): boolean {
  try {
    execFileSync(PYTHON, ['-c', 'import typesafe_sdk, openai; openai.OpenAI(api_key="k").decisions'], {
      stdio: 'ignore',
    })
    return true
  } catch {
    console.warn(
      'SKIPPED: openai 3 and typesafe-sdk are not installed for Python (LOOKOUT_TEST_OPENAI_PYTHON=/path/to/python)',
    )
    return false
  }
}

test.runIf(hasPythonClients())('the clients in Python', async () => {
  const script = fileURLToPath(new URL('support/decisions.py', import.meta.url))
  const { stdout } = await promisify(execFile)(PYTHON, [script, server.url, server.service.apiKey!, MODEL])
  const seen = JSON.parse(stdout)
  expect(seen).toMatchObject({
    types: ['predicate', 'choice', 'score'],
    error: 'questions',
    models: expect.arrayContaining([MODEL]),
    box: expect.any(Number),
    where: expect.stringContaining('questions.tone.criteria'),
  })
  expect(seen.total).toBeCloseTo(1, 9)
  expect(seen.noul).toBeGreaterThan(0)
  if (seen.langchain === null) console.warn('SKIPPED: langchain-openai is not installed for Python')
  else expect(seen.langchain).toEqual([expect.any(Number), expect.stringMatching(/^(red|blue)$/)])
  expect(seen.request_id).toMatch(/^[0-9a-f]{32}$/)
})
