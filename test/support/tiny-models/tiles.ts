import { int32s, uint32 } from '../gguf-writer.ts'
import { addLinear, imageEncoder, PATCH_EMBEDDING } from './encoder.ts'
import { EMBEDDING, languageModel } from './language.ts'
import { CHAT_ML, CHAT_ML_TEMPLATE, CHAT_ML_TOKENS, type TinyModel } from './tiny-model.ts'
import { bytePairs } from './vocabulary.ts'

/** Side of a tile in pixels; a token covers 16 x 16 of them. */
const TILE = 64
const PATCH = 8
const PATCHES = (TILE / PATCH) ** 2
const MERGED = 4 * PATCH_EMBEDDING

const internVlWords = bytePairs({
  control: [...CHAT_ML_TOKENS, '<img>', '</img>', '<IMG_CONTEXT>', '<ref>', '</ref>', '<box>', '</box>'],
  addsBos: false,
  chatTemplate: CHAT_ML_TEMPLATE,
})

export const internVl: TinyModel = {
  name: 'internvl',
  family: 'internvl',
  about: 'tiles, and a small copy of the whole image',
  language: () => languageModel({ architecture: 'qwen2', vocabulary: internVlWords, seed: 'internvl', qkvBias: true }),
  encoder: () =>
    imageEncoder({
      projector: 'internvl',
      seed: 'internvl encoder',
      patch: PATCH,
      imageSize: TILE,
      positions: PATCHES + 1,
      patchBias: true,
      postNorm: false,
      metadata: { 'projector.scale_factor': uint32(2), preproc_min_tiles: uint32(1), preproc_max_tiles: uint32(4) },
      project: (weights) => {
        weights.add('v.class_embd', [PATCH_EMBEDDING])
        weights.norm('mm.model.mlp.0.weight', MERGED)
        weights.bias('mm.model.mlp.0.bias', MERGED)
        addLinear(weights, 'mm.model.mlp.1', MERGED, EMBEDDING)
        addLinear(weights, 'mm.model.mlp.3', EMBEDDING, EMBEDDING)
      },
    }),
  image: { pixelsPerToken: 16, minTokens: 16, maxTokens: 64 },
  pictures: [
    { width: 2 * TILE, height: TILE },
    { width: TILE, height: 2 * TILE },
  ],
  turn: CHAT_ML,
}

const rows = [1, 2].flatMap((row) => [1, 2].map((column) => `<row_${row}_col_${column}>`))
const smolVlmWords = bytePairs({
  control: [...CHAT_ML_TOKENS, '<fake_token_around_image>', '<global-img>', '<image>', ...rows],
  texts: ['\n\n'],
  addsBos: false,
  pre: 'smollm',
  chatTemplate: CHAT_ML_TEMPLATE,
})

export const smolVlm: TinyModel = {
  name: 'smolvlm',
  family: 'smolvlm',
  about: 'tiles, each behind a token with its row and column',
  language: () => languageModel({ architecture: 'llama', vocabulary: smolVlmWords, seed: 'smolvlm' }),
  encoder: () =>
    imageEncoder({
      projector: 'idefics3',
      seed: 'smolvlm encoder',
      patch: PATCH,
      imageSize: TILE,
      positions: PATCHES,
      patchBias: true,
      metadata: { 'projector.scale_factor': uint32(2), preproc_image_size: uint32(2 * TILE) },
      project: (weights) => weights.matrix('mm.model.fc.weight', MERGED, EMBEDDING),
    }),
  image: { pixelsPerToken: 16, minTokens: 16, maxTokens: 64 },
  pictures: [
    { width: 2 * TILE, height: TILE },
    { width: TILE, height: 2 * TILE },
  ],
  turn: CHAT_ML,
}

const lfm2Words = bytePairs({
  control: [...CHAT_ML_TOKENS, '<|image_start|>', '<|image_end|>', '<|img_thumbnail|>', '<image>'],
  addsBos: true,
  pre: 'lfm2',
  chatTemplate: CHAT_ML_TEMPLATE,
})

export const lfm2Vl: TinyModel = {
  name: 'lfm2-vl',
  family: 'lfm2-vl',
  about: 'short convolutions beside attention: state that cannot be cut',
  language: () =>
    languageModel({
      architecture: 'lfm2',
      vocabulary: lfm2Words,
      seed: 'lfm2',
      qkNorm: true,
      outputNorm: 'token_embd_norm',
      convolutions: { layers: [0], length: 3 },
      metadata: { 'attention.head_count_kv': int32s([0, 2]), 'shortconv.l_cache': uint32(3) },
    }),
  encoder: () =>
    imageEncoder({
      projector: 'lfm2',
      seed: 'lfm2 encoder',
      patch: 16,
      imageSize: 128,
      positions: 64,
      patchBias: true,
      metadata: { 'projector.scale_factor': uint32(2) },
      project: (weights) => {
        addLinear(weights, 'mm.1', MERGED, MERGED)
        addLinear(weights, 'mm.2', MERGED, EMBEDDING)
      },
    }),
  image: { pixelsPerToken: 32, minTokens: 4, maxTokens: 64 },
  pictures: [
    { width: 128, height: 96 },
    { width: 96, height: 160 },
  ],
  turn: CHAT_ML,
}
