import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { type HeaderValues, writeHeader } from '../../test/support/model-header.ts'
import { describeModel } from '../inference/local/host/model-files.ts'
import { loadLocalCard } from './card.ts'

const root = await mkdtemp(join(tmpdir(), 'lookout-others-'))
afterAll(() => rm(root, { recursive: true }))

interface Shape {
  /** Name of the model, as its converter writes it. */
  readonly name?: string
  readonly width?: number
  /** Behind `clip.vision.` */
  readonly vision?: HeaderValues
  /** Behind `clip.audio.` */
  readonly audio?: HeaderValues
  /** The projector for sound; alone, there is no image encoder. */
  readonly hears?: string
}

/** Writes the headers of a model's two files, and a card that names them and says nothing else. */
async function shown(projector: string | null, architecture: string, shape: Shape) {
  const directory = await mkdtemp(join(root, 'model-'))
  const { name, width = 4096, vision = {}, audio = {}, hears } = shape
  await writeHeader(join(directory, 'm.gguf'), {
    'general.architecture': architecture,
    ...(name === undefined ? {} : { 'general.name': name }),
    [`${architecture}.context_length`]: 131_072,
    [`${architecture}.embedding_length`]: width,
    [`${architecture}.block_count`]: 2,
    [`${architecture}.attention.head_count`]: 4,
    [`${architecture}.attention.head_count_kv`]: 2,
    'tokenizer.ggml.tokens': ['a', 'b'],
    'tokenizer.ggml.token_type': [1, 1],
    'tokenizer.chat_template': '{% for m in messages %}{{ m.content }}{% endfor %}',
  })
  const behind = (kind: string, values: HeaderValues) =>
    Object.fromEntries(Object.entries(values).map(([key, value]) => [`clip.${kind}.${key}`, value]))
  await writeHeader(join(directory, 'mmproj.gguf'), {
    'general.architecture': 'clip',
    ...(projector === null ? {} : { 'clip.has_vision_encoder': true }),
    ...(hears === undefined ? {} : { 'clip.has_audio_encoder': true, 'clip.audio.projector_type': hears }),
    ...(projector === null
      ? {}
      : hears === undefined
        ? { 'clip.projector_type': projector }
        : { 'clip.vision.projector_type': projector }),
    ...behind('vision', vision),
    ...behind('audio', audio),
  })
  const warnings: string[] = []
  const file = join(directory, 'card.json')
  await writeFile(file, JSON.stringify({ engine: { model: 'm.gguf', projector: 'mmproj.gguf' } }))
  const card = await loadLocalCard(file, (message) => warnings.push(message))
  return { card, warnings }
}

const pixels = (min: number, max: number) => ({ image_min_pixels: min, image_max_pixels: max })
const range = (pixelsPerToken: number, minTokens: number, maxTokens: number) => ({
  pixelsPerToken,
  minTokens,
  maxTokens,
})
const square = (pixelsPerToken: number, tokens: number) => ({ ...range(pixelsPerToken, tokens, tokens), square: true })

/** Headers as llama.cpp's converters write them, and what is derived from them. */
const SEEING: readonly (readonly [projector: string, architecture: string, Shape, family: string, image: object])[] = [
  ['qwen2vl_merger', 'qwen2vl', { vision: { patch_size: 14 } }, 'qwen2-vl', range(28, 8, 4096)],
  ['qwen2.5vl_merger', 'qwen2vl', { vision: { patch_size: 14 } }, 'qwen2.5-vl', range(28, 1024, 4096)],
  ['qwen2.5o', 'qwen2vl', { vision: { patch_size: 14 } }, 'qwen2.5-omni', range(28, 1024, 4096)],
  ['qwen3vl_merger', 'qwen3vl', { vision: { patch_size: 16 } }, 'qwen3-vl', range(32, 1024, 4096)],
  ['qwen3vl_merger', 'qwen3vlmoe', { vision: { patch_size: 16 } }, 'qwen3-vl', range(32, 1024, 4096)],
  ['qwen3vl_merger', 'qwen35', { vision: { patch_size: 16 } }, 'qwen3.5', range(32, 1024, 4096)],
  ['qwen3vl_merger', 'qwen35moe', { vision: { patch_size: 16 } }, 'qwen3.5', range(32, 1024, 4096)],
  ['qwen3vl_merger', 'qwen4exp', { vision: { patch_size: 16 } }, 'qwen4', range(32, 1024, 4096)],
  [
    'step3vl',
    'qwen3',
    { vision: { image_size: 728, patch_size: 14, 'projector.scale_factor': 4, preproc_image_size: 3024 } },
    'step3-vl',
    {
      ...range(56, 169, 36 * 81 + 169),
      tiles: { grid: 'windows', side: 504, tokens: 81, whole: 169, wholeSide: 728, along: 6 },
    },
  ],
  ['gemma3', 'gemma3', { vision: { image_size: 896, patch_size: 14 } }, 'gemma3', square(56, 256)],
  [
    'gemma3nv',
    'gemma3n',
    { vision: { image_size: 768, patch_size: 3 }, hears: 'gemma3na' },
    'gemma3n',
    square(48, 256),
  ],
  [
    'gemma4v',
    'gemma4',
    { vision: { image_size: 224, patch_size: 16 }, hears: 'gemma4a' },
    'gemma4',
    { ...range(48, 70, 1120), auto: { minTokens: 252, maxTokens: 280 } },
  ],
  [
    'gemma4uv',
    'gemma4',
    { vision: { image_size: 224, patch_size: 16 }, hears: 'gemma4ua' },
    'gemma4',
    { ...range(48, 70, 1120), auto: { minTokens: 252, maxTokens: 280 } },
  ],
  ['phi4', 'phi3', { vision: { patch_size: 16, ...pixels(256 * 256, 3600 * 256) } }, 'phi4', range(16, 256, 3600)],
  [
    'idefics3',
    'llama',
    { vision: { image_size: 512, patch_size: 16, 'projector.scale_factor': 4, preproc_image_size: 2048 } },
    'smolvlm',
    { ...range(64, 320, 1088), tiles: { grid: 'longest', side: 512, tokens: 64, along: 4 } },
  ],
  [
    'pixtral',
    'llama',
    { vision: { image_size: 1024, patch_size: 16 } },
    'mistral',
    { ...range(16, 8, 4096), longestEdge: 1024, rowEnds: true },
  ],
  [
    'pixtral',
    'mistral3',
    { vision: { image_size: 1540, patch_size: 14, spatial_merge_size: 2 } },
    'mistral',
    { ...range(28, 8, 3025), longestEdge: 1540, rowEnds: true },
  ],
  [
    'pixtral',
    'mistral4',
    { name: 'Mistral-Large-4', vision: { image_size: 1540, patch_size: 14, spatial_merge_size: 2 } },
    'mistral-large-4',
    { ...range(28, 8, 3025), longestEdge: 1540, rowEnds: true },
  ],
  [
    'internvl',
    'qwen3',
    { vision: { image_size: 448, patch_size: 14, 'projector.scale_factor': 2 } },
    'internvl',
    { ...range(28, 256, 3328), tiles: { grid: 'nearest', side: 448, tokens: 256, most: 12 } },
  ],
  [
    'llama4',
    'llama4',
    { vision: { image_size: 336, patch_size: 14, 'projector.scale_factor': 2 } },
    'llama',
    { ...range(28, 144, 1440), tiles: { grid: 'listed', side: 336, tokens: 144 } },
  ],
  [
    'lfm2',
    'lfm2',
    { name: 'LFM2-VL-450M', vision: { image_size: 256, patch_size: 16, 'projector.scale_factor': 2 } },
    'lfm2-vl',
    { ...range(32, 64, 2816), tiles: { grid: 'large', side: 512, tokens: 256, most: 10 } },
  ],
  [
    'lfm2',
    'lfm2',
    { name: 'LFM2.5-VL-3B', vision: { image_size: 256, patch_size: 16, 'projector.scale_factor': 2 } },
    'lfm2.5-vl',
    { ...range(32, 64, 2816), tiles: { grid: 'large' } },
  ],
  ['kimivl', 'deepseek2', { vision: { patch_size: 14, 'projector.scale_factor': 2 } }, 'kimi-vl', range(28, 8, 1024)],
  [
    'kimik25',
    'deepseek2',
    { vision: { patch_size: 14, 'projector.scale_factor': 2 } },
    'kimi-k2.5',
    range(28, 2, 4096),
  ],
  [
    'kimik25',
    'kimi-k3',
    { vision: { patch_size: 14, 'projector.scale_factor': 2, ...pixels(784 * 4, 784 * 2048) } },
    'kimi-k2.5',
    range(28, 4, 2048),
  ],
  ['kimik25', 'glm-dsa', { vision: { patch_size: 14, 'projector.scale_factor': 2 } }, 'kimi-k2.5', range(28, 2, 4096)],
  [
    'paddleocr',
    'paddleocr',
    { vision: { patch_size: 14, ...pixels(147 * 784, 3600 * 784) } },
    'paddle-ocr',
    range(28, 147, 3600),
  ],
  [
    'lightonocr',
    'qwen3',
    { name: 'LightOnOCR-2-1B', vision: { image_size: 1540, patch_size: 14, spatial_merge_size: 2 } },
    'lighton-ocr',
    { ...range(28, 1, 3025), longestEdge: 1540, enlarges: true },
  ],
  [
    'lightonocr',
    'qwen3',
    { name: 'LightOnOCR 2 1B bbox', vision: { image_size: 1540, patch_size: 14, spatial_merge_size: 2 } },
    'lighton-ocr-bbox',
    { longestEdge: 1540, enlarges: true },
  ],
  ['cogvlm', 'cogvlm', { vision: { image_size: 490, patch_size: 14 } }, 'cogvlm', square(14, 1225)],
  ['janus_pro', 'llama', { vision: { image_size: 384, patch_size: 16 } }, 'janus-pro', square(16, 576)],
  [
    'dots_ocr',
    'qwen2',
    { vision: { patch_size: 14, 'projector.scale_factor': 2, ...pixels(3136, 11_289_600) } },
    'dots-ocr',
    range(28, 4, 14_400),
  ],
  [
    'dots3note_v',
    'dots3note',
    { vision: { patch_size: 14, spatial_merge_size: 2, ...pixels(3136, 784 * 4096) }, hears: 'dots3note_a' },
    'dots3-note',
    range(28, 4, 4096),
  ],
  [
    'deepseekocr',
    'deepseek2-ocr',
    { vision: { image_size: 224, patch_size: 14, preproc_min_tiles: 2, preproc_max_tiles: 9 } },
    'deepseek-ocr',
    { ...range(64, 273, 1263), tiles: { grid: 'nearest', side: 640, tokens: 110, whole: 273, least: 2, most: 9 } },
  ],
  [
    'deepseekocr',
    'deepseek2-ocr',
    { name: 'Unlimited-OCR', vision: { image_size: 224, patch_size: 14, preproc_min_tiles: 2, preproc_max_tiles: 32 } },
    'unlimited-ocr',
    { ...range(64, 273, 32 * 110 + 273), tiles: { least: 2, most: 32 } },
  ],
  [
    'deepseekocr2',
    'deepseek2-ocr',
    { vision: { image_size: 1024, patch_size: 16, preproc_max_tiles: 6 } },
    'deepseek-ocr-2',
    { ...range(64, 257, 6 * 144 + 257), tiles: { side: 768, tokens: 144, whole: 257, least: 2, most: 6 } },
  ],
  [
    'glm4v',
    'glm4',
    { name: 'GLM-4.6V-Flash', vision: { patch_size: 14, spatial_merge_size: 2 } },
    'glm4v',
    range(28, 8, 4096),
  ],
  ['glm4v', 'glm4moe', { name: 'GLM-4.5V', vision: { patch_size: 14 } }, 'glm4v', range(28, 8, 4096)],
  ['glm4v', 'glm4', { name: 'GLM-OCR', width: 1536, vision: { patch_size: 14 } }, 'glm-ocr', range(28, 8, 4096)],
  ['youtuvl', 'deepseek2', { vision: { patch_size: 16, spatial_merge_size: 2 } }, 'youtu-vl', range(32, 1, 4096)],
  ['yasa2', 'llama', { vision: { image_size: 512, patch_size: 4 } }, 'reka-edge', square(64, 64)],
  [
    'nemotron_v2_vl',
    'nemotron_h',
    { vision: { image_size: 512, patch_size: 16, 'projector.scale_factor': 2 }, hears: 'parakeet' },
    'nemotron-vl',
    square(32, 256),
  ],
  [
    'exaone4_5',
    'exaone4',
    { vision: { patch_size: 14, ...pixels(3136, 784 * 4096) } },
    'exaone-4.5',
    range(28, 4, 4096),
  ],
  [
    'hunyuanvl',
    'hunyuan_vl',
    { vision: { patch_size: 16, spatial_merge_size: 2, ...pixels(512 * 512, 2048 * 2048) } },
    'hunyuan-vl',
    { ...range(32, 256, 4096), rowEnds: true },
  ],
  [
    'minicpmv4_6',
    'qwen35',
    { vision: { image_size: 448, patch_size: 14, 'projector.scale_factor': 4 } },
    'minicpm-v-4.6',
    { ...range(56, 64, 640), tiles: { grid: 'slices' } },
  ],
  [
    'resampler',
    'qwen3',
    { vision: { image_size: 448, patch_size: 14 } },
    'minicpm-v',
    { tiles: { grid: 'slices', most: 9 } },
  ],
  [
    'mimovl',
    'mimo2',
    { vision: { patch_size: 16, ...pixels(8192, 8_388_608) }, hears: 'mimo_audio' },
    'mimo-vl',
    range(32, 8, 8192),
  ],
  ['minimax_m3', 'minimax-m3', { vision: { image_size: 672, patch_size: 14 } }, 'minimax-m3', range(28, 8, 576)],
  [
    'granite4_vision',
    'granite',
    {
      vision: {
        ...{ image_size: 384, patch_size: 16, 'projector.query_side': 4, 'projector.window_side': 8 },
        image_grid_pinpoints: [384, 768, 768, 384, 768, 768],
      },
    },
    'granite-vision',
    { ...range(32, 432, 720), tiles: { grid: 'listed', side: 384, tokens: 144, always: true } },
  ],
  [
    'muse-glimmer',
    'muse-glimmer',
    { vision: { patch_size: 14, spatial_merge_size: 2 } },
    'muse-glimmer',
    range(28, 1, 4096),
  ],
  ['adapter', 'chatglm', { vision: { image_size: 672, patch_size: 14 } }, 'glm-edge', square(28, 576)],
  ['ldp', 'llama', { vision: { image_size: 336, patch_size: 14 } }, 'mobilevlm', square(28, 144)],
  ['ldpv2', 'llama', { vision: { image_size: 336, patch_size: 14 } }, 'mobilevlm', square(28, 144)],
  ['mlp', 'llama', { vision: { image_size: 336, patch_size: 14 } }, 'llava', square(14, 576)],
]

test.each(SEEING)('%s with %s sees: %j', async (projector, architecture, shape, family, image) => {
  const { card, warnings } = await shown(projector, architecture, shape)
  expect(card).toMatchObject({ family, image })
  expect(card.serves[0]!.modalities).toContain('image')
  expect(warnings.filter((warning) => /text only|without them/.test(warning))).toEqual([])
  // What is derived may be served.
  expect((await describeModel(card)).info.modalities.image).toBe(true)
})

test.each([
  ['glm4v', 'glm4', 'GLM-OCR', []],
  ['glm4v', 'glm4', 'GLM-4.6V-Flash', ['box']],
  ['lfm2', 'lfm2', 'LFM2-VL-1.6B', []],
  ['lfm2', 'lfm2', 'LFM2.5-VL-1.6B', ['box']],
  ['deepseekocr', 'deepseek2-ocr', 'DeepSeek-OCR', ['box']],
  ['deepseekocr', 'deepseek2-ocr', 'Unlimited-OCR', []],
  ['pixtral', 'mistral3', 'Ministral-3-8B', []],
  ['pixtral', 'mistral4', 'Mistral-Large-4', ['box']],
  ['gemma4v', 'gemma4', 'Gemma 4 E4B', ['point', 'box']],
])(
  '%s with %s, named %s, is offered with the places that it can write: %j',
  async (projector, architecture, name, formats) => {
    const { card } = await shown(projector, architecture, { name, vision: { image_size: 448, patch_size: 14 } })
    expect(card.serves[0]!.outputFormats).toEqual(['text', ...formats])
  },
)

const HEARING: readonly (readonly [hears: string, architecture: string, HeaderValues, family: string, rate: number])[] =
  [
    ['qwen2a', 'qwen2', {}, 'qwen2-audio', 25],
    ['qwen3a', 'qwen3', {}, 'qwen3-asr', 13],
    ['ultravox', 'llama', { 'projector.stack_factor': 8, embedding_length: 1280 }, 'ultravox', 6.25],
    ['voxtral', 'llama', { 'projector.stack_factor': 4, embedding_length: 1280 }, 'voxtral', 6.25],
    ['meralion', 'gemma2', { 'projector.stack_factor': 15 }, 'meralion', 10 / 3],
    ['glma', 'llama', { 'projector.stack_factor': 4 }, 'glm-asr', 377 / 30],
    ['musicflamingo', 'qwen2', {}, 'music-flamingo', 25],
    ['lfm2a', 'lfm2', {}, 'lfm2-audio', 12.5],
    [
      'granite_speech',
      'granite',
      { 'projector.window_size': 15, 'projector.downsample_rate': 5 },
      'granite-speech',
      10,
    ],
  ]

test.each(HEARING)('%s with %s hears', async (hears, architecture, audio, family, tokensPerSecond) => {
  const { card, warnings } = await shown(null, architecture, { hears, audio })
  expect(card).toMatchObject({ family, audio: { tokensPerSecond } })
  expect(card.serves[0]!.modalities).toEqual(['text', 'audio'])
  expect(warnings).toEqual([])
})

test.each([
  ['gemma4v', 'gemma4', 'gemma4a', ['text', 'image', 'video', 'audio']],
  ['gemma4uv', 'gemma4', 'gemma4ua', ['text', 'image', 'video', 'audio']],
  ['nemotron_v2_vl', 'nemotron_h', 'parakeet', ['text', 'image', 'audio']],
  ['gemma3nv', 'gemma3n', 'gemma3na', ['text', 'image']],
  ['mimovl', 'mimo2', 'mimo_audio', ['text', 'image']],
])('%s with %s and %s for sound', async (projector, architecture, hears, modalities) => {
  const vision = { image_size: 512, patch_size: 16, ...pixels(8192, 8_388_608) }
  const { card, warnings } = await shown(projector, architecture, { hears, vision })
  expect(card.serves[0]!.modalities).toEqual(modalities)
  const deaf = modalities.includes('audio')
    ? []
    : [expect.stringMatching(new RegExp(`the audio encoder '${hears}' .+: the model is served without sound$`))]
  expect(warnings).toEqual(deaf)
})

test.each([
  ['deepseek4v', 'deepseek4', /the image projector 'deepseek4v' .+ where they stand in the prompt.+ text only$/],
  [
    'qwen9vl_merger',
    'qwen3vl',
    /'qwen9vl_merger' .+ is unknown to llama\.cpp .+ a later release may know it.+ text only$/,
  ],
  [
    'gemma3',
    'llama',
    /'gemma3' with the architecture 'llama' is of no known family; name one in "family".+ text only$/,
  ],
])('%s with %s is served text only, and says why', async (projector, architecture, warning) => {
  const { card, warnings } = await shown(projector, architecture, { vision: { image_size: 448, patch_size: 14 } })
  expect(card.serves[0]!.modalities).toEqual(['text'])
  expect(warnings).toEqual([expect.stringMatching(warning)])
})

test.each([
  ['t5encoder', /its architecture 't5encoder' reads a text with an encoder of its own/],
  ['llada', /its architecture 'llada' writes by diffusion/],
])('a model of the architecture %s is refused', async (architecture, problem) => {
  const { card } = await shown('gemma3', architecture, {})
  await expect(describeModel(card)).rejects.toThrow(problem)
})

test('a model that makes embeddings needs a way to pool, of its file or its card', async () => {
  await expect(shown('gemma3', 'bert', {})).rejects.toThrow(/embedding\.pooling: is needed, .+'mean', 'cls', 'last' or/)
})

test('a model of an architecture that llama.cpp does not know is said to be likely not to load', async () => {
  const { card } = await shown('gemma3', 'qwen9', {})
  expect((await describeModel(card)).warnings).toEqual([
    expect.stringMatching(
      /the architecture 'qwen9' is unknown to llama\.cpp \d\S+, which this release of Lookout uses/,
    ),
  ])
})

test.each([
  ['minicpmv4_6', 'qwen35', /as version 4\.5 does/],
  ['llama4', 'llama4', /degraded quality/],
])('what is doubtful about %s is said', async (projector, architecture, warning) => {
  const { warnings } = await shown(projector, architecture, { vision: { image_size: 448, patch_size: 14 } })
  expect(warnings).toEqual([expect.stringMatching(warning)])
})
