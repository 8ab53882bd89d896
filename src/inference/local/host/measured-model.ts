import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import {
  blockOf,
  float32,
  string,
  strings,
  type Tensor,
  TensorType,
  tensorBytes,
  uint32,
  writeGguf,
} from '../../../models/read/gguf-writer.ts'

/** A model of 2B has the same layers, but more of them: this one is read and computed within a second. */
const LAYERS = 8
const WIDTH = 2048
const FEED_FORWARD = 6144
const HEAD = 128
const HEADS = 16
const KEY_HEADS = 8
/** The output matrix has an eighth of the parameters, as in models of 2B. Only the last row of a prompt goes through it. */
const TOKENS = 27_648
const CONTEXT_TOKENS = 512
const RANDOM_BLOCKS = 4096

/** A model for measuring this machine. */
export interface MeasuredModel {
  readonly card: string
  /** Size of its file. */
  readonly bytes: number
  readonly parameters: number
}

/**
 * Writes a model of random weights into a folder. It is larger than the caches of most processors, and its types are
 * those of a model in Q4_K_M.
 */
export async function writeMeasuredModel(folder: string): Promise<MeasuredModel> {
  const tensors = [
    matrix('token_embd.weight', [WIDTH, TOKENS], 'Q6_K'),
    ones('output_norm.weight'),
    ...Array.from({ length: LAYERS }, (_, layer) => layerOf(layer)).flat(),
  ]
  const own = {
    context_length: uint32(CONTEXT_TOKENS),
    embedding_length: uint32(WIDTH),
    block_count: uint32(LAYERS),
    feed_forward_length: uint32(FEED_FORWARD),
    'attention.head_count': uint32(HEADS),
    'attention.head_count_kv': uint32(KEY_HEADS),
    'attention.layer_norm_rms_epsilon': float32(1e-6),
  }
  const metadata = new Map([
    ['general.architecture', string('llama')],
    ...Object.entries(own).map(([key, value]) => [`llama.${key}`, value] as const),
    ['tokenizer.ggml.model', string('gpt2')],
    ['tokenizer.ggml.pre', string('gpt-2')],
    // One character each, from "!" on: enough to read the text that warms up an engine.
    ['tokenizer.ggml.tokens', strings(Array.from({ length: TOKENS }, (_, token) => String.fromCodePoint(33 + token)))],
    ['tokenizer.ggml.merges', strings([])],
    ['tokenizer.ggml.eos_token_id', uint32(0)],
  ])
  await writeGguf(join(folder, 'model.gguf'), { metadata, tensors })
  const engine = {
    model: 'model.gguf',
    contextTokens: CONTEXT_TOKENS,
    maxSequences: 1,
    prefixCache: 0,
    // The engine takes fewer for a model as small as this one.
    threads: availableParallelism(),
  }
  const card = join(folder, 'card.json')
  await writeFile(card, JSON.stringify({ serves: [{ id: 'measured' }], engine }))
  return {
    card,
    bytes: tensors.reduce((sum, tensor) => sum + tensorBytes(tensor), 0),
    parameters: tensors.reduce((sum, { shape }) => sum + shape.reduce((product, side) => product * side, 1), 0),
  }
}

function layerOf(layer: number): Tensor[] {
  const name = (part: string) => `blk.${layer}.${part}.weight`
  // Q4_K_M uses more bits for these tensors in about half of the layers.
  const finer = layer % 2 === 0 ? 'Q6_K' : 'Q4_K'
  return [
    ones(name('attn_norm')),
    matrix(name('attn_q'), [WIDTH, HEADS * HEAD], 'Q4_K'),
    matrix(name('attn_k'), [WIDTH, KEY_HEADS * HEAD], 'Q4_K'),
    matrix(name('attn_v'), [WIDTH, KEY_HEADS * HEAD], finer),
    matrix(name('attn_output'), [HEADS * HEAD, WIDTH], 'Q4_K'),
    ones(name('ffn_norm')),
    matrix(name('ffn_gate'), [WIDTH, FEED_FORWARD], 'Q4_K'),
    matrix(name('ffn_up'), [WIDTH, FEED_FORWARD], 'Q4_K'),
    matrix(name('ffn_down'), [FEED_FORWARD, WIDTH], finer),
  ]
}

function ones(name: string): Tensor {
  return {
    name,
    shape: [WIDTH],
    type: TensorType.F32,
    read: () => Buffer.from(new Float32Array(WIDTH).fill(1).buffer),
  }
}

/** The factors of a block, as f16: https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h */
const FACTORS = { Q4_K: { at: 0, values: [1.5e-4, 1.1e-3] }, Q6_K: { at: 208, values: [2e-5] } } as const

function matrix(name: string, shape: readonly number[], type: keyof typeof FACTORS): Tensor {
  const tensor = { name, shape, type: TensorType[type] }
  return { ...tensor, read: () => Buffer.alloc(tensorBytes(tensor), randomBlocks(type)) }
}

function randomBlocks(type: keyof typeof FACTORS): Buffer {
  const { bytes } = blockOf(TensorType[type])
  const { at, values } = FACTORS[type]
  const blocks = randomBytes(RANDOM_BLOCKS * bytes)
  const factors = Buffer.from(Float16Array.from(values).buffer)
  for (let block = 0; block < RANDOM_BLOCKS; block++) blocks.set(factors, block * bytes + at)
  return blocks
}
