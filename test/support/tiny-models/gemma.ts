import { TOOL_MARKS } from '../../../src/families/tool-syntax.ts'
import { bools, float32, uint32 } from '../gguf-writer.ts'
import { ENCODER_HEAD, ENCODER_LAYERS, imageEncoder, PATCH_EMBEDDING } from './encoder.ts'
import { EMBEDDING, HEAD, languageModel } from './language.ts'
import { type TinyModel, template } from './tiny-model.ts'
import { sentencePieces } from './vocabulary.ts'

const vocabulary = sentencePieces({
  control: ['<start_of_turn>', '<end_of_turn>', '<start_of_image>', '<end_of_image>'],
  texts: ['\n', '\n\n'],
  addsBos: true,
  spacePrefix: false,
  chatTemplate: template(
    '<start_of_turn>{{ message.role }}\n',
    '<end_of_turn>\n',
    '<start_of_turn>model\n',
    '{{ bos_token }}',
  ),
})

function gemma3Encoder(imageSize: number, patch: number, merge: number) {
  return imageEncoder({
    projector: 'gemma3',
    seed: 'gemma3 encoder',
    patch,
    imageSize,
    patchBias: true,
    positions: (imageSize / patch) ** 2,
    metadata: { 'projector.scale_factor': uint32(merge) },
    project: (weights) => {
      weights.add('mm.input_projection.weight', [EMBEDDING, PATCH_EMBEDDING], { deviation: PATCH_EMBEDDING ** -0.5 })
      weights.norm('mm.soft_emb_norm.weight', PATCH_EMBEDDING)
    },
  })
}

export const gemma3: TinyModel = {
  name: 'gemma3',
  family: 'gemma3',
  about: 'sliding window, image tokens that attend to each other, text begins with a control token',
  language: () =>
    languageModel({
      architecture: 'gemma3',
      vocabulary,
      seed: 'gemma3',
      qkNorm: true,
      postNorms: 'gemma',
      // The graph multiplies embeddings of text by the root of their length.
      embeddingScale: EMBEDDING ** -0.5,
      metadata: { 'attention.sliding_window': uint32(32), 'attention.sliding_window_pattern': uint32(2) },
    }),
  encoder: () => gemma3Encoder(128, 8, 2),
  image: { pixelsPerToken: 16, minTokens: 64, maxTokens: 64, square: true },
  pictures: [
    { width: 128, height: 128 },
    { width: 128, height: 128 },
  ],
  turn: ['<start_of_turn>user\n', '<end_of_turn>\n<start_of_turn>model\n'],
}

export const gemma3Large: TinyModel = {
  ...gemma3,
  name: 'gemma3-large-images',
  about: 'images of 576 tokens that attend to each other, more than a batch has by default',
  encoder: () => gemma3Encoder(96, 4, 1),
  image: { pixelsPerToken: 4, minTokens: 576, maxTokens: 576, square: true },
  pictures: [
    { width: 96, height: 96 },
    { width: 96, height: 96 },
  ],
}

const gemma4Words = sentencePieces({
  control: [
    ...['<|turn>', '<turn|>', '<|image>', '<image|>', '<|image|>', '<|tool>', '<tool|>', '<|"|>'],
    ...['<|tool_call>', '<tool_call|>', '<|tool_response>', '<tool_response|>'],
  ],
  texts: ['\n', '\n\n'],
  addsBos: true,
  spacePrefix: false,
  merged: true,
  chatTemplate: template('<|turn>{{ message.role }}\n', '<turn|>\n', '<|turn>model\n', '{{ bos_token }}'),
})
const GEMMA4_LAYERS = 4
/** Every second layer attends to everything, with larger heads. The last two use keys and values of the first two. */
const WIDE_HEAD = 2 * HEAD
const PER_LAYER = 8
const GEMMA4_PATCH = 8
/** Positions along a side of an image, in patches. */
const GEMMA4_POSITIONS = 64

export const gemma4: TinyModel = {
  name: 'gemma4',
  family: 'gemma4',
  about:
    'image tokens that attend to each other in the sliding window only, shared keys and values, per-layer embeddings',
  language: () =>
    languageModel({
      architecture: 'gemma4',
      vocabulary: gemma4Words,
      seed: 'gemma4',
      shape: { layers: GEMMA4_LAYERS },
      headSizes: [HEAD, WIDE_HEAD, HEAD, WIDE_HEAD],
      qkNorm: true,
      // Attention does not divide by the root of the head's size.
      sharpness: 0.6,
      postNorms: 'gemma',
      embeddingScale: EMBEDDING ** -0.5,
      metadata: {
        'attention.sliding_window': uint32(32),
        'attention.sliding_window_pattern': bools([true, false, true, false]),
        'attention.shared_kv_layers': uint32(2),
        'attention.key_length': uint32(WIDE_HEAD),
        'attention.value_length': uint32(WIDE_HEAD),
        'attention.key_length_swa': uint32(HEAD),
        'attention.value_length_swa': uint32(HEAD),
        'rope.dimension_count': uint32(WIDE_HEAD),
        'rope.dimension_count_swa': uint32(HEAD),
        'rope.freq_base_swa': float32(1000),
        embedding_length_per_layer_input: uint32(PER_LAYER),
        final_logit_softcapping: float32(30),
      },
      more: (weights) => {
        const floats = PER_LAYER * GEMMA4_LAYERS
        weights.add('per_layer_token_embd.weight', [floats, gemma4Words.size], { deviation: PER_LAYER ** -0.5 })
        weights.add('per_layer_model_proj.weight', [EMBEDDING, floats])
        weights.norm('per_layer_proj_norm.weight', PER_LAYER)
        weights.norm('rope_freqs.weight', WIDE_HEAD / 2)
        for (let layer = 0; layer < GEMMA4_LAYERS; layer++) {
          weights.matrix(`blk.${layer}.inp_gate.weight`, EMBEDDING, PER_LAYER)
          weights.matrix(`blk.${layer}.proj.weight`, PER_LAYER, EMBEDDING)
          weights.norm(`blk.${layer}.post_norm.weight`, EMBEDDING)
          weights.norm(`blk.${layer}.layer_output_scale.weight`, 1)
        }
      },
    }),
  encoder: () =>
    imageEncoder({
      projector: 'gemma4v',
      seed: 'gemma4 encoder',
      patch: GEMMA4_PATCH,
      imageSize: 128,
      norm: 'rms',
      biases: false,
      gate: true,
      postNorm: false,
      metadata: { 'projector.scale_factor': uint32(2) },
      project: (weights) => {
        weights.add('v.position_embd.weight', [PATCH_EMBEDDING, GEMMA4_POSITIONS, 2], { deviation: 0.5 })
        for (let layer = 0; layer < ENCODER_LAYERS; layer++) {
          const norm = (name: string, size: number, mean = 1) =>
            weights.norm(`v.blk.${layer}.${name}.weight`, size, mean)
          norm('attn_q_norm', ENCODER_HEAD, 0.6)
          norm('attn_k_norm', ENCODER_HEAD, 0.6)
          norm('attn_post_norm', PATCH_EMBEDDING)
          norm('ffn_post_norm', PATCH_EMBEDDING)
        }
        weights.matrix('mm.input_projection.weight', PATCH_EMBEDDING, EMBEDDING)
      },
    }),
  image: { pixelsPerToken: 2 * GEMMA4_PATCH, minTokens: 16, maxTokens: 64 },
  pictures: [
    { width: 128, height: 96 },
    { width: 96, height: 144 },
  ],
  printedTokens: TOOL_MARKS.gemma4,
  turn: ['<|turn>user\n', '<turn|>\n<|turn>model\n'],
}
