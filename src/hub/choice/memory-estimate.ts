import { type KvType, kvCost } from '../../models/derive/kv-cost.ts'
import { ESTIMATED_CONTEXT, PROCESS_BYTES } from '../../models/memory-fit.ts'
import { GgufArray, type GgufValue } from '../../models/read/gguf-value.ts'

export type Metadata = ReadonlyMap<string, GgufValue>

/** What the memory estimate is based on: sizes of files, and their headers. */
export interface ModelParts {
  /** Size of all files together, in bytes. */
  readonly bytes: number
  readonly language: Metadata
  readonly encoder: Metadata | null
  /** The `kvType` of the model's card; `f16` by default. */
  readonly kvType?: KvType | undefined
}

/** Rows of the largest batch. */
const BATCH_ROWS = 512
const F32_BYTES = 4
/** Largest image, in tokens, of encoders that take any size and name no limit. */
const LARGEST_IMAGE_TOKENS = 4096

/** Bytes that a loaded model takes, with one conversation of `contextOf` tokens. */
export function estimateMemory({ bytes, language, encoder, kvType }: ModelParts): number {
  const { perCell, perSequence } = kvCost(language, kvType)
  return (
    bytes +
    contextOf(language) * perCell +
    perSequence +
    computeBytes(language) +
    (encoder === null ? 0 : encoderBytes(encoder)) +
    PROCESS_BYTES
  )
}

/** Tokens of context in the estimate. */
export function contextOf(language: Metadata): number {
  return Math.min(ownNumber(language, 'context_length') ?? ESTIMATED_CONTEXT, ESTIMATED_CONTEXT)
}

function computeBytes(language: Metadata): number {
  const tokens = language.get('tokenizer.ggml.tokens')
  const vocabulary = tokens instanceof GgufArray ? tokens.length : (ownNumber(language, 'vocab_size') ?? 0)
  return BATCH_ROWS * (vocabulary + 4 * (ownNumber(language, 'embedding_length') ?? 0)) * F32_BYTES
}

/** Activations of the largest image: for each patch, some rows as wide as the embedding and the feed-forward layer. */
function encoderBytes(encoder: Metadata): number {
  const number = (key: string): number | null => {
    const value = encoder.get(`clip.vision.${key}`)
    return typeof value === 'number' && value > 0 ? value : null
  }
  const patch = number('patch_size')
  const width = number('embedding_length')
  if (patch === null || width === null) return 0
  const merge = number('spatial_merge_size')
  const side = number('image_size') ?? 0
  const anySize = merge === null ? null : LARGEST_IMAGE_TOKENS * merge ** 2
  const patches = (number('image_max_pixels') ?? 0) / patch ** 2 || (anySize ?? (side / patch) ** 2)
  return patches * (6 * width + 2 * (number('feed_forward_length') ?? 4 * width)) * F32_BYTES
}

function ownNumber(language: Metadata, key: string): number | null {
  const value = language.get(`${String(language.get('general.architecture'))}.${key}`)
  return typeof value === 'number' ? value : null
}
