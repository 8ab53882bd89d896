import { uint32 } from '../gguf-writer.ts'
import { imageEncoder, PATCH_EMBEDDING } from './encoder.ts'
import { EMBEDDING, languageModel } from './language.ts'
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
