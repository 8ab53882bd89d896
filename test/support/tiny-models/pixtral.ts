import { float32, string, uint32 } from '../gguf-writer.ts'
import { addLinear, imageEncoder, PATCH_EMBEDDING } from './encoder.ts'
import { EMBEDDING, HEAD, languageModel } from './language.ts'
import { type TinyModel, template } from './tiny-model.ts'
import { bytePairs } from './vocabulary.ts'

const vocabulary = bytePairs({
  control: ['[INST]', '[/INST]', '[IMG]', '[IMG_BREAK]', '[IMG_END]', '[TOOL_CALLS]', '[ARGS]'],
  addsBos: true,
  pre: 'tekken',
  chatTemplate: template('[INST]', '[/INST]', ''),
})

export const pixtral: TinyModel = {
  name: 'pixtral',
  family: 'mistral',
  about: 'a token behind each row of an image, text begins with a control token',
  language: () => languageModel({ architecture: 'llama', vocabulary, seed: 'pixtral' }),
  encoder: () =>
    imageEncoder({
      projector: 'pixtral',
      seed: 'pixtral encoder',
      patch: 16,
      imageSize: 256,
      norm: 'rms',
      biases: false,
      gate: true,
      activation: 'use_silu',
      preNorm: true,
      postNorm: false,
      metadata: { spatial_merge_size: uint32(2) },
      project: (weights) => {
        weights.norm('mm.input_norm.weight', PATCH_EMBEDDING)
        weights.matrix('mm.patch_merger.weight', 4 * PATCH_EMBEDDING, PATCH_EMBEDDING)
        addLinear(weights, 'mm.1', PATCH_EMBEDDING, EMBEDDING)
        addLinear(weights, 'mm.2', EMBEDDING, EMBEDDING)
        weights.add('v.token_embd.img_break', [EMBEDDING])
      },
    }),
  image: { pixelsPerToken: 32, minTokens: 4, maxTokens: 64 },
  pictures: [
    { width: 128, height: 96 },
    { width: 96, height: 160 },
  ],
  turn: ['[INST]', '[/INST]'],
}

export const mistral3: TinyModel = {
  ...pixtral,
  name: 'mistral3',
  about: 'YaRN, queries that are scaled by their position',
  language: () =>
    languageModel({
      architecture: 'mistral3',
      vocabulary,
      seed: 'mistral3',
      metadata: {
        // Queries grow every 64 tokens.
        'attention.temperature_scale': float32(0.1),
        'rope.scaling.type': string('yarn'),
        'rope.scaling.factor': float32(16),
        'rope.scaling.original_context_length': uint32(64),
        'rope.scaling.yarn_log_multiplier': float32(1),
        'rope.dimension_count': uint32(HEAD),
      },
    }),
}
