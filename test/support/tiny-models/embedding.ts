import { bool, float32, int32s, string, strings, uint32, type WrittenField, type WrittenFile } from '../gguf-writer.ts'
import { languageModel } from './language.ts'
import { qwen3VlLanguage } from './qwen.ts'
import { CHAT_ML_TEMPLATE } from './tiny-model.ts'
import { bytePairs } from './vocabulary.ts'
import { type TypeRule, Weights } from './weights.ts'

/** llama.cpp's `llama_pooling_type`. */
export const POOLING = { none: 0, mean: 1, cls: 2, last: 3, rank: 4 } as const

export const WIDTH = 64
export const LAYERS = 2
export const HEADS = 4
const TRAINED_TOKENS = 256
const TINY: BertShape = { width: WIDTH, layers: LAYERS, heads: HEADS, feedForward: 96 }

interface BertShape {
  readonly width: number
  readonly layers: number
  readonly heads: number
  readonly feedForward: number
}

const SPECIAL = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']
const LETTERS = [...'abcdefghijklmnopqrstuvwxyz']
/** WordPiece's tokens: what begins a word has a mark, and what continues it has none. */
const PIECES = [...SPECIAL, ...LETTERS.map((letter) => `▁${letter}`), ...LETTERS, '▁the', '▁robot', 'bot', '▁.', '▁,']
const NORMAL = 1
const CONTROL = 3

const wordPieces = new Map<string, WrittenField>([
  ['tokenizer.ggml.model', string('bert')],
  ['tokenizer.ggml.pre', string('default')],
  ['tokenizer.ggml.tokens', strings(PIECES)],
  ['tokenizer.ggml.token_type', int32s(PIECES.map((_, id) => (id < SPECIAL.length ? CONTROL : NORMAL)))],
  ['tokenizer.ggml.token_type_count', uint32(2)],
  ['tokenizer.ggml.padding_token_id', uint32(0)],
  ['tokenizer.ggml.unknown_token_id', uint32(1)],
  ['tokenizer.ggml.bos_token_id', uint32(2)],
  ['tokenizer.ggml.cls_token_id', uint32(2)],
  ['tokenizer.ggml.seperator_token_id', uint32(3)],
  ['tokenizer.ggml.mask_token_id', uint32(4)],
])

/** A BERT with random weights. @param pooling absent for a file that does not say it. */
export function tinyBert(pooling?: keyof typeof POOLING, shape = TINY, typeOf?: TypeRule): WrittenFile {
  const { width, layers, heads, feedForward } = shape
  const weights = new Weights('bert', typeOf)
  const linear = (name: string, inputs: number, outputs: number, gain?: number) => {
    weights.matrix(`${name}.weight`, inputs, outputs, gain)
    weights.bias(`${name}.bias`, outputs)
  }
  const norm = (name: string) => {
    weights.norm(`${name}.weight`, width)
    weights.bias(`${name}.bias`, width)
  }
  weights.add('token_embd.weight', [width, PIECES.length])
  weights.add('token_types.weight', [width, 2], { deviation: 0.3 })
  weights.add('position_embd.weight', [width, TRAINED_TOKENS], { deviation: 0.3 })
  norm('token_embd_norm')
  for (let layer = 0; layer < layers; layer++) {
    const name = (part: string) => `blk.${layer}.${part}`
    for (const part of ['attn_q', 'attn_k', 'attn_v', 'attn_output']) linear(name(part), width, width)
    norm(name('attn_output_norm'))
    linear(name('ffn_up'), width, feedForward)
    linear(name('ffn_down'), feedForward, width)
    norm(name('layer_output_norm'))
  }
  if (pooling === 'rank') {
    linear('cls', width, width)
    linear('cls.output', width, 1, 2)
  }
  const metadata = new Map<string, WrittenField>([
    ['general.architecture', string('bert')],
    ['general.name', string('tiny bert with random weights')],
    ['bert.context_length', uint32(TRAINED_TOKENS)],
    ['bert.embedding_length', uint32(width)],
    ['bert.block_count', uint32(layers)],
    ['bert.feed_forward_length', uint32(feedForward)],
    ['bert.attention.head_count', uint32(heads)],
    ['bert.attention.layer_norm_epsilon', float32(1e-12)],
    ['bert.attention.causal', bool(false)],
    ...(pooling === undefined ? [] : ([['bert.pooling_type', uint32(POOLING[pooling])]] as const)),
    ...wordPieces,
  ])
  return { metadata, tensors: weights.tensors }
}

const RANK_TEMPLATE = '<|im_start|>user\n<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n'

/** A Qwen3 with random weights that takes the last token of a text, or rates by two classes. */
export function tinyQwen3(pooling: 'last' | 'rank'): WrittenFile {
  const vocabulary = bytePairs({
    control: ['<|im_start|>', '<|im_end|>'],
    texts: ['\n\n'],
    addsBos: false,
    chatTemplate: CHAT_ML_TEMPLATE,
  })
  const pooled = pooledBy(pooling)
  const file = languageModel({ architecture: 'qwen3', vocabulary, seed: 'qwen3 embedding', qkNorm: true, ...pooled })
  const ends: [string, WrittenField][] = [['tokenizer.ggml.add_eos_token', bool(true)]]
  return pooling === 'rank' ? ranking(file, 'qwen3') : { ...file, metadata: new Map([...file.metadata, ...ends]) }
}

/** The same of a Qwen3-VL, whose texts end with no mark. */
export function tinyQwen3Vl(pooling: 'last' | 'rank'): WrittenFile {
  const file = qwen3VlLanguage(pooledBy(pooling))
  return pooling === 'rank' ? ranking(file, 'qwen3vl') : file
}

function pooledBy(pooling: 'last' | 'rank') {
  const more = (weights: Weights) => {
    if (pooling === 'rank') weights.matrix('cls.output.weight', WIDTH, 2, 2)
  }
  return { metadata: { pooling_type: uint32(POOLING[pooling]) }, more }
}

function ranking({ metadata, tensors }: WrittenFile, architecture: string): WrittenFile {
  const ranks: [string, WrittenField][] = [
    ['tokenizer.chat_template.rerank', string(RANK_TEMPLATE)],
    [`${architecture}.classifier.output_labels`, strings(['yes', 'no'])],
  ]
  return { metadata: new Map([...metadata, ...ranks]), tensors }
}
