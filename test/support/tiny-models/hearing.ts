import { addLinear, audioEncoder } from './encoder.ts'
import { EMBEDDING, languageModel } from './language.ts'
import { CHAT_ML, CHAT_ML_TEMPLATE, CHAT_ML_TOKENS, type TinyModel, template } from './tiny-model.ts'
import { bytePairs } from './vocabulary.ts'

/** So large that some of the hundreds of tokens of a sound stand out. */
const SHARPNESS = 1.8

const mistralWords = bytePairs({
  control: ['[INST]', '[/INST]', '[AUDIO]', '[BEGIN_AUDIO]'],
  addsBos: true,
  pre: 'tekken',
  chatTemplate: template('[INST]', '[/INST]', ''),
})

export const voxtral: TinyModel = {
  name: 'voxtral',
  family: 'voxtral',
  about: 'sound in windows of 30 seconds, behind a control token',
  language: () =>
    languageModel({ architecture: 'llama', vocabulary: mistralWords, seed: 'voxtral 4', sharpness: SHARPNESS }),
  encoder: () =>
    audioEncoder({
      projector: 'voxtral',
      seed: 'voxtral encoder',
      stack: 4,
      project: (weights, inputs) => {
        weights.matrix('mm.a.mlp.1.weight', inputs, EMBEDDING)
        weights.matrix('mm.a.mlp.2.weight', EMBEDDING, EMBEDDING)
      },
    }),
  audio: { tokensPerSecond: 6.25, windowSeconds: 30, maxTokens: 1024 },
  turn: ['[INST]', '[/INST]'],
}

const header = (role: string) => `<|start_header_id|>${role}<|end_header_id|>\n\n`
const llamaWords = bytePairs({
  control: ['<|start_header_id|>', '<|end_header_id|>', '<|eot_id|>'],
  texts: ['\n\n'],
  addsBos: true,
  pre: 'llama-bpe',
  chatTemplate: template(header('{{ message.role }}'), '<|eot_id|>', header('assistant')),
})

export const ultravox: TinyModel = {
  name: 'ultravox',
  family: 'ultravox',
  about: 'sound in windows of 30 seconds, without marks around it',
  language: () =>
    languageModel({ architecture: 'llama', vocabulary: llamaWords, seed: 'ultravox', sharpness: SHARPNESS }),
  encoder: () =>
    audioEncoder({
      projector: 'ultravox',
      seed: 'ultravox encoder',
      stack: 8,
      project: (weights, inputs) => {
        weights.norm('mm.a.norm_pre.weight', inputs)
        weights.matrix('mm.a.mlp.1.weight', inputs, 2 * EMBEDDING)
        weights.norm('mm.a.norm_mid.weight', EMBEDDING)
        weights.matrix('mm.a.mlp.2.weight', EMBEDDING, EMBEDDING)
      },
    }),
  audio: { tokensPerSecond: 6.25, windowSeconds: 30, maxTokens: 1024 },
  turn: [header('user'), `<|eot_id|>${header('assistant')}`],
}

const qwenWords = bytePairs({
  control: [...CHAT_ML_TOKENS, '<|audio_bos|>', '<|AUDIO|>', '<|audio_eos|>'],
  addsBos: false,
  chatTemplate: CHAT_ML_TEMPLATE,
})

export const qwen2Audio: TinyModel = {
  name: 'qwen2-audio',
  family: 'qwen2-audio',
  about: 'sound in windows of 30 seconds, pooled, between two control tokens',
  language: () =>
    languageModel({
      architecture: 'qwen2',
      vocabulary: qwenWords,
      seed: 'qwen2-audio',
      qkvBias: true,
      sharpness: SHARPNESS,
    }),
  encoder: () =>
    audioEncoder({
      projector: 'qwen2a',
      seed: 'qwen2-audio encoder',
      project: (weights, inputs) => addLinear(weights, 'mm.a.fc', inputs, EMBEDDING),
    }),
  audio: { tokensPerSecond: 25, windowSeconds: 30, maxTokens: 1024 },
  turn: CHAT_ML,
}
