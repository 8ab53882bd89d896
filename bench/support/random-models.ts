import { float32, int32s, uint32, type WrittenFile } from '../../test/support/gguf-writer.ts'
import type { EncoderShape } from '../../test/support/tiny-models/encoder.ts'
import { type LanguageOptions, type LanguageShape, languageModel } from '../../test/support/tiny-models/language.ts'
import { qwen3VlEncoder } from '../../test/support/tiny-models/qwen.ts'
import type { Vocabulary } from '../../test/support/tiny-models/vocabulary.ts'
import type { TypeRule } from '../../test/support/tiny-models/weights.ts'
import { F16, Q8_0, q4KM } from './quantisations.ts'
import type { VocabularyChanges } from './random-vocabulary.ts'

/** A model with random weights: as fast as a real one of its shape and types, but its text is meaningless. */
export interface RandomModel {
  /** In tables. */
  readonly title: string
  readonly quantisation: string
  /** Changes of Qwen2's vocabulary. */
  readonly vocabulary: VocabularyChanges
  language(vocabulary: Vocabulary): WrittenFile
  encoder?(): WrittenFile
}

/** So small that a token is not followed by itself, whose logit would be the highest. */
const EMBEDDING_DEVIATION = 0.02
/** So small that the next token depends on the last ones, not on what all tokens of a prompt have in common. */
const ATTENTION_GAIN = 0.25

function language(shape: LanguageShape, options: Omit<LanguageOptions, 'shape' | 'seed' | 'name'>): WrittenFile {
  return languageModel({
    ...options,
    shape,
    seed: options.architecture,
    name: 'random weights for speed measurements',
    tied: true,
    embeddingScale: EMBEDDING_DEVIATION,
    attentionGain: ATTENTION_GAIN,
  })
}

const HALF_BILLION: LanguageShape = {
  embedding: 896,
  layers: 24,
  heads: 14,
  kvHeads: 2,
  head: 64,
  feedForward: 4864,
  contextTokens: 32_768,
}

/** The shape of Qwen2.5 0.5B. */
const halfBillion: RandomModel = {
  title: '0.5B, random weights',
  quantisation: 'q8_0',
  vocabulary: {},
  language: (vocabulary) =>
    language(HALF_BILLION, {
      architecture: 'qwen2',
      vocabulary,
      typeOf: Q8_0,
      qkvBias: true,
      metadata: { 'rope.freq_base': float32(1e6) },
    }),
}

const GEMMA_270M: LanguageShape = {
  embedding: 640,
  layers: 18,
  heads: 4,
  kvHeads: 1,
  head: 256,
  feedForward: 2048,
  contextTokens: 32_768,
}

/** The shape of Gemma 3 270M. Its rows are no multiple of 256, so most of a file in Q4_K_M is Q5_0 and Q8_0. */
const gemma270m: RandomModel = {
  title: 'Gemma 3 270M, random weights in Q4_K_M',
  quantisation: 'q4_k_m',
  vocabulary: { size: 262_144 },
  language: (vocabulary) =>
    language(GEMMA_270M, {
      architecture: 'gemma3',
      vocabulary,
      typeOf: q4KM(GEMMA_270M.layers),
      qkNorm: true,
      postNorms: 'gemma',
      metadata: { 'rope.freq_base': float32(1e6), 'attention.sliding_window': uint32(512) },
    }),
}

const EXPERTS: LanguageShape = {
  embedding: 2048,
  layers: 6,
  heads: 32,
  kvHeads: 4,
  head: 128,
  feedForward: 768,
  contextTokens: 32_768,
}

/** Layers of the shape of Qwen3 30B-A3B's, with half of its experts. */
const experts: RandomModel = {
  title: '64 experts, 8 active, random weights in Q4_K_M',
  quantisation: 'q4_k_m',
  vocabulary: {},
  language: (vocabulary) =>
    language(EXPERTS, {
      architecture: 'qwen3moe',
      vocabulary,
      typeOf: q4KM(EXPERTS.layers),
      qkNorm: true,
      experts: 64,
      metadata: { 'rope.freq_base': float32(1e6), expert_used_count: uint32(8) },
    }),
}

/** A model of Qwen3-VL's kind, with its encoder. */
function qwen3Vl(
  seed: string,
  shape: LanguageShape,
  encoder: EncoderShape & { readonly deepstack: readonly number[] },
  types: { readonly language: TypeRule; readonly encoder: TypeRule },
): Pick<RandomModel, 'vocabulary' | 'language' | 'encoder'> {
  const { deepstack, ...encoderShape } = encoder
  return {
    vocabulary: {
      control: {
        151652: '<|vision_start|>',
        151653: '<|vision_end|>',
        151654: '<|vision_pad|>',
        151655: '<|image_pad|>',
        151656: '<|video_pad|>',
      },
    },
    language: (vocabulary) =>
      language(shape, {
        architecture: 'qwen3vl',
        vocabulary,
        typeOf: types.language,
        qkNorm: true,
        metadata: {
          'rope.freq_base': float32(5e6),
          'rope.dimension_sections': int32s([24, 20, 20, 0]),
          n_deepstack_layers: uint32(deepstack.length),
        },
      }),
    encoder: () =>
      qwen3VlEncoder({
        seed: `${seed} encoder`,
        shape: encoderShape,
        typeOf: types.encoder,
        side: 48,
        deepstack,
        embedding: shape.embedding,
      }),
  }
}

const SIX_HUNDRED_MILLION: LanguageShape = {
  embedding: 1024,
  layers: 28,
  heads: 16,
  kvHeads: 8,
  head: 128,
  feedForward: 3072,
  contextTokens: 262_144,
}

/** Qwen3-VL with the language model of Qwen3 0.6B and a small encoder, in types that it can be exported from. */
const sixHundredMillion: RandomModel = {
  title: 'Qwen3-VL 0.6B, random weights in F16',
  quantisation: 'f16',
  ...qwen3Vl(
    'six-hundred-million',
    SIX_HUNDRED_MILLION,
    { width: 768, head: 64, feedForward: 3072, layers: 12, deepstack: [2, 5, 8] },
    { language: F16, encoder: F16 },
  ),
}

const TWO_BILLION: LanguageShape = {
  embedding: 2048,
  layers: 28,
  heads: 16,
  kvHeads: 8,
  head: 128,
  feedForward: 6144,
  contextTokens: 262_144,
}

/** The shape of Qwen3-VL 2B, and of its encoder in Q8_0. */
const twoBillion: RandomModel = {
  title: 'Qwen3-VL 2B, random weights in Q4_K_M',
  quantisation: 'q4_k_m',
  ...qwen3Vl(
    'two-billion',
    TWO_BILLION,
    { width: 1024, head: 64, feedForward: 4096, layers: 24, deepstack: [5, 11, 17] },
    { language: q4KM(TWO_BILLION.layers), encoder: Q8_0 },
  ),
}

const EIGHT_BILLION: LanguageShape = {
  embedding: 4096,
  layers: 36,
  heads: 32,
  kvHeads: 8,
  head: 128,
  feedForward: 12_288,
  contextTokens: 262_144,
}

/** The shape of Qwen3-VL 8B, but with one matrix for embeddings and output, and of its encoder in F16. For GPUs. */
const eightBillion: RandomModel = {
  title: 'Qwen3-VL 8B, random weights in Q4_K_M',
  quantisation: 'q4_k_m',
  ...qwen3Vl(
    'eight-billion',
    EIGHT_BILLION,
    { width: 1152, head: 72, feedForward: 4304, layers: 27, deepstack: [8, 16, 24] },
    { language: q4KM(EIGHT_BILLION.layers), encoder: F16 },
  ),
}

export const RANDOM_MODELS = {
  'half-billion': halfBillion,
  'gemma-270m': gemma270m,
  'six-hundred-million': sixHundredMillion,
  'two-billion': twoBillion,
  'eight-billion': eightBillion,
  experts,
} as const satisfies Record<string, RandomModel>
