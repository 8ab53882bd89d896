import { bool, float32, float32s, string, uint32, type WrittenField, type WrittenFile } from '../gguf-writer.ts'
import { EMBEDDING } from './language.ts'
import { Weights } from './weights.ts'

/** Floats per patch in every tiny image encoder. */
export const PATCH_EMBEDDING = 48
const HEADS = 3
const FEED_FORWARD = 80
const LAYERS = 2

export interface EncoderOptions {
  readonly projector: string
  readonly seed: string
  /** Side of a patch, and of the images that the encoder was trained with, in pixels. */
  readonly patch: number
  readonly imageSize: number
  readonly metadata?: Readonly<Record<string, WrittenField>>
  readonly activation?: 'use_gelu' | 'use_silu'
  /** Weights for both of two frames that are merged. */
  readonly temporal?: boolean
  readonly patchBias?: boolean
  /** Learned embeddings of so many positions. */
  readonly positions?: number
  /** Queries, keys and values in one matrix. */
  readonly merged?: boolean
  /** Feed-forward with a gate. */
  readonly gate?: boolean
  /** Norms of two factors, or of one. */
  readonly norm?: 'layer' | 'rms'
  readonly biases?: boolean
  readonly preNorm?: boolean
  readonly postNorm?: boolean
  /** Floats per token that the projector yields; those of the language model by default. */
  readonly projection?: number
  /** Adds the tensors of the projector. */
  project(weights: Weights): void
}

/** A vision transformer and a projector of the kind that libmtmd reads, with random weights. */
export function imageEncoder(options: EncoderOptions): WrittenFile {
  const { patch, imageSize, temporal, patchBias, positions, norm = 'layer', preNorm, postNorm = true } = options
  const weights = new Weights(options.seed)
  const kernel = { deviation: 1 / Math.sqrt(3 * patch * patch) }
  weights.add('v.patch_embd.weight', [patch, patch, 3, PATCH_EMBEDDING], kernel)
  if (temporal) weights.add('v.patch_embd.weight.1', [patch, patch, 3, PATCH_EMBEDDING], kernel)
  if (patchBias) weights.bias('v.patch_embd.bias', PATCH_EMBEDDING)
  if (positions !== undefined) weights.add('v.position_embd.weight', [PATCH_EMBEDDING, positions], { deviation: 0.5 })
  const addNorm = (name: string) => {
    weights.norm(`${name}.weight`, PATCH_EMBEDDING)
    if (norm === 'layer') weights.bias(`${name}.bias`, PATCH_EMBEDDING)
  }
  if (preNorm) addNorm('v.pre_ln')
  for (let layer = 0; layer < LAYERS; layer++) addLayer(weights, `v.blk.${layer}`, addNorm, options)
  if (postNorm) addNorm('v.post_ln')
  options.project(weights)
  const metadata = new Map<string, WrittenField>([
    ['general.architecture', string('clip')],
    ['clip.projector_type', string(options.projector)],
    ['clip.has_vision_encoder', bool(true)],
    [`clip.${options.activation ?? 'use_gelu'}`, bool(true)],
    ...Object.entries({
      image_size: uint32(imageSize),
      patch_size: uint32(patch),
      embedding_length: uint32(PATCH_EMBEDDING),
      feed_forward_length: uint32(FEED_FORWARD),
      block_count: uint32(LAYERS),
      projection_dim: uint32(options.projection ?? EMBEDDING),
      'attention.head_count': uint32(HEADS),
      'attention.layer_norm_epsilon': float32(1e-6),
      image_mean: float32s([0.5, 0.5, 0.5]),
      image_std: float32s([0.25, 0.25, 0.25]),
      ...options.metadata,
    }).map(([key, value]) => [key.startsWith('clip.') ? key : `clip.vision.${key}`, value] as const),
  ])
  return { metadata, tensors: weights.tensors }
}

function addLayer(
  weights: Weights,
  layer: string,
  addNorm: (name: string) => void,
  { merged, gate, biases = true }: EncoderOptions,
): void {
  const linear = (name: string, inputs: number, outputs: number, gain = 1) => {
    weights.matrix(`${layer}.${name}.weight`, inputs, outputs, gain)
    if (biases) weights.bias(`${layer}.${name}.bias`, outputs)
  }
  addNorm(`${layer}.ln1`)
  if (merged) linear('attn_qkv', PATCH_EMBEDDING, 3 * PATCH_EMBEDDING)
  else for (const part of ['attn_q', 'attn_k', 'attn_v']) linear(part, PATCH_EMBEDDING, PATCH_EMBEDDING)
  linear('attn_out', PATCH_EMBEDDING, PATCH_EMBEDDING)
  addNorm(`${layer}.ln2`)
  if (gate) linear('ffn_gate', PATCH_EMBEDDING, FEED_FORWARD)
  linear('ffn_up', PATCH_EMBEDDING, FEED_FORWARD)
  linear('ffn_down', FEED_FORWARD, PATCH_EMBEDDING)
}

/** A linear layer of a projector, with its bias. */
export function addLinear(weights: Weights, name: string, inputs: number, outputs: number): void {
  weights.matrix(`${name}.weight`, inputs, outputs)
  weights.bias(`${name}.bias`, outputs)
}
