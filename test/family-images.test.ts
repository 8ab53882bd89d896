import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { calibrate } from '../src/commands/calibrate.ts'
import { readConfig } from '../src/config/config.ts'
import { MeasuredPrompt } from '../src/conversation/prompt/token-budget.ts'
import type { ServedModel } from '../src/inference/catalog/registry.ts'
import type { ImagePart } from '../src/inference/contract/parts.ts'
import type { LocalStats } from '../src/inference/contract/stats.ts'
import { loadNativeLibraries, type NativeLibraries } from '../src/inference/local/native/libraries.ts'
import { Model } from '../src/inference/local/native/model.ts'
import { locateNativeLibraries } from '../src/inference/local/native/native-paths.ts'
import { Projector, type TokenisedChunk } from '../src/inference/local/native/projector.ts'
import type { Size } from '../src/media/pixels.ts'
import { targetSize } from '../src/media/resize.ts'
import { type LocalModelCard, loadLocalCard } from '../src/models/card.ts'
import { Service } from '../src/service.ts'
import { outcomeHere } from './support/command-line.ts'
import { int32s } from './support/gguf-writer.ts'
import { picture } from './support/local-engine.ts'
import { jsonOf, startTestServer } from './support/server.ts'
import { writeDerivedModel } from './support/tiny-models/derived.ts'
import { OTHER_MODELS } from './support/tiny-models/other-encoders.ts'
import { PlainLoop } from './support/tiny-models/plain-loop.ts'
import { promptsOf } from './support/tiny-models/prompts.ts'
import { answers, branch, REUSES } from './support/tiny-models/reuse.ts'
import type { TinyModel } from './support/tiny-models/tiny-model.ts'
import { TINY_MODELS } from './support/tiny-models/tiny-models.ts'

/**
 * Families whose images libmtmd cuts into tiles, or ends rows of with a token. Their models are served as a stranger
 * would: the card names two files and says nothing else.
 */
const ODD: readonly Size[] = [
  { width: 500, height: 333 },
  { width: 37, height: 900 },
  { width: 4000, height: 3000 },
  { width: 64, height: 64 },
  { width: 1, height: 1 },
]

interface Case {
  readonly model: TinyModel
  /** Pieces that libmtmd makes of an image of each of the sizes: tiles, and a copy of the whole. */
  readonly pieces: readonly number[]
  /** Tokens of the third of the sizes with `low` detail. */
  readonly low: number
}

const tiny = (name: string) => TINY_MODELS.find((model) => model.name === name)!

const SIDE = 84
const PINPOINTS = [1, 2, 2, 1, 2, 2, 3, 1, 1, 3].map((count) => count * SIDE)
const llava = tiny('llava')
const llavaNext: TinyModel = {
  ...llava,
  name: 'llava-next',
  encoder: () => {
    const { metadata, tensors } = llava.encoder!()
    return { metadata: new Map([...metadata, ['clip.vision.image_grid_pinpoints', int32s(PINPOINTS)]]), tensors }
  },
}
const LOW: Readonly<Record<string, number>> = { 'kimi-vl': 252, 'lighton-ocr': 35, 'hunyuan-vl': 56 }
const CASES: readonly Case[] = [
  // 2x1, 1x4, 2x2, and one tile without a copy.
  { model: tiny('internvl'), pieces: [3, 5, 5, 1, 1], low: 16 },
  // 2x2, 1x2, and then squares: the longer side always has two tiles.
  { model: tiny('smolvlm'), pieces: [5, 3, 5, 5, 5], low: 80 },
  // Whole, but for 3x2.
  { model: tiny('lfm2-vl'), pieces: [1, 1, 7, 1, 1], low: 234 },
  { model: llava, pieces: [1, 1, 1, 1, 1], low: 36 },
  { model: tiny('pixtral'), pieces: [1, 1, 1, 1, 1], low: 23 },
  { model: tiny('mistral3'), pieces: [1, 1, 1, 1, 1], low: 23 },
  { model: tiny('minicpm-v'), pieces: [9, 10, 10, 1, 1], low: 48 },
  { model: tiny('minicpm-v-4.6'), pieces: [9, 5, 10, 1, 1], low: 46 },
  // 2x2, 1x3, 2x2, and one tile.
  { model: llavaNext, pieces: [5, 4, 5, 1, 1], low: 36 },
  ...OTHER_MODELS.map((model) => ({ model, pieces: [1, 1, 1, 1, 1], low: LOW[model.name]! })),
]

let folder: string
let service: Service
let libraries: NativeLibraries
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lookout-images-'))
  libraries = loadNativeLibraries(locateNativeLibraries())
  for (const { model } of CASES) {
    await writeDerivedModel(model, folder, { contextTokens: 4096, maxSequences: 4 })
  }
  service = await Service.start(
    readConfig({
      LOOKOUT_PORT: '0',
      LOOKOUT_API_KEY: 'k',
      LOOKOUT_DATA_DIR: join(folder, 'data'),
      DATABASE_URL: inject('databaseUrl'),
      LOOKOUT_LOG_LEVEL: 'silent',
      LOOKOUT_COMPATIBILITY: 'openai',
      LOOKOUT_RATE_LIMITS: 'off',
      LOOKOUT_MODEL_CARD: join(folder, CASES[0]!.model.name, 'card.json'),
      LOOKOUT_MODELS: folder,
    }),
  )
})
afterAll(async () => {
  await service?.close()
  await rm(folder, { recursive: true, force: true })
})

interface Usage {
  readonly prompt_tokens: number
  readonly prompt_tokens_details: { readonly image_tokens: number; readonly cached_tokens: number }
}

interface Answer {
  readonly choices: readonly { readonly message: { readonly content: string } }[]
  readonly usage: Usage
}

async function ask<Body>(path: string, body: object): Promise<Body> {
  const response = await fetch(service.url + path, {
    method: 'POST',
    headers: { authorization: 'Bearer k', 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const answer = await response.json()
  expect(answer).not.toHaveProperty('error')
  return answer as Body
}

const urls = new Map<Size, string>()

/** An image of many colours. A large one takes longer to make than a model to answer. */
async function urlOf(size: Size): Promise<string> {
  const url = urls.get(size) ?? (await newUrlOf(size))
  urls.set(size, url)
  return url
}

async function newUrlOf({ width, height }: Size): Promise<string> {
  const small = Buffer.from(picture(16, 16, 3).image.data)
  const png = await sharp(small, { raw: { width: 16, height: 16, channels: 3 } })
    .resize(width, height, { fit: 'fill' })
    .png()
    .toBuffer()
  return `data:image/png;base64,${png.toString('base64')}`
}

const text = (text: string) => ({ type: 'text', text })
const image = async (size: Size, detail?: string) => ({
  type: 'image_url',
  image_url: { url: await urlOf(size), detail },
})

function chat(model: string, ...content: object[]): Promise<Answer> {
  const messages = [{ role: 'user', content }]
  return ask<Answer>('/v1/chat/completions', { model, messages, temperature: 0, max_completion_tokens: 8 })
}

const opened = new Map<string, { readonly model: Model; readonly projector: Projector }>()
afterAll(async () => {
  for (const { model, projector } of opened.values()) {
    await projector.close()
    model.close()
  }
})

/** libmtmd with a model's encoder. It has its own limits, unless images are no tiles. */
function projectorOf(card: LocalModelCard): Projector {
  const { directory, engine } = card
  const known = opened.get(directory)
  if (known !== undefined) return known.projector
  const model = new Model(libraries.llama, join(directory, engine.model), [])
  const image = card.image!.tiles || card.image!.enlarges ? undefined : card.image
  const projector = new Projector(libraries.mtmd!, join(directory, engine.projector!), model, { threads: 1, image })
  opened.set(directory, { model, projector })
  return projector
}

/** What libmtmd makes of an image that is handed to it. */
function withLibrary<Result>(
  card: LocalModelCard,
  part: ImagePart,
  read: (chunks: readonly TokenisedChunk[]) => Result,
): Result {
  const chunks = projectorOf(card).tokenize([part], true)
  try {
    return read(chunks.items)
  } finally {
    chunks.close()
  }
}

/** A square part of an image. */
function crop({ image: { width, data } }: ImagePart, left: number, top: number, side: number): ImagePart {
  const rows = Array.from({ length: side }, (_, row) => {
    const start = ((top + row) * width + left) * 3
    return data.subarray(start, start + side * 3)
  })
  return { type: 'image', image: { width: side, height: side, data: Buffer.concat(rows) } }
}

describe.each(CASES)('$model.name', ({ model, pieces, low }) => {
  let card: LocalModelCard
  beforeAll(async () => {
    card = await loadLocalCard(join(folder, model.name, 'card.json'))
  })

  /** As the engine gets an image. */
  const prepared = (original: Size, seed = 1) => {
    const { width, height } = targetSize(original, card.image!)
    return picture(width, height, seed)
  }

  /** What is reserved for an image before anything is counted. */
  const mostTokens = (part: ImagePart) => {
    const scope = { model: { card } as ServedModel, organisation: '', signal: new AbortController().signal }
    return new MeasuredPrompt([part], scope).mostTokens
  }

  test('images of any size cost the tokens that libmtmd makes of them', async () => {
    expect(card.serves[0]!.modalities).toEqual(['text', 'image'])
    const without = await chat(model.name, text('Look: '), text(' and say.'))
    const counts: number[] = []
    for (const size of ODD) {
      const { usage } = await chat(model.name, text('Look: '), await image(size), text(' and say.'))
      const { tokens, around } = withLibrary(card, prepared(size), (items) => ({
        tokens: items.flatMap((item) => (item.type === 'media' ? [item.length] : [])),
        around: items.reduce((sum, item) => sum + (item.type === 'text' ? item.tokens.length : 0), 0),
      }))
      const all = tokens.reduce((a, b) => a + b)
      expect(usage.prompt_tokens_details.image_tokens).toBe(all)
      expect(mostTokens(prepared(size))).toBeGreaterThanOrEqual(all + around)
      // Texts that meet are one text, and may share a token.
      expect(Math.abs(usage.prompt_tokens - without.usage.prompt_tokens - all - around)).toBeLessThanOrEqual(2)
      counts.push(tokens.length)
    }
    expect(counts).toEqual(pieces)
  })

  test('low detail costs less where the encoder can do with less', async () => {
    const { usage } = await chat(model.name, await image(ODD[2]!, 'low'), text('What?'))
    expect(usage.prompt_tokens_details.image_tokens).toBe(low)
  })

  test('replies are those of a plain loop over libmtmd, and of an engine that has computed nothing', async () => {
    const seen = { ...model, pictures: [targetSize(ODD[0]!, card.image!), targetSize(ODD[1]!, card.image!)] as const }
    const { engine } = (await service.models.find(model.name))!
    const stateful = engine as typeof engine & { stats(): Promise<LocalStats> }
    using loop = new PlainLoop(libraries, card)
    for (const { name, parts } of promptsOf(seen)) {
      const [reply] = await answers(engine, name, parts, [branch({ maxTokens: 24 })])
      expect(reply, name).toBe(loop.reply(parts, 24))
    }
    for (const name of ['multilook', 'same prompt', 'next turn']) {
      expect((await REUSES[name]!(stateful, seen)).differing, name).toEqual([])
    }
  })
})

test.each([
  ['internvl', 64, { width: 4000, height: 3000 }],
  ['llava-next', SIDE, { width: 900, height: 37 }],
  ['lfm2-vl', 512, { width: 3000, height: 1000 }],
])('%s sees the tiles of an image as it was handed over, neither padded nor resized', async (name, side, original) => {
  const card = await loadLocalCard(join(folder, name, 'card.json'))
  const size = targetSize(original, card.image!)
  const whole = picture(size.width, size.height, 5)
  const encoded = (part: ImagePart) =>
    withLibrary(card, part, (items) =>
      items.flatMap((item) => (item.type === 'media' ? [item.encode(Number.POSITIVE_INFINITY)!] : [])),
    )
  const columns = size.width / side
  const pieces = encoded(whole)
  expect(pieces).toHaveLength((size.width * size.height) / side ** 2 + 1)
  for (const index of [0, 1, pieces.length - 2]) {
    const [tile] = encoded(crop(whole, (index % columns) * side, Math.floor(index / columns) * side, side))
    expect(pieces[index]).toEqual(tile)
  }
})

test('places are found on the whole of an image that is cut', async () => {
  const server = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: join(folder, 'internvl', 'card.json') } })
  try {
    server.engine.script = { texts: ['<ref>star</ref><box>[[0, 0, 1000, 1000], [500, 250, 750, 500]]</box>'] }
    const media = { type: 'image', image_url: await urlOf({ width: 500, height: 333 }) }
    const body = { model: 'internvl', media, categories: ['star'], config: { output: 'box' } }
    const found = await jsonOf<{ detections: object[] }>(await server.post('/v1/detect', body))
    const corners = (left: number, top: number, right: number, bottom: number) =>
      expect.objectContaining({
        point_box: { top_left: { x: left, y: top }, bottom_right: { x: right, y: bottom } },
      })
    expect(found.detections).toEqual([corners(0, 0, 499, 332), corners(250, 83, 375, 167)])
    const shown = server.engine.works[0]!.prefix.find((part) => part.type === 'image')
    expect(shown?.image).toMatchObject({ width: 128, height: 64 })
  } finally {
    await server.close()
  }
})

test.each([
  ['internvl', /finds none of the categories|so there is nothing to fit/],
  ['minicpm-v', /finds none of the categories|so there is nothing to fit/],
  ['llava', /does not detect objects/],
])('calibrating %s, whose weights are random, fits nothing and says why', async (model, problem) => {
  const [, png] = (await urlOf({ width: 64, height: 64 })).split(',')
  await writeFile(join(folder, 'noise.png'), Buffer.from(png!, 'base64'))
  const list = join(folder, 'noise.jsonl')
  const boxes = [{ mention: 'cat', box: [8, 8, 24, 24] }]
  await writeFile(list, JSON.stringify({ file: 'noise.png', categories: ['cat'], boxes }))
  const place = { LOOKOUT_URL: service.url, LOOKOUT_API_KEY: 'k' }
  const run = await outcomeHere(calibrate, [model, list], place)
  expect(run).toEqual({ code: 1, stdout: '', stderr: expect.stringMatching(problem) })
})
