import { int32s, uint32, type WrittenField } from '../gguf-writer.ts'
import { addLinear, type EncoderOptions, imageEncoder, PATCH_EMBEDDING } from './encoder.ts'
import { EMBEDDING, type LanguageOptions, languageModel } from './language.ts'
import { CHAT_ML, CHAT_ML_TEMPLATE, CHAT_ML_TOKENS, type TinyModel } from './tiny-model.ts'
import { bytePairs } from './vocabulary.ts'
import type { Weights } from './weights.ts'

const vocabulary = bytePairs({
  control: [...CHAT_ML_TOKENS, '<|vision_start|>', '<|vision_end|>', '<|image_pad|>', '<|video_pad|>'],
  texts: ['\n\n'],
  addsBos: false,
  chatTemplate: CHAT_ML_TEMPLATE,
})
/** How many pairs of a head's rotation turn with time, row and column. */
const SECTIONS: Record<string, WrittenField> = { 'rope.dimension_sections': int32s([2, 3, 3, 0]) }
/** Four patches become one token. */
const MERGED = 4 * PATCH_EMBEDDING

function merger(weights: Weights, merged = MERGED, embedding = EMBEDDING): void {
  addLinear(weights, 'mm.0', merged, merged)
  addLinear(weights, 'mm.2', merged, embedding)
}

export const qwen2Vl: TinyModel = {
  name: 'qwen2vl',
  family: 'qwen2-vl',
  about: 'M-RoPE',
  language: () =>
    languageModel({ architecture: 'qwen2vl', vocabulary, seed: 'qwen2vl', qkvBias: true, metadata: SECTIONS }),
  encoder: () =>
    imageEncoder({
      projector: 'qwen2vl_merger',
      seed: 'qwen2vl encoder',
      patch: 14,
      imageSize: 560,
      temporal: true,
      project: merger,
    }),
  image: { pixelsPerToken: 28, minTokens: 8, maxTokens: 64 },
  pictures: [
    { width: 112, height: 84 },
    { width: 84, height: 140 },
  ],
  turn: CHAT_ML,
}

export const qwen25Vl: TinyModel = {
  ...qwen2Vl,
  name: 'qwen2.5vl',
  family: 'qwen2.5-vl',
  about: 'M-RoPE, window attention in the encoder',
  encoder: () =>
    imageEncoder({
      projector: 'qwen2.5vl_merger',
      seed: 'qwen2.5vl encoder',
      patch: 14,
      imageSize: 560,
      temporal: true,
      gate: true,
      norm: 'rms',
      activation: 'use_silu',
      // Every second layer attends to the whole image.
      metadata: { n_wa_pattern: uint32(2) },
      project: merger,
    }),
  pictures: [
    { width: 168, height: 112 },
    { width: 140, height: 224 },
  ],
}

export interface Qwen3VlEncoderOptions extends Pick<EncoderOptions, 'shape' | 'typeOf'> {
  readonly seed: string
  /** Side of the images that it was trained with, in patches. */
  readonly side: number
  /** Layers whose output is given to the language model beside the last one's. */
  readonly deepstack: readonly number[]
  /** Floats per token of the language model. */
  readonly embedding: number
}

const PATCH = 16

export function qwen3VlEncoder({ side, deepstack, embedding, ...options }: Qwen3VlEncoderOptions) {
  const merged = 4 * (options.shape?.width ?? PATCH_EMBEDDING)
  return imageEncoder({
    ...options,
    projector: 'qwen3vl_merger',
    patch: PATCH,
    imageSize: side * PATCH,
    positions: side ** 2,
    temporal: true,
    patchBias: true,
    merged: true,
    projection: embedding,
    metadata: { spatial_merge_size: uint32(2) },
    project: (weights) => {
      merger(weights, merged, embedding)
      for (const layer of deepstack) {
        const name = (part: string) => `v.deepstack.${layer}.${part}`
        weights.norm(name('norm.weight'), merged)
        weights.bias(name('norm.bias'), merged)
        addLinear(weights, name('fc1'), merged, merged)
        addLinear(weights, name('fc2'), merged, embedding)
      }
    },
  })
}

const DEEPSTACK = [0]

export function qwen3VlLanguage({ metadata, more }: Pick<LanguageOptions, 'metadata' | 'more'> = {}) {
  return languageModel({
    ...{ architecture: 'qwen3vl', vocabulary, seed: 'qwen3vl', qkNorm: true, ...(more && { more }) },
    metadata: { ...SECTIONS, n_deepstack_layers: uint32(DEEPSTACK.length), ...metadata },
  })
}

export const qwen3Vl: TinyModel = {
  name: 'qwen3vl',
  family: 'qwen3-vl',
  about: 'M-RoPE, deepstack',
  language: () => qwen3VlLanguage(),
  encoder: () => qwen3VlEncoder({ seed: 'qwen3vl encoder', side: 8, deepstack: DEEPSTACK, embedding: EMBEDDING }),
  image: { pixelsPerToken: 32, minTokens: 8, maxTokens: 64 },
  pictures: [
    { width: 128, height: 96 },
    { width: 96, height: 160 },
  ],
  turn: CHAT_ML,
}

export const qwen3VlMoe: TinyModel = {
  ...qwen3Vl,
  name: 'qwen3vl-moe',
  about: 'M-RoPE, deepstack, experts',
  language: () =>
    languageModel({
      architecture: 'qwen3vlmoe',
      vocabulary,
      seed: 'qwen3vlmoe',
      qkNorm: true,
      experts: 4,
      metadata: { ...SECTIONS, n_deepstack_layers: uint32(DEEPSTACK.length) },
    }),
}

export const qwen35: TinyModel = {
  ...qwen3Vl,
  name: 'qwen3.5',
  family: 'qwen3.5',
  about: 'M-RoPE, a gated delta net beside attention with a gate',
  language: () =>
    languageModel({
      architecture: 'qwen35',
      vocabulary,
      seed: 'qwen35',
      qkNorm: true,
      deltaNet: { layers: [0], kernel: 4, state: 16, keyHeads: 2, valueHeads: 4 },
      metadata: {
        ...SECTIONS,
        full_attention_interval: uint32(2),
        'ssm.conv_kernel': uint32(4),
        'ssm.inner_size': uint32(64),
        'ssm.state_size': uint32(16),
        'ssm.time_step_rank': uint32(4),
        'ssm.group_count': uint32(2),
      },
    }),
  encoder: () => qwen3VlEncoder({ seed: 'qwen35 encoder', side: 8, deepstack: [], embedding: EMBEDDING }),
}
