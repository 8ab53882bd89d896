import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startEngine } from '../src/inference/engines/engines.ts'
import { loadLocalCard } from '../src/models/card.ts'
import { float32, string, type Tensor, uint32, type WrittenFile, writeGguf } from './support/gguf-writer.ts'
import { errorOf, jsonOf, startTestServer, type TestServer } from './support/server.ts'
import { glm4v } from './support/tiny-models/glm.ts'
import { languageModel } from './support/tiny-models/language.ts'
import { loraOf, mergedModel } from './support/tiny-models/lora.ts'
import { CHAT_ML_TEMPLATE, CHAT_ML_TOKENS } from './support/tiny-models/tiny-model.ts'
import { bytePairs } from './support/tiny-models/vocabulary.ts'

/** llama.cpp rounds keys and values to 16 bits, and adds up in another order. */
const PARITY = 2e-3
const SCALE = 0.5
const vocabulary = bytePairs({
  control: CHAT_ML_TOKENS,
  texts: ['\n\n'],
  addsBos: false,
  chatTemplate: CHAT_ML_TEMPLATE,
})
const base = languageModel({ architecture: 'qwen3', vocabulary, seed: 'adapters', qkNorm: true })
const layers = loraOf(base, { seed: 'layers', changes: (name) => name.startsWith('blk.') })
const whole = loraOf(base, { seed: 'whole' })
/** The ids of adapters, and of models that have the same in their weights. */
const SAME = [
  ['base', 'plain'],
  ['base:layers', 'with-layers'],
  ['base:whole', 'with-whole'],
] as const
const IDS = SAME.map(([id]) => id)

let folder: string
let server: TestServer

async function write(id: string, file: WrittenFile, engine: object = {}): Promise<void> {
  await mkdir(join(folder, id))
  await writeGguf(join(folder, id, 'model.gguf'), file)
  const card = { serves: [{ id }], engine: { model: 'model.gguf', contextTokens: 2048, ...engine }, load: 'first_use' }
  await writeFile(join(folder, id, 'card.json'), JSON.stringify(card))
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lookout-adapters-'))
  await write('base', base, {
    adapters: [
      { name: 'layers', path: '../layers.gguf' },
      { name: 'whole', path: '../whole.gguf', scale: SCALE },
    ],
  })
  await write('plain', base)
  await write('with-layers', mergedModel(base, layers))
  await write('with-whole', mergedModel(base, whole, SCALE))
  await writeGguf(join(folder, 'layers.gguf'), layers)
  await writeGguf(join(folder, 'whole.gguf'), whole)
  server = await startTestServer({
    startEngine,
    environment: { LOOKOUT_MODELS: folder, LOOKOUT_COMPATIBILITY: 'openai' },
  })
})
afterAll(async () => {
  await server?.close()
  await rm(folder, { recursive: true, force: true })
})

interface Reply {
  readonly system_fingerprint: string
  readonly choices: readonly [
    { readonly logprobs: { readonly content: readonly { readonly token: string; readonly logprob: number }[] } },
  ]
}

async function chat(model: string, content: string): Promise<Reply> {
  const messages = [{ role: 'user', content }]
  const fields = { logprobs: true, top_logprobs: 2, max_tokens: 24, temperature: 0 }
  const response = await server.post('/v1/chat/completions', { model, messages, ...fields })
  expect(response.status).toBe(200)
  return jsonOf<Reply>(response)
}

const tokensOf = ({ choices }: Reply) => choices[0].logprobs.content
const USER = { role: 'user', content: 'What?' }
const LONG = 'A story about a robot that draws boxes. '.repeat(8)

test('adapters are models of their own in the list', async () => {
  const { data } = await jsonOf<{ data: { id: string }[] }>(await server.get('/v1/models'))
  expect(data.map(({ id }) => id).filter((id) => id.startsWith('base'))).toEqual(IDS)
  const other = await server.post('/v1/chat/completions', { model: 'base:other', messages: [USER] })
  expect(await errorOf(other)).toMatchObject({ message: "Model 'base:other' does not exist" })
})

test.each(SAME)('the log-probabilities of %s are those of weights with the same in them', async (id, merged) => {
  const [reply, expected] = await Promise.all([id, merged].map((model) => chat(model, LONG)))
  const [tokens, same] = [tokensOf(reply!), tokensOf(expected!)]
  expect(tokens.map(({ token }) => token)).toEqual(same.map(({ token }) => token))
  const difference = Math.max(...tokens.map(({ logprob }, at) => Math.abs(logprob - same[at]!.logprob)))
  expect(difference).toBeLessThan(PARITY)
})

test('decisions are made with the adapter, too', async () => {
  const questions = [{ type: 'choice', instructions: 'Which?', choices: [{ value: 'red' }, { value: 'blue' }] }]
  const decide = async (model: string) => {
    const response = await server.post('/v1/decisions', { model, input: LONG, questions })
    const { answers } = await jsonOf<{ answers: [{ probabilities: { probability: number }[] }] }>(response)
    return answers[0].probabilities[0]!.probability
  }
  const found = await Promise.all(SAME.flat().map(decide))
  for (let at = 0; at < found.length; at += 2) expect(Math.abs(found[at]! - found[at + 1]!)).toBeLessThan(PARITY)
  expect(new Set(found.map((probability) => probability.toFixed(2))).size).toBeGreaterThan(1)
})

/** Tokens of a prompt that had been computed before. */
async function cachedOf(model: string, input: string): Promise<number> {
  const response = await server.post('/v1/responses', { model, input, max_output_tokens: 16, temperature: 0 })
  interface Body {
    readonly usage: { readonly input_tokens_details: { readonly cached_tokens: number } }
  }
  return (await jsonOf<Body>(response)).usage.input_tokens_details.cached_tokens
}

test('no id uses what another one has computed', async () => {
  const prompt = `Once. ${LONG}`
  for (const id of IDS) {
    // The beginning of a prompt is the same as those of other tests.
    expect(await cachedOf(id, prompt)).toBeLessThan(LONG.length / 2)
    expect(await cachedOf(id, prompt)).toBeGreaterThan(LONG.length / 2)
  }
})

test('replies are the same at the same time as alone, and each id has a fingerprint of its own', async () => {
  const prompt = `${LONG} Twice.`
  const alone = []
  for (const id of IDS) alone.push(await chat(id, prompt))
  expect(new Set(alone.map((reply) => JSON.stringify(tokensOf(reply)))).size).toBe(IDS.length)
  expect(new Set(alone.map(({ system_fingerprint }) => system_fingerprint)).size).toBe(IDS.length)
  const together = await Promise.all([...IDS, ...IDS, ...IDS].map((id) => chat(id, prompt)))
  for (const [at, reply] of together.entries()) expect(tokensOf(reply)).toEqual(tokensOf(alone[at % IDS.length]!))
})

describe('a file that does not fit', () => {
  const change = (fields: object, tensors: readonly Tensor[] = layers.tensors): WrittenFile => ({
    metadata: new Map([...layers.metadata, ...Object.entries(fields)]),
    tensors,
  })
  const [first, second, ...others] = layers.tensors
  const cases: readonly (readonly [string, WrittenFile])[] = [
    ['is no LoRA adapter', base],
    ['is no LoRA adapter', change({ 'adapter.type': string('control_vector') })],
    ["is for the architecture 'llama'", change({ 'general.architecture': string('llama') })],
    ['is an activated LoRA adapter', change({ 'adapter.alora.invocation_tokens': uint32(1) })],
    ['has no valid alpha', change({ 'adapter.lora.alpha': uint32(8) })],
    ['has no valid alpha', change({ 'adapter.lora.alpha': float32(Number.NaN) })],
    ['has no tensors', change({}, [])],
    ['which no LoRA adapter has', change({}, [{ ...first!, name: 'blk.0.attn_q.weight' }, ...others])],
    ['in a type that no LoRA adapter has', change({}, [{ ...first!, type: 12, shape: [256, 4] }, second!])],
    ['has only half of what changes', change({}, [first!])],
    ['which the model does not have', change({}, [{ ...first!, name: 'blk.9.attn_q.weight.lora_a' }, second!])],
    ['which has another shape', change({}, [{ ...first!, shape: [first!.shape[0]! / 2, 8] }, second!])],
    ['which has another shape', change({}, [{ ...first!, shape: [...first!.shape, 2] }, second!])],
  ]

  test.each(cases)('%s', async (problem, file) => {
    const id = `bad-${cases.findIndex(([, other]) => other === file)}`
    await write(id, base, { adapters: [{ name: 'bad', path: 'bad.gguf' }] })
    await writeGguf(join(folder, id, 'bad.gguf'), file)
    const card = await loadLocalCard(join(folder, id, 'card.json'))
    expect(card.serves.map((served) => served.id)).toEqual([id, `${id}:bad`])
    await expect(startEngine(card)).rejects.toThrow(problem)
  })
})

test('what llama.cpp would end the process at is refused', async () => {
  const glm = glm4v.language()
  await write('glm', glm, { adapters: [{ name: 'all', path: 'all.gguf' }] })
  await writeGguf(join(folder, 'glm', 'all.gguf'), loraOf(glm, { seed: 'glm' }))
  const message = /changes 'blk\.0\.attn_output\.weight', which llama\.cpp cannot do in the architecture 'glm4'/
  await expect(startEngine(await loadLocalCard(join(folder, 'glm', 'card.json')))).rejects.toThrow(message)
})

test('an id that names an adapter of which there is none is an error of the card', async () => {
  await write('lost', base)
  const file = join(folder, 'lost', 'card.json')
  const engine = { model: 'model.gguf', adapters: [{ name: 'a', path: 'a.gguf' }] }
  await writeFile(file, JSON.stringify({ serves: [{ id: 'lost', adapter: 'b' }], engine }))
  await expect(loadLocalCard(file)).rejects.toThrow("names an adapter that is not in 'engine.adapters'")
})
