import { bool, float32, int32s, string, uint32, type WrittenField, type WrittenFile } from '../gguf-writer.ts'
import { addLinear, type EncoderOptions, imageEncoder, PATCH_EMBEDDING } from './encoder.ts'
import { EMBEDDING, languageModel } from './language.ts'
import { CHAT_ML, CHAT_ML_TEMPLATE, CHAT_ML_TOKENS, type TinyModel } from './tiny-model.ts'
import { bytePairs } from './vocabulary.ts'
import { Weights } from './weights.ts'

const PATCH = 8
/** Side in patches of the images that the encoders were trained with, so to say. */
const SIDE = 8
const MERGED = 4 * PATCH_EMBEDDING

/** Two linear layers of a projector, by their numbers. */
function mlp(weights: Weights, [first, second]: readonly [number, number], inputs: number, inner = inputs): void {
  addLinear(weights, `mm.${first}`, inputs, inner)
  addLinear(weights, `mm.${second}`, inner, EMBEDDING)
}

function inputNorm(weights: Weights, size: number): void {
  weights.norm('mm.input_norm.weight', size)
  weights.bias('mm.input_norm.bias', size)
}

function convolution(weights: Weights, name: string, [side, inputs, outputs]: readonly [number, number, number]): void {
  weights.add(`${name}.weight`, [side, side, inputs, outputs], {
    deviation: 1 / Math.sqrt(side * side * inputs),
    type: 'F16',
  })
  weights.bias(`${name}.bias`, outputs)
}

const merge = { spatial_merge_size: uint32(2) }
const scale = { 'projector.scale_factor': uint32(2) }
const limits = (unit: number, least: number, most: number): Record<string, WrittenField> => ({
  image_min_pixels: uint32(least * unit ** 2),
  image_max_pixels: uint32(most * unit ** 2),
})

type Options = Omit<EncoderOptions, 'projector' | 'seed'>

/** Tensors of one number each, by the names that stand before `.weight` and `.bias`, or alone. */
function named(weights: Weights, pairs: readonly string[], alone: readonly string[] = []): void {
  for (const name of [...pairs.flatMap((pair) => [`${pair}.weight`, `${pair}.bias`]), ...alone]) weights.add(name, [1])
}

/** As many as libmtmd loads; the file's number is not read. */
const SAM_LAYERS = 12

/** DeepSeek-OCR's: a first encoder, and what joins it to the second. */
function sam(weights: Weights): void {
  const layer = ['attn.qkv', 'attn.out', 'pre_ln', 'post_ln', 'attn.pos_h', 'attn.pos_w', 'mlp.lin1', 'mlp.lin2']
  const neck = [0, 1, 2, 3].map((number) => `v.sam.neck.${number}`)
  const blocks = Array.from({ length: SAM_LAYERS }, (_, block) => layer.map((name) => `v.sam.blk.${block}.${name}`))
  const pairs = [...blocks.flat(), ...neck, 'v.sam.pos_embd', 'v.sam.patch_embd']
  named(weights, [...pairs, 'v.sam.net_2', 'v.sam.net_3'], ['v.image_newline', 'v.view_seperator'])
  addLinear(weights, 'mm.model.fc', PATCH_EMBEDDING, EMBEDDING)
}

const samSizes = {
  'sam.head_count': uint32(1),
  'sam.block_count': uint32(SAM_LAYERS),
  'sam.embedding_length': uint32(16),
  window_size: uint32(14),
}
const plain: Omit<Options, 'project'> = { patch: PATCH, imageSize: SIDE * PATCH, patchBias: true, positions: SIDE ** 2 }

/** Image encoders with random weights, by the projector whose graph libmtmd computes for them. */
const ENCODERS: Readonly<Record<string, Options>> = {
  lightonocr: {
    ...plain,
    ...{ positions: undefined, patchBias: false, norm: 'rms', biases: false, gate: true, activation: 'use_silu' },
    // No multiple of a token's square.
    imageSize: 100,
    preNorm: true,
    postNorm: false,
    metadata: merge,
    project: (weights) => {
      weights.norm('mm.input_norm.weight', PATCH_EMBEDDING)
      weights.matrix('mm.patch_merger.weight', MERGED, PATCH_EMBEDDING)
      mlp(weights, [1, 2], PATCH_EMBEDDING)
    },
  },
  kimivl: {
    ...plain,
    metadata: scale,
    project: (weights) => {
      inputNorm(weights, PATCH_EMBEDDING)
      mlp(weights, [1, 2], MERGED)
    },
  },
  kimik25: {
    ...plain,
    positions: undefined,
    metadata: { ...scale, ...limits(16, 2, 300) },
    project: (weights) => {
      weights.add('v.position_embd.weight', [PATCH_EMBEDDING, SIDE, SIDE], { deviation: 0.5 })
      inputNorm(weights, PATCH_EMBEDDING)
      mlp(weights, [1, 2], MERGED)
    },
  },
  paddleocr: {
    ...plain,
    metadata: limits(16, 4, 200),
    project: (weights) => {
      inputNorm(weights, PATCH_EMBEDDING)
      mlp(weights, [1, 2], MERGED)
    },
  },
  dots_ocr: {
    ...plain,
    ...{ positions: undefined, norm: 'rms', biases: false, gate: true, activation: 'use_silu', postNorm: false },
    metadata: { ...scale, ...limits(16, 4, 200) },
    project: (weights) => {
      inputNorm(weights, PATCH_EMBEDDING)
      weights.norm('mm.post_norm.weight', PATCH_EMBEDDING)
      mlp(weights, [0, 2], MERGED)
    },
  },
  phi4: {
    ...plain,
    metadata: limits(PATCH, 16, 400),
    project: (weights) => mlp(weights, [0, 2], PATCH_EMBEDDING),
  },
  janus_pro: { ...plain, project: (weights) => mlp(weights, [0, 1], PATCH_EMBEDDING) },
  llama4: {
    ...plain,
    positions: SIDE ** 2 + 1,
    patchBias: false,
    preNorm: true,
    metadata: scale,
    project: (weights) => {
      weights.matrix('v.patch_embd.weight', 3 * PATCH * PATCH, PATCH_EMBEDDING)
      weights.add('v.class_embd', [PATCH_EMBEDDING])
      weights.matrix('mm.model.mlp.1.weight', MERGED, MERGED)
      weights.matrix('mm.model.mlp.2.weight', MERGED, MERGED)
      weights.matrix('mm.model.fc.weight', MERGED, EMBEDDING)
    },
  },
  step3vl: {
    ...plain,
    // The tiles' side of 504 pixels is fixed in libmtmd.
    patch: 14,
    imageSize: 728,
    positions: 52 ** 2,
    patchBias: false,
    preNorm: true,
    postNorm: false,
    metadata: { 'projector.scale_factor': uint32(4), preproc_image_size: uint32(3024) },
    project: (weights) => {
      convolution(weights, 'mm.0', [3, PATCH_EMBEDDING, PATCH_EMBEDDING])
      convolution(weights, 'mm.1', [3, PATCH_EMBEDDING, PATCH_EMBEDDING])
      weights.matrix('mm.model.fc.weight', PATCH_EMBEDDING, EMBEDDING)
    },
  },
  hunyuanvl: {
    ...plain,
    postNorm: false,
    metadata: { ...merge, ...limits(16, 4, 200) },
    project: (weights) => {
      convolution(weights, 'mm.0', [2, PATCH_EMBEDDING, PATCH_EMBEDDING])
      convolution(weights, 'mm.2', [1, PATCH_EMBEDDING, PATCH_EMBEDDING])
      addLinear(weights, 'mm.model.fc', PATCH_EMBEDDING, EMBEDDING)
      weights.norm('mm.pre_norm.weight', PATCH_EMBEDDING)
      weights.norm('mm.post_norm.weight', EMBEDDING)
      weights.add('mm.image_begin', [EMBEDDING])
      weights.add('mm.image_end', [EMBEDDING])
      weights.add('v.image_newline', [PATCH_EMBEDDING])
    },
  },
  minimax_m3: {
    ...plain,
    ...{ positions: undefined, patchBias: false, preNorm: true, postNorm: false, temporal: true },
    metadata: merge,
    project: (weights) => {
      mlp(weights, [1, 2], PATCH_EMBEDDING)
      addLinear(weights, 'mm.merger.fc1', 4 * EMBEDDING, EMBEDDING)
      addLinear(weights, 'mm.merger.fc2', EMBEDDING, EMBEDDING)
    },
  },
  'muse-glimmer': {
    ...plain,
    patchBias: false,
    preNorm: true,
    metadata: merge,
    project: (weights) => {
      weights.matrix('mm.0.weight', MERGED, MERGED)
      weights.matrix('mm.1.weight', MERGED, MERGED)
      weights.matrix('mm.2.weight', MERGED, EMBEDDING)
    },
  },
  youtuvl: {
    ...plain,
    positions: undefined,
    patchBias: false,
    metadata: { ...merge, window_size: uint32(64), wa_layer_indexes: int32s([1]) },
    project: (weights) => {
      // It takes its patches as one row each.
      weights.matrix('v.patch_embd.weight', 3 * PATCH * PATCH, PATCH_EMBEDDING)
      weights.bias('v.patch_embd.bias', PATCH_EMBEDDING)
      weights.norm('mm.input_norm.weight', PATCH_EMBEDDING)
      mlp(weights, [0, 2], MERGED)
    },
  },
}

/** Encoders whose tensors have the names that libmtmd asks for, and not their shapes: images can be counted only. */
const COUNTED: Readonly<Record<string, Options>> = {
  deepseekocr: { ...plain, metadata: samSizes, project: sam },
  deepseekocr2: {
    ...plain,
    metadata: { ...samSizes, 'attention.head_count_kv': uint32(1) },
    project: sam,
  },
  granite4_vision: {
    ...plain,
    metadata: {
      ...{ 'projector.query_side': uint32(4), 'projector.window_side': uint32(8) },
      ...{ feature_layer: int32s([1]), 'projector.spatial_offsets': int32s([-1]) },
      image_grid_pinpoints: int32s([64, 128, 128, 64, 128, 128, 64, 192, 192, 64]),
    },
    project: (weights) => {
      const attention = ['self', 'cross'].flatMap((kind) =>
        ['q', 'k', 'v', 'out', 'norm'].map((part) => `${kind}_attn_${part}`),
      )
      const parts = [...attention, 'linear', 'norm', 'post_norm', 'ffn_up', 'ffn_down', 'ffn_norm']
      named(
        weights,
        parts.map((part) => `v.proj_blk.0.${part}`),
        ['v.image_newline', 'v.proj_blk.0.img_pos', 'v.proj_blk.0.query'],
      )
    },
  },
  exaone4_5: {
    ...plain,
    metadata: { ...limits(16, 4, 200), 'attention.head_count_kv': uint32(1) },
    project: (weights) => mlp(weights, [0, 2], MERGED),
  },
  mimovl: {
    ...plain,
    metadata: {
      ...{ ...limits(16, 4, 200), 'attention.head_count_kv': uint32(1) },
      ...{ window_size: uint32(8), wa_pattern_mode: int32s([-1, -1]) },
    },
    project: (weights) => mlp(weights, [0, 2], MERGED),
  },
  adapter: {
    ...plain,
    project: (weights) => {
      named(weights, ['adapter.conv', 'adapter.linear.norm1'], ['adapter.boi', 'adapter.eoi'])
      const linear = ['linear', 'dense_h_to_4h', 'gate'].map((name) => `adapter.linear.${name}.weight`)
      named(weights, [], linear)
      weights.matrix('adapter.linear.dense_4h_to_h.weight', PATCH_EMBEDDING, EMBEDDING)
    },
  },
  cogvlm: {
    ...plain,
    project: (weights) => {
      named(weights, ['mm.post_fc_norm'], ['v.boi', 'v.eoi', 'mm.model.fc.weight', 'mm.up.weight', 'mm.gate.weight'])
      weights.matrix('mm.down.weight', PATCH_EMBEDDING, EMBEDDING)
    },
  },
}

/** Whether `otherEncoder` can compute, and not only count. */
export const computes = (projector: string) => projector in ENCODERS

export const OTHER_PROJECTORS = [...Object.keys(ENCODERS), ...Object.keys(COUNTED)]

export function otherEncoder(projector: string): WrittenFile {
  const file = imageEncoder({ projector, seed: projector, ...(ENCODERS[projector] ?? COUNTED[projector])! })
  // The projector's own is the one meant of two tensors with the same name.
  const tensors = [...new Map(file.tensors.map((tensor) => [tensor.name, tensor])).values()]
  return { ...file, tensors }
}

/** Gemma 4's, which has no layers: each frame of 640 samples becomes one token. */
export function gemma4Unified(): WrittenFile {
  const weights = new Weights('gemma4ua')
  weights.matrix('mm.a.input_projection.weight', 640, EMBEDDING)
  const sizes = ['embedding_length', 'feed_forward_length', 'block_count', 'attention.head_count'].map(
    (key) => [`clip.audio.${key}`, uint32(key === 'embedding_length' ? 640 : 0)] as const,
  )
  const metadata = new Map<string, WrittenField>([
    ['general.architecture', string('clip')],
    ['clip.projector_type', string('gemma4ua')],
    ['clip.has_audio_encoder', bool(true)],
    ...sizes,
    ['clip.audio.projection_dim', uint32(EMBEDDING)],
    ['clip.audio.attention.layer_norm_epsilon', float32(1e-6)],
    ['clip.audio.num_mel_bins', uint32(128)],
  ])
  return { metadata, tensors: weights.tensors }
}

const words = bytePairs({
  control: [...CHAT_ML_TOKENS, '<|media_start|>', '<|media_end|>'],
  addsBos: false,
  chatTemplate: CHAT_ML_TEMPLATE,
})

function otherModel(projector: string, model: Pick<TinyModel, 'name' | 'family' | 'about' | 'language'>): TinyModel {
  return {
    ...model,
    encoder: () => otherEncoder(projector),
    image: { pixelsPerToken: 2 * PATCH, minTokens: 16, maxTokens: 64 },
    pictures: [
      { width: 64, height: 64 },
      { width: 64, height: 64 },
    ],
    turn: CHAT_ML,
  }
}

/** Some of them with language models, to be served. */
export const OTHER_MODELS: readonly TinyModel[] = [
  otherModel('kimivl', {
    name: 'kimi-vl',
    family: 'kimi-vl',
    about: 'images of any aspect ratio',
    language: () => languageModel({ architecture: 'llama', vocabulary: words, seed: 'kimi-vl' }),
  }),
  otherModel('lightonocr', {
    name: 'lighton-ocr',
    family: 'lighton-ocr',
    about: 'images that are always as long',
    language: () => languageModel({ architecture: 'qwen3', vocabulary: words, seed: 'lighton', qkNorm: true }),
  }),
  otherModel('hunyuanvl', {
    name: 'hunyuan-vl',
    family: 'hunyuan-vl',
    about: 'positions of four planes, and a token behind each row',
    language: () =>
      languageModel({
        architecture: 'hunyuan_vl',
        vocabulary: words,
        seed: 'hunyuan',
        qkNorm: true,
        metadata: { 'rope.dimension_sections': int32s([2, 2, 2, 2]) },
      }),
  }),
]
