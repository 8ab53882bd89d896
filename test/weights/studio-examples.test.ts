import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { loadCard } from '../../src/models/card.ts'
import { EXAMPLE_QUESTIONS as DECISIONS } from '../../studio/src/decisions/example-questions.ts'
import { toBody } from '../../studio/src/decisions/questions.ts'
import { SAMPLES } from '../../studio/src/media/sample-list.ts'
import { EXAMPLE_QUESTIONS as QUESTIONS } from '../../studio/src/multilook/example-questions.ts'
import { STRUCTURE_EXAMPLES } from '../../studio/src/structure/structure-examples.ts'
import { jsonOf, type TestServer } from '../support/server.ts'
import { shippedCard, startShippedServer } from '../support/shipped-model.ts'

/** What the Studio offers to try comes out right: a wrong answer would be the first that people see. */

/** What docs/pictures/shapes.png shows: left, top, right and bottom in thousandths of its sides. */
const SHAPES = {
  'red circle': [[86, 104, 289, 375]],
  'blue star': [[375, 89, 625, 406]],
  'green triangle': [[699, 156, 926, 417]],
  'orange square': [
    [125, 615, 297, 844],
    [434, 656, 563, 828],
  ],
  'purple heart': [[691, 604, 902, 859]],
} as const
/** How far the edge of a box may be off. */
const NEAR = 20

const STRUCTURED: Readonly<Record<string, unknown>> = {
  'A list': {
    objects: ['blue star', 'green triangle', 'orange square', 'orange square', 'purple heart', 'red circle'],
  },
  'A sentence': {
    description: 'A red circle, an orange square, a blue star, an orange square, a green triangle and a purple heart.',
  },
  'A colour': { colour: 'purple' },
  'A place': { place: 'top center' },
  'A count': { count: 2 },
  'True or false': { answer: true },
  'A number': '2',
  'A colour and a shape': 'red circle',
}

type Boxes = Readonly<Record<string, readonly (readonly number[])[]>>

/** Texts; or boxes by their mentions, which a point is within. */
const ANSWERS: Readonly<Record<string, string | Boxes>> = {
  'What is in this image?':
    'A red circle, an orange square, a blue star, an orange square, a green triangle and a purple heart.',
  'Detect all objects.': SHAPES,
  'Find all squares.': { square: SHAPES['orange square'] },
  'Point to the purple heart.': { 'purple heart': SHAPES['purple heart'] },
  'Where is the blue star?': 'Top center.',
  'What colour is the triangle?': 'Green.',
  'How many squares are there?': '2',
  'How many hearts are there?': '1',
  'Is there a red circle?': 'Yes.',
  'Is there a yellow ring?': 'No.',
  'What is the leftmost object?': 'A red circle.',
  'What is the rightmost object?': 'A green triangle.',
  'What is in the top left corner?': 'A red circle.',
  'What is in the bottom right corner?': 'A purple heart.',
  'Where is the purple heart?': 'Bottom right.',
  'Detect: red circle, heart': { 'red circle': SHAPES['red circle'], heart: SHAPES['purple heart'] },
}

const DECIDED: readonly object[] = [
  { probability: expect.closeTo(1, 1) },
  { probability: expect.closeTo(0, 1) },
  { choice: 'purple' },
  { choice: 'red circle' },
  // The largest of the six.
  { score: expect.closeTo(2, 0) },
  { count: 2 },
  { box: edgesOf(SHAPES['red circle'][0]) },
  { box: edgesOf(SHAPES['blue star'][0]) },
]

const SAMPLE_ANSWERS: Readonly<Record<string, Readonly<Record<string, string | Boxes>>>> = {
  'shapes.png': ANSWERS,
  // scripts/samples.ts says what is when in it.
  'shapes.webm': {
    'When does the red circle appear?': '<clip mention="red circle" t="2 seconds 4.5 seconds" />',
    'What happens?': 'A blue star that moves to the right, a red circle and a green square.',
    'Which way does the blue star move?': 'To the right.',
    'What is said?': 'Red circle.',
  },
  'words.mp3': {
    'What is said?': 'Three black sheep.',
    'What is the last word?': 'Sheep.',
    'How many words are said?': '3',
  },
}

interface Reply {
  readonly message: { readonly content: string }
}

let server: TestServer
let picture: object
beforeAll(async () => {
  server = await startShippedServer()
  picture = await partOf('shapes.png')
})
afterAll(() => server?.close())

async function ask(part: object, text: string, fields: object): Promise<string> {
  const messages = [{ role: 'user', content: [part, { type: 'text', text }] }]
  const response = await server.post('/v1/chat/completions', { model: 'service-mk1.5', messages, ...fields })
  return (await jsonOf<{ choices: Reply[] }>(response)).choices[0]!.message.content
}

test.each(STRUCTURE_EXAMPLES)('Structure: $title', async ({ title, kind, question, text }) => {
  const schema = () => ({
    type: 'json_schema',
    json_schema: { name: 'answer', strict: true, schema: JSON.parse(text) },
  })
  const reply = await ask(picture, question, kind === 'regex' ? { regex: text } : { response_format: schema() })
  expect(kind === 'regex' ? reply : sorted(JSON.parse(reply))).toEqual(STRUCTURED[title])
})

test('Multilook', async () => {
  const context = [{ role: 'user', content: [picture] }]
  const body = { model: 'service-mk1.5', context, prompts: QUESTIONS }
  const response = await server.post('/v1/chat/completions/multilook', body)
  const { results } = await jsonOf<{ results: { completions: Reply[] }[] }>(response)
  for (const [index, { completions }] of results.entries()) {
    const question = QUESTIONS[index]!
    expectAnswer(question, completions[0]!.message.content, ANSWERS[question])
  }
})

test('Decisions', async () => {
  const { image_url } = picture as { image_url: { url: string } }
  const input = [{ role: 'user', content: [{ type: 'input_image', image_url: image_url.url }] }]
  const body = { model: 'service-mk1.5', input, questions: DECISIONS.map(toBody) }
  const { answers } = await jsonOf<{ answers: object[] }>(await server.post('/v1/decisions', body))
  expect(answers).toMatchObject(DECIDED)
})

/** Servers of vLLM do not hear. */
const HEARS = (await loadCard(shippedCard())).audio !== undefined
const SAMPLE_QUESTIONS = SAMPLES.flatMap(({ name, questions }) => questions.map((one) => ({ name, ...one }))).filter(
  ({ name, sound }) => HEARS || !(sound || name === 'words.mp3'),
)

test.each(SAMPLE_QUESTIONS)('Ask: $name, $question', async ({ name, question, format, sound }) => {
  const vision = {
    ...(format === undefined ? {} : { annotation_format: format }),
    ...(sound === undefined ? {} : { enable_audio_in_video: true }),
  }
  const reply = await ask(await partOf(name), question, { vision_config: vision })
  expectAnswer(question, reply, SAMPLE_ANSWERS[name]![question])
})

async function partOf(name: string): Promise<object> {
  const data = await readFile(`docs/pictures/${name}`, 'base64')
  if (name.endsWith('.png')) return { type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } }
  if (name.endsWith('.webm')) return { type: 'video_url', video_url: { url: `data:video/webm;base64,${data}` } }
  return { type: 'input_audio', input_audio: { data, format: 'mp3' } }
}

/** With the items of lists in an order of ours: that of the model may be another on another processor. */
function sorted(answer: Readonly<Record<string, unknown>>): object {
  const entries = Object.entries(answer)
  return Object.fromEntries(entries.map(([key, value]) => [key, Array.isArray(value) ? value.toSorted() : value]))
}

function expectAnswer(question: string, reply: string, answer: string | Boxes | undefined): void {
  if (typeof answer !== 'object') {
    expect(reply, question).toBe(answer)
    return
  }
  const annotations = [...reply.matchAll(/<(point|point_box) mention="([^"]+)"> (.+?) <\/\1>/g)]
  expect(annotations, question).toHaveLength(Object.values(answer).flat().length)
  const left = Object.entries(answer).flatMap(([mention, boxes]) => boxes.map((box) => ({ mention, box })))
  for (const [text, kind, mention, numbers] of annotations) {
    const found = numbers!.match(/\d+/g)!.map(Number)
    const index = left.findIndex(({ mention: one, box }) => one === mention && fits(kind!, found, box))
    expect(index, `${question} ${text}`).not.toBe(-1)
    left.splice(index, 1)
  }
}

function fits(kind: string, found: readonly number[], box: readonly number[]): boolean {
  if (kind === 'point_box') return box.every((edge, index) => Math.abs(edge - found[index]!) <= NEAR)
  const [x, y] = found as [number, number]
  return x > box[0]! && x < box[2]! && y > box[1]! && y < box[3]!
}

/** A box of a decision, whose edges are within 0..1; within .05 of the true ones. */
function edgesOf([left, top, right, bottom]: readonly [number, number, number, number]): object {
  const near = (thousandths: number) => expect.closeTo(thousandths / 1000, 1)
  return { left: near(left), top: near(top), right: near(right), bottom: near(bottom) }
}
