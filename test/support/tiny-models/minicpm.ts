import { int32, int32s, uint32 } from '../gguf-writer.ts'
import { addLinear, imageEncoder, PATCH_EMBEDDING } from './encoder.ts'
import { EMBEDDING, languageModel } from './language.ts'
import { CHAT_ML, CHAT_ML_TEMPLATE, CHAT_ML_TOKENS, type TinyModel } from './tiny-model.ts'
import { bytePairs } from './vocabulary.ts'
import type { Weights } from './weights.ts'

const vocabulary = bytePairs({
  control: [...CHAT_ML_TOKENS, '<image>', '</image>', '<slice>', '</slice>', '<ref>', '</ref>', '<box>', '</box>'],
  addsBos: false,
  chatTemplate: CHAT_ML_TEMPLATE,
})
/** Heads of the resampler have 128 floats; the file cannot change that. */
const WIDTH = 128
/** So that all heads together are as wide as a token, which this architecture needs. */
const HEAD = WIDTH / 4
/** Tokens of each slice. */
const QUERIES = 16
/** Side of a slice in pixels. */
const SLICE = 64
/** Positions along a side, which the encoder shares out among the patches. */
const BUCKETS = 70

function resampler(weights: Weights): void {
  const norm = (name: string) => {
    weights.norm(`resampler.ln_${name}.weight`, WIDTH)
    weights.bias(`resampler.ln_${name}.bias`, WIDTH)
  }
  weights.add('resampler.query', [WIDTH, QUERIES])
  weights.add('resampler.pos_embed_k', [WIDTH, QUERIES])
  weights.matrix('resampler.kv.weight', PATCH_EMBEDDING, WIDTH)
  for (const part of ['q', 'k', 'v', 'out']) addLinear(weights, `resampler.attn.${part}`, WIDTH, WIDTH)
  for (const name of ['q', 'kv', 'post']) norm(name)
  weights.matrix('resampler.proj.weight', WIDTH, WIDTH)
}

export const miniCpmV: TinyModel = {
  name: 'minicpm-v',
  family: 'minicpm-v',
  about: 'slices and a small copy of the whole image, each resampled to as many tokens',
  language: () =>
    languageModel({
      architecture: 'qwen2',
      vocabulary,
      seed: 'minicpm-v',
      shape: { embedding: WIDTH, head: HEAD },
      qkvBias: true,
    }),
  encoder: () =>
    imageEncoder({
      projector: 'resampler',
      seed: 'minicpm-v encoder',
      patch: 8,
      imageSize: SLICE,
      positions: BUCKETS ** 2,
      patchBias: true,
      projection: WIDTH,
      metadata: { 'clip.minicpmv_version': int32(3), 'clip.minicpmv_query_num': uint32(QUERIES) },
      project: resampler,
    }),
  image: { pixelsPerToken: 16, minTokens: 16, maxTokens: 64 },
  pictures: [
    { width: 2 * SLICE, height: 2 * SLICE },
    { width: SLICE, height: 2 * SLICE },
  ],
  turn: CHAT_ML,
}

/** Side of a slice in pixels, where sixteen patches become one token. */
const MERGED_SLICE = 128
/** Four vectors that are merged into one. */
const MERGED = 4 * PATCH_EMBEDDING
const INNER = 96

function mergers(weights: Weights): void {
  const norm = (name: string, size: number) => {
    weights.norm(`${name}.weight`, size)
    weights.bias(`${name}.bias`, size)
  }
  norm('v.vit_merger.ln1', PATCH_EMBEDDING)
  for (const part of ['q', 'k', 'v', 'out'])
    addLinear(weights, `v.vit_merger.attn_${part}`, PATCH_EMBEDDING, PATCH_EMBEDDING)
  norm('v.vit_merger.ds_ln', MERGED)
  addLinear(weights, 'v.vit_merger.ds_ffn_up', MERGED, INNER)
  addLinear(weights, 'v.vit_merger.ds_ffn_down', INNER, PATCH_EMBEDDING)
  norm('mm.input_norm', MERGED)
  addLinear(weights, 'mm.up', MERGED, INNER)
  addLinear(weights, 'mm.down', INNER, EMBEDDING)
}

export const miniCpmV46: TinyModel = {
  ...miniCpmV,
  name: 'minicpm-v-4.6',
  about: 'slices and a small copy of the whole image, whose patches are merged after the first layer and at the end',
  language: () => languageModel({ architecture: 'qwen3', vocabulary, seed: 'minicpm-v-4.6', qkNorm: true }),
  encoder: () =>
    imageEncoder({
      projector: 'minicpmv4_6',
      seed: 'minicpm-v-4.6 encoder',
      patch: 8,
      imageSize: MERGED_SLICE,
      positions: BUCKETS ** 2,
      patchBias: true,
      metadata: { wa_layer_indexes: int32s([0]) },
      project: mergers,
    }),
  image: { pixelsPerToken: 32, minTokens: 16, maxTokens: 64 },
  pictures: [
    { width: 2 * MERGED_SLICE, height: 2 * MERGED_SLICE },
    { width: MERGED_SLICE, height: 2 * MERGED_SLICE },
  ],
}
