import type { ImageLimits, ModelCard } from '../models/card.ts'
import type { NumberType } from '../models/read/gguf-tensors.ts'
import type { ModelShape } from './model-shape.ts'
import type { Vocabulary } from './vocabulary.ts'

const TYPE_NAMES: Readonly<Record<NumberType, string>> = { F32: 'float32', F16: 'float16', BF16: 'bfloat16' }
/** Number of frames that the encoder merges into one grid. */
const FRAMES = 2

/** Facts that the weights themselves reveal. */
export interface StoredNumbers {
  /** The type of the token embeddings, and of most weights. */
  readonly type: NumberType
  /** Whether the output matrix is shared with the token embeddings. */
  readonly tied: boolean
  /** Number of learned position embeddings of an image. */
  readonly positions: number
}

/** `config.json`, as the makers of Qwen3-VL write it. */
export function modelConfiguration(
  { language, vision }: ModelShape,
  vocabulary: Vocabulary,
  { type, tied, positions }: StoredNumbers,
): object {
  return {
    architectures: ['Qwen3VLForConditionalGeneration'],
    model_type: 'qwen3_vl',
    dtype: TYPE_NAMES[type],
    tie_word_embeddings: tied,
    image_token_id: vocabulary.idOf('<|image_pad|>'),
    video_token_id: vocabulary.idOf('<|video_pad|>'),
    vision_start_token_id: vocabulary.idOf('<|vision_start|>'),
    vision_end_token_id: vocabulary.idOf('<|vision_end|>'),
    text_config: {
      model_type: 'qwen3_vl_text',
      dtype: TYPE_NAMES[type],
      tie_word_embeddings: tied,
      vocab_size: vocabulary.tokens.length,
      hidden_size: language.width,
      num_hidden_layers: language.layers,
      intermediate_size: language.feedForward,
      hidden_act: 'silu',
      num_attention_heads: language.heads,
      num_key_value_heads: language.keyValueHeads,
      head_dim: language.headWidth,
      attention_bias: false,
      attention_dropout: 0,
      rms_norm_eps: language.normEpsilon,
      max_position_embeddings: language.contextTokens,
      rope_theta: language.ropeTheta,
      rope_scaling: { rope_type: 'default', mrope_interleaved: true, mrope_section: language.ropeSections },
      eos_token_id: vocabulary.endIds[0],
    },
    vision_config: {
      model_type: 'qwen3_vl',
      hidden_size: vision.width,
      depth: vision.layers,
      intermediate_size: vision.feedForward,
      // This is llama.cpp's GELU.
      hidden_act: 'gelu_pytorch_tanh',
      num_heads: vision.heads,
      in_channels: 3,
      patch_size: vision.patch,
      temporal_patch_size: FRAMES,
      spatial_merge_size: vision.merge,
      num_position_embeddings: positions,
      out_hidden_size: language.width,
      deepstack_visual_indexes: vision.deepstack,
    },
  }
}

/**
 * `preprocessor_config.json`. Programs that show the frames of a video as images need smaller sizes for frames than
 * for images; with these limits, neither is resized.
 */
export function imageProcessor(
  { vision }: ModelShape,
  { pixelsPerToken, minTokens: least, maxTokens }: ImageLimits,
  video: ModelCard['video'],
): object {
  const minTokens = Math.min(least, video?.minTokens ?? least)
  return {
    image_processor_type: 'Qwen2VLImageProcessor',
    processor_class: 'Qwen3VLProcessor',
    ...pixelRules(vision),
    size: { shortest_edge: minTokens * pixelsPerToken ** 2, longest_edge: maxTokens * pixelsPerToken ** 2 },
  }
}

/** `video_preprocessor_config.json`. Transformers' defaults apply if the card has no limits. */
export function videoProcessor({ vision }: ModelShape, limits: ModelCard['video']): object {
  const processor = {
    video_processor_type: 'Qwen3VLVideoProcessor',
    processor_class: 'Qwen3VLProcessor',
    ...pixelRules(vision),
  }
  if (limits === undefined) return processor
  const { pixelsPerToken, minTokens, maxTokens, framesPerSecond, maxFrames } = limits
  return {
    ...processor,
    fps: framesPerSecond,
    min_frames: FRAMES,
    max_frames: maxFrames,
    // The edges limit all frames together; the cap limits each.
    size: { shortest_edge: minTokens * pixelsPerToken ** 2, longest_edge: maxFrames * maxTokens * pixelsPerToken ** 2 },
    cap_pixels_per_frame: true,
    max_video_tokens: maxTokens,
  }
}

function pixelRules({ patch, merge, mean, deviation }: ModelShape['vision']): object {
  return {
    patch_size: patch,
    temporal_patch_size: FRAMES,
    merge_size: merge,
    do_convert_rgb: true,
    do_resize: true,
    // Bicubic.
    resample: 3,
    do_rescale: true,
    rescale_factor: 1 / 255,
    do_normalize: true,
    image_mean: mean,
    image_std: deviation,
  }
}
