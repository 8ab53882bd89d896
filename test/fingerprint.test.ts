import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Numerics } from '../src/inference/contract/engine.ts'
import { chunksOf } from './support/chat.ts'
import { jsonOf, startTestServer, type TestServer } from './support/server.ts'

/** What answers say that their numbers depend on. */
const NUMERICS: Numerics = {
  fingerprint: 'fp_0123456789ab',
  parts: { weights: 'a', template: 'b', release: 'Lookout 1', kernels: 'ours', settings: 'f16 keys and values' },
  isInvariant: true,
}
const HEADER = 'x-lookout-fingerprint'
const CHAT = '/v1/chat/completions'
const asked = { model: 'service-mk1.5', messages: [{ role: 'user', content: 'Hello!' }] }
const picture = readFileSync('docs/pictures/shapes.png', 'base64')

let contract: TestServer
let openAi: TestServer
beforeAll(async () => {
  contract = await startTestServer({ environment: { LOOKOUT_OLLAMA: 'on' } })
  openAi = await startTestServer({ environment: { LOOKOUT_COMPATIBILITY: 'openai' } })
  for (const { engine } of [contract, openAi]) engine.numerics = NUMERICS
})
afterAll(async () => {
  await contract?.close()
  await openAi?.close()
})

test('chats for OpenAI’s clients have it in the reply and in every chunk', async () => {
  expect(await jsonOf(await openAi.post(CHAT, asked))).toMatchObject({ system_fingerprint: NUMERICS.fingerprint })
  for (const fields of [{}, { n: 2 }, { logprobs: true }]) {
    const stream_options = { include_usage: true }
    const chunks = await chunksOf(await openAi.post(CHAT, { ...asked, ...fields, stream: true, stream_options }))
    expect(chunks.length).toBeGreaterThan(3)
    for (const chunk of chunks) expect(chunk).toHaveProperty('system_fingerprint', NUMERICS.fingerprint)
  }
})

test('the contract’s replies have no field for it', async () => {
  expect(await jsonOf(await contract.post(CHAT, asked))).not.toHaveProperty('system_fingerprint')
  for (const chunk of await chunksOf(await contract.post(CHAT, { ...asked, stream: true })))
    expect(chunk).not.toHaveProperty('system_fingerprint')
})

const question = { type: 'predicate', instructions: 'Is it red?' }
test.each<[string, string, object]>([
  ['a chat', CHAT, asked],
  ['a streamed chat', CHAT, { ...asked, stream: true }],
  ['multilook', `${CHAT}/multilook`, { model: asked.model, context: asked.messages, prompts: ['What?'] }],
  [
    'detect',
    '/v1/detect',
    { media: { type: 'image', image_url: `data:image/png;base64,${picture}` }, categories: ['cat', 'dog'] },
  ],
  ['a response', '/v1/responses', { model: asked.model, input: 'Hello!' }],
  ['a streamed response', '/v1/responses', { model: asked.model, input: 'Hello!', stream: true }],
  ['a message', '/v1/messages', { ...asked, max_tokens: 9 }],
  ['a streamed message', '/v1/messages', { ...asked, max_tokens: 9, stream: true }],
  ['Ollama’s lines', '/api/chat', asked],
  ['decisions', '/v1/decisions', { model: asked.model, input: 'A ball.', questions: [question] }],
])('the headers of %s have it', async (_what, path, body) => {
  contract.engine.script = { texts: ['Hello', ' there.'] }
  const response = await contract.post(path, body)
  expect([response.status, response.headers.get(HEADER)]).toEqual([200, NUMERICS.fingerprint])
  await response.text()
})

test('models say what it stands for, once they are loaded', async () => {
  const path = '/v1/models/service-mk1.5'
  const { fingerprint, parts } = NUMERICS
  expect(await jsonOf(await contract.get(`${path}?extended=true`))).toMatchObject({
    fingerprint,
    fingerprint_parts: parts,
  })
  expect(await jsonOf(await contract.get(path))).not.toHaveProperty('fingerprint')
})

test('where it is not known, there is none', async () => {
  openAi.engine.numerics = null
  const response = await openAi.post(CHAT, asked)
  expect([response.status, response.headers.has(HEADER)]).toEqual([200, false])
  expect(await jsonOf(response)).not.toHaveProperty('system_fingerprint')
  expect(await jsonOf(await openAi.get('/v1/models/service-mk1.5?extended=true'))).not.toHaveProperty('fingerprint')
})
