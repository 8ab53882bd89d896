import OpenAI, { toFile } from 'openai'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { changedCard, type TemporaryCard } from './support/changed-card.ts'
import { promptText } from './support/chat.ts'
import { errorOf, jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'
import { makeAudio, tone } from './support/video.ts'

const MODEL = 'service-mk1.5'
const RATE = 16_000

let sound: Uint8Array<ArrayBuffer>
let card: TemporaryCard
let server: TestServer

beforeAll(async () => {
  const samples = Float32Array.from({ length: RATE }, (_, at) => tone(at / RATE))
  sound = new Uint8Array(await makeAudio({ format: 'wav', samples, rate: RATE }))
  card = await changedCard((card) => ({
    ...card,
    audio: { tokensPerSecond: 12.5, windowSeconds: 1, maxTokens: 1024 },
    serves: [{ ...card.serves[0]!, modalities: ['text', 'image', 'video', 'audio'] }],
  }))
  server = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: card.path } })
})
afterAll(async () => {
  await server?.close()
  await card?.remove()
})
beforeEach(() => {
  server.engine.works.length = 0
  server.engine.script = { texts: ['Mary had', ' a lamb.'] }
})

const asked = () => promptText(server.engine)

function post(...fields: readonly (readonly [string, string])[]): Promise<Response> {
  const form = new FormData()
  if (!fields.some(([name]) => name === 'model')) form.append('model', MODEL)
  for (const [name, value] of fields) form.append(name, value)
  form.append('file', new File([sound], 'speech.wav'))
  const headers = { authorization: `Bearer ${KEY}` }
  return fetch(`${server.url}/v1/audio/transcriptions`, { method: 'POST', headers, body: form })
}

test.each([
  ['multipart', new FormData()],
  ['URL-encoded', new URLSearchParams()],
])('a %s form of too many parts is refused: reading a million of them holds up other requests', async (_, body) => {
  for (let at = 0; at < 258; at++) body.append(`field-${at}`, '1')
  const headers = { authorization: `Bearer ${KEY}` }
  const response = await fetch(`${server.url}/v1/audio/transcriptions`, { method: 'POST', headers, body })
  const { message } = await errorOf(response)
  expect([response.status, message]).toEqual([400, 'A form may have at most 257 parts'])
})

test('the model is told each language that may be spoken, and the words that may occur', async () => {
  const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: KEY, maxRetries: 0 })
  const file = await toFile(sound, 'speech.wav')
  const hints = { languages: ['de', 'en'], keywords: ['Szczepański', 'Lookout'], prompt: 'A call.' }
  const asks = { model: MODEL, file, response_format: 'verbose_json', ...hints } as const
  expect(await client.audio.transcriptions.create(asks)).toMatchObject({ text: 'Mary had a lamb.', language: 'und' })
  expect(asked()).toContain('It is in German or English. Context: A call.\nSzczepański, Lookout')
})

test('one language of a list is the language', async () => {
  expect(await jsonOf(await post(['languages[]', 'de']))).toMatchObject({ language: 'de' })
  expect(asked()).toContain('It is in German.')
})

test('Mistral’s clients may name several words', async () => {
  const reply = await jsonOf(await post(['context_bias', 'Szczepański'], ['context_bias', 'Lookout']))
  expect(reply).toMatchObject({ text: 'Mary had a lamb.', language: null })
  expect(asked()).toContain('Context: Szczepański, Lookout')
})

test('an empty field counts as left out', async () => {
  const names = ['language', 'languages[]', 'temperature', 'response_format', 'prompt', 'stream', 'file_id', 'keywords']
  const response = await post(...names.map((name) => [name, ''] as const))
  expect([response.status, (await jsonOf(response)).text]).toEqual([200, 'Mary had a lamb.'])
  expect(asked()).not.toContain('Context')
})

test.each([
  ['languages[0]', ['languages[]', 'German please'], /a code such as 'en'/],
  ['languages', ['languages', 'en-12'], /a code such as 'en'/],
  ['model', ['model', ''], /required/],
] as const)('an error names %s', async (param, field, message) => {
  const response = await post(field)
  expect(response.status).toBe(400)
  expect(await errorOf(response)).toMatchObject({ param, message: expect.stringMatching(message) })
})

test('a field that is no list comes once', async () => {
  const response = await post(['prompt', 'a'], ['prompt', 'b'])
  expect(response.status).toBe(400)
  expect((await errorOf(response)).message).toBe("The form has two parts with the name 'prompt'")
})
