import type { GgufMetadata } from '../../families/gguf.ts'
import { CardError } from '../card-error.ts'
import { MAX_LAYERS } from '../read/gguf.ts'
import { GgufArray } from '../read/gguf-value.ts'
import type { CardFolder } from '../read/weight-files.ts'

/** Memory of a model's cache, in bytes. */
export interface KvCost {
  /** Keys and values of one token, in all layers. */
  readonly perCell: number
  /** States of the layers that keep a state for each sequence instead of keys and values. */
  readonly perSequence: number
}

/** ggml's types for keys and values, as for llama-server's `--cache-type-k` and `--cache-type-v`. */
export const KV_TYPES = ['f16', 'q8_0'] as const
export type KvType = (typeof KV_TYPES)[number]

/** Bytes of one number. In Q8_0, a block of 32 numbers of 8 bits has a scale of 16 bits. */
const BYTES: { readonly [Type in KvType]: number } = { f16: 2, q8_0: 34 / 32 }
const BLOCK = 32
const F32_BYTES = 4

/**
 * Reads the cost from a model's header. The engine keeps all cells of layers with a sliding window too, because a
 * reused prefix needs them, so these layers cost the same as others.
 * @throws Error for sizes that no model has.
 */
export function kvCost(language: GgufMetadata, type: KvType = 'f16'): KvCost {
  const { widths, recurrentLayers, statePerLayer } = readLayers(language)
  const perCell = widths.reduce((sum, { heads, key, value }) => sum + heads * (key + value) * BYTES[type], 0)
  const perSequence = recurrentLayers * statePerLayer * F32_BYTES
  if (!isSize(perCell) || !isSize(perSequence)) throw new Error('the header of the model has sizes that no model has')
  return { perCell, perSequence }
}

function isSize(bytes: number): boolean {
  return bytes >= 0 && bytes <= Number.MAX_SAFE_INTEGER
}

/** The same for a card. @throws CardError for sizes that no model has. */
export function kvCostOf(language: GgufMetadata, type: KvType | undefined, { file }: CardFolder): KvCost {
  try {
    return kvCost(language, type)
  } catch (error) {
    throw new CardError(file, 'engine.model', (error as Error).message, { cause: error })
  }
}

/** Why a model's keys and values cannot have this type; null if they can. */
export function kvTypeProblem(language: GgufMetadata, type: KvType): string | null {
  if (type === 'f16') return null
  const odd = readLayers(language)
    .widths.flatMap(({ key, value }) => [key, value])
    .find((width) => width % BLOCK !== 0)
  if (odd === undefined) return null
  return `its attention heads have ${odd} numbers, and ${type} stores blocks of ${BLOCK}: remove the field, or set it to "f16"`
}

interface Layers {
  /** For each layer that has keys and values of its own: its key heads, and the numbers in a key and a value of one head. */
  readonly widths: readonly { readonly heads: number; readonly key: number; readonly value: number }[]
  readonly recurrentLayers: number
  /** Numbers that a recurrent layer keeps for each sequence. */
  readonly statePerLayer: number
}

function readLayers(language: GgufMetadata): Layers {
  const architecture = language.get('general.architecture')
  const raw = (key: string) => language.get(`${architecture}.${key}`)
  const number = (key: string) => asNumber(raw(key))
  /** One value for all layers, or an array with one for each. */
  const ofLayer = (key: string, layer: number): unknown => {
    const value = raw(key)
    return value instanceof GgufArray ? value.at(layer) : value
  }
  const layers = number('block_count') ?? 0
  if (layers > MAX_LAYERS) throw new Error(`the model has ${layers} layers; at most ${MAX_LAYERS} are supported`)
  const width = number('embedding_length') ?? 0
  // The last layers may use the keys and values of earlier ones.
  const ownLayers = layers - (number('attention.shared_kv_layers') ?? 0)
  const interval = number('full_attention_interval') ?? 1
  const widths: { heads: number; key: number; value: number }[] = []
  let recurrentLayers = 0
  for (let layer = 0; layer < layers; layer++) {
    const heads = asNumber(ofLayer('attention.head_count', layer)) ?? 1
    const kvHeads = asNumber(ofLayer('attention.head_count_kv', layer)) ?? heads
    if ((layer + 1) % interval !== 0 || kvHeads === 0) {
      recurrentLayers++
      continue
    }
    if (layer >= ownLayers) continue
    const slides = ofLayer('attention.sliding_window_pattern', layer) === true
    const length = (name: 'key_length' | 'value_length') =>
      (slides ? number(`attention.${name}_swa`) : undefined) ?? number(`attention.${name}`) ?? width / heads
    widths.push({ heads: kvHeads, key: length('key_length'), value: length('value_length') })
  }
  return { widths, recurrentLayers, statePerLayer: stateNumbers(number, width) }
}

function stateNumbers(number: (key: string) => number | undefined, width: number): number {
  const shortConvolution = number('shortconv.l_cache')
  if (shortConvolution !== undefined) return Math.max(0, shortConvolution - 1) * width
  const inner = number('ssm.inner_size') ?? 0
  const state = number('ssm.state_size') ?? 0
  const groups = number('ssm.group_count') ?? 0
  const kernel = number('ssm.conv_kernel') ?? 1
  return (kernel - 1) * (inner + 2 * groups * state) + state * inner
}

function asNumber(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined
}
