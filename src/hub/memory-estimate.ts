import { totalmem } from 'node:os'
import { GgufArray, type GgufValue } from '../models/gguf.ts'

export type Metadata = ReadonlyMap<string, GgufValue>

/** What memory is estimated from: sizes of files, and their headers. */
export interface ModelParts {
  /** Of all files together. */
  readonly bytes: number
  readonly language: Metadata
  readonly encoder: Metadata | null
}

/** Context that the estimate is for; a model that has less is estimated with what it has. */
const CONTEXT_TOKENS = 8192
/** Rows of the largest batch. */
const BATCH_ROWS = 512
const F16_BYTES = 2
const F32_BYTES = 4
/** Libraries, Node and buffers that no model does without. */
const PROCESS_BYTES = 300 * 2 ** 20
/** Largest image, in tokens, of encoders that take any size and name no limit: that of Qwen's. */
const LARGEST_IMAGE_TOKENS = 4096
/** Of so many layers the last one sees the whole context, where files do not say it (llama.cpp, src/llama-model.cpp). */
const SLIDING_PATTERNS: Readonly<Record<string, number>> = { gemma2: 2, gemma3: 6, gemma3n: 5, cohere2: 4 }

/** Bytes that may be used for models: what is free, or what a container or a setting allows. */
export function availableMemory(limit: number | null): number {
  // macOS counts memory as used that it gives away at once.
  const free =
    process.platform === 'darwin' ? Math.max(process.availableMemory(), totalmem() / 2) : process.availableMemory()
  return Math.min(free, limit ?? Number.POSITIVE_INFINITY)
}

/** Bytes that a loaded model takes, with one conversation of `contextOf` tokens. */
export function estimateMemory({ bytes, language, encoder }: ModelParts): number {
  return (
    bytes +
    cacheBytes(language) +
    computeBytes(language) +
    (encoder === null ? 0 : encoderBytes(encoder)) +
    PROCESS_BYTES
  )
}

/** Tokens of context that the estimate is for. */
export function contextOf(language: Metadata): number {
  return Math.min(ownNumber(language, 'context_length') ?? CONTEXT_TOKENS, CONTEXT_TOKENS)
}

/** 16-bit keys and values of every layer. Layers with a sliding window keep no more than the window and a batch. */
function cacheBytes(language: Metadata): number {
  const number = (key: string) => ownNumber(language, key)
  const layers = number('block_count') ?? 0
  const heads = number('attention.head_count') ?? 1
  const headSize = (number('embedding_length') ?? 0) / heads
  const perHead = (number('attention.key_length') ?? headSize) + (number('attention.value_length') ?? headSize)
  const cells = contextOf(language)
  const window = number('attention.sliding_window') ?? 0
  const slidingCells = window > 0 ? Math.min(cells, window + BATCH_ROWS) : cells
  const interval = number('full_attention_interval') ?? 1
  let bytes = 0
  for (let layer = 0; layer < layers; layer++) {
    // Of models that mix attention with recurrence, the other layers keep a state of a fixed, small size.
    if ((layer + 1) % interval !== 0) continue
    const kvHeads = itemOf(own(language, 'attention.head_count_kv'), layer) ?? heads
    bytes += kvHeads * perHead * F16_BYTES * (isSliding(language, layer) ? slidingCells : cells)
  }
  return bytes
}

function isSliding(language: Metadata, layer: number): boolean {
  const pattern = own(language, 'attention.sliding_window_pattern')
  if (pattern instanceof GgufArray) return Boolean(pattern.at(layer))
  const every = typeof pattern === 'number' ? pattern : SLIDING_PATTERNS[String(language.get('general.architecture'))]
  return every !== undefined && every > 0 && (layer + 1) % every !== 0
}

function computeBytes(language: Metadata): number {
  const tokens = language.get('tokenizer.ggml.tokens')
  const vocabulary = tokens instanceof GgufArray ? tokens.length : (ownNumber(language, 'vocab_size') ?? 0)
  return BATCH_ROWS * (vocabulary + 4 * (ownNumber(language, 'embedding_length') ?? 0)) * F32_BYTES
}

/** Activations of the largest image: some rows of the embedding's and of the feed-forward layer's width for each patch. */
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

function own(language: Metadata, key: string): GgufValue | undefined {
  return language.get(`${String(language.get('general.architecture'))}.${key}`)
}

function ownNumber(language: Metadata, key: string): number | null {
  const value = own(language, key)
  return typeof value === 'number' ? value : null
}

/** One number for all layers, or an array with one for each. */
function itemOf(value: GgufValue | undefined, index: number): number | null {
  const item = value instanceof GgufArray ? value.at(index) : value
  return typeof item === 'number' ? item : null
}
