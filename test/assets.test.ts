import fc from 'fast-check'
import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { parseMarkup } from '../src/grounding/markup-parser.ts'
import type { PromptPart } from '../src/inference/contract/parts.ts'
import type { Branch, Work } from '../src/inference/contract/work.ts'
import { changedCard } from './support/changed-card.ts'
import { chunksOf, messageOf, replyOf } from './support/chat.ts'
import type { BranchScript } from './support/fake-engine.ts'
import { errorOf, jsonOf, startTestServer, type TestServer } from './support/server.ts'
import { makeAudio, makeVideo, tone } from './support/video.ts'

const MODEL = 'service-mk1.5'
const CHAT = '/v1/chat/completions'
const COLOURS = ['red', 'green', 'blue'] as const
type Colour = (typeof COLOURS)[number]

let server: TestServer
let directory: AsyncDisposableStack
const urls: Partial<Record<Colour, string>> = {}
let film: string

beforeAll(async () => {
  directory = new AsyncDisposableStack()
  server = await startTestServer({ environment: { LOOKOUT_COMPATIBILITY: 'openai', LOOKOUT_OLLAMA: 'on' } })
  directory.defer(() => server.close())
  for (const colour of COLOURS) {
    const png = await sharp({ create: { width: 64, height: 48, channels: 3, background: colour } })
      .png()
      .toBuffer()
    urls[colour] = `data:image/png;base64,${png.toString('base64')}`
  }
  const frame = { width: 64, height: 48, data: new Uint8Array(64 * 48 * 3).fill(200) }
  const video = await makeVideo({ format: 'mp4', frames: Array.from({ length: 4 }, () => frame) })
  film = `data:video/mp4;base64,${video.toString('base64')}`
})
afterAll(() => directory?.disposeAsync())
beforeEach(() => {
  server.engine.works.length = 0
  server.engine.script = sees({ red: box('a'), green: box('b'), blue: box('c') })
})

const image = (colour: Colour) => ({ type: 'image_url', image_url: { url: urls[colour]! } })
const video = () => ({ type: 'video_url', video_url: { url: film } })
const text = (words: string) => ({ type: 'text', text: words })
const user = (...content: object[]) => ({ role: 'user', content })
const boxes = { vision_config: { annotation_format: 'box' } }
const ask = (messages: object[], fields: object = boxes) => ({ model: MODEL, messages, ...fields })
const box = (mention: string, index?: number) =>
  `<point_box mention="${mention}"${index === undefined ? '' : ` asset_idx="${index}"`}> (1,2) (3,4) </point_box>`

/** What the model is shown in a branch: the colours of images, `video` and `sound`, and texts. */
function shownIn({ prefix, branches }: Work, branch: number): string[] {
  return [...prefix, ...branches[branch]!.suffix].map(named)
}

function named(part: PromptPart): string {
  if (part.type === 'text') return part.text
  if (part.type === 'audio') return 'sound'
  if (part.type === 'frames') return 'video'
  const [red, green] = part.image.data
  return red! > 200 ? 'red' : green! > 100 ? 'green' : 'blue'
}

/** A model that says of each branch what the only medium there brings about; several media are an error of the test. */
function sees(replies: Readonly<Record<string, string | BranchScript>>) {
  return {
    texts: [],
    branch: (branch: Branch, index: number): BranchScript => {
      const shown = shownIn(server.engine.works.find(({ branches }) => branches.includes(branch))!, index)
      const key = Object.keys(replies).filter((name) => shown.includes(name))
      const reply = replies[key.join(' and ')] ?? replies[key[0] ?? ''] ?? 'nothing is shown'
      return typeof reply === 'string' ? { texts: [...reply] } : reply
    },
  }
}

async function contentOf(messages: object[], fields?: object): Promise<string> {
  const { choices } = await replyOf(await server.post(CHAT, ask(messages, fields)))
  return choices[0]!.message.content!
}

describe('a model that does not say which picture it means', () => {
  test('is asked about one after the other, and the server writes the index', async () => {
    expect(await contentOf([user(image('red'), image('green'), text('Find it.'))])).toBe(
      `${box('a', 0)}\n${box('b', 1)}`,
    )
    const [work] = server.engine.works
    expect(server.engine.works).toHaveLength(1)
    expect(work!.branches).toHaveLength(2)
    const named = [0, 1].map((branch) => shownIn(work!, branch).join('|'))
    expect(named[0]).toContain('red|[image 2]\n')
    expect(named[1]).toContain('[image 1]\n|green|Find it.')
    // The instruction is computed once.
    expect(work!.prefix.map((part) => (part.type === 'text' ? part.text : '')).join('')).toContain('<hint>BOX</hint>')
  })

  test('gets an index that it writes itself corrected', async () => {
    server.engine.script = sees({ red: box('a', 1), green: box('b', 7) })
    expect(await contentOf([user(image('red'), image('green'))])).toBe(`${box('a', 0)}\n${box('b', 1)}`)
  })

  test('finds nothing in one of them: that is not said; in none: it is said once', async () => {
    server.engine.script = sees({ red: 'None.', green: box('b'), blue: 'None.' })
    const three = user(image('red'), image('green'), image('blue'))
    expect(await contentOf([three])).toBe(box('b', 1))
    server.engine.script = sees({ red: 'None.', green: 'None.', blue: 'None.' })
    expect(await contentOf([three])).toBe('None.')
    server.engine.script = sees({ red: 'A lamp.', green: 'None of it.', blue: 'None.' })
    expect(await contentOf([three])).toBe('A lamp.\nNone of it.')
  })

  test('does not say that there is nothing where it was cut before it had looked at all', async () => {
    server.engine.script = sees({ red: 'None.', green: box('b') })
    const pictures = [user(image('red'), image('green'))]
    // The tokens of the first reply, and some of the second.
    for (const [max_completion_tokens, focus] of [
      [5, false],
      [5, true],
      [12, false],
    ] as const) {
      const vision_config = { annotation_format: 'box', internal_tools: { focus } }
      const reply = await replyOf(await server.post(CHAT, ask(pictures, { vision_config, max_completion_tokens })))
      expect(reply.choices).toMatchObject([{ message: { content: '' }, finish_reason: 'length' }])
    }
    server.engine.script = sees({ red: 'None.', green: 'None.' })
    expect(await contentOf(pictures, { ...boxes, max_completion_tokens: 9 })).toBe('')
  })

  test('is asked about pictures of earlier turns and of tool results', async () => {
    const calls = [{ id: 'x', type: 'function', function: { name: 'camera', arguments: '{}' } }]
    const messages = [
      user(image('red'), text('Look.')),
      { role: 'assistant', content: null, tool_calls: calls },
      { role: 'tool', tool_call_id: 'x', content: [image('green')] },
      user(image('blue'), text('Find it.')),
    ]
    expect(await contentOf(messages)).toBe([box('a', 0), box('b', 1), box('c', 2)].join('\n'))
  })

  test('is shown of its earlier replies what is about the picture that it is shown', async () => {
    const messages = [
      user(image('red'), image('green'), text('Find cups.')),
      { role: 'assistant', content: `${box('cup', 0)}\n${box('mug', 1)}` },
      user(image('blue'), text('And here?')),
      { role: 'assistant', content: [text(`Here: ${box('jug')}`)] },
      user(text('Find all.')),
    ]
    await contentOf(messages)
    const work = server.engine.works[0]!
    const [red, green, blue] = [0, 1, 2].map((branch) => shownIn(work, branch).join('|'))
    expect(red).toContain(box('cup'))
    expect(red).not.toMatch(/mug|jug|asset_idx/)
    expect(green).toContain(box('mug'))
    expect(green).not.toMatch(/cup"|jug|asset_idx/)
    expect(blue).toContain(`Here: ${box('jug')}`)
    expect(blue).not.toMatch(/cup"|mug|asset_idx/)
    // A reply that was all about other pictures found nothing in this one.
    expect(blue).toContain('assistant\n|None.|')
  })

  test.each([
    [
      'a collection of a track',
      '<collection mention="c" asset_idx="0"> <track mention="d"> <point t="1.0 seconds"> (1,2) </point> </track> </collection>',
      '<collection mention="c"> <track mention="d"> <point t="1.0 seconds"> (1,2) </point> </track> </collection>',
    ],
    [
      'a track whose waypoints have the index',
      '<track mention="d"> <point t="1.0 seconds" asset_idx="0"> (1,2) </point> </track>',
      '<track mention="d"> <point t="1.0 seconds"> (1,2) </point> </track>',
    ],
    ['a clip of two tags', '<clip t="1" asset_idx="0"></clip>', '<clip t="1 seconds" />'],
    [
      'a mention with a >',
      '<point mention="d > e" asset_idx="0"> (1,2) </point>',
      '<point mention="d &gt; e"> (1,2) </point>',
    ],
  ])('of an earlier reply, %s is about the picture that it names', async (_, written, told) => {
    const pictures = user(image('red'), image('green'))
    await contentOf([pictures, { role: 'assistant', content: `See ${written}.` }, user(text('Find all.'))])
    const [red, green] = [0, 1].map((branch) => shownIn(server.engine.works[0]!, branch).join('|'))
    expect(red).toContain(`See ${told}.`)
    expect(green).toContain('See .')
  })

  test.each([
    ['point', '<point mention="a"> (1,2) </point>', '<point mention="a" asset_idx="0"> (1,2) </point>'],
    ['polygon', '<polygon> (1,2) (3,4) (5,6) </polygon>', '<polygon asset_idx="0"> (1,2) (3,4) (5,6) </polygon>'],
  ])('%s', async (annotation_format, written, expected) => {
    server.engine.script = sees({ red: written, green: 'None.' })
    expect(await contentOf([user(image('red'), image('green'))], { vision_config: { annotation_format } })).toBe(
      expected,
    )
  })

  test('a time is one of a video; clips are of videos alone', async () => {
    server.engine.script = sees({ red: `<point t="0.2 s"> (1,2) </point>`, video: `<point t="0.2 s"> (1,2) </point>` })
    const mixed = user(image('red'), video())
    expect(await contentOf([mixed], { vision_config: { annotation_format: 'point' } })).toBe(
      '<point asset_idx="0"> (1,2) </point>\n<point t="0.2 seconds" asset_idx="1"> (1,2) </point>',
    )
    const clips = { vision_config: { annotation_format: 'clip' } }
    server.engine.script = { texts: ['<clip mention="a" t="0.2 seconds" />'] }
    expect(await contentOf([mixed], clips)).toBe('<clip mention="a" asset_idx="1" t="0.2 seconds" />')
    // Both are shown: a clip can only be of the video.
    expect(server.engine.works.at(-1)!.branches).toHaveLength(1)
    expect(await contentOf([user(video(), image('red'), video())], clips)).toBe(
      '<clip mention="a" asset_idx="0" t="0.2 seconds" />\n<clip mention="a" asset_idx="2" t="0.2 seconds" />',
    )
    expect(shownIn(server.engine.works.at(-1)!, 0)).toContain('red')
  })

  test('sound has no places: the only picture beside it is meant', async () => {
    const samples = Float32Array.from({ length: 16_000 }, (_, at) => tone(at / 16_000))
    const data = (await makeAudio({ format: 'wav', samples, rate: 16_000 })).toString('base64')
    const sound = { type: 'input_audio', input_audio: { data, format: 'wav' } }
    expect(await contentOf([user(sound, image('green'), sound)])).toBe(box('b', 1))
    expect(server.engine.works.at(-1)!.branches).toHaveLength(1)
  })

  test('a hint asks for the same as the field', async () => {
    const system = { role: 'system', content: '<hint>BOX</hint>' }
    expect(await contentOf([system, user(image('red'), image('green'))], {})).toBe(`${box('a', 0)}\n${box('b', 1)}`)
  })

  test('as a stream: in the order of the pictures, each annotation in one piece', async () => {
    server.engine.script = sees({ red: { texts: [...box('a')], tokensPerText: 1 }, green: box('b') })
    const chunks = await chunksOf(
      await server.post(CHAT, ask([user(image('red'), image('green'))], { ...boxes, stream: true })),
    )
    expect(messageOf(chunks).content).toBe(`${box('a', 0)}\n${box('b', 1)}`)
    const texts = chunks.flatMap(({ choices }) => choices[0]?.delta.content || [])
    expect(texts).toEqual([box('a', 0), `\n${box('b', 1)}`])
  })

  test('usage counts the branches, each with its whole prompt', async () => {
    const { usage } = await replyOf(await server.post(CHAT, ask([user(image('red'), image('green'))])))
    const [work] = server.engine.works
    const tokens = await Promise.all(
      work!.branches.map(({ suffix }) => server.engine.countTokens([...work!.prefix, ...suffix])),
    )
    expect(usage!.prompt_tokens).toBe(tokens[0]! + tokens[1]!)
    expect(usage!.completion_tokens).toBe(2 * box('a').length)
    const counted = await jsonOf<{ input_tokens: number }>(
      await server.post(`${CHAT}/input_tokens`, ask([user(image('red'), image('green'))])),
    )
    expect(counted.input_tokens).toBe(usage!.prompt_tokens)
  })

  test('max_completion_tokens is that of all pictures together', async () => {
    const one = box('a').length
    const limited = (max: number) => ask([user(image('red'), image('green'))], { ...boxes, max_completion_tokens: max })
    const cut = await replyOf(await server.post(CHAT, limited(one + 5)))
    expect(cut).toMatchObject({
      choices: [{ message: { content: box('a', 0) }, finish_reason: 'length' }],
      usage: { completion_tokens: one + 5 },
    })
    const whole = await replyOf(await server.post(CHAT, limited(2 * one)))
    expect(whole.choices[0]!.finish_reason).toBe('stop')
    server.engine.script = sees({ red: { texts: ['A'], reason: 'length' }, green: box('b') })
    expect((await replyOf(await server.post(CHAT, limited(2 * one)))).choices[0]).toMatchObject({
      message: { content: `A\n${box('b', 1)}` },
      finish_reason: 'length',
    })
  })

  test('n replies, stop sequences and log-probabilities', async () => {
    const pictures = [user(image('red'), image('green'))]
    const several = await replyOf(await server.post(CHAT, ask(pictures, { ...boxes, n: 2, temperature: 1 })))
    expect(several.choices.map(({ message }) => message.content)).toEqual(
      Array(2).fill(`${box('a', 0)}\n${box('b', 1)}`),
    )
    expect(await contentOf(pictures, { ...boxes, stop: ['"b"'] })).toBe(`${box('a', 0)}\n<point_box mention=`)
    server.engine.script = sees({ red: box('a'), green: 'None.', blue: box('c') })
    const rated = await jsonOf<{ choices: { logprobs: { content: { token: string }[] } }[] }>(
      await server.post(CHAT, ask([user(image('red'), image('green'), image('blue'))], { ...boxes, logprobs: true })),
    )
    expect(rated.choices[0]!.logprobs.content.map(({ token }) => token).join('')).toBe(box('a') + box('c'))
  })

  test('thoughts come before the text about each picture', async () => {
    const thinking = (reply: string) => `It is here.\n</think>\n\n${reply}`
    server.engine.script = sees({ red: thinking(box('a')), green: thinking(box('b')) })
    const asked = ask([user(image('red'), image('green'))], { ...boxes, reasoning_effort: 'low' })
    expect((await replyOf(await server.post(CHAT, asked))).choices[0]!.message).toMatchObject({
      content: `${box('a', 0)}\n${box('b', 1)}`,
      reasoning_content: 'It is here.\nIt is here.',
    })
  })

  test('looks closer at the picture that it is asked about', async () => {
    const look = '<tool_call>\n{"name": "focus", "arguments": {"box": [0, 0, 500, 500]}}\n</tool_call>'
    server.engine.script = {
      texts: [],
      branch: (_, index) => {
        const shown = shownIn(server.engine.works.at(-1)!, index)
        const colours = shown.filter((name) => name === 'red' || name === 'green')
        return { texts: [colours.length === 1 ? look : box(colours.join(' and '))] }
      },
    }
    const focused = { vision_config: { annotation_format: 'box', internal_tools: { focus: true } } }
    const reply = await replyOf(await server.post(CHAT, ask([user(image('red'), image('green'))], focused)))
    expect(reply.choices[0]).toMatchObject({
      message: { content: `${box('red and red', 0)}\n${box('green and green', 1)}` },
      finish_reason: 'stop',
    })
    expect(server.engine.works).toHaveLength(4)
  })

  test.each([
    ['between the replies', '\n', box('red', 0), 2],
    ['in two of them', '</point_box>\n<point_box', box('red', 0).replace('</point_box>', ''), 2],
    ['in the first', '(', box('red', 0).slice(0, box('red', 0).indexOf('(')), 1],
  ])('a stop sequence %s ends the reply of the focus tool', async (_, stop, content, works) => {
    server.engine.script = sees({ red: { texts: [box('red')] }, green: { texts: [box('green')] } })
    const focused = { stop, vision_config: { annotation_format: 'box', internal_tools: { focus: true } } }
    for (const stream of [false, true]) {
      server.engine.works.length = 0
      const asked = { ...ask([user(image('red'), image('green'))], focused), stream }
      const response = await server.post(CHAT, asked)
      if (stream) {
        const chunks = await chunksOf(response)
        expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe(content)
      } else expect((await replyOf(response)).choices[0]).toMatchObject({ message: { content }, finish_reason: 'stop' })
      expect(server.engine.works).toHaveLength(works)
    }
  })

  test('ends at a stop sequence between two rounds of the focus tool', async () => {
    const look = '<tool_call>\n{"name": "focus", "arguments": {"box": [0, 0, 500, 500]}}\n</tool_call>'
    server.engine.script = { texts: [], branch: () => ({ texts: ['I look.', look] }) }
    const focused = { stop: '.\nI', vision_config: { internal_tools: { focus: true } } }
    const reply = await replyOf(await server.post(CHAT, ask([user(image('red'))], focused)))
    expect(reply.choices[0]).toMatchObject({ message: { content: 'I look' }, finish_reason: 'stop' })
    expect(server.engine.works).toHaveLength(2)
  })

  test('is asked about one after the other where it calls no function', async () => {
    const tool = { type: 'function', function: { name: 'camera', parameters: { type: 'object', properties: {} } } }
    const call = '<tool_call>\n{"name": "camera", "arguments": {}}\n</tool_call>'
    const both = (reply: string) => {
      return sees({ 'red and green': { texts: [reply] }, red: { texts: [box('a')] }, green: { texts: ['None.'] } })
    }
    const asked = ask([user(image('red'), image('green'))], { ...boxes, tools: [tool] })
    for (const stream of [false, true]) {
      const answer = async (reply: string) => {
        server.engine.works.length = 0
        server.engine.script = both(reply)
        const response = await server.post(CHAT, { ...asked, stream })
        return stream ? messageOf(await chunksOf(response)) : (await replyOf(response)).choices[0]!.message
      }
      expect(await answer(call)).toMatchObject({ tool_calls: [{ function: { name: 'camera' } }] })
      expect(server.engine.works).toHaveLength(1)
      expect(await answer('I see no lamp.')).toMatchObject({ content: 'I see no lamp.' })
      expect(server.engine.works).toHaveLength(1)
      expect(await answer(`Here: ${box('a')}`)).toMatchObject({ content: box('a', 0) })
      expect(server.engine.works.map(({ branches }) => branches.length)).toEqual([1, 2])
      expect(shownIn(server.engine.works[1]!, 0).join('')).not.toContain('camera')
    }
    const { usage } = await replyOf(await server.post(CHAT, asked))
    expect(usage!.completion_tokens).toBe(3)
  })

  test('256 pictures are asked about; more replies than that are refused', async () => {
    server.engine.script = { texts: [box('a')] }
    const many = [user(...Array.from({ length: 256 }, () => image('red')))]
    const annotations = parseMarkup(await contentOf(many)).filter(({ kind }) => kind !== 'prose')
    expect(annotations.map((one) => 'assetIdx' in one && one.assetIdx)).toEqual(annotations.map((_, index) => index))
    expect(annotations).toHaveLength(256)
    expect(shownIn(server.engine.works.at(-1)!, 3).join('')).toContain('[images 1 to 3]\nred[images 5 to 256]\n')
    const refused = await server.post(CHAT, ask(many, { ...boxes, n: 2, temperature: 1 }))
    expect(await errorOf(refused)).toMatchObject({ param: 'vision_config.annotation_format' })
  })
})

describe('the same on every API', () => {
  test('responses: the annotations of the text have the index, too', async () => {
    const input = [
      {
        role: 'user',
        content: (['red', 'green'] as const).map((colour) => ({ type: 'input_image', image_url: urls[colour] })),
      },
    ]
    const { output } = await jsonOf<{ output: { content: { text: string; annotations: object[] }[] }[] }>(
      await server.post('/v1/responses', { model: MODEL, input, ...boxes }),
    )
    const [content] = output[0]!.content
    expect(content!.text).toBe(`${box('a', 0)}\n${box('b', 1)}`)
    expect(content!.annotations).toMatchObject([
      { mention: 'a', asset_index: 0 },
      { mention: 'b', asset_index: 1 },
    ])
  })

  test('messages and Ollama: a hint in the system text', async () => {
    const data = (colour: Colour) => urls[colour]!.split(',')[1]!
    const content = (['red', 'green'] as const).map((colour) => ({
      type: 'image',
      source: { type: 'base64', media_type: 'image/png', data: data(colour) },
    }))
    const message = { model: MODEL, max_tokens: 500, system: '<hint>BOX</hint>', messages: [{ role: 'user', content }] }
    const { content: blocks } = await jsonOf<{ content: { text: string }[] }>(
      await server.post('/v1/messages', message),
    )
    expect(blocks.map((block) => block.text).join('')).toBe(`${box('a', 0)}\n${box('b', 1)}`)
    const messages = [
      { role: 'system', content: '<hint>BOX</hint>' },
      { role: 'user', content: 'Find.', images: [data('red'), data('green')] },
    ]
    const chat = await server.post('/api/chat', { model: MODEL, stream: false, messages })
    expect((await jsonOf<{ message: { content: string } }>(chat)).message.content).toBe(
      `${box('a', 0)}\n${box('b', 1)}`,
    )
  })

  test('multilook: the context’s media count first, then the prompt’s own', async () => {
    const body = {
      model: MODEL,
      context: [user(image('red'), text('Look.'))],
      prompts: ['Find it.', { content: [image('green'), image('blue'), text('Find it.')] }],
      ...boxes,
    }
    const { results, usage } = await jsonOf<{
      results: { completions: { message: { content: string } }[]; usage: { completion_tokens: number } }[]
      usage: { prompt_tokens: number; prompt_tokens_details: { cached_tokens: number } }
    }>(await server.post(`${CHAT}/multilook`, body))
    expect(results.map(({ completions }) => completions[0]!.message.content)).toEqual([
      box('a'),
      [box('a', 0), box('b', 1), box('c', 2)].join('\n'),
    ])
    const [work] = server.engine.works
    expect(work!.branches.map(({ param }) => param)).toEqual(['prompts[0]', ...Array(3).fill('prompts[1]')])
    const tokens = await Promise.all(
      work!.branches.map(({ suffix }) => server.engine.countTokens([...work!.prefix, ...suffix])),
    )
    expect(usage.prompt_tokens).toBe(tokens.reduce((sum, count) => sum + count))
    expect(usage.prompt_tokens_details.cached_tokens).toBe(3 * (await server.engine.countTokens(work!.prefix)))
    expect(results[1]!.usage.completion_tokens).toBe(3 * box('a').length)
  })

  test('decisions: the surest place, and the picture that it is in', async () => {
    const input = [
      {
        role: 'user',
        content: (['red', 'green'] as const).map((colour) => ({ type: 'input_image', image_url: urls[colour] })),
      },
    ]
    const body = { model: MODEL, input, questions: [{ type: 'x_box', instructions: 'cup' }] }
    server.engine.script = sees({ red: 'None.', green: { texts: [box('cup')] } })
    const found = await jsonOf<{ answers: object[] }>(await server.post('/v1/decisions', body))
    expect(found.answers).toMatchObject([{ type: 'x_box', box: { left: 0.001 }, asset_index: 1 }])
    server.engine.script = sees({ red: 'None.', green: 'None.' })
    const none = await jsonOf<{ answers: object[] }>(await server.post('/v1/decisions', body))
    expect(none.answers).toEqual([{ type: 'x_box', name: null, box: null, confidence: expect.any(Number) }])
    server.engine.script = sees({ red: box('cup'), green: 'None.' })
    const typed = await jsonOf<{ answers: object }>(
      await server.post('/v1/systemone', {
        model: MODEL,
        state: 'Left: @l Right: @r',
        questions: { where: { type: 'box', instructions: 'cup' } },
        assets: {
          '@l': { data_base64: urls.green!.split(',')[1] },
          '@r': { data_base64: urls.red!.split(',')[1] },
        },
      }),
    )
    expect(typed.answers).toMatchObject({ where: { type: 'box', x_asset: '@r' } })
  })
})

describe('without a format', () => {
  const pictures = () => [user(image('red'), image('green'))]

  test('a tag without an index is dropped and logged, one with an index stays', async () => {
    server.engine.script = { texts: [`Here: ${box('a')}, there: ${box('b', 0)} <b>x</b> <point>`] }
    expect(await contentOf(pictures(), {})).toBe(`Here: , there: ${box('b', 0)} <b>x</b> <point>`)
    expect(server.logs.some((line) => line.includes('Dropped 1 annotation'))).toBe(true)
  })

  test('the only picture that it can mean', async () => {
    server.engine.script = { texts: ['<point t="0.2 s"> (1,2) </point>', box('a')] }
    expect(await contentOf([user(image('red'), video())], {})).toBe(
      '<point t="0.2 seconds" asset_idx="1"> (1,2) </point>',
    )
    server.engine.script = { texts: [box('a')] }
    expect(await contentOf([user(image('red'))], {})).toBe(box('a'))
  })

  test('each annotation has a valid index, for any text of the model', async () => {
    const piece = fc.oneof(
      fc.string(),
      fc.constantFrom(
        box('a'),
        box('a', 0),
        box('a', 5),
        '<point t="1 s"> (1,2) </point>',
        '<clip t="1 2" />',
        '<clip t="1 2" asset_idx="0"/>',
        '<collection mention="x" asset_idx="1">',
        '<collection>',
        '</collection>',
        '<point> (1,2) </point>',
        '<track mention="a"> <point t="1 s"> (1,2) </point> </track>',
        '<po',
        '<',
        '>',
      ),
    )
    const media = fc.constantFrom<readonly (() => object)[]>(
      [() => image('red'), () => image('green')],
      [() => image('red'), video],
      [video, video, () => image('red')],
    )
    const asked = fc.constantFrom<object>({}, boxes, { vision_config: { annotation_format: 'point' } })
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { minLength: 1 }), media, asked, async (pieces, media, fields) => {
        const texts = pieces.filter((one) => one !== '')
        server.engine.script = { texts }
        const content = await contentOf([user(...media.map((make) => make()))], fields)
        const found = content.match(/<(?:point_box|point|polygon|clip|track)\b[^<>]*>(?=[^<>]*<\/|\s|<|$)/g) ?? []
        for (const annotation of annotationsOf(content)) {
          expect(annotation, `${found}`).toMatch(/^[0-2]$/)
          expect(Number(annotation)).toBeLessThan(media.length)
        }
      }),
      { numRuns: 60 },
    )
  })
})

/** The indices of all whole annotations in a text, as written. */
function annotationsOf(content: string): string[] {
  const whole = /<(point_box|point|polygon)\b([^<>]*)> *(?:\(\d+,\d+\) *)+<\/\1>|<clip\b([^<>]*)\/>|<track\b([^<>]*)>/g
  return [...content.matchAll(whole)].flatMap((match) => {
    const attributes = match[2] ?? match[3] ?? match[4] ?? ''
    const isWaypoint = content.lastIndexOf('<track', match.index) > content.lastIndexOf('</track', match.index)
    return isWaypoint && match[4] === undefined ? [] : [/asset_idx="(\d+)"/.exec(attributes)?.[1] ?? 'none']
  })
}

describe('a model that says which picture it means', () => {
  test('sees all of them, has to choose one, and is shown the indices of earlier replies', async () => {
    const card = await changedCard((shipped) => ({ ...shipped, namesAssets: true }))
    const other = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: card.path } })
    try {
      other.engine.script = { texts: [box('a', 1), box('b')] }
      const messages = [
        user(image('red'), text('Find it.')),
        { role: 'assistant', content: box('cup') },
        user(image('green'), text('And here?')),
      ]
      const { choices } = await replyOf(await other.post(CHAT, ask(messages)))
      // The engine that does not hold to the grammar wrote one without an index.
      expect(choices[0]!.message.content).toBe(box('a', 1))
      const [work] = other.engine.works
      expect(work!.branches).toHaveLength(1)
      expect(work!.prefix.map(named)).toEqual(expect.arrayContaining(['red', 'green']))
      expect(work!.prefix.map(named).join('')).toContain(box('cup', 0))
      expect(JSON.stringify(work!.branches[0]!.constraint)).toContain('? asset_idx=\\"(?:0|1)\\"> ')
    } finally {
      await other.close()
      await card.remove()
    }
  })
})
