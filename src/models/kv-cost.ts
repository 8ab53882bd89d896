import type { GgufMetadata } from '../families/gguf.ts'
import { GgufArray } from './gguf.ts'

/** What a model's cache takes, in bytes. */
export interface KvCost {
  /** Keys and values of one token, in all layers. */
  readonly perCell: number
  /** States of the layers that keep one for each sequence in place of keys and values. */
  readonly perSequence: number
}

const F16_BYTES = 2
const F32_BYTES = 4

/**
 * Reads the cost from a model's header. The engine keeps all cells of layers with a sliding window too, because a prefix
 * that is used again needs them, so such layers cost as much as others.
 */
export function kvCost(language: GgufMetadata): KvCost {
  const architecture = language.get('general.architecture')
  const raw = (key: string) => language.get(`${architecture}.${key}`)
  const number = (key: string): number | undefined => {
    const value = raw(key)
    return typeof value === 'number' ? value : undefined
  }
  /** One value for all layers, or an array with one for each. */
  const ofLayer = (key: string, layer: number): unknown => {
    const value = raw(key)
    return value instanceof GgufArray ? value.at(layer) : value
  }
  const layers = number('block_count') ?? 0
  const width = number('embedding_length') ?? 0
  // The last layers may use the keys and values of earlier ones.
  const ownLayers = layers - (number('attention.shared_kv_layers') ?? 0)
  const interval = number('full_attention_interval') ?? 1
  let perCell = 0
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
    perCell += kvHeads * (length('key_length') + length('value_length')) * F16_BYTES
  }
  return { perCell, perSequence: recurrentLayers * stateNumbers(number, width) * F32_BYTES }
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
