import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Scene } from '../src/grounding/dialect.ts'
import { DIALECTS, type DialectName } from '../src/grounding/dialects/dialects.ts'
import { formatPiece } from '../src/grounding/markup-writer.ts'
import type { Constraint } from '../src/inference/contract/constraint.ts'
import type { Engine } from '../src/inference/contract/engine.ts'
import { branch, CARD, chat, run } from './support/local-engine.ts'
import { errorOf, jsonOf, startTestServer, type TestServer } from './support/server.ts'
import { startShippedEngine } from './support/shipped-model.ts'

const NAMES = Object.keys(DIALECTS) as DialectName[]
const servers = new Map<DialectName, TestServer>()
let directory: string
let url: string

/** A server whose model uses the dialect of this family. */
async function speaking(dialect: DialectName): Promise<TestServer> {
  const known = servers.get(dialect)
  if (known) return known
  const { detection: _fit, ...card } = JSON.parse(await readFile(CARD, 'utf8'))
  const outputFormats = ['text', ...DIALECTS[dialect].formats]
  const [first, second] = card.serves
  const file = join(directory, `${dialect}.json`)
  const serves = [
    { ...first, outputFormats },
    { ...second, outputFormats },
  ]
  await writeFile(file, JSON.stringify({ ...card, serves, dialect }))
  const server = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: file } })
  servers.set(dialect, server)
  return server
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-dialects-'))
  const bytes = await sharp({ create: { width: 500, height: 400, channels: 3, background: '#3366cc' } })
    .png()
    .toBuffer()
  url = `data:image/png;base64,${bytes.toString('base64')}`
})
afterAll(async () => {
  for (const server of servers.values()) await server.close()
  await rm(directory, { recursive: true })
})

const content = () => [
  { type: 'image_url', image_url: { url } },
  { type: 'text', text: 'the cat' },
]
const about = (fields: object) => ({
  model: 'service-mk1.5',
  messages: [{ role: 'user', content: content() }],
  ...fields,
})

describe('every family serves the same contract', () => {
  const POINT = '<point mention="cat"> (500,250) </point>'
  const BOX = '<point_box mention="cat"> (100,200) (500,750) </point_box>'
  const REPLIES: readonly [DialectName, 'box' | 'point', native: string, markup: string][] = [
    ['markup', 'box', BOX, BOX],
    ['qwen3-vl', 'box', '```json\n[\n\t{"bbox_2d": [100, 200, 500, 750], "label": "cat"}\n]\n```', BOX],
    ['qwen3-vl', 'point', '```json\n[\n\t{"point_2d": [500, 250], "label": "cat"}\n]\n```', POINT],
    // 500 x 400 pixels become 480 x 384 for this model.
    ['qwen2.5-vl', 'box', '{"bbox_2d": [49, 77, 240, 288], "label": "cat"}', BOX.replace('100,200', '102,201')],
    ['gemma', 'box', '```json\n[\n  {"box_2d": [200, 100, 750, 500], "label": "cat"}\n]\n```', BOX],
    ['molmo', 'point', '<point x="50" y="25.0" alt="cat">cat</point>', POINT],
    ['internvl', 'box', '<ref>cat</ref><box>[[100, 200, 500, 750]]</box>', BOX],
    ['minicpm-v', 'box', '<ref>cat</ref><box>100 200 500 750</box>', BOX],
    ['glm4v', 'box', '```json\n[\n  {"bbox_2d": [100, 200, 500, 750], "label": "cat"}\n]\n```', BOX],
    ['lfm2.5-vl', 'box', '[{"label": "cat", "bbox": [0.1, 0.2, 0.5, 0.75]}]', BOX],
    ['molmo2', 'point', '<points coords="1 1 500 250">cat</points>', POINT],
    [
      'deepseek-ocr',
      'box',
      '<|ref|>cat<|/ref|><|det|>[[100, 200, 500, 749]]<|/det|>',
      BOX.replace('500,750', '501,750'),
    ],
    // 500 x 400 pixels become 480 x 384 for this model.
    ['dots-ocr', 'box', '[{"bbox": [49, 77, 240, 288], "category": "cat"}]', BOX.replace('100,200', '102,201')],
    ['lighton-ocr', 'box', '![cat](image_1.png)100,200,500,750', BOX],
    ['mistral-large-4', 'box', '[{"box_2d": [100, 200, 500, 749], "label": "cat"}]', BOX.replace('500,750', '501,750')],
    ['paligemma', 'box', '<loc0205><loc0102><loc0768><loc0512> cat', BOX],
  ]

  test.each(REPLIES)('%s, %s', async (dialect, format, native, markup) => {
    const server = await speaking(dialect)
    server.engine.script = { texts: [...`It is ${native}`] }
    const body = about({ vision_config: { annotation_format: format } })
    const whole = await jsonOf<{ choices: { message: { content: string } }[] }>(
      await server.post('/v1/chat/completions', body),
    )
    expect(whole.choices[0]!.message.content).toBe(`It is ${markup}`)

    const stream = await (await server.post('/v1/chat/completions', { ...body, stream: true })).text()
    const chunks = [...stream.matchAll(/^data: (\{.*\})$/gm)].map((match) => JSON.parse(match[1]!))
    const texts = chunks.map((chunk) => chunk.choices[0].delta.content ?? '')
    expect(texts.join('')).toBe(`It is ${markup}`)
    // An annotation is one event.
    expect(texts).toContain(markup)

    const work = server.engine.works.at(-1)!
    expect(work.branches[0]!.constraint).toMatchObject({ type: 'triggered_tags' })
    const instruction = DIALECTS[dialect].instruction(format)
    if (instruction !== null)
      expect(work.prefix[0]).toMatchObject({ trusted: true, text: expect.stringContaining(instruction) })
  })

  test.each(REPLIES)('%s, a %s that breaks off with many blanks is prose at once', async (dialect, format, native) => {
    const server = await speaking(dialect)
    const broken = Array.from(native, (_, end) => `${native.slice(0, end)}${' '.repeat(40)}?`)
    server.engine.script = { texts: broken }
    const reply = await jsonOf<{ choices: { message: { content: string } }[] }>(
      await server.post('/v1/chat/completions', about({ vision_config: { annotation_format: format } })),
    )
    expect(reply.choices[0]!.message.content.split('?')).toHaveLength(broken.length + 1)
  })

  /** The texts that a model is shown, apart for each picture that it is asked about. */
  const textsShown = async (server: TestServer, earlier: readonly object[], format: string | null) => {
    server.engine.script = { texts: ['It is here.'] }
    const messages = [...about({}).messages, ...earlier, { role: 'user', content: 'More' }]
    const asked = format === null ? {} : { vision_config: { annotation_format: format } }
    await jsonOf(await server.post('/v1/chat/completions', about({ ...asked, messages })))
    const { prefix, branches } = server.engine.works.at(-1)!
    return branches.map(({ suffix }) =>
      [...prefix, ...suffix].map((part) => (part.type === 'text' ? part.text : '')).join(''),
    )
  }

  test.each(REPLIES)('%s, an earlier reply with a %s', async (dialect, format, _, markup) => {
    const server = await speaking(dialect)
    const earlier = [{ role: 'assistant', content: `See ${markup}` }]
    const [asked] = await textsShown(server, earlier, format)
    const [reply] = /See .*?(?=<\|im_end\|>)/s.exec(asked!)!
    const reader = DIALECTS[dialect].reader({ assets: 1, timed: false, image: { width: 480, height: 384 } })
    expect([...reader.push(reply), ...reader.end(false)].map(formatPiece).join('')).toBe(`See ${markup}`)
    expect((await textsShown(server, earlier, null))[0]).toContain(`See ${markup}<`)
  })

  test.each<[what: string, earlier: string, told: string]>([
    [
      'a collection',
      'Two: <collection mention="cat"> <point_box> (0,0) (100,200) </point_box>\n<track mention="dog"> <point_box t="1.0 seconds"> (0,0) (500,1000) </point_box> </track> </collection>.',
      'Two: ```json\n[\n\t{"bbox_2d": [0, 0, 48, 77], "label": "cat"},\n\t{"bbox_2d": [0, 0, 240, 384], "label": "dog"}\n]\n```.',
    ],
    [
      'points in a text',
      '<point> (0,0) </point> to <point> (1000,0) </point> ',
      '```json\n[\n\t{"point_2d": [0, 0], "label": ""}\n]\n``` to ```json\n[\n\t{"point_2d": [480, 0], "label": ""}\n]\n``` ',
    ],
    ['a polygon in a text', 'It is <polygon> (0,0) (1,0) (1,1) </polygon> here.', 'It is  here.'],
    ['a clip', '<clip t="1 seconds" />', '```json\n[]\n```'],
    ['a text', ' a < b ', ' a < b '],
  ])('an earlier reply of %s', async (_, content, told) => {
    const earlier = [{ role: 'assistant', content: [{ type: 'text', text: content }] }]
    const [shown] = await textsShown(await speaking('qwen2.5-vl'), earlier, 'box')
    expect(shown).toContain(`assistant\n${told}<|im_end|>`)
  })

  test('pixels in earlier replies are those of the picture that they are about', async () => {
    const flat = await sharp({ create: { width: 128, height: 96, channels: 3, background: 'red' } })
      .png()
      .toBuffer()
    const image = { type: 'image_url', image_url: { url: `data:image/png;base64,${flat.toString('base64')}` } }
    const corner = (index = '') => `<point${index}> (1000,1000) </point>`
    const earlier = [
      { role: 'assistant', content: corner() },
      { role: 'user', content: [image, { type: 'text', text: 'And here?' }] },
      { role: 'assistant', content: `${corner()} ${corner(' asset_idx="0"')}` },
    ]
    const shown = await textsShown(await speaking('qwen2.5-vl'), earlier, 'point')
    const corners = shown.map((text) => [...text.matchAll(/"point_2d": \[(\d+, \d+)\]/g)].map(([, at]) => at))
    // The other picture becomes 480 x 352 pixels.
    expect(corners).toEqual([['480, 384', '480, 384'], ['480, 352']])
  })

  test.each(REPLIES)('%s, detect %s', async (dialect, output, native, markup) => {
    const server = await speaking(dialect)
    server.engine.script = { texts: [...native] }
    const body = { media: { type: 'image', image_url: url }, categories: ['cat', 'dog'], config: { output } }
    const response = await server.post('/v1/detect', body)
    expect(response.status).toBe(200)
    // Corners in a picture of 500 x 400 pixels.
    const corners = [markup.includes('(102') ? 51 : 50, 80, markup.includes('(501') ? 251 : 250, 300]
    const place =
      output === 'point'
        ? '"point":{"x":250,"y":100}'
        : `"point_box":{"top_left":{"x":${corners[0]},"y":${corners[1]}},"bottom_right":{"x":${corners[2]},"y":${corners[3]}}}`
    // Byte for byte: what a request does not ask for does not show.
    expect(await response.text()).toBe(`{"detections":[{"mention":"cat",${place}}],"finish_reason":"complete"}`)
    expect(server.engine.works.at(-1)!.branches[0]).not.toHaveProperty('topLogProbs')

    // A tenth of each digit's mass goes elsewhere.
    const alternatives = (text: string) => (/\d/.test(text) ? [{ text: 'x', mass: 0.1 }] : [])
    server.engine.script = { texts: [...native], alternatives }
    const config = { output, confidence: true, evidence: true }
    const rated = await jsonOf<{ detections: { confidence: number; evidence: object }[]; categories: object[] }>(
      await server.post('/v1/detect', { ...body, categories: ['cat'], config }),
    )
    expect(rated.detections).toHaveLength(1)
    const { confidence, evidence } = rated.detections[0]!
    expect(evidence).toMatchObject({
      begin: 1,
      near: confidence,
      mean: expect.closeTo(0.9, 6),
      rank: 1,
      list_length: 1,
    })
    expect(confidence).toBeGreaterThan(0.9 ** 5)
    expect(confidence).toBeLessThan(1)
    expect(rated.categories).toEqual([{ mention: 'cat', complete: 1, evidence: { more: 0 } }])
  })

  test.each<[DialectName, native: string]>([
    ['internvl', '<ref>a b</ref><box>[[100, 200, 500, 750]]</box>\n<ref>mug; x</ref><box>[[100, 200, 500, 750]]</box>'],
    ['minicpm-v', '<ref>a b</ref><box>100 200 500 750</box>\n<ref>mug; x</ref><box>100 200 500 750</box>'],
    ['lighton-ocr', '![a <b>](image_1.png)100,200,500,750\n![mug; x](image_2.png)100,200,500,750'],
    ['paligemma', '<loc0205><loc0102><loc0768><loc0512> a b> ; <loc0205><loc0102><loc0768><loc0512> mug x'],
  ])('%s, detect what its notation cannot write', async (dialect, native) => {
    const server = await speaking(dialect)
    const categories = ['a <b>', ' mug; x\n']
    // All of it in the answer about each: an engine that follows the constraint would write one.
    server.engine.script = { texts: [...native] }
    const { detections } = await jsonOf<{ detections: { mention: string }[] }>(
      await server.post('/v1/detect', { media: { type: 'image', image_url: url }, categories }),
    )
    expect(detections.map(({ mention }) => mention)).toEqual(categories)
    for (const { constraint } of server.engine.works.at(-1)!.branches)
      expect(constraint).toMatchObject({ type: 'regex', pattern: expect.not.stringContaining('a <b>\\(') })
  })

  test('a family without boxes rejects them by name', async () => {
    const server = await speaking('molmo')
    const chat = await server.post('/v1/chat/completions', about({ vision_config: { annotation_format: 'box' } }))
    expect(await errorOf(chat)).toMatchObject({ param: 'vision_config.annotation_format' })
    expect(chat.status).toBe(400)
    const detect = await server.post('/v1/detect', { media: { type: 'image', image_url: url }, categories: ['a'] })
    expect(await errorOf(detect)).toMatchObject({ param: 'config.output' })
    expect(detect.status).toBe(400)
  })

  test('a card must not list formats that its dialect does not support', async () => {
    const card = JSON.parse(await readFile(CARD, 'utf8'))
    const file = join(directory, 'broken.json')
    await writeFile(file, JSON.stringify({ ...card, dialect: 'paligemma' }))
    await expect(startTestServer({ environment: { LOOKOUT_MODEL_CARD: file } })).rejects.toThrow(/'point'.*paligemma/)
  })
})

describe('the engine accepts the constraints of every dialect', () => {
  let engine: Engine
  beforeAll(async () => {
    engine = await startShippedEngine()
  })
  afterAll(() => engine?.close())

  const scene: Scene = { assets: 3, timed: true, image: { width: 1288, height: 728 } }
  const generate = async (constraint: Constraint) => {
    const { texts } = await run(engine, chat, branch({ constraint, maxTokens: 12 }))
    return texts['0.0']
  }

  test.each(NAMES)('%s', async (name) => {
    const { formats, tags, detection } = DIALECTS[name]
    for (const format of formats) {
      const { triggers, tags: rules } = tags(format, scene)
      await generate({
        type: 'triggered_tags',
        triggers,
        tags: rules.map(({ begin, pattern, end }) => ({ begin, content: { type: 'regex', pattern }, end })),
        atLeastOne: true,
      })
    }
    for (const kind of ['box', 'point'] as const) {
      if (!formats.includes(kind)) continue
      const names = ['red circle', 'a "b" & <c>', '猫', 'x|y.*', ...Array.from({ length: 40 }, (_, i) => `number ${i}`)]
      for (const labels of [names, null]) {
        await generate({ type: 'regex', pattern: detection.pattern(kind, labels, scene) })
      }
    }
  })
})
