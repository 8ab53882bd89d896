/** What differs between the two engines, with the same weights and requests: the figures of docs/cluster.md. */
import { readFile } from 'node:fs/promises'
import sharp from 'sharp'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parseMarkup } from '../../src/grounding/markup-parser.ts'
import { LocalEngine } from '../../src/inference/local/host/local-engine.ts'
import { type Completion, replyOf } from '../support/chat.ts'
import { startTestServer, type TestServer } from '../support/server.ts'
import { startShippedServer } from '../support/shipped-model.ts'

/** The share of replies, or boxes, that must be the same. */
const LEAST_SHARE = 0.9
/** The text that a schema prescribes may be written in other tokens, and what follows depends on them. */
const LEAST_SHARE_BOUND = 0.7
/** How far a box may be from the same one, in thousandths of a side of its picture. */
const NEAR = 10
const COLOURS = ['red', 'blue', 'green', 'orange', 'purple', 'yellow']
const QUESTIONS = [
  'What is in this image?',
  'Describe the image.',
  'What colour is the star?',
  'How many squares are there?',
  'Is there a red circle?',
  'What is left of the heart?',
]

let local: TestServer
let remote: TestServer
let pictures: readonly string[]
beforeAll(async () => {
  local = await startTestServer({ startEngine: (card) => LocalEngine.start(card) })
  remote = await startShippedServer()
  pictures = await drawPictures()
})
afterAll(async () => {
  await local?.close()
  await remote?.close()
})

/** The same shapes at other places, in other colours and sizes. */
async function drawPictures(): Promise<string[]> {
  const shapes = sharp(await readFile('docs/pictures/shapes.png')).removeAlpha()
  const drawn = [
    shapes.clone(),
    shapes.clone().flop(),
    shapes.clone().rotate(180),
    shapes.clone().rotate(90),
    shapes.clone().modulate({ hue: 90 }),
    shapes.clone().resize(900, 300, { fit: 'fill' }),
    shapes.clone().extract({ left: 0, top: 0, width: 340, height: 384 }),
  ]
  const pngs = await Promise.all(drawn.map((one) => one.png().toBuffer()))
  return pngs.map((png) => `data:image/png;base64,${png.toString('base64')}`)
}

const about = (url: string, text: string) => [
  {
    role: 'user',
    content: [
      { type: 'image_url', image_url: { url } },
      { type: 'text', text },
    ],
  },
]

interface Pair {
  readonly here: Completion
  readonly there: Completion
}

/** The greedy replies of both engines to each request. */
async function askBoth(requests: readonly object[]): Promise<Pair[]> {
  const ask = async (server: TestServer, fields: object) => {
    const body = { model: 'service-mk1.5', temperature: 0, max_completion_tokens: 300, ...fields }
    return replyOf(await server.post('/v1/chat/completions', body))
  }
  const pairs: Pair[] = []
  for (const fields of requests) pairs.push({ here: await ask(local, fields), there: await ask(remote, fields) })
  return pairs
}

function sum(pairs: readonly Pair[], engine: keyof Pair, count: 'prompt_tokens' | 'completion_tokens'): number {
  return pairs.reduce((total, pair) => total + pair[engine].usage![count], 0)
}

const textOf = ({ choices }: Completion) => choices[0]!.message.content ?? ''

/** Everything that a reply says, without the ids of calls. */
function saidBy({ choices }: Completion): string {
  const { content, reasoning_content: thought, tool_calls: calls } = choices[0]!.message
  return JSON.stringify([content, thought, calls?.map(({ function: called }) => called), choices[0]!.finish_reason])
}

const schema = { type: 'object', properties: { squares: { type: 'integer' } }, required: ['squares'] }
const lamp = {
  name: 'set_lamp',
  description: 'Set the colour of the lamp.',
  parameters: { type: 'object', properties: { color: { type: 'string' } }, required: ['color'] },
}

test.each<[string, number, () => object[]]>([
  ['pictures', LEAST_SHARE, () => pictures.flatMap((url) => QUESTIONS.map((text) => ({ messages: about(url, text) })))],
  [
    'texts',
    LEAST_SHARE,
    () => COLOURS.map((colour) => ({ messages: [{ role: 'user', content: `What is ${colour}?` }] })),
  ],
  [
    'schemas',
    LEAST_SHARE_BOUND,
    () =>
      pictures.map((url) => ({
        messages: about(url, 'How many squares are there?'),
        response_format: { type: 'json_schema', json_schema: { name: 'answer', schema } },
      })),
  ],
  [
    'calls',
    LEAST_SHARE,
    () =>
      COLOURS.map((colour) => ({
        messages: [{ role: 'user', content: `Set the lamp to ${colour}.` }],
        tools: [{ type: 'function', function: lamp }],
      })),
  ],
  [
    'thoughts',
    LEAST_SHARE,
    () =>
      pictures.map((url) => ({
        messages: about(url, 'How many squares are there?'),
        reasoning_effort: 'low' as const,
      })),
  ],
])('replies are the same, but for a few: %s', async (name, least, requests) => {
  const pairs = await askBoth(requests())
  const same = pairs.filter(({ here, there }) => saidBy(here) === saidBy(there)).length
  const counted = (count: 'prompt_tokens' | 'completion_tokens') =>
    `${sum(pairs, 'there', count)} instead of ${sum(pairs, 'here', count)}`
  console.info(
    `${name}: ${same} of ${pairs.length} replies are the same; prompt tokens ${counted('prompt_tokens')}, completion tokens ${counted('completion_tokens')}`,
  )
  expect(same / pairs.length).toBeGreaterThanOrEqual(least)
})

test('boxes are of the same objects, at the same places', async () => {
  const vision_config = { annotation_format: 'box' }
  const pairs = await askBoth(pictures.map((url) => ({ messages: about(url, 'Detect all objects.'), vision_config })))
  const distances = pairs.flatMap(({ here, there }) => {
    const found = boxesIn(there)
    return boxesIn(here).map((box) => Math.min(...found.map((other) => distance(box, other))))
  })
  const near = distances.filter((far) => far <= NEAR)
  console.info(
    `boxes: ${near.length} of ${distances.length} are the same, within ${Math.max(...near)} thousandths of a side`,
  )
  expect(distances.length).toBeGreaterThan(25)
  expect(near.length / distances.length).toBeGreaterThanOrEqual(LEAST_SHARE)
})

interface Box {
  readonly mention?: string | undefined
  readonly points: readonly { readonly x: number; readonly y: number }[]
}

function boxesIn(reply: Completion): Box[] {
  return parseMarkup(textOf(reply)).flatMap((item) => (item.kind === 'point_box' ? [item] : []))
}

/** Between the farthest corners; infinite for different objects. */
function distance(one: Box, other: Box): number {
  if (one.mention !== other.mention) return Number.POSITIVE_INFINITY
  return Math.max(
    ...one.points.flatMap(({ x, y }, index) => [
      Math.abs(x - other.points[index]!.x),
      Math.abs(y - other.points[index]!.y),
    ]),
  )
}

test('a video has about twice the tokens', async () => {
  const frames = Array.from({ length: 8 }, (_, i) => ({ image_url: { url: pictures[0]! }, timestamp_ms: i * 500 }))
  const content = [
    { type: 'video_frames', video_frames: { frames } },
    { type: 'text', text: 'What happens?' },
  ]
  const pairs = await askBoth([{ messages: [{ role: 'user', content }] }])
  const [here, there] = [sum(pairs, 'here', 'prompt_tokens'), sum(pairs, 'there', 'prompt_tokens')]
  console.info(`a video of ${frames.length} frames: ${there} prompt tokens instead of ${here}`)
  expect(there / here).toBeGreaterThan(1.5)
  expect(there / here).toBeLessThan(2.2)
})
