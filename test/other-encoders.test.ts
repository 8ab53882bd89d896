import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { MeasuredPrompt } from '../src/conversation/prompt/token-budget.ts'
import { audioLimits } from '../src/families/gguf.ts'
import type { ServedModel } from '../src/inference/catalog/registry.ts'
import { loadNativeLibraries, type NativeLibraries } from '../src/inference/local/native/libraries.ts'
import { Model } from '../src/inference/local/native/model.ts'
import { locateNativeLibraries } from '../src/inference/local/native/native-paths.ts'
import { Projector } from '../src/inference/local/native/projector.ts'
import { promptAudioTokens, SAMPLE_RATE } from '../src/media/audio-tokens.ts'
import type { Size } from '../src/media/pixels.ts'
import { isPrepared, targetSize } from '../src/media/resize.ts'
import { type LocalModelCard, loadLocalCard } from '../src/models/card.ts'
import { int32s, readGguf, writeGguf } from './support/gguf-writer.ts'
import { picture } from './support/local-engine.ts'
import { qwen2Audio, ultravox, voxtral } from './support/tiny-models/hearing.ts'
import { languageModel } from './support/tiny-models/language.ts'
import { computes, gemma4Unified, OTHER_PROJECTORS, otherEncoder } from './support/tiny-models/other-encoders.ts'
import { CHAT_ML_TEMPLATE } from './support/tiny-models/tiny-model.ts'
import { bytePairs } from './support/tiny-models/vocabulary.ts'

/**
 * Encoders of other families, with random weights: what libmtmd gets is already as large as it would make it, and costs the
 * tokens that follow from its size.
 */
const ODD: readonly Size[] = [
  { width: 64, height: 64 },
  { width: 500, height: 333 },
  { width: 37, height: 900 },
  { width: 4000, height: 3000 },
  { width: 1, height: 1 },
  { width: 700, height: 20 },
  { width: 1900, height: 1000 },
]
/** Larger images are counted, and not computed. */
const ENCODED_TOKENS = 200
/** A piece of a window, and a whole one. Other sounds are counted, and not computed. */
const ENCODED_SECONDS = [2.02, 31]

let folder: string
let libraries: NativeLibraries
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lookout-encoders-'))
  libraries = loadNativeLibraries(locateNativeLibraries())
  const vocabulary = bytePairs({
    control: ['<im_start>', '<im_end>', '<patch_start>', '<patch_end>', '<patch_newline>'],
    texts: ['\n'],
    addsBos: false,
    chatTemplate: CHAT_ML_TEMPLATE,
  })
  await writeGguf(join(folder, 'llama.gguf'), languageModel({ architecture: 'llama', vocabulary, seed: 'others' }))
  const metadata = { 'rope.dimension_sections': int32s([2, 2, 2, 2]) }
  const mrope = languageModel({ architecture: 'hunyuan_vl', vocabulary, seed: 'others', qkNorm: true, metadata })
  await writeGguf(join(folder, 'hunyuan_vl.gguf'), mrope)
})
afterAll(() => rm(folder, { recursive: true, force: true }))

/** The tokens of each piece that the library makes of an image of this size. */
function piecesOf(projector: string, { width, height }: Size, { image }: LocalModelCard): number[] {
  const { pixelsPerToken, square, tiles } = image!
  const [columns, rows] = [width / pixelsPerToken, height / pixelsPerToken]
  // A token at either end, and for some one for each row.
  if (projector === 'hunyuanvl') return [(columns + 1) * rows + 2]
  if (tiles === undefined) return [columns * rows + (square && projector !== 'janus_pro' ? 2 : 0)]
  const { side, tokens, whole = tokens } = tiles
  const isOne = tiles.grid === 'windows' ? width === tiles.wholeSide : Math.max(width, height) <= side
  const [across, down] = isOne ? [0, 0] : [width / side, height / side]
  switch (projector) {
    case 'deepseekocr':
      // A piece for each row of tiles.
      return [...Array(down).fill((10 * across + 1) * 10), whole]
    case 'granite4_vision':
      return [tokens + 4 * down * (4 * across + 1)]
    default:
      return [...Array(across * down).fill(tokens), whole]
  }
}

test.each(OTHER_PROJECTORS)('%s', async (projector) => {
  const path = join(folder, `${projector}.gguf`)
  await writeGguf(path, otherEncoder(projector))
  const file = join(folder, `${projector}.json`)
  const language = projector === 'hunyuanvl' ? 'hunyuan_vl.gguf' : 'llama.gguf'
  // The language model of this one has an architecture of its own.
  const family = projector === 'llama4' ? { family: 'llama' } : {}
  await writeFile(file, JSON.stringify({ ...family, engine: { model: language, projector: `${projector}.gguf` } }))
  const warnings: string[] = []
  const card = await loadLocalCard(file, (message) => warnings.push(message))
  expect(card.serves[0]!.modalities).toEqual(['text', 'image'])
  const image = card.image!
  const model = new Model(libraries.llama, join(folder, language), [])
  const limits = image.tiles || image.enlarges ? undefined : image
  const encoder = new Projector(libraries.mtmd!, path, model, { threads: 1, image: limits })
  try {
    for (const original of ODD) {
      const size = targetSize(original, image)
      expect(isPrepared(size, image), JSON.stringify(size)).toBe(true)
      const expected = piecesOf(projector, size, card)
      const isSmall = computes(projector) && expected.reduce((a, b) => a + b) <= ENCODED_TOKENS
      const part = picture(size.width, size.height, 3)
      const chunks = encoder.tokenize([part], isSmall)
      const media = chunks.items.flatMap((item) => (item.type === 'media' ? [item] : []))
      const tokens = media.map(({ length }) => length)
      expect({ size, tokens }).toEqual({ size, tokens: expected })
      // What is reserved for it.
      const scope = { model: { card } as ServedModel, organisation: '', signal: new AbortController().signal }
      const most = new MeasuredPrompt([part], scope).mostTokens
      expect(most).toBeGreaterThanOrEqual(tokens.reduce((a, b) => a + b))
      if (isSmall) {
        for (const piece of media) {
          expect(piece.encode(Number.POSITIVE_INFINITY)).toHaveLength(piece.length * model.embeddingSize)
        }
      }
      chunks.close()
    }
  } finally {
    await encoder.close()
    model.close()
  }
})

test.each([
  ['gemma4ua', gemma4Unified],
  ['voxtral', voxtral.encoder!],
  ['ultravox', ultravox.encoder!],
  ['qwen2a', qwen2Audio.encoder!],
])('sound costs the tokens that libmtmd makes of it: %s', async (projector, written) => {
  const path = join(folder, `${projector}.gguf`)
  const file = written()
  await writeGguf(path, file)
  const { metadata } = await readGguf(path)
  const rule = audioLimits(new Map([...metadata].map(([key, { value }]) => [key, value])))!
  const model = new Model(libraries.llama, join(folder, 'llama.gguf'), [])
  const encoder = new Projector(libraries.mtmd!, path, model, { threads: 1, image: undefined })
  try {
    expect(encoder.supportsAudio).toBe(true)
    for (const seconds of [1, 2.02, 10, 29.9, 31]) {
      const samples = new Float32Array(seconds * SAMPLE_RATE).map((_, at) => Math.sin(at / 20))
      const isEncoded = ENCODED_SECONDS.includes(seconds)
      const chunks = encoder.tokenize([{ type: 'audio', samples }], isEncoded)
      const pieces = chunks.items.flatMap((item) => (item.type === 'media' ? [item] : []))
      const tokens = pieces.reduce((sum, { length }) => sum + length, 0)
      const expected = promptAudioTokens(samples.length, { ...rule, maxTokens: 8192 })
      // A window has whole tokens, and none that is begun.
      const windows = Math.floor(seconds / (rule.windowSeconds ?? Number.POSITIVE_INFINITY)) + 1
      const isExact = Number.isInteger(rule.tokensPerSecond * (rule.windowSeconds ?? 1))
      expect({ seconds, tokens }).toEqual({ seconds, tokens: isExact ? expected : expected - windows })
      if (isEncoded) {
        expect(pieces[0]!.encode(Number.POSITIVE_INFINITY)).toHaveLength(pieces[0]!.length * model.embeddingSize)
      }
      chunks.close()
    }
  } finally {
    await encoder.close()
    model.close()
  }
})
