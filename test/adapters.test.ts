import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startEngine } from '../src/inference/engines/engines.ts'
import { loadLocalCard } from '../src/models/card.ts'
import { readGgufHeader } from '../src/models/read/gguf.ts'
import { float32, string, type Tensor, uint32, type WrittenFile, writeGguf } from './support/gguf-writer.ts'
import { CARD } from './support/local-engine.ts'
import { errorOf, jsonOf, startTestServer, type TestServer } from './support/server.ts'
import { gemma4 } from './support/tiny-models/gemma.ts'
import { glm4v } from './support/tiny-models/glm.ts'
import { languageModel } from './support/tiny-models/language.ts'
import { loraOf, mergedModel } from './support/tiny-models/lora.ts'
import { qwen3VlMoe } from './support/tiny-models/qwen.ts'
import { lfm2Vl } from './support/tiny-models/tiles.ts'
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
const seeing = qwen3VlMoe.language()
const experts = loraOf(seeing, { seed: 'experts', changes: (name) => name.includes('_exps') })
const attention = loraOf(seeing, { seed: 'attention', changes: (name) => name.includes('.attn_') })

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
  const encoder = { projector: '../mmproj.gguf' }
  const adapters = ['experts', 'attention'].map((name) => ({ name, path: `../${name}.gguf` }))
  await write('seeing', seeing, { ...encoder, adapters })
  await write('with-experts', mergedModel(seeing, experts), encoder)
  await writeGguf(join(folder, 'experts.gguf'), experts)
  await writeGguf(join(folder, 'attention.gguf'), attention)
  await writeGguf(join(folder, 'mmproj.gguf'), qwen3VlMoe.encoder!())
  await writeShipped()
  server = await startTestServer({
    startEngine,
    environment: {
      LOOKOUT_MODEL_CARD: join(folder, 'base', 'card.json'),
      LOOKOUT_MODELS: folder,
      LOOKOUT_COMPATIBILITY: 'openai',
    },
  })
})
afterAll(async () => {
  await server?.close()
  await rm(folder, { recursive: true, force: true })
})

/** The shipped model, with changes that are small enough for it to find something. */
async function writeShipped(): Promise<void> {
  const { directory, engine, image } = await loadLocalCard(CARD)
  const files = { model: join(directory, engine.model), projector: join(directory, engine.projector!) }
  const { fields, tensors } = await readGgufHeader(files.model)
  const architecture = string(String(fields.get('general.architecture')!.value))
  const changed = tensors.filter(({ name }) => name.startsWith('blk.'))
  const shapes = changed.map((tensor) => ({ ...tensor, read: () => Buffer.alloc(0) }))
  const metadata = new Map([['general.architecture', architecture]])
  await writeGguf(join(folder, 'small.gguf'), loraOf({ metadata, tensors: shapes }, { seed: 'small' }))
  const path = '../small.gguf'
  const adapters = Object.entries({ all: 0.2, half: 0.1 }).map(([name, scale]) => ({ name, path, scale }))
  await mkdir(join(folder, 'shipped'))
  const card = {
    family: 'lookout',
    serves: [{ id: 'shipped' }],
    engine: { ...files, adapters },
    image,
    load: 'first_use',
  }
  await writeFile(join(folder, 'shipped', 'card.json'), JSON.stringify(card))
}

interface Reply {
  readonly system_fingerprint: string
  readonly choices: readonly [
    { readonly logprobs: { readonly content: readonly { readonly token: string; readonly logprob: number }[] } },
  ]
}

async function chat(model: string, content: unknown): Promise<Reply> {
  const messages = [{ role: 'user', content }]
  const fields = { logprobs: true, top_logprobs: 2, max_tokens: 24, temperature: 0 }
  const response = await server.post('/v1/chat/completions', { model, messages, ...fields })
  expect(response.status).toBe(200)
  return jsonOf<Reply>(response)
}

const tokensOf = ({ choices }: Reply) => choices[0].logprobs.content
/** The largest difference of log-probabilities of the same tokens. */
function differenceOf(reply: Reply, expected: Reply): number {
  const [tokens, same] = [tokensOf(reply), tokensOf(expected)]
  expect(tokens.map(({ token }) => token)).toEqual(same.map(({ token }) => token))
  return Math.max(...tokens.map(({ logprob }, at) => Math.abs(logprob - same[at]!.logprob)))
}

const WHAT = { type: 'text', text: 'What is here?' }
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
  expect(differenceOf(reply!, expected!)).toBeLessThan(PARITY)
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

describe.each([
  ['that sees and has experts', ['seeing', 'seeing:experts', 'seeing:attention']],
  ['that finds places', ['shipped', 'shipped:all', 'shipped:half']],
])('a model %s', (about, ids) => {
  let image_url: string
  beforeAll(async () => {
    image_url = `data:image/png;base64,${(await readFile('docs/pictures/shapes.png')).toString('base64')}`
  })
  const post = async (path: string, field: string, body: object): Promise<unknown> => {
    const response = await server.post(path, body)
    expect(response.status, await response.clone().text()).toBe(200)
    return (await jsonOf(response))[field]
  }
  const looking = () => [{ role: 'user', content: [{ type: 'image_url', image_url: { url: image_url } }, WHAT] }]
  const asks: Readonly<Record<string, (model: string) => Promise<unknown>>> = {
    'a chat': async (model) => tokensOf(await chat(model, looking()[0]!.content)),
    decisions: (model) => {
      const input = [{ role: 'user', content: [{ type: 'input_image', image_url }] }]
      const questions = [{ type: 'predicate', instructions: 'Is there a blue star?' }]
      return post('/v1/decisions', 'answers', { model, input, questions })
    },
    // Random weights put everything into one corner, and the shipped ones say the same of it.
    ...(about === 'that finds places'
      ? {
          detect: (model) => {
            const config = { confidence: true }
            return post('/v1/detect', 'detections', { model, media: { type: 'image', image_url }, config })
          },
        }
      : {
          'a multilook': (model) => {
            const asked = { context: looking(), prompts: ['What is here?', 'Where is it?'], max_completion_tokens: 16 }
            return post('/v1/chat/completions/multilook', 'results', { model, ...asked })
          },
        }),
  }

  test.each(Object.entries(asks))('%s has a result for each id, the same beside others as alone', async (name, ask) => {
    const alone: unknown[] = []
    for (const id of ids) alone.push(await ask(id))
    expect(new Set(alone.map((result) => JSON.stringify(result))).size).toBe(ids.length)
    const together = [...ids, ...ids].flatMap((id) =>
      Object.entries(asks).map(async ([other, run]) => [other === name, await run(id)] as const),
    )
    const same = (await Promise.all(together)).flatMap(([isSame, result]) => (isSame ? [result] : []))
    expect(same).toEqual([...alone, ...alone])
  })
})

test('an adapter of experts computes what weights with the same in them do', async () => {
  const [reply, expected] = await Promise.all(['seeing:experts', 'with-experts'].map((model) => chat(model, LONG)))
  expect(differenceOf(reply!, expected!)).toBeLessThan(PARITY)
})

test('limits are those of the model, for its adapters too', async () => {
  const detect = async (model: string, fields: object) => {
    const response = await server.post('/v1/detect', {
      model,
      media: { type: 'image', image_url: 'data:,' },
      ...fields,
    })
    return [response.status, await errorOf(response)]
  }
  for (const fields of [{ categories: Array(1000).fill('cat') }, { categories: [] }, { config: { tiles: [0, 1] } }]) {
    const base = await detect('shipped', fields)
    expect(base[0]).toBe(400)
    expect(await detect('shipped:all', fields)).toEqual(base)
  }
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

test.each([
  [lfm2Vl, 'blk.0.shortconv.conv', 'lfm2'],
  [gemma4, 'per_layer_model_proj', 'gemma4'],
])('what llama.cpp would leave unchanged is refused: %#', async (tiny, name, architecture) => {
  const model = tiny.language()
  await write(architecture, model, { adapters: [{ name: 'one', path: 'one.gguf' }] })
  const changes = (tensor: string) => tensor === `${name}.weight`
  await writeGguf(join(folder, architecture, 'one.gguf'), loraOf(model, { seed: name, changes }))
  const message = `changes '${name}.weight', which llama.cpp would leave unchanged in the architecture '${architecture}'`
  await expect(startEngine(await loadLocalCard(join(folder, architecture, 'card.json')))).rejects.toThrow(message)
})

test('changes of embeddings that are the output too are refused', async () => {
  const tied = languageModel({ architecture: 'qwen3', vocabulary, seed: 'tied', qkNorm: true, tied: true })
  await write('tied', tied, { adapters: [{ name: 'all', path: 'all.gguf' }] })
  await writeGguf(join(folder, 'tied', 'all.gguf'), loraOf(tied, { seed: 'tied' }))
  const message = "changes 'token_embd.weight', which is also the output of the model"
  await expect(startEngine(await loadLocalCard(join(folder, 'tied', 'card.json')))).rejects.toThrow(message)
})

test('an id that names an adapter of which there is none is an error of the card', async () => {
  await write('lost', base)
  const file = join(folder, 'lost', 'card.json')
  const engine = { model: 'model.gguf', adapters: [{ name: 'a', path: 'a.gguf' }] }
  await writeFile(file, JSON.stringify({ serves: [{ id: 'lost', adapter: 'b' }], engine }))
  await expect(loadLocalCard(file)).rejects.toThrow("names an adapter that is not in 'engine.adapters'")
})
