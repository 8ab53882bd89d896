import { bool, float32, float32s, string, uint32, type WrittenField, type WrittenFile } from '../gguf-writer.ts'
import { EMBEDDING } from './language.ts'
import { type TypeRule, Weights } from './weights.ts'

/** Floats per patch in every tiny image encoder. */
export const PATCH_EMBEDDING = 48
export const ENCODER_HEAD = 16
export const ENCODER_LAYERS = 2

/** The sizes of an encoder. */
export interface EncoderShape {
  /** Floats per position. */
  readonly width: number
  /** Size of every head. */
  readonly head: number
  readonly feedForward: number
  readonly layers: number
}

const TINY: EncoderShape = { width: PATCH_EMBEDDING, head: ENCODER_HEAD, feedForward: 80, layers: ENCODER_LAYERS }

/** How the layers of an encoder are made. */
interface LayerOptions {
  /** Queries, keys and values in one matrix. */
  readonly merged?: boolean
  /** Feed-forward with a gate. */
  readonly gate?: boolean
  /** Norms of two factors, or of one. */
  readonly norm?: 'layer' | 'rms'
  readonly biases?: boolean
  /** Keys without a bias, as in Whisper. */
  readonly plainKeys?: boolean
  /** Sizes other than those of a tiny encoder. */
  readonly shape?: Partial<EncoderShape>
}

export interface EncoderOptions extends LayerOptions {
  readonly projector: string
  readonly seed: string
  /** Side of a patch, and of the images that the encoder was trained with, in pixels. */
  readonly patch: number
  readonly imageSize: number
  readonly metadata?: Readonly<Record<string, WrittenField>>
  /** Types of the tensors; all are F32 by default. */
  readonly typeOf?: TypeRule
  readonly activation?: 'use_gelu' | 'use_silu'
  /** Weights for both of two frames that are merged. */
  readonly temporal?: boolean
  readonly patchBias?: boolean
  /** Number of positions with learned embeddings. */
  readonly positions?: number
  readonly preNorm?: boolean
  readonly postNorm?: boolean
  /** Floats per token that the projector yields; those of the language model by default. */
  readonly projection?: number
  /** Adds the tensors of the projector. */
  project(weights: Weights): void
}

/** A vision transformer and a projector of the kind that libmtmd reads, with random weights. */
export function imageEncoder(options: EncoderOptions): WrittenFile {
  const { patch, imageSize, temporal, patchBias, positions, preNorm, postNorm = true } = options
  const shape = { ...TINY, ...options.shape }
  const { width } = shape
  const weights = new Weights(options.seed, options.typeOf)
  const kernel = { deviation: 1 / Math.sqrt(3 * patch * patch) }
  weights.add('v.patch_embd.weight', [patch, patch, 3, width], kernel)
  if (temporal) weights.add('v.patch_embd.weight.1', [patch, patch, 3, width], kernel)
  if (patchBias) weights.bias('v.patch_embd.bias', width)
  if (positions !== undefined) weights.add('v.position_embd.weight', [width, positions], { deviation: 0.5 })
  if (preNorm) addNorm(weights, 'v.pre_ln', options)
  for (let layer = 0; layer < shape.layers; layer++) addLayer(weights, `v.blk.${layer}`, options)
  if (postNorm) addNorm(weights, 'v.post_ln', options)
  options.project(weights)
  const metadata = new Map<string, WrittenField>([
    ['general.architecture', string('clip')],
    ['clip.projector_type', string(options.projector)],
    ['clip.has_vision_encoder', bool(true)],
    [`clip.${options.activation ?? 'use_gelu'}`, bool(true)],
    ...Object.entries({
      ...sizes(shape, options.projection ?? EMBEDDING),
      image_size: uint32(imageSize),
      patch_size: uint32(patch),
      image_mean: float32s([0.5, 0.5, 0.5]),
      image_std: float32s([0.25, 0.25, 0.25]),
      ...options.metadata,
    }).map(([key, value]) => [key.startsWith('clip.') ? key : `clip.vision.${key}`, value] as const),
  ])
  return { metadata, tensors: weights.tensors }
}

/** Frequencies of a spectrum, and spectra in the 30 seconds that an encoder of Whisper's kind takes. */
const MELS = 32
const SPECTRA = 3000
/** Floats per spectrum. libmtmd stacks eight of them only for a few widths, such as this one and Whisper's 1280. */
const SPECTRUM_EMBEDDING = 80

export interface AudioOptions {
  readonly projector: string
  readonly seed: string
  /** Outputs of the encoder that are joined to one token; 1 by default. */
  readonly stack?: number
  /** Adds the tensors of the projector. @param inputs floats that become one token. */
  project(weights: Weights, inputs: number): void
}

/** An encoder of Whisper's kind and a projector, with random weights. */
export function audioEncoder({ projector, seed, stack = 1, project }: AudioOptions): WrittenFile {
  const shape = { ...TINY, width: SPECTRUM_EMBEDDING }
  const weights = new Weights(seed)
  const addConvolution = (number: number, inputs: number) => {
    const name = `a.conv1d.${number}`
    weights.add(`${name}.weight`, [3, inputs, SPECTRUM_EMBEDDING], {
      deviation: 1 / Math.sqrt(3 * inputs),
      type: 'F16',
    })
    weights.add(`${name}.bias`, [1, SPECTRUM_EMBEDDING], { deviation: 0.1 })
  }
  addConvolution(1, MELS)
  addConvolution(2, SPECTRUM_EMBEDDING)
  weights.add('a.position_embd.weight', [SPECTRUM_EMBEDDING, SPECTRA / 2], { deviation: 0.2 })
  for (let layer = 0; layer < shape.layers; layer++) addLayer(weights, `a.blk.${layer}`, { plainKeys: true, shape })
  addNorm(weights, 'a.post_ln', { shape })
  project(weights, stack * SPECTRUM_EMBEDDING)
  const metadata = new Map<string, WrittenField>([
    ['general.architecture', string('clip')],
    ['clip.projector_type', string(projector)],
    ['clip.has_audio_encoder', bool(true)],
    ['clip.use_gelu', bool(true)],
    ...Object.entries({
      ...sizes(shape, EMBEDDING),
      num_mel_bins: uint32(MELS),
      'projector.stack_factor': uint32(stack),
    }).map(([key, value]) => [`clip.audio.${key}`, value] as const),
  ])
  return { metadata, tensors: weights.tensors }
}

function sizes({ width, head, feedForward, layers }: EncoderShape, projection: number): Record<string, WrittenField> {
  return {
    embedding_length: uint32(width),
    feed_forward_length: uint32(feedForward),
    block_count: uint32(layers),
    projection_dim: uint32(projection),
    'attention.head_count': uint32(width / head),
    'attention.layer_norm_epsilon': float32(1e-6),
  }
}

function addNorm(weights: Weights, name: string, { norm = 'layer', shape }: LayerOptions): void {
  const { width } = { ...TINY, ...shape }
  weights.norm(`${name}.weight`, width)
  if (norm === 'layer') weights.bias(`${name}.bias`, width)
}

function addLayer(weights: Weights, layer: string, options: LayerOptions): void {
  const { merged, gate, biases = true, plainKeys } = options
  const { width, feedForward } = { ...TINY, ...options.shape }
  const linear = (name: string, inputs: number, outputs: number, hasBias = biases) => {
    weights.matrix(`${layer}.${name}.weight`, inputs, outputs)
    if (hasBias) weights.bias(`${layer}.${name}.bias`, outputs)
  }
  addNorm(weights, `${layer}.ln1`, options)
  if (merged) linear('attn_qkv', width, 3 * width)
  else {
    linear('attn_q', width, width)
    linear('attn_k', width, width, biases && !plainKeys)
    linear('attn_v', width, width)
  }
  linear('attn_out', width, width)
  addNorm(weights, `${layer}.ln2`, options)
  if (gate) linear('ffn_gate', width, feedForward)
  linear('ffn_up', width, feedForward)
  linear('ffn_down', feedForward, width)
}

/** A linear layer of a projector, with its bias. */
export function addLinear(weights: Weights, name: string, inputs: number, outputs: number): void {
  weights.matrix(`${name}.weight`, inputs, outputs)
  weights.bias(`${name}.bias`, outputs)
}
