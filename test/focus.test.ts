import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { CountOptions, Engine } from '../src/inference/contract/engine.ts'
import type { Generation } from '../src/inference/contract/generation.ts'
import type { ImagePart, PromptPart } from '../src/inference/contract/parts.ts'
import type { Work } from '../src/inference/contract/work.ts'
import { modelOverloaded } from '../src/lib/errors/errors.ts'
import { FakeEngine, type Script } from './support/fake-engine.ts'
import { countTokens } from './support/local-engine.ts'
import { errorOf, jsonOf, startTestServer, type TestServer } from './support/server.ts'
import { shippedCard, startShippedEngine } from './support/shipped-model.ts'

const PATH = '/v1/chat/completions'

/** An engine with a script for each round. */
class RoundsEngine extends FakeEngine {
  rounds: Script[] = []

  override async generate(work: Work, signal: AbortSignal): Promise<Generation> {
    this.script = this.rounds[this.works.length] ?? this.rounds.at(-1)!
    return super.generate(work, signal)
  }
}

const engine = new RoundsEngine()
let server: TestServer
/** 600 x 400: left half red, right half blue. */
let url: string
let green: string

beforeAll(async () => {
  server = await startTestServer({ engine })
  const half = (background: string, width: number, height: number) =>
    sharp({ create: { width, height, channels: 3, background } })
  const blue = await half('#0000ff', 300, 400).png().toBuffer()
  const bytes = await half('#ff0000', 600, 400)
    .composite([{ input: blue, left: 300, top: 0 }])
    .png()
    .toBuffer()
  url = `data:image/png;base64,${bytes.toString('base64')}`
  green = `data:image/png;base64,${(await half('#00ff00', 64, 64).png().toBuffer()).toString('base64')}`
})
afterAll(() => server?.close())
beforeEach(() => {
  engine.works.length = 0
  engine.aborts.length = 0
})

const call = (values: object | string) =>
  `<tool_call>\n{"name": "focus", "arguments": ${typeof values === 'string' ? values : JSON.stringify(values)}}\n</tool_call>`
const says = (text: string, more: Script = {}): Script => ({ texts: [...text], ...more })
const image = (address: string) => ({ type: 'image_url', image_url: { url: address } })
const vision_config = { internal_tools: { focus: true } }
const body = (fields: object = {}, ...images: string[]) => ({
  model: 'service-mk1.5',
  messages: [
    { role: 'user', content: [...(images.length > 0 ? images : [url]).map(image), { type: 'text', text: 'Read it.' }] },
  ],
  vision_config,
  ...fields,
})

interface Answer {
  choices: {
    message: { content: string | null; tool_calls?: unknown; reasoning_content?: string }
    finish_reason: string
  }[]
  usage: { prompt_tokens: number; completion_tokens: number; total_tokens: number }
}

async function answer(fields: object = {}, ...images: string[]) {
  const response = await server.post(PATH, body(fields, ...images))
  const { choices, usage } = await jsonOf<Answer>(response)
  expect(response.status).toBe(200)
  const { message, finish_reason } = choices[0]!
  expect(message).not.toHaveProperty('tool_calls')
  return { text: message.content, message, reason: finish_reason, usage }
}

test('log-probabilities are those of the reply, without the calls', async () => {
  engine.rounds = [{ texts: ['Look.', '\n', call({ box: [0, 0, 500, 1000] })] }, { texts: ['Red', '.'] }]
  const { choices } = await jsonOf<{ choices: { logprobs: { content: { token: string }[] } }[] }>(
    await server.post(PATH, body({ logprobs: true })),
  )
  expect(choices[0]!.logprobs.content.map(({ token }) => token)).toEqual(['Look.', 'Red', '.'])
})

async function streamed(fields: object = {}) {
  const response = await server.post(PATH, body({ ...fields, stream: true, stream_options: { include_usage: true } }))
  const events = [...(await response.text()).matchAll(/^data: (.*)$/gm)].map((match) => match[1]!)
  expect(events.pop()).toBe('[DONE]')
  const chunks = events.map((event) => JSON.parse(event))
  return {
    text: chunks.map((chunk) => chunk.choices[0].delta.content ?? '').join(''),
    reason: chunks.at(-1).choices[0].finish_reason,
    usage: chunks.at(-1).usage,
    all: events.join('\n'),
  }
}

function picturesIn(work: Work): ImagePart['image'][] {
  return work.prefix.flatMap((part) => (part.type === 'image' ? [part.image] : []))
}

function textOf(parts: readonly PromptPart[]): string {
  return parts.map((part) => (part.type === 'text' ? part.text : '[picture]')).join('')
}

/** The colours in an image. */
function coloursIn({ data }: ImagePart['image']): Set<string> {
  const colours = new Set<string>()
  for (let i = 0; i < data.length; i += 3) colours.add(Buffer.from(data.subarray(i, i + 3)).toString('hex'))
  return colours
}

describe('a focus call', () => {
  test('shows the model the region, and the client nothing', async () => {
    engine.rounds = [says(call({ box: [500, 250, 1000, 750] })), says('OPEN')]
    const whole = await answer()
    expect(whole).toMatchObject({ text: 'OPEN', reason: 'stop' })

    expect(engine.works).toHaveLength(2)
    const [first, second] = engine.works
    expect(textOf(first!.prefix)).toContain('Zoom into a region of the picture.')
    expect(coloursIn(picturesIn(first!)[0]!).size).toBeGreaterThan(1)
    const [shown, seen] = picturesIn(second!)
    expect(coloursIn(shown!).size).toBeGreaterThan(1)
    expect([...coloursIn(seen!)]).toEqual(['0000ff'])
    // The region covers 300 x 200 pixels of the original.
    expect([seen!.width, seen!.height]).toEqual([512, 352])
    const before = textOf(first!.prefix)
    const after = textOf(second!.prefix)
    expect(after.startsWith(before)).toBe(true)
    expect(after.slice(before.length)).toContain('{"box":[500,250,1000,750]}')
    expect(after.slice(before.length)).toContain('[picture]')

    engine.works.length = 0
    const stream = await streamed()
    expect(stream).toMatchObject({ text: 'OPEN', reason: 'stop', usage: whole.usage })
    expect(stream.all).not.toMatch(/tool|focus|box/)
  })

  test('every token counts once', async () => {
    const asked = call({ box: [0, 0, 500, 500] })
    engine.rounds = [says(asked), says('OPEN')]
    const { usage } = await answer()
    const [, second] = engine.works
    expect(usage.completion_tokens).toBe(asked.length + 'OPEN'.length)
    expect(usage.prompt_tokens).toBe((await engine.countTokens(second!.prefix)) - asked.length)
    expect(usage.total_tokens).toBe(usage.prompt_tokens + usage.completion_tokens)
  })

  test('uses the image that the model names', async () => {
    engine.rounds = [says(call({ box: [0, 0, 400, 400], asset_idx: 0 })), says('a')]
    await answer({}, url, green)
    expect(textOf(engine.works[0]!.prefix)).toContain('asset_idx')
    expect([...coloursIn(picturesIn(engine.works[1]!)[2]!)]).toEqual(['ff0000'])

    engine.works.length = 0
    engine.rounds = [says(call({ box: [0, 0, 400, 400] })), says('a')]
    await answer({}, url, green)
    expect([...coloursIn(picturesIn(engine.works[1]!)[2]!)]).toEqual(['00ff00'])
  })

  test('may follow another one, with text between them', async () => {
    engine.rounds = [
      says(`I look left. ${call({ box: [0, 0, 400, 400] })}`),
      says(`Now right. ${call({ box: [600, 0, 1000, 400] })}`),
      says('Both are full.'),
    ]
    const { text, reason } = await answer()
    expect(text).toBe('I look left.\nNow right.\nBoth are full.')
    expect(reason).toBe('stop')
    const pictures = picturesIn(engine.works[2]!)
    expect(pictures.slice(1).map((picture) => [...coloursIn(picture)])).toEqual([['ff0000'], ['0000ff']])
    engine.works.length = 0
    expect((await streamed()).text).toBe(text)
  })

  test('accepts corners in any order, and at the edge', async () => {
    engine.rounds = [says(call({ box: [1000, 1000, 999, 999] })), says('a')]
    expect(await answer()).toMatchObject({ text: 'a', reason: 'stop' })
    expect([...coloursIn(picturesIn(engine.works[1]!)[1]!)]).toEqual(['0000ff'])
  })

  test('refers to the upright image, for any EXIF orientation', async () => {
    const upright = Buffer.from(url.split(',')[1]!, 'base64')
    const stored = await sharp(await sharp(upright).rotate(270).png().toBuffer())
      .withMetadata({ orientation: 6 })
      .png()
      .toBuffer()
    // In the stored pixels this would be the red half.
    engine.rounds = [says(call({ box: [600, 600, 1000, 1000] })), says('a')]
    await answer({}, `data:image/png;base64,${stored.toString('base64')}`)
    expect([...coloursIn(picturesIn(engine.works[1]!)[1]!)]).toEqual(['0000ff'])
  })

  test('may precede an annotation, which refers to the whole image', async () => {
    const leaf = '<point mention="it"> (500,500) </point>'
    engine.rounds = [says(call({ box: [0, 0, 400, 400] })), says(leaf)]
    const grounded = { vision_config: { ...vision_config, annotation_format: 'point' } }
    expect((await answer(grounded)).text).toBe(leaf)
  })

  test('the hint asks for the same as the field', async () => {
    engine.rounds = [says(call({ box: [0, 0, 400, 400] })), says('OPEN')]
    const { messages } = body()
    const hinted = { messages: [{ role: 'system', content: '<hint>FOCUS</hint>' }, ...messages], vision_config: null }
    expect((await answer(hinted)).text).toBe('OPEN')
    expect(engine.works).toHaveLength(2)
  })
})

/** Scripts the first round. The model itself generates the next ones. */
class RealSecondRound extends FakeEngine {
  readonly #real: Engine

  constructor(real: Engine) {
    super(real.info)
    this.#real = real
    this.script = says(call({ box: [0, 0, 500, 1000] }))
  }

  override generate(work: Work, signal: AbortSignal): Promise<Generation> {
    if (this.works.length === 0) return super.generate(work, signal)
    this.works.push(work)
    return this.#real.generate(work, signal)
  }

  override countTokens(parts: readonly PromptPart[], options: CountOptions): Promise<number> {
    return this.#real.countTokens(parts, options)
  }
}

test('the shipped model generates the next round after the call and the region', async () => {
  const real = await startShippedEngine()
  const second = new RealSecondRound(real)
  const other = await startTestServer({ engine: second, environment: { LOOKOUT_MODEL_CARD: shippedCard() } })
  try {
    const response = await other.post(PATH, body({ max_completion_tokens: 100 }))
    const { choices, usage } = await jsonOf<Answer>(response)
    expect(response.status).toBe(200)
    expect(['stop', 'length', 'tool_limit', 'tool_error']).toContain(choices[0]!.finish_reason)
    const [first, next] = second.works
    const looked = (await countTokens(real, next!.prefix)) - (await countTokens(real, first!.prefix))
    // The region is an image of at least 36 tokens.
    expect(looked).toBeGreaterThan(36)
    expect(usage.total_tokens).toBe(usage.prompt_tokens + usage.completion_tokens)
  } finally {
    await other.close()
    await real.close()
  }
})

describe('focus calls end', () => {
  test('tool_limit after six calls', async () => {
    engine.rounds = [says(call({ box: [0, 0, 400, 400] }))]
    expect(await answer()).toMatchObject({ text: '', reason: 'tool_limit' })
    expect(engine.works).toHaveLength(7)
    engine.works.length = 0
    expect(await streamed()).toMatchObject({ text: '', reason: 'tool_limit' })
  })

  test.each([
    ['an empty region', { box: [5, 5, 5, 900] }],
    ['a region beyond the image', { box: [0, 0, 1200, 900] }],
    ['too few numbers', { box: [1, 2, 3] }],
    ['texts for numbers', { box: ['a', 'b', 'c', 'd'] }],
    ['no box', {}],
    ['an unknown image', { box: [0, 0, 9, 9], asset_idx: 4 }],
    ['a hostile name', '{"__proto__": {"box": [0, 0, 9, 9]}}'],
  ])('%s: tool_error', async (_name, values) => {
    engine.rounds = [says(`Hm. ${call(values)}`), says('never')]
    expect(await answer()).toMatchObject({ text: 'Hm.', reason: 'tool_error' })
    expect(engine.works).toHaveLength(1)
  })

  test('when the tokens are used up', async () => {
    const asked = call({ box: [0, 0, 400, 400] })
    engine.rounds = [says(asked), says('O', { reason: 'length' })]
    expect(await answer({ max_completion_tokens: asked.length + 1 })).toMatchObject({ text: 'O', reason: 'length' })
    expect(engine.works[1]!.branches[0]!.maxTokens).toBe(1)

    engine.works.length = 0
    expect(await answer({ max_completion_tokens: asked.length })).toMatchObject({ text: '', reason: 'length' })
    expect(engine.works).toHaveLength(1)
  })

  test('at a truncated call', async () => {
    engine.rounds = [says(call({ box: [0, 0, 400, 400] }).slice(0, 50), { reason: 'length' })]
    expect(await answer()).toMatchObject({ text: '', reason: 'length' })
  })

  test('when the engine rejects the next round', async () => {
    engine.rounds = [says(call({ box: [0, 0, 400, 400] })), { refusal: modelOverloaded('busy', 7) }]
    const response = await server.post(PATH, body())
    expect(response.status).toBe(503)
    expect(response.headers.get('retry-after')).toBe('7')
  })
})

describe('without an image, or in combination', () => {
  test('text only: the prompt does not mention the tool', async () => {
    engine.rounds = [says('Hello.')]
    expect((await answer({ messages: [{ role: 'user', content: 'Hi' }] })).text).toBe('Hello.')
    expect(textOf(engine.works[0]!.prefix)).not.toContain('Zoom')
  })

  test('off: text that looks like a call stays text', async () => {
    const text = call({ box: [0, 0, 400, 400] })
    engine.rounds = [says(text)]
    expect(await answer({ vision_config: { internal_tools: { focus: false } } })).toMatchObject({
      text,
      reason: 'stop',
    })
  })

  const tools = [{ type: 'function', function: { name: 'f' } }]
  const param = 'vision_config.internal_tools.focus'
  test.each([
    ['tools', { tools }, /cannot be combined with tools/, 'conflicting_tools'],
    ['regex', { regex: 'a' }, /cannot be combined/, null],
    [
      'a schema',
      { response_format: { type: 'json_schema', json_schema: { name: 'x', schema: {} } } },
      /cannot be combined/,
      null,
    ],
  ])('together with %s: 400', async (_name, fields, message, code) => {
    const response = await server.post(PATH, body(fields))
    const error = await errorOf(response)
    expect(error).toMatchObject({ type: 'invalid_request_error', param, code })
    expect(error.message).toMatch(message)
    expect(response.status).toBe(400)
  })

  test('multilook does not support it', async () => {
    const response = await server.post('/v1/chat/completions/multilook', {
      model: 'service-mk1.5',
      context: [],
      prompts: ['Hi'],
      vision_config,
    })
    expect(await errorOf(response)).toMatchObject({ param })
    expect(response.status).toBe(400)
  })
})
