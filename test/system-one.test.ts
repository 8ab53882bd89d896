import { readFile } from 'node:fs/promises'
import { zstdCompressSync } from 'node:zlib'
import { choice, noul, score, TypeSafeClient, UnprocessableEntityError } from '@typesafe-ai/sdk'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { PromptPart } from '../src/inference/contract/parts.ts'
import type { ReadQuestion } from '../src/inference/contract/work.ts'
import { internalError, modelOverloaded } from '../src/lib/errors/errors.ts'
import { type TemporaryCard, uncalibratedCard } from './support/changed-card.ts'
import { jsonOf, startTestServer, type TestServer } from './support/server.ts'

const PATH = '/v1/systemone'
const MODEL = 'service-mk1.5'

let server: TestServer
let card: TemporaryCard
let png: Buffer
let client: TypeSafeClient

beforeAll(async () => {
  png = await readFile('docs/pictures/shapes.png')
  card = await uncalibratedCard()
  server = await startTestServer({
    environment: { LOOKOUT_MODEL_CARD: card.path, LOOKOUT_ALIASES: `jev-latest=${MODEL}` },
  })
  client = new TypeSafeClient({
    baseURL: `${server.url}/typesafe`,
    apiKey: server.service.apiKey!,
    retry: { maxRetries: 0 },
  })
})
afterAll(async () => {
  await server?.close()
  await card?.remove()
})
beforeEach(() => {
  server.engine.script = {}
  server.engine.readWorks.length = 0
})

/** Names that objects have by themselves. */
const INHERITED = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'valueOf']

test.each([
  ['small', 0],
  ['large, which a thread parses', 200_000],
])('names that objects have by themselves are names like any other: %s', async (_size, padding) => {
  server.engine.script = { read: ({ replies }) => replies.map((_, i) => Math.log(i === 0 ? 0.75 : 0.0625)) }
  const choice = `{"type": "choice", "criteria": {${INHERITED.map((name) => `"${name}": null`).join()}}}`
  const body = `{"model": "${MODEL}", "state": {"__proto__": "inherited"},${' '.repeat(padding)}
    "questions": {${INHERITED.map((name) => `"${name}": ${choice}`).join()}},
    "assets": {"__proto__": {"data_base64": "${png.toString('base64')}"}}}`
  const response = await server.post(PATH, body)
  const text = await response.text()
  expect(response.status, text.slice(0, 1000)).toBe(200)
  // As text: matchers compare prototypes.
  for (const name of INHERITED) expect(text).toContain(`"${name}":{"type":"choice","choice":"__proto__"`)
  expect(text.match(/"hasOwnProperty":0\.\d+/g)).toHaveLength(INHERITED.length)
  expect(textOf(server.engine.readWorks[0]!.prefix)).toContain('{"[image]":"inherited"}')
  expect(({} as Record<string, unknown>).data_base64).toBeUndefined()
})

interface Answers {
  readonly answers: Readonly<Record<string, Readonly<Record<string, unknown>>>>
}

interface Fault {
  readonly detail: readonly {
    readonly loc: readonly (string | number)[]
    readonly msg: string
    readonly type: string
  }[]
}

const questions = { there: { type: 'noul', instructions: 'Is there a heart?' } }
const fields = (body: object) => ({ model: MODEL, state: 'A story.', questions, ...body })

function probable(odds: Readonly<Record<string, number>>) {
  return ({ replies }: ReadQuestion) => replies.map((reply) => Math.log(odds[reply] ?? 0))
}

function textOf(parts: readonly PromptPart[]): string {
  return parts.map((part) => (part.type === 'text' ? part.text : `[${part.type}]`)).join('')
}

function prompt(index = 0): string {
  const work = server.engine.readWorks.at(-1)!
  return textOf(work.prefix) + textOf(work.questions[index]!.suffix)
}

describe('the official client', () => {
  test('gets answers of all its types, by name, from the model that an alias names', async () => {
    server.engine.script = {
      read: probable({ 'Yes.': 0.3, 'No.': 0.1, 'Calm.': 0.4, 'Angry.': 0.1, 'Later.': 0.2, 'Now.': 0.2 }),
    }
    const result = client.systemOne({
      state: { subject: 'Hello', rows: [1, 2] },
      questions: {
        spam: noul('Is it spam?', { true: 'Unsolicited.' }),
        tone: choice('Which tone?', { calm: null, angry: 'upset' }),
        urgency: score('How urgent?', ['later', 'soon', 'now']),
      },
    })
    const { data, requestId } = await result.withResponse()
    const near = (value: number) => expect.closeTo(value, 9)
    expect(data).toEqual({
      model: 'jev-latest',
      answers: {
        spam: { type: 'noul', noul: near(0.75) },
        tone: {
          type: 'choice',
          choice: 'calm',
          confidence: near(0.8 * 0.5),
          probabilities: { calm: near(0.8), angry: near(0.2) },
        },
        urgency: {
          type: 'score',
          score: near(1),
          confidence: near(0.5 * 0.4),
          legend: { 0: 'later', 1: 'soon', 2: 'now' },
          probabilities: { 0: near(0.5), 1: 0, 2: near(0.5) },
        },
      },
      usage: { input_tokens: expect.any(Number), output_tokens: 0 },
    })
    expect(requestId).toMatch(/^[0-9a-f]{32}$/)
    expect(prompt()).toContain(
      '<|im_start|>user\n{"subject":"Hello","rows":[1,2]}\n\nIs it spam?\n\nYes: Unsolicited.<|im_end|>',
    )
  })

  test('lists the models', async () => {
    expect(await client.models.list()).toEqual([
      {
        name: MODEL,
        description: expect.stringContaining('Lookout'),
        release_date: expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
      },
      { name: 'service-mk1', description: expect.any(String), release_date: expect.any(String) },
    ])
  })

  test('is told where a request is wrong', async () => {
    const asked = client.systemOne({ state: 'a', questions: { 'a.b': { type: 'choice', criteria: {} } } })
    await expect(asked).rejects.toBeInstanceOf(UnprocessableEntityError)
    await expect(asked).rejects.toThrow(/questions\.a\.b\.criteria: .*expected 1 to 255 choices/)
  })

  test('waits when the server is busy, and then gets its answer', async () => {
    let refusals = 1
    server.engine.script = { refusal: () => (refusals-- > 0 ? modelOverloaded('Busy.', 0.05) : undefined) }
    const patient = new TypeSafeClient({ baseURL: server.url, apiKey: server.service.apiKey!, defaultModel: MODEL })
    const { answers } = await patient.systemOne({ state: 'a', questions: { a: noul('b?') } })
    expect(answers.a.noul).toBe(0.5)
  })
})

describe('assets', () => {
  const data_base64 = () => png.toString('base64')

  test('stand where their placeholders do, in state, instructions and criteria, also within JSON', async () => {
    const response = await server.post(
      PATH,
      fields({
        state: { photo: '<image:1>', note: 'see <image:"2">!' },
        questions: {
          same: { type: 'noul', instructions: 'Is it <image:1>?' },
          which: { type: 'choice', instructions: 'Which?', criteria: { first: '<image:1>', second: ['<image:"2">'] } },
          level: { type: 'score', instructions: 'How?', criteria: ['bad', '<image:1>', null] },
        },
        assets: {
          '<image:1>': { type: 'image', format: 'png', data_base64: data_base64() },
          '<image:"2">': { data_base64: data_base64() },
        },
      }),
    )
    expect(response.status, await response.clone().text()).toBe(200)
    expect(prompt(0)).toContain('{"photo":"[image]","note":"see [image]!"}\n\nIs it [image]?')
    expect(prompt(1)).toContain('Which?\n\n- first: [image]\n- second: ["[image]"]')
    expect(prompt(2)).toContain('How?\n\n0. bad\n1. [image]\n2. 2\n\nAnswer with the number')
    const { answers } = await jsonOf<Answers & Record<string, unknown>>(response)
    expect(answers.level!.legend).toEqual({ 0: 'bad', 1: '<image:1>', 2: '2' })
  })

  test('come as parts of a form', async () => {
    const form = new FormData()
    const body = fields({
      state: 'photo',
      questions: { box: { type: 'box', instructions: 'heart' }, ...questions },
      assets: { photo: { type: 'image', part: 'asset-0' } },
    })
    form.set('request', new Blob([JSON.stringify(body)], { type: 'application/json' }))
    form.set('asset-0', new Blob([new Uint8Array(png)], { type: 'image/png' }), 'asset-0')
    server.engine.script = { texts: ['<point_box mention="heart"> (100,200) (300,400) </point_box>'] }
    const response = await fetch(server.url + PATH, {
      method: 'POST',
      headers: { authorization: `Bearer ${server.service.apiKey}`, 'TypeSafe-Danger-Zone-Images': 'true' },
      body: form,
    })
    expect(await response.json()).toMatchObject({
      answers: {
        box: {
          type: 'box',
          box: { top: 0.2, bottom: 0.4, left: 0.1, right: 0.3 },
          confidence: expect.closeTo(1 / 3, 9),
        },
        there: { type: 'noul' },
      },
      usage: { output_tokens: 1 },
    })
    expect(response.headers.get('x-typesafe-request-id')).toBe(response.headers.get('x-trace-id'))
    expect(prompt()).toContain('<|im_start|>user\n[image]Is there a heart?')
  })

  test('a box that is not found is the whole image, without confidence', async () => {
    server.engine.script = { texts: ['None.'] }
    const response = await server.post(
      PATH,
      fields({
        state: 'i',
        questions: { box: { type: 'box', instructions: 'heart' } },
        assets: { i: { data_base64: data_base64() } },
      }),
    )
    expect(await response.json()).toMatchObject({
      answers: { box: { box: { top: 0, bottom: 1, left: 0, right: 1 }, confidence: 0 } },
    })
  })
})

describe('forms that are wrong', () => {
  const send = (body: string | FormData, type?: string) =>
    fetch(server.url + PATH, {
      method: 'POST',
      headers: { authorization: `Bearer ${server.service.apiKey}`, ...(type && { 'content-type': type }) },
      body,
    })
  const request = (assets: object) => new Blob([JSON.stringify(fields({ assets }))], { type: 'application/json' })

  test('no boundary, no parts, a cut form', async () => {
    for (const [body, type] of [
      ['a', 'multipart/form-data'],
      ['--x--\r\n', 'multipart/form-data; boundary=x'],
      ['--x\r\nContent-Disposition: form-data; name="request"\r\n\r\n{}', 'multipart/form-data; boundary=x'],
    ] as const) {
      const response = await send(body, type)
      expect(response.status, body).toBe(422)
      expect((await jsonOf<Fault & Record<string, unknown>>(response)).detail[0]!.loc).toEqual(['body'])
    }
  })

  test('a part that is missing, and a part that is no image', async () => {
    const missing = new FormData()
    missing.set('request', request({ 'a.b': { part: 'asset-0' } }))
    const response = await send(missing)
    expect(response.status).toBe(422)
    expect((await jsonOf<Fault & Record<string, unknown>>(response)).detail[0]).toMatchObject({
      loc: ['body', 'assets', 'a.b', 'part'],
    })

    const broken = new FormData()
    broken.set('request', new Blob([JSON.stringify(fields({ state: 'a.b', assets: { 'a.b': { part: 'asset-0' } } }))]))
    broken.set('asset-0', new Blob(['no image']))
    const second = await send(broken)
    expect(second.status).toBe(422)
    expect((await jsonOf<Fault & Record<string, unknown>>(second)).detail[0]).toMatchObject({
      loc: ['body', 'assets', 'a.b'],
    })
  })

  test('a part twice', async () => {
    const form = new FormData()
    form.set('request', request({ a: { part: 'asset-0' } }))
    form.append('asset-0', new Blob(['a']))
    form.append('asset-0', new Blob(['b']))
    expect((await send(form)).status).toBe(422)
  })
})

describe('bodies compressed with zstd', () => {
  const compressed = (bytes: Uint8Array) => server.post(PATH, bytes, { 'content-encoding': 'zstd' })

  test('are read', async () => {
    const response = await compressed(zstdCompressSync(JSON.stringify(fields({ state: 'a '.repeat(100_000) }))))
    // It is too long for the model, so it was read.
    expect((await jsonOf<Fault & Record<string, unknown>>(response)).detail[0]!.msg).toContain('context')
    expect((await compressed(zstdCompressSync(JSON.stringify(fields({}))))).status).toBe(200)
  })

  test('are limited by what they unfold to', async () => {
    const response = await compressed(zstdCompressSync(Buffer.alloc(64 * 2 ** 20, ' ')))
    expect(response.status).toBe(413)
    expect(await response.json()).toEqual({ detail: expect.stringContaining('larger than') })
  })

  test('that are none are refused, and elsewhere all are', async () => {
    expect((await compressed(Buffer.from('{}'))).status).toBe(422)
    expect((await server.post('/v1/decisions', zstdCompressSync('{}'), { 'content-encoding': 'zstd' })).status).toBe(
      415,
    )
  })
})

describe('errors', () => {
  test.each<[string, object, (string | number)[]]>([
    ['no questions', { questions: {} }, ['questions']],
    [
      'too many questions',
      { questions: Object.fromEntries(Array.from({ length: 401 }, (_, i) => [`q${i}`, questions.there])) },
      ['questions'],
    ],
    ['an unknown type', { questions: { a: { type: 'predicate' } } }, ['questions', 'a', 'type']],
    ['an unknown field', { stream: true }, ['stream']],
    [
      'an unknown field of a question',
      { questions: { 'a.b[0]': { ...questions.there, foo: 1 } } },
      ['questions', 'a.b[0]', 'foo'],
    ],
    [
      'a noul without anything',
      { questions: { a: { type: 'noul', criteria: { true: null } } } },
      ['questions', 'a', 'instructions'],
    ],
    ['no levels', { questions: { a: { type: 'score', criteria: [] } } }, ['questions', 'a', 'criteria']],
    [
      'a criterion that is a number',
      { questions: { a: { type: 'score', criteria: ['a', 1] } } },
      ['questions', 'a', 'criteria', 1],
    ],
    ['a box without an image', { questions: { a: { type: 'box', instructions: 'b' } } }, ['questions', 'a', 'type']],
    [
      'a question that is too long',
      { questions: { a: { type: 'noul', instructions: 'b'.repeat(700_000) } } },
      ['questions', 'a'],
    ],
    ['an asset without an image', { assets: { a: {} } }, ['assets', 'a', 'data_base64']],
    ['an asset that is no image', { state: 'see a', assets: { a: { data_base64: 'AAAA' } } }, ['assets', 'a']],
    ['no state', { state: undefined }, ['state']],
    ['an unknown model', { model: 'none' }, ['model']],
  ])('%s', async (_name, body, loc) => {
    const response = await server.post(PATH, fields(body))
    const fault = await jsonOf<Fault & Record<string, unknown>>(response)
    expect(response.status, JSON.stringify(fault)).toBe(422)
    expect(fault).toEqual({ detail: [{ loc: ['body', ...loc], msg: expect.any(String), type: expect.any(String) }] })
  })

  test('others are a sentence, with the request id', async () => {
    const response = await server.post(PATH, fields({}), { authorization: 'Bearer wrong' })
    expect(response.status).toBe(401)
    expect(response.headers.get('x-typesafe-request-id')).toMatch(/^[0-9a-f]{32}$/)
    expect(await response.json()).toEqual({ detail: 'Invalid API key' })
    expect((await server.get(PATH)).status).toBe(405)
  })

  test('a question without an answer fails the request', async () => {
    server.engine.script = { read: (_question, index) => (index === 0 ? internalError(new Error('boom')) : [-1, -1]) }
    const response = await server.post(PATH, fields({ questions: { a: questions.there, b: questions.there } }))
    expect(response.status).toBe(500)
    server.engine.script = { read: probable({}) }
    const second = await server.post(PATH, fields({}))
    expect(second.status).toBe(422)
    expect((await jsonOf<Fault & Record<string, unknown>>(second)).detail[0]!.loc).toEqual([
      'body',
      'questions',
      'there',
    ])
  })
})
