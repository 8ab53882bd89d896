/** The same questions to both engines, with the same weights. */
import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { LocalEngine } from '../../src/inference/local/host/local-engine.ts'
import { jsonOf, startTestServer, type TestServer } from '../support/server.ts'
import { startShippedServer } from '../support/shipped-model.ts'

/** How far a probability may be from the same one. */
const NEAR = 0.02
const MODEL = 'service-mk1.5'
const COLOURS = ['red', 'blue', 'green', 'orange', 'purple', 'yellow']
const THINGS = ['circle', 'square', 'star', 'heart', 'triangle', 'ring', 'cross', 'arrow', 'moon', 'diamond']

let local: TestServer
let remote: TestServer
let picture: string
beforeAll(async () => {
  picture = `data:image/png;base64,${await readFile('docs/pictures/shapes.png', 'base64')}`
  local = await startTestServer({ startEngine: (card) => LocalEngine.start(card) })
  remote = await startShippedServer()
})
afterAll(async () => {
  await local?.close()
  await remote?.close()
})

const choice = (instructions: string, values: readonly string[]) => ({
  type: 'choice',
  instructions,
  choices: values.map((value) => ({ value })),
})
const predicate = (instructions: string) => ({ type: 'predicate', instructions })

const QUESTIONS = [
  ...COLOURS.map((colour) => predicate(`Is there a ${colour} circle?`)),
  predicate('The heart is red.'),
  choice('What colour is the star?', COLOURS),
  choice('Where is the heart?', ['top left', 'top right', 'bottom left', 'bottom right']),
  // More of them begin differently than one request to the server may ask for.
  choice('What is there?', [
    ...THINGS,
    ...COLOURS,
    'nothing',
    'a large robot',
    'seven small cars',
    'bread',
    'water',
    'ice',
  ]),
  // These cannot be told apart by name and get letters.
  choice('What is left of the heart?', ['Star', 'star', 'square']),
  {
    type: 'score',
    instructions: 'How big is the heart?',
    levels: ['small', 'medium', 'large'].map((label) => ({ label })),
  },
  { type: 'x_count', instructions: 'How many squares are there?', max: 30 },
  { ...predicate('x'), instructions: [{ type: 'input_text', text: 'Is this picture the same? ' }, image()] },
]

function image() {
  return {
    type: 'input_image',
    get image_url() {
      return picture
    },
  }
}

interface Decision {
  readonly answers: readonly Readonly<Record<string, unknown>>[]
  readonly usage: { readonly input_tokens: number; readonly input_tokens_details: { readonly cached_tokens: number } }
}

async function decide(server: TestServer): Promise<Decision> {
  const input = [{ role: 'user', content: [image()] }]
  const response = await server.post('/v1/decisions', { model: MODEL, input, questions: QUESTIONS })
  expect(response.status, await response.clone().text()).toBe(200)
  return jsonOf<Decision>(response)
}

/** All numbers of an answer, by their names. */
function numbersOf(value: unknown, name = ''): [string, number][] {
  if (typeof value === 'number') return [[name, value]]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, one]) => numbersOf(one, `${name}.${key}`))
}

function distance(here: Decision, there: Decision): number {
  const [a, b] = [numbersOf(here.answers), numbersOf(there.answers)]
  expect(a.map(([name]) => name)).toEqual(b.map(([name]) => name))
  return Math.max(...a.map(([, number], at) => Math.abs(number - b[at]![1])))
}

test('probabilities, and how likely the model is to give one of the answers, are the same', async () => {
  const [here, there] = [await decide(local), await decide(remote)]
  const far = distance(here, there)
  console.info(`${QUESTIONS.length} decisions: the numbers differ by ${far.toExponential(1)} at most`)
  expect(far).toBeLessThan(NEAR)
  expect(there.usage.input_tokens).toBe(here.usage.input_tokens)
  expect(there.usage.input_tokens_details).toEqual(here.usage.input_tokens_details)
})

test('and beside replies whose log-probabilities are asked for, which stay true', async () => {
  const here = await decide(local)
  const asked = { model: MODEL, temperature: 0, logprobs: true, top_logprobs: 3, max_completion_tokens: 40 }
  const messages = [{ role: 'user', content: 'Write about the blue robot and its arm.' }]
  const chat = async () => {
    const response = await remote.post('/v1/chat/completions', { ...asked, messages })
    const { choices } = await jsonOf<{
      choices: {
        logprobs: { content: { token: string; logprob: number; top_logprobs: { token: string; logprob: number }[] }[] }
      }[]
    }>(response)
    return choices[0]!.logprobs.content
  }
  const alone = await chat()
  let isDone = false
  const chats = (async () => {
    const all: Awaited<ReturnType<typeof chat>>[] = []
    while (!isDone) all.push(await chat())
    return all
  })()
  const there = await decide(remote)
  isDone = true
  expect(distance(here, there)).toBeLessThan(NEAR)
  for (const tokens of await chats) {
    expect(tokens.map(({ token }) => token)).toEqual(alone.map(({ token }) => token))
    for (const [at, { logprob, top_logprobs: top }] of tokens.entries()) {
      expect(Math.abs(logprob - alone[at]!.logprob)).toBeLessThan(NEAR)
      const likeliest = alone[at]!.top_logprobs.slice(0, top.length)
      expect(top.map(({ token }) => token)).toEqual(likeliest.map(({ token }) => token))
    }
  }
})
