import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import OpenAI from 'openai'
import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { PromptPart } from '../src/inference/contract/parts.ts'
import type { ReadQuestion } from '../src/inference/contract/work.ts'
import { internalError } from '../src/lib/errors/errors.ts'
import { changedCard, type TemporaryCard, uncalibratedCard } from './support/changed-card.ts'
import { errorOf, jsonOf, startTestServer, type TestServer } from './support/server.ts'

const PATH = '/v1/decisions'
const MODEL = 'service-mk1.5'

let server: TestServer
let card: TemporaryCard
let picture: string
let client: OpenAI

beforeAll(async () => {
  picture = `data:image/png;base64,${(await readFile('docs/pictures/shapes.png')).toString('base64')}`
  card = await uncalibratedCard()
  server = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: card.path } })
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.service.apiKey!, maxRetries: 0 })
})
afterAll(async () => {
  await server?.close()
  await card?.remove()
})
beforeEach(() => {
  server.engine.script = {}
  server.engine.works.length = 0
  server.engine.readWorks.length = 0
})

interface Answer {
  readonly type: string
  readonly [field: string]: unknown
}

interface Decision {
  readonly answers: readonly Answer[]
  readonly model: string
  readonly usage: Record<string, unknown>
}

const predicate = { type: 'predicate', instructions: 'Is there a red circle?' }
const colours = { type: 'choice', instructions: 'What colour is it?', choices: [{ value: 'red' }, { value: 'blue' }] }
const fields = (body: object) => ({ model: MODEL, input: 'A story.', questions: [predicate], ...body })

async function decide(body: object): Promise<Decision> {
  const response = await server.post(PATH, fields(body))
  const json = await jsonOf<Decision & Record<string, unknown>>(response)
  expect(json).toHaveProperty('answers')
  return json
}

/** Gives the replies of a question these probabilities; all others are impossible. */
function probable(odds: Readonly<Record<string, number>>) {
  return ({ replies }: ReadQuestion) => replies.map((reply) => Math.log(odds[reply] ?? 0))
}

function textOf(parts: readonly PromptPart[]): string {
  return parts.map((part) => (part.type === 'text' ? part.text : `[${part.type}]`)).join('')
}

/** A question as the engine sees it, behind the prefix. */
function prompt(index = 0): string {
  const work = server.engine.readWorks.at(-1)!
  return textOf(work.prefix) + textOf(work.questions[index]!.suffix)
}

const END = '<|im_end|>\n<|im_start|>assistant\n'

describe('answers', () => {
  test('of all types, in the order of the questions, with their names', async () => {
    server.engine.script = {
      read: probable({
        'Yes.': 0.6,
        'No.': 0.2,
        'Red.': 0.1,
        red: 0.2,
        'Blue.': 0.1,
        'Low.': 0.5,
        'High.': 0.5,
        3: 0.3,
        4: 0.1,
      }),
    }
    const response = await server.post(
      PATH,
      fields({
        questions: [
          { ...predicate, name: 'first' },
          colours,
          {
            type: 'score',
            instructions: 'How urgent?',
            levels: [{ label: 'low' }, { label: 'middle' }, { label: 'high' }],
          },
          { type: 'x_count', instructions: 'How many stars?', max: 4 },
        ],
      }),
    )
    const body = await jsonOf<Decision & Record<string, unknown>>(response)
    const near = (value: number) => expect.closeTo(value, 9)
    expect(body.answers).toEqual([
      { type: 'predicate', name: 'first', probability: near(0.75), x_label_mass: near(0.8) },
      {
        type: 'choice',
        name: null,
        choice: 'red',
        confidence: near(0.75 * 0.4),
        probabilities: [
          { value: 'red', probability: near(0.75) },
          { value: 'blue', probability: near(0.25) },
        ],
        x_label_mass: near(0.4),
      },
      {
        type: 'score',
        name: null,
        score: near(1),
        confidence: near(0.5),
        probabilities: [
          { label: 'low', value: 0, probability: near(0.5) },
          { label: 'middle', value: 1, probability: 0 },
          { label: 'high', value: 2, probability: near(0.5) },
        ],
        x_label_mass: near(1),
      },
      {
        type: 'x_count',
        name: null,
        count: 3,
        confidence: near(0.3),
        probabilities: [0, 0, 0, near(0.75), near(0.25)].map((probability, value) => ({ value, probability })),
        x_label_mass: near(0.4),
      },
    ])
    expect(response.status).toBe(200)
    expect(response.headers.get('x-trace-id')).toMatch(/^[0-9a-f]{32}$/)
  })

  test('usage has each question with the whole input, and what they share', async () => {
    const { usage, model } = await decide({ questions: [predicate, predicate] })
    const prefix = '<|im_start|>user\nA story.'.length
    const each = prefix + `\n\n${predicate.instructions}`.length + END.length
    expect(model).toBe(MODEL)
    expect(usage).toEqual({
      input_tokens: 2 * each,
      input_tokens_details: { cached_tokens: prefix, cache_write_tokens: 0 },
      output_tokens: 0,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 2 * each,
    })
  })

  test('a question at which the engine fails alone is a refusal, and so is one that no reply answers', async () => {
    server.engine.script = {
      read: ({ replies }, index) =>
        index === 1
          ? internalError(new Error('boom'))
          : replies.map(() => (index === 2 ? Number.NEGATIVE_INFINITY : -1)),
    }
    const { answers } = await decide({ questions: [predicate, { ...colours, name: 'colour' }, predicate] })
    expect(answers.map(({ type }) => type)).toEqual(['predicate', 'refusal', 'refusal'])
    expect(answers[1]).toEqual({ type: 'refusal', name: 'colour' })
    expect(server.logs.some((line) => line.includes('boom'))).toBe(true)
  })

  test('when the engine fails at every question, the request fails', async () => {
    server.engine.script = { read: () => internalError(new Error('boom')) }
    expect((await server.post(PATH, fields({}))).status).toBe(500)
  })
})

test("the card's temperatures apply unless the request says otherwise", async () => {
  const temperature = { predicate: 2, choice: 1, score: 0.5 }
  const tempered = await changedCard((card) => ({ ...card, decision: { temperature } }))
  const other = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: tempered.path } })
  try {
    other.engine.script = {
      read: probable({ 'Yes.': 0.8, 'No.': 0.2, 'Red.': 0.8, 'Blue.': 0.2, 'Low.': 0.8, 'High.': 0.2, 0: 0.8, 1: 0.2 }),
    }
    const questions = [
      predicate,
      colours,
      { type: 'score', instructions: 'How urgent?', levels: [{ label: 'low' }, { label: 'high' }] },
      { type: 'x_count', instructions: 'How many?', max: 1 },
    ]
    const first = async (more: object) => {
      const { answers } = await jsonOf<Decision>(await other.post(PATH, fields({ questions, ...more })))
      return answers.map(({ probability, probabilities }) => {
        return probability ?? (probabilities as { probability: number }[])[0]!.probability
      })
    }
    const near = (value: number) => expect.closeTo(value, 9)
    expect(await first({})).toEqual([near(2 / 3), near(0.8), near(16 / 17), near(16 / 17)])
    expect(await first({ x_calibrated: true })).toEqual(await first({}))
    expect(await first({ x_calibrated: false })).toEqual([near(0.8), near(0.8), near(0.8), near(0.8)])
  } finally {
    await other.close()
    await tempered.remove()
  }
})

describe('prompts', () => {
  test('the question continues the turn of the input', async () => {
    await decide({
      input: [
        { role: 'developer', content: 'Be strict.' },
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'Look:' },
            { type: 'input_image', image_url: picture, detail: null, prompt_cache_breakpoint: { mode: 'explicit' } },
          ],
        },
      ],
    })
    expect(prompt()).toBe(
      `<|im_start|>system\nBe strict.<|im_end|>\n<|im_start|>user\nLook:[image]Is there a red circle?${END}`,
    )
    const [work] = server.engine.readWorks
    expect(work!.prefix.at(-1)).toMatchObject({ type: 'image' })
  })

  test('behind the turn of an assistant, it is a turn of its own', async () => {
    await decide({
      input: [
        { role: 'user', content: 'Hi', type: 'message' },
        {
          role: 'assistant',
          content: [
            { type: 'output_text', text: 'Hello.' },
            { type: 'refusal', refusal: 'No.' },
          ],
          phase: 'final_answer',
        },
      ],
    })
    expect(prompt()).toBe(
      `<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello.No.<|im_end|>\n<|im_start|>user\nIs there a red circle?${END}`,
    )
  })

  test('calls and their outputs, JSON, and pictures in instructions', async () => {
    await decide({
      input: [
        { role: 'user', content: [{ type: 'input_json', data: { price: 3 } }] },
        { type: 'function_call', call_id: 'a', name: 'look', arguments: '{"at":1}' },
        { type: 'custom_tool_call', call_id: 'b', name: 'run', input: 'ls' },
        { type: 'function_call_output', call_id: 'b', output: 'nothing' },
        {
          type: 'custom_tool_call_output',
          call_id: 'a',
          output: [
            { type: 'input_text', text: 'seen' },
            { type: 'input_image', image_url: picture },
          ],
        },
      ],
      questions: [
        {
          type: 'predicate',
          instructions: [
            { type: 'input_text', text: 'Is it this?' },
            { type: 'input_image', image_url: picture },
          ],
        },
      ],
    })
    const text = prompt()
    expect(text).toContain('<|im_start|>user\n{"price":3}<|im_end|>')
    expect(text).toContain('{"name": "look", "arguments": {"at":1}}')
    expect(text).toContain('{"name": "run", "arguments": {"input":"ls"}}')
    expect(text).toContain('seen[image]')
    expect(text).toContain(`Is it this?[image]`)
  })

  test('video and audio, as in chats', async () => {
    const frame = (timestamp_ms: number) => ({ image_url: { url: picture }, timestamp_ms })
    await decide({
      input: [{ role: 'user', content: [{ type: 'video_frames', video_frames: { frames: [frame(0), frame(500)] } }] }],
    })
    expect(prompt()).toContain('[frames]Is there a red circle?')
  })

  test('options that are described are listed', async () => {
    await decide({
      questions: [{ ...colours, choices: [{ value: 'red', description: 'like fire' }, { value: 'blue' }] }],
    })
    expect(prompt()).toContain('What colour is it?\n\n- red: like fire\n- blue<|im_end|>')
  })

  test('true and "true" are two options', async () => {
    server.engine.script = { read: probable({ 'Yes.': 0.4, 'True.': 0.1 }) }
    const { answers } = await decide({ questions: [{ ...colours, choices: [{ value: 'true' }, { value: true }] }] })
    expect(answers[0]).toMatchObject({ choice: true, probabilities: [{ value: 'true' }, { value: true }] })
  })

  test('options that names cannot tell apart get letters', async () => {
    server.engine.script = { read: probable({ 'B.': 0.5 }) }
    const { answers } = await decide({ questions: [{ ...colours, choices: [{ value: 'red' }, { value: 'Red' }] }] })
    expect(prompt()).toContain('A. red\nB. Red\n\nAnswer with the letter')
    expect(answers[0]).toMatchObject({ choice: 'Red' })
  })

  test('blanks around and within an option are no part of the reply', async () => {
    server.engine.script = { read: probable({ 'Dark red.': 0.5, 'Blue.': 0.3, 'Low.': 0.4 }) }
    const choices = [{ value: ' dark  red' }, { value: 'blue\u00a0\n' }]
    const score = { type: 'score', instructions: 'How urgent?', levels: [{ label: 'low ' }, { label: ' high' }] }
    const { answers } = await decide({ questions: [{ ...colours, choices }, score] })
    expect(answers).toMatchObject([
      { choice: ' dark  red', probabilities: [{ probability: expect.closeTo(5 / 8, 9) }, { value: 'blue\u00a0\n' }] },
      {
        probabilities: [
          { label: 'low ', probability: 1 },
          { label: ' high', probability: 0 },
        ],
      },
    ])
  })

  test('a client’s text cannot end its turn', async () => {
    await decide({ questions: [{ ...predicate, instructions: '<|im_end|>' }] })
    const { suffix } = server.engine.readWorks[0]!.questions[0]!
    expect(suffix.filter((part) => part.type === 'text' && part.text.includes('that <|im_end|>'))).toEqual([
      { type: 'text', text: '\n\nIs it true that <|im_end|>?', trusted: false },
    ])
  })
})

describe('places', () => {
  test('a box, a point and what is not there', async () => {
    server.engine.script = {
      branch: ({ param }) => ({
        texts: [
          param === 'questions[0]'
            ? '<point_box mention="heart"> (100,200) (300,400) </point_box>'
            : param === 'questions[2]'
              ? '<point mention="star"> (500,250) </point>'
              : 'None.',
        ],
      }),
    }
    const input = [{ role: 'user', content: [{ type: 'input_image', image_url: picture }] }]
    const { answers, usage } = await decide({
      input,
      questions: [
        { type: 'x_box', instructions: 'heart', name: 'where' },
        predicate,
        { type: 'x_point', instructions: ' star\n' },
        { type: 'x_box', instructions: 'key\u00a0 ring' },
      ],
    })
    expect(answers).toEqual([
      {
        type: 'x_box',
        name: 'where',
        box: { top: 0.2, bottom: 0.4, left: 0.1, right: 0.3 },
        confidence: expect.closeTo(1 / 3, 9),
      },
      expect.objectContaining({ type: 'predicate' }),
      { type: 'x_point', name: null, point: { x: 0.5, y: 0.25 }, confidence: expect.closeTo(1 / 3, 9) },
      { type: 'x_box', name: null, box: null, confidence: expect.closeTo(1 / 3, 9) },
    ])
    expect(usage.output_tokens).toBe(3)
    expect(server.engine.works).toHaveLength(2)
    const suffixes = server.engine.works.flatMap(({ branches }) => branches.map(({ suffix }) => textOf(suffix)))
    expect(suffixes.map((suffix) => suffix.split('<|')[0]).sort()).toEqual([
      'Detect: heart',
      'Detect: key ring',
      'Detect: star',
    ])
  })

  test('a clip', async () => {
    server.engine.script = { texts: ['<clip mention="it" t="1.5 seconds 2.5 seconds" />'] }
    const frame = (timestamp_ms: number) => ({ image_url: { url: picture }, timestamp_ms })
    const content = [{ type: 'video_frames', video_frames: { frames: [frame(0), frame(3000)] } }]
    const { answers } = await decide({
      input: [{ role: 'user', content }],
      questions: [{ type: 'x_clip', instructions: 'When does the star appear?' }],
    })
    expect(answers).toEqual([
      {
        type: 'x_clip',
        name: null,
        clip: { start_seconds: 1.5, end_seconds: 2.5 },
        confidence: expect.closeTo(1 / 3, 9),
      },
    ])
  })
})

describe('wrong requests name what is wrong', () => {
  const choices = (...values: unknown[]) => ({
    questions: [predicate, { ...colours, choices: values.map((value) => ({ value })) }],
  })
  const content = (...parts: object[]) => ({ input: [{ role: 'user', content: parts }] })
  test.each<[string, object, string | null]>([
    ['no questions', { questions: [] }, 'questions'],
    ['too many questions', { questions: Array(401).fill(predicate) }, 'questions'],
    ['an unknown field', { stream: true }, 'stream'],
    ['an unknown field of a question', { questions: [predicate, { ...predicate, foo: 1 }] }, 'questions[1].foo'],
    ['an unknown type', { questions: [{ type: 'noul', instructions: 'a' }] }, 'questions[0].type'],
    ['one choice', choices('a'), 'questions[1].choices'],
    ['too many choices', choices(...Array.from({ length: 256 }, (_, i) => String(i))), 'questions[1].choices'],
    ['the same choice twice', choices('a', true, 'b', true), 'questions[1].choices[3].value'],
    ['a choice that is a number', choices('a', 1), 'questions[1].choices[1].value'],
    ['a blank choice', choices('a', ' '), 'questions[1].choices[1].value'],
    [
      'too many levels',
      {
        questions: [
          { type: 'score', instructions: 'a', levels: Array.from({ length: 11 }, (_, i) => ({ label: `${i}` })) },
        ],
      },
      'questions[0].levels',
    ],
    [
      'the same level twice',
      { questions: [{ type: 'score', instructions: 'a', levels: [{ label: 'b' }, { label: 'b' }] }] },
      'questions[0].levels[1].label',
    ],
    ['an empty instruction', { questions: [{ ...predicate, instructions: '' }] }, 'questions[0].instructions'],
    [
      'a part of an unknown type',
      { questions: [{ ...predicate, instructions: [{ type: 'refusal' }] }] },
      'questions[0].instructions[0].type',
    ],
    ['an unknown role', { input: [{ role: 'critic', content: 'a' }] }, 'input[0].role'],
    ['an unknown item', { input: [{ type: 'item_reference', id: 'a' }] }, 'input[0].type'],
    ['a call without a name', { input: [{ type: 'function_call', call_id: 'a', arguments: '{}' }] }, 'input[0].name'],
    [
      'an output without a call',
      { input: [{ type: 'function_call_output', call_id: 'a', output: 'b' }] },
      'input[0].call_id',
    ],
    [
      'a picture that is none',
      content({ type: 'input_text', text: 'a' }, { type: 'input_image', image_url: 'data:image/png;base64,AAAA' }),
      'input[0].content[1].image_url',
    ],
    [
      'a picture of a chat that is none',
      content({ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }),
      'input[0].content[0].image_url.url',
    ],
    [
      'a picture in a question that is none',
      {
        questions: [
          predicate,
          { ...predicate, instructions: [{ type: 'input_image', image_url: 'data:image/png;base64,AAAA' }] },
        ],
      },
      'questions[1].instructions[0].image_url',
    ],
    [
      'a picture in an output that is none',
      {
        input: [
          { type: 'function_call', call_id: 'a', name: 'f', arguments: '{}' },
          {
            type: 'function_call_output',
            call_id: 'a',
            output: [{ type: 'input_image', image_url: 'data:image/png;base64,AAAA' }],
          },
        ],
      },
      'input[1].output[0].image_url',
    ],
    ['a box without a picture', { questions: [{ type: 'x_box', instructions: 'a' }] }, 'questions[0].type'],
    ['a clip without a video', { questions: [{ type: 'x_clip', instructions: 'a' }] }, 'questions[0].type'],
    ['a count to too many', { questions: [{ type: 'x_count', instructions: 'a', max: 1000 }] }, 'questions[0].max'],
    [
      'a question that is too long',
      { questions: [predicate, { ...predicate, instructions: 'a'.repeat(700_000) }] },
      'questions[1]',
    ],
    ['an input that is too long', { input: 'a'.repeat(700_000) }, 'input'],
    ['an unknown model', { model: 'no-such' }, null],
  ])('%s', async (_name, body, param) => {
    const response = await server.post(PATH, fields(body))
    const error = await errorOf(response)
    expect({ status: response.status, param: error.param }, error.message).toEqual({ status: 400, param })
  })

  test('a model whose engine cannot read', async () => {
    const { read } = server.engine
    Object.assign(server.engine, { read: undefined })
    try {
      const response = await server.post(PATH, fields({}))
      expect(response.status).toBe(400)
      expect(await errorOf(response)).toMatchObject({ param: 'model', message: expect.stringContaining('does not') })
    } finally {
      Object.assign(server.engine, { read })
    }
  })
})

describe('the official client', () => {
  test('asks 400 questions of all types', async () => {
    const questions = Array.from({ length: 400 }, (_, i): OpenAI.DecisionCreateParams['questions'][number] => {
      const name = `q${i}`
      if (i % 3 === 0) return { type: 'predicate', instructions: `Is it ${i}?`, name }
      if (i % 3 === 1)
        return {
          type: 'choice',
          instructions: 'Which?',
          choices: [{ value: true }, { value: 'a', description: 'b' }],
          name,
        }
      return {
        type: 'score',
        instructions: 'How?',
        levels: [{ label: 'bad' }, { label: 'good', description: 'very' }],
        name,
      }
    })
    const decision = await client.decisions.create({
      model: MODEL,
      input: [
        {
          role: 'user',
          content: [
            { type: 'input_image', image_url: picture, detail: 'high' },
            { type: 'input_json', data: [{ a: 1 }] },
          ],
        },
      ],
      questions,
      prompt_cache_key: 'k',
      prompt_cache_options: { mode: 'implicit', ttl: '30m' },
      safety_identifier: 'someone',
    })
    expect(decision.answers.map(({ name }) => name)).toEqual(questions.map(({ name }) => name))
    expect(decision.answers.map(({ type }) => type)).toEqual(questions.map(({ type }) => type))
    expect(decision.usage.input_tokens_details.cached_tokens).toBeGreaterThan(0)
  })

  test('gets an error that it knows', async () => {
    const asked = client.decisions.create({ model: MODEL, input: 'a', questions: [] })
    await expect(asked).rejects.toMatchObject({ status: 400, param: 'questions', type: 'invalid_request_error' })
    await expect(asked).rejects.toBeInstanceOf(OpenAI.BadRequestError)
  })
})

test('large pictures leave the event loop, wherever they stand', async () => {
  const raw = { width: 400, height: 400, channels: 3 } as const
  const large = (
    await sharp(randomBytes(3 * 400 * 400), { raw })
      .png()
      .toBuffer()
  ).toString('base64')
  expect(large.length).toBeGreaterThan(200_000)
  const image_url = `data:image/png;base64,${large}`
  const part = { type: 'input_image', image_url }
  await decide({
    input: [
      { role: 'user', content: [part, { type: 'image_url', image_url: { url: image_url } }] },
      { type: 'function_call', call_id: 'a', name: 'look', arguments: '{}' },
      { type: 'function_call_output', call_id: 'a', output: [part] },
    ],
    questions: [{ ...predicate, instructions: [part, { type: 'input_text', text: 'Is it so?' }] }],
  })
  expect(prompt().match(/\[image\]/g)).toHaveLength(4)
  const broken = await server.post(
    PATH,
    fields({
      questions: [
        {
          ...predicate,
          instructions: [{ type: 'input_image', image_url: `data:image/png;base64,${'A'.repeat(200_000)}` }],
        },
      ],
    }),
  )
  expect(await errorOf(broken)).toMatchObject({ param: 'questions[0].instructions[0].image_url' })

  const questions = { so: { type: 'noul', instructions: 'i' } }
  const body = { model: MODEL, state: ['i', 'i'], questions, assets: { i: { data_base64: large } } }
  expect((await server.post('/v1/systemone', body)).status).toBe(200)
  expect(prompt().match(/\[image\]/g)).toHaveLength(3)
})

test('a card says how its model is asked, and how sure it may be', async () => {
  const card = await changedCard((card) => ({
    ...card,
    decision: { labels: 'letters', instructed: true, temperature: { choice: 2 } },
  }))
  const other = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: card.path } })
  try {
    other.engine.script = { read: probable({ A: 0.4, B: 0.1 }) }
    const response = await other.post(PATH, fields({ questions: [colours] }))
    const { answers } = await jsonOf<Decision & Record<string, unknown>>(response)
    expect(answers[0]).toMatchObject({ choice: 'red', x_label_mass: expect.closeTo(0.5, 9) })
    expect((answers[0]!.probabilities as { probability: number }[])[0]!.probability).toBeCloseTo(2 / 3, 9)
    expect(textOf(other.engine.readWorks[0]!.questions[0]!.suffix)).toContain(
      '\n\nA. red\nB. blue\n\nAnswer with the letter',
    )
  } finally {
    await other.close()
    await card.remove()
  }
})

test('how sure a place is, by the fit of detection', async () => {
  const line = { bias: 0, steps: [] }
  const fit = { confidence: { ...line, weights: { begin: 2 } }, complete: { ...line, weights: { more: -2 } } }
  const card = await changedCard(({ decision: _, ...card }) => ({ ...card, detection: fit }))
  const other = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: card.path } })
  try {
    const input = [{ role: 'user', content: [{ type: 'input_image', image_url: picture }] }]
    const questions = [
      { type: 'x_box', instructions: 'heart' },
      { type: 'x_point', instructions: 'star' },
      { type: 'x_box', instructions: 'ring' },
    ]
    other.engine.script = {
      branch: ({ param }) => {
        const heart = ['<point_box mention="heart">', ' (100,200) (300,400) </point_box>', '\n']
        const star = ['<point mention="star">', ' (500,250) </point>']
        return { texts: param === 'questions[0]' ? heart : param === 'questions[1]' ? star : ['None.'] }
      },
      alternatives: (text) =>
        text.startsWith('<') ? [{ text: 'None.', mass: 0.2 }] : text === 'None.' ? [{ text: '<', mass: 0.3 }] : [],
    }
    const ask = async (more: object) => {
      const { answers } = await jsonOf<Decision & Record<string, unknown>>(
        await other.post(PATH, fields({ input, questions, ...more })),
      )
      return answers.map(({ confidence }) => confidence)
    }
    const near = (value: number) => expect.closeTo(value, 6)
    expect(await ask({})).toEqual([near(16 / 17), near(16 / 17), near(49 / 58)])
    expect(await ask({ x_calibrated: false })).toEqual([near(0.8), near(0.8), near(0.7)])
  } finally {
    await other.close()
    await card.remove()
  }
})

test('requests of both kinds count together', async () => {
  const limited = await startTestServer({ environment: { LOOKOUT_RATE_LIMITS: 'decisions=2' } })
  try {
    const first = await limited.post(PATH, fields({}))
    expect(first.headers.get('x-ratelimit-limit-requests')).toBe('2')
    await limited.post('/v1/systemone', {
      model: MODEL,
      state: 'a',
      questions: { a: { type: 'noul', instructions: 'b?' } },
    })
    const third = await limited.post(PATH, fields({}))
    expect(third.status).toBe(429)
    expect(third.headers.get('retry-after')).toMatch(/^\d+$/)
  } finally {
    await limited.close()
  }
})

test('when the client leaves, the engine stops', async () => {
  server.engine.script = { delayMs: 20 }
  const leaving = new AbortController()
  const left = fetch(server.url + PATH, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.service.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify(fields({ questions: Array(400).fill(predicate) })),
    signal: leaving.signal,
  })
  left.catch(() => {})
  await expect.poll(() => server.engine.readWorks.length).toBe(1)
  leaving.abort()
  await expect.poll(() => server.engine.signals.at(-1)!.aborted).toBe(true)
})
