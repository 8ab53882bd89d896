import { int32s, uint32 } from '../gguf-writer.ts'
import { imageEncoder, PATCH_EMBEDDING } from './encoder.ts'
import { EMBEDDING, HEAD, languageModel } from './language.ts'
import { type TinyModel, template } from './tiny-model.ts'
import { bytePairs } from './vocabulary.ts'

const vocabulary = bytePairs({
  control: ['[gMASK]', '<sop>', '<|user|>', '<|assistant|>', '<|begin_of_image|>', '<|end_of_image|>'],
  addsBos: false,
  pre: 'glm4',
  chatTemplate: template('<|user|>\n', '', '<|assistant|>\n', '[gMASK]<sop>'),
})
const MERGE = 2

export const glm4v: TinyModel = {
  name: 'glm4v',
  family: 'glm4v',
  about: 'M-RoPE of half a head, norms behind attention and feed-forward, merged by a convolution',
  language: () =>
    languageModel({
      architecture: 'glm4',
      vocabulary,
      seed: 'glm4v',
      qkvBias: true,
      sharpness: 1,
      postNorms: 'glm',
      mergedGate: true,
      metadata: { 'rope.dimension_count': uint32(HEAD / 2), 'rope.dimension_sections': int32s([1, 1, 2, 0]) },
    }),
  encoder: () =>
    imageEncoder({
      projector: 'glm4v',
      seed: 'glm4v encoder',
      patch: 14,
      imageSize: 112,
      positions: 64,
      temporal: true,
      patchBias: true,
      merged: true,
      gate: true,
      norm: 'rms',
      biases: false,
      activation: 'use_silu',
      metadata: { spatial_merge_size: uint32(MERGE) },
      project: (weights) => {
        weights.norm('v.norm_embd.weight', PATCH_EMBEDDING)
        weights.add('mm.patch_merger.weight', [MERGE, MERGE, PATCH_EMBEDDING, EMBEDDING], {
          deviation: 1 / Math.sqrt(MERGE * MERGE * PATCH_EMBEDDING),
        })
        weights.bias('mm.patch_merger.bias', EMBEDDING)
        weights.matrix('mm.model.fc.weight', EMBEDDING, EMBEDDING)
        weights.norm('mm.post_norm.weight', EMBEDDING)
        weights.bias('mm.post_norm.bias', EMBEDDING)
        weights.matrix('mm.gate.weight', EMBEDDING, EMBEDDING)
        weights.matrix('mm.up.weight', EMBEDDING, EMBEDDING)
        weights.matrix('mm.down.weight', EMBEDDING, EMBEDDING)
      },
    }),
  image: { pixelsPerToken: 28, minTokens: 8, maxTokens: 64 },
  pictures: [
    { width: 112, height: 84 },
    { width: 84, height: 140 },
  ],
  turn: ['<|user|>\n', '<|assistant|>\n'],
}
