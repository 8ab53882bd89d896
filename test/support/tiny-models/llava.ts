import { bool, int32s, uint32 } from '../gguf-writer.ts'
import { addLinear, imageEncoder, PATCH_EMBEDDING } from './encoder.ts'
import { EMBEDDING, languageModel } from './language.ts'
import { type TinyModel, template } from './tiny-model.ts'
import { sentencePieces } from './vocabulary.ts'

const vocabulary = sentencePieces({
  texts: ['\n'],
  marks: ['<think>'],
  addsBos: true,
  spacePrefix: true,
  chatTemplate: template('{{ message.role | upper }}: ', '\n', 'ASSISTANT:'),
})

export const llava: TinyModel = {
  name: 'llava',
  family: 'llava',
  about: 'SentencePiece with a blank before each text, text begins with a control token',
  language: () => languageModel({ architecture: 'llama', vocabulary, seed: 'llava 2' }),
  encoder: () =>
    imageEncoder({
      projector: 'mlp',
      seed: 'llava encoder',
      patch: 14,
      imageSize: 84,
      positions: 37,
      preNorm: true,
      postNorm: false,
      metadata: { 'clip.has_llava_projector': bool(true), feature_layer: int32s([1]), block_count: uint32(2) },
      project: (weights) => {
        weights.add('v.class_embd', [PATCH_EMBEDDING])
        addLinear(weights, 'mm.0', PATCH_EMBEDDING, EMBEDDING)
        addLinear(weights, 'mm.2', EMBEDDING, EMBEDDING)
      },
    }),
  image: { pixelsPerToken: 14, minTokens: 36, maxTokens: 36, square: true },
  pictures: [
    { width: 84, height: 84 },
    { width: 84, height: 84 },
  ],
  turn: ['USER: ', '\nASSISTANT:'],
}
