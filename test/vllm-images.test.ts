/** Images of models of several families on servers of vLLM: what is sent, what is counted, and what is said where they are not served. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { MeasuredPrompt } from '../src/conversation/prompt/token-budget.ts'
import { startRemoteEngine } from '../src/inference/remote/start.ts'
import { lineBreaks } from '../src/inference/remote/tokens/line-breaks.ts'
import { loadCard, remoteCard } from '../src/models/card.ts'
import { outcomeOf, startLookout } from './support/command-line.ts'
import { picture as pixels } from './support/local-engine.ts'
import { errorOf, jsonOf, startTestServer, type TestServer } from './support/server.ts'
import { ORIGINALS, PROCESSORS, writeProcessorFolder } from './support/vllm/processors.ts'
import { ScriptedVllm } from './support/vllm/scripted.ts'

type Row = readonly [width: number, height: number, promptTokens: number]
const counted: Readonly<Record<string, readonly Row[]>> = JSON.parse(
  await readFile(new URL('support/vllm/image-tokens.json', import.meta.url), 'utf8'),
)
/** The shapes of the documentation: 448 x 448 pixels. */
const url = `data:image/png;base64,${await readFile('docs/pictures/shapes.png', 'base64')}`
const picture = { type: 'image_url', image_url: { url } }
const ID = 'stranger'
const CHAT = '/v1/chat/completions'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lookout-vllm-images-'))
})
afterAll(() => rm(folder, { recursive: true }))

async function writeCard(urls: readonly string[], model: string, fields: object = {}): Promise<string> {
  const file = join(folder, `${Math.random()}.json`)
  const engine = { type: 'vllm', urls, model: ID, tokenizer: model, contextTokens: 16384 }
  await writeFile(file, JSON.stringify({ serves: [{ id: ID }], engine, ...fields }))
  return file
}

const facts = (name: string) => PROCESSORS.find((one) => one.name === name)!

interface Reply {
  readonly choices: readonly { readonly message: { readonly content: string } }[]
  readonly usage: { readonly prompt_tokens: number }
}

describe('an image is sent in a size that the processor leaves as it is, and counted as vLLM counts it', () => {
  const behind = new Map<string, ScriptedVllm>()
  let server: TestServer
  beforeAll(async () => {
    const cards: string[] = []
    for (const facts of PROCESSORS) {
      const { name } = facts
      const model = join(folder, name)
      await writeProcessorFolder(model, facts)
      const vllm = await ScriptedVllm.start(model, ID)
      behind.set(name, vllm)
      cards.push(await writeCard([vllm.url], model, { serves: [{ id: name }] }))
    }
    const [first, ...others] = cards
    server = await startTestServer({
      startEngine: (card) => startRemoteEngine(remoteCard(card)),
      environment: {
        LOOKOUT_MODEL_CARD: first!,
        LOOKOUT_MODELS: others.join(),
        LOOKOUT_COMPATIBILITY: 'openai',
      },
    })
  })
  afterAll(async () => {
    await server?.close()
    for (const vllm of behind.values()) await vllm[Symbol.asyncDispose]()
  })

  test.each(PROCESSORS.map(({ name }) => name))('%s', async (name) => {
    const vllm = behind.get(name)!
    const question = 'Is <image> here?'
    const body = (...content: readonly object[]) => ({ model: name, messages: [{ role: 'user', content }] })
    const without = await jsonOf<Reply>(await server.post(CHAT, body({ type: 'text', text: question })))
    const ask = async (width: number, height: number) => {
      vllm.asked.length = 0
      const create = { width, height, channels: 3, background: 'red' } as const
      const url = `data:image/png;base64,${(await sharp({ create }).png().toBuffer()).toString('base64')}`
      const image = { type: 'image_url', image_url: { url } }
      const response = await server.post(CHAT, body(image, { type: 'text', text: question }))
      expect(response.status).toBe(200)
      const { choices, usage } = await jsonOf<Reply>(response)
      expect(choices[0]!.message.content).toBe('Hello!')
      expect(vllm.asked).toHaveLength(1)
      expect(vllm.asked[0]!.content_parts).toHaveLength(1)
      return { added: usage.prompt_tokens - without.usage.prompt_tokens, size: vllm.sizes.at(-1)! }
    }
    // One of the table's originals, with many rows.
    const { added, size } = await ask(37, 900)
    const row = counted[name]!.find(([width, height]) => width === size.width && height === size.height)
    // Some families have limits of their own, by which sizes are others than the table's.
    if (name !== 'qwen2.5-vl' && name !== 'qwen3-vl') expect(row).toBeDefined()
    if (row !== undefined) {
      // Line breaks beside the image may be joined with its own.
      expect(added).toBeLessThanOrEqual(row[2] + 1)
      expect(added).toBeGreaterThanOrEqual(row[2] - 2)
    }
    // What is reserved for an image before anything is counted.
    const model = (await server.service.models.find(name))!
    const scope = { model, organisation: '', signal: new AbortController().signal }
    const largest = await ask(1600, 1600)
    expect(new MeasuredPrompt([pixels(8, 8)], scope).mostTokens).toBeGreaterThanOrEqual(largest.added)
  })
})

test('line breaks beside an image are joined with those that vLLM puts there', () => {
  const [one, two, image] = [10, 11, 12]
  const lines = lineBreaks(one, two, image)
  // As vLLM 0.32 counts them.
  expect(lines.countJoined([5, image, 5])).toBe(0)
  expect(lines.countJoined([one, image, two])).toBe(2)
  expect(lines.countJoined([two, image, 5])).toBe(1)
  expect(lines.countJoined([image, image])).toBe(1)
  expect(lines.countJoined([one, image, two, image, image, 5])).toBe(JOINED)
  // It would fail at a single line break behind an image.
  expect(lines.separated([one, image, one, one, 5, one])).toEqual([one, image, 5, one])
  expect(lines.separated([image, two, one])).toEqual([image, two, one])
})
const JOINED = 3

test('what a client writes is no placeholder, where that is a text', async () => {
  const model = join(folder, 'guarded')
  await writeProcessorFolder(model, facts('internvl-chat'))
  await using vllm = await ScriptedVllm.start(model, ID)
  const server = await startTestServer({
    startEngine: (card) => startRemoteEngine(remoteCard(card)),
    environment: { LOOKOUT_MODEL_CARD: await writeCard([vllm.url], model), LOOKOUT_COMPATIBILITY: 'openai' },
  })
  try {
    const text = { type: 'text', text: '<image> and <image>' }
    const body = { model: ID, messages: [{ role: 'user', content: [text, picture, text] }] }
    expect((await server.post(CHAT, body)).status).toBe(200)
    const placeholder = vllm.tokensOf('<image>').join()
    const found = vllm.asked[0]!.token_ids.join().split(placeholder).length - 1
    expect(found).toBe(1)
  } finally {
    await server.close()
  }
})

const FRAMES = { framesPerSecond: 1, maxFrames: 8, layout: { framesPerGrid: 1, timestamp: null } }
test.each<[string, object, RegExp]>([
  ['gemma3', { image: { maxTokens: 64, minTokens: 64 } }, /image\.minTokens: must be at least 256/],
  ['gemma4', { image: { maxTokens: 260 } }, /image\.maxTokens: must be 280/],
  ['gemma4', { video: { pixelsPerToken: 48, minTokens: 60, maxTokens: 70, ...FRAMES } }, /video: must be left out/],
  ['mistral3', { image: { longestEdge: 1024 } }, /image\.longestEdge: must be 1540/],
  ['mistral3', { image: { enlarges: true } }, /image\.enlarges: must be left out/],
  ['glm4v', { image: { pixelsPerToken: 32 } }, /image\.pixelsPerToken: must be 28/],
  [
    'glm4v',
    { video: { pixelsPerToken: 28, minTokens: 1, maxTokens: 9000, ...FRAMES } },
    /video\.minTokens: must be at least 8/,
  ],
  ['llama4', { image: { tiles: { grid: 'nearest', side: 336, tokens: 100, most: 16 } } }, /image\.tiles: must be /],
])('a card of %s cannot change how images are prepared: %j', async (name, fields, problem) => {
  const model = join(folder, `changed-${name}`)
  await writeProcessorFolder(model, facts(name))
  const file = await writeCard(['http://127.0.0.1:1'], model, fields)
  await expect(loadCard(file).then((card) => startRemoteEngine(remoteCard(card)))).rejects.toThrow(problem)
})

describe('a model whose images are not served', () => {
  const unknown = {
    name: 'unknown',
    config: {
      architectures: ['NovelForConditionalGeneration'],
      model_type: 'novel',
      vision_config: { patch_size: 14 },
    },
    tokens: ['<image>'],
  }
  const NOT_SERVED = /images of NovelForConditionalGeneration are not served: .+\. Write "modalities": \["text"\]/
  let model: string
  beforeAll(async () => {
    model = join(folder, 'unknown')
    await writeProcessorFolder(model, unknown)
  })

  test('is served with text, with a warning', async () => {
    const warnings: string[] = []
    const card = await loadCard(await writeCard(['http://127.0.0.1:1'], model), (line) => void warnings.push(line))
    expect(card.serves[0]!.modalities).toEqual(['text'])
    expect(warnings.filter((line) => NOT_SERVED.test(line))).toHaveLength(1)
    expect(card.serves[0]!.description).toMatch(NOT_SERVED)
    const quiet: string[] = []
    const serves = [{ id: ID, modalities: ['text'] }]
    await loadCard(await writeCard(['http://127.0.0.1:1'], model, { serves }), (line) => void quiet.push(line))
    expect(quiet.filter((line) => NOT_SERVED.test(line))).toEqual([])
  })

  test.each<[string, object, RegExp | null]>([
    ['an encoder for sound', { architectures: ['NovelModel'], audio_config: {} }, /sound of NovelModel is not served/],
    ['no encoder', { architectures: ['NovelForCausalLM'], vision_config: null }, null],
    ['a known architecture that has a rule of its own', { architectures: ['Ovis2_5'] }, /images of Ovis2_5 are not/],
    ['a file that lacks a number', { architectures: ['KimiVLForConditionalGeneration'] }, /has no patch_size, merge_k/],
    [
      'a vocabulary without its mark',
      { architectures: ['Gemma3ForConditionalGeneration'], vision_config: { image_size: 896 } },
      /has no '<start_of_image>'/,
    ],
  ])('is known by its files: %s', async (name, config, said) => {
    const path = join(folder, name.replaceAll(' ', '-'))
    await writeProcessorFolder(path, { name, config: { model_type: 'novel', ...config }, tokens: [] })
    const warnings: string[] = []
    await loadCard(await writeCard(['http://127.0.0.1:1'], path), (line) => void warnings.push(line))
    const found = warnings.filter((line) => / not served: /.test(line))
    expect(found).toEqual(said === null ? [] : [expect.stringMatching(said)])
  })

  test.each([
    ['without numbers', {}],
    ['with numbers', { dialect: null, image: { pixelsPerToken: 28, minTokens: 4, maxTokens: 1024 } }],
  ])('is refused where its card promises images %s', async (_, fields) => {
    const serves = [{ id: ID, modalities: ['text', 'image'] }]
    const file = await writeCard(['http://127.0.0.1:1'], model, { serves, ...fields })
    await expect(loadCard(file).then((card) => startRemoteEngine(remoteCard(card)))).rejects.toThrow(NOT_SERVED)
  })

  test('is listed with that sentence, and a request with an image is rejected', async () => {
    await using vllm = await ScriptedVllm.start(model, ID)
    const server = await startTestServer({
      startEngine: (card) => startRemoteEngine(remoteCard(card)),
      environment: { LOOKOUT_MODEL_CARD: await writeCard([vllm.url], model), LOOKOUT_COMPATIBILITY: 'openai' },
    })
    try {
      const list = await jsonOf<{ data: object[] }>(await server.get('/v1/models?extended=true'))
      expect(list.data[0]).toMatchObject({ modalities: ['text'], description: expect.stringMatching(NOT_SERVED) })
      const response = await server.post(CHAT, { model: ID, messages: [{ role: 'user', content: [picture] }] })
      expect(response.status).toBe(400)
      expect((await errorOf(response)).message).toMatch(/image/)
    } finally {
      await server.close()
    }
  })

  test('is said by lookout card show and lookout doctor', async () => {
    await using vllm = await ScriptedVllm.start(model, ID)
    const file = await writeCard([vllm.url], model)
    const shown = await outcomeOf(startLookout(['card', 'show', file]))
    expect(shown.stderr).toMatch(NOT_SERVED)
    const examined = await outcomeOf(startLookout(['doctor', file, '--json']))
    const { findings } = JSON.parse(examined.stdout) as {
      findings: { check: string; verdict: string; finding: string }[]
    }
    expect(findings.find(({ check }) => check === 'files')).toMatchObject({
      verdict: 'warning',
      finding: expect.stringMatching(/^Images of NovelForConditionalGeneration are not served/),
    })
  })
})

test('all sizes of the table are those of the test', () => {
  for (const rows of Object.values(counted)) expect(rows).toHaveLength(ORIGINALS.length)
})
