import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { FamilyImageLimits } from '../../../src/families/image-limits.ts'
import type { Size } from '../../../src/media/pixels.ts'
import type { ImageLimits } from '../../../src/models/card.ts'

/** Facts of a model's Hugging Face folder on which the tokens of its images depend, written by hand from public files. */
export interface ProcessorFacts {
  readonly name: string
  readonly config: Readonly<Record<string, unknown>>
  readonly preprocessor?: Readonly<Record<string, unknown>>
  readonly processor?: Readonly<Record<string, unknown>>
  /** Control tokens. */
  readonly tokens: readonly string[]
  /** Words of the vocabulary that are no control tokens. */
  readonly words?: readonly string[]
  /** Attributes of the tokenizer, by which Transformers finds control tokens. */
  readonly special?: Readonly<Record<string, string>>
}

const clip = { model_type: 'clip_vision_model', image_size: 336, patch_size: 14 }
const grids = [
  [336, 672],
  [672, 336],
  [672, 672],
  [1008, 336],
  [336, 1008],
]
const onevision = Array.from({ length: 36 }, (_, i) => [(Math.floor(i / 6) + 1) * 384, ((i % 6) + 1) * 384])
const rows = Array.from({ length: 36 }, (_, i) => `<row_${Math.floor(i / 6) + 1}_col_${(i % 6) + 1}>`)
const qwen = {
  tokens: ['<|vision_start|>', '<|image_pad|>', '<|video_pad|>', '<|vision_end|>'],
  special: { image_token: '<|image_pad|>', video_token: '<|video_pad|>' },
}
const lines = { words: ['\n', '\n\n', '\n\n\n', '\n\n\n\n'] }
const internvl = {
  tokens: ['<img>', '</img>', '<IMG_CONTEXT>', '<video>'],
  special: {
    ...{ start_image_token: '<img>', end_image_token: '</img>', context_image_token: '<IMG_CONTEXT>' },
    video_token: '<video>',
  },
}

export const PROCESSORS: readonly ProcessorFacts[] = [
  {
    name: 'qwen2.5-vl',
    config: {
      architectures: ['Qwen2_5_VLForConditionalGeneration'],
      model_type: 'qwen2_5_vl',
      ...{ image_token_id: '<|image_pad|>', video_token_id: '<|video_pad|>' },
      ...{ vision_start_token_id: '<|vision_start|>', vision_end_token_id: '<|vision_end|>' },
      vision_config: { model_type: 'qwen2_5_vl', patch_size: 14, spatial_merge_size: 2 },
    },
    preprocessor: {
      image_processor_type: 'Qwen2VLImageProcessor',
      ...{ min_pixels: 3136, max_pixels: 12845056, patch_size: 14, temporal_patch_size: 2, merge_size: 2 },
    },
    processor: { processor_class: 'Qwen2_5_VLProcessor' },
    ...qwen,
  },
  {
    name: 'qwen3-vl',
    config: {
      architectures: ['Qwen3VLForConditionalGeneration'],
      model_type: 'qwen3_vl',
      ...{ image_token_id: '<|image_pad|>', video_token_id: '<|video_pad|>' },
      ...{ vision_start_token_id: '<|vision_start|>', vision_end_token_id: '<|vision_end|>' },
      vision_config: { model_type: 'qwen3_vl', patch_size: 16, spatial_merge_size: 2 },
    },
    preprocessor: {
      image_processor_type: 'Qwen2VLImageProcessorFast',
      size: { shortest_edge: 65536, longest_edge: 16777216 },
      ...{ patch_size: 16, temporal_patch_size: 2, merge_size: 2 },
    },
    processor: { processor_class: 'Qwen3VLProcessor' },
    ...qwen,
  },
  {
    name: 'gemma3',
    config: {
      architectures: ['Gemma3ForConditionalGeneration'],
      model_type: 'gemma3',
      mm_tokens_per_image: 256,
      ...{ image_token_index: '<image_soft_token>', boi_token_index: '<start_of_image>' },
      eoi_token_index: '<end_of_image>',
      vision_config: { model_type: 'siglip_vision_model', image_size: 896, patch_size: 14 },
    },
    preprocessor: {
      image_processor_type: 'Gemma3ImageProcessor',
      ...{ size: { height: 896, width: 896 }, image_seq_length: 256, do_pan_and_scan: null },
    },
    processor: { processor_class: 'Gemma3Processor', image_seq_length: 256 },
    tokens: ['<start_of_image>', '<end_of_image>', '<image_soft_token>'],
    special: { boi_token: '<start_of_image>', eoi_token: '<end_of_image>', image_token: '<image_soft_token>' },
    ...lines,
  },
  {
    name: 'gemma4',
    config: {
      architectures: ['Gemma4ForConditionalGeneration'],
      model_type: 'gemma4',
      ...{ image_token_id: '<|image|>', boi_token_id: '<|image>', eoi_token_id: '<image|>' },
      ...{ audio_token_id: '<|audio|>', boa_token_id: '<|audio>', eoa_token_index: '<audio|>' },
      video_token_id: '<|video|>',
      vision_config: {
        ...{ model_type: 'gemma4_vision', patch_size: 16, pooling_kernel_size: 3, default_output_length: 280 },
      },
    },
    preprocessor: {
      image_processor_type: 'Gemma4ImageProcessor',
      ...{ patch_size: 16, pooling_kernel_size: 3, max_soft_tokens: 280 },
    },
    processor: { processor_class: 'Gemma4Processor', image_seq_length: 280 },
    tokens: ['<|image|>', '<|image>', '<image|>', '<|audio|>', '<|audio>', '<audio|>', '<|video|>'],
    special: {
      ...{ image_token: '<|image|>', boi_token: '<|image>', eoi_token: '<image|>' },
      ...{ audio_token: '<|audio|>', boa_token: '<|audio>', eoa_token: '<audio|>' },
    },
  },
  {
    name: 'internvl-chat',
    config: {
      architectures: ['InternVLChatModel'],
      model_type: 'internvl_chat',
      ...{ downsample_ratio: 0.5, dynamic_image_size: true, min_dynamic_patch: 1, max_dynamic_patch: 12 },
      ...{ use_thumbnail: true, select_layer: -1, ps_version: 'v2', template: 'internvl2_5' },
      vision_config: { model_type: 'intern_vit_6b', image_size: 448, patch_size: 14 },
      llm_config: { model_type: 'qwen2', architectures: ['Qwen2ForCausalLM'] },
    },
    ...internvl,
  },
  {
    name: 'internvl-hf',
    config: {
      architectures: ['InternVLForConditionalGeneration'],
      model_type: 'internvl',
      ...{ image_token_id: '<IMG_CONTEXT>', image_seq_length: 256, downsample_ratio: 0.5 },
      vision_config: { model_type: 'internvl_vision', image_size: [448, 448], patch_size: [14, 14] },
      text_config: { model_type: 'qwen2' },
    },
    preprocessor: {
      image_processor_type: 'GotOcr2ImageProcessor',
      ...{ size: { height: 448, width: 448 }, crop_to_patches: true, min_patches: 1, max_patches: 12 },
    },
    processor: { processor_class: 'InternVLProcessor', image_seq_length: 256 },
    ...internvl,
  },
  {
    name: 'glm4v',
    config: {
      architectures: ['Glm4vForConditionalGeneration'],
      model_type: 'glm4v',
      ...{ image_token_id: '<|image|>', image_start_token_id: '<|begin_of_image|>' },
      ...{ image_end_token_id: '<|end_of_image|>', video_token_id: '<|video|>' },
      ...{ video_start_token_id: '<|begin_of_video|>', video_end_token_id: '<|end_of_video|>' },
      vision_config: { model_type: 'glm4v', patch_size: 14, spatial_merge_size: 2, temporal_patch_size: 2 },
    },
    preprocessor: {
      image_processor_type: 'Glm4vImageProcessor',
      size: { shortest_edge: 12544, longest_edge: 9633792 },
      ...{ patch_size: 14, temporal_patch_size: 2, merge_size: 2 },
    },
    processor: { processor_class: 'Glm4vProcessor' },
    tokens: [
      ...['<|begin_of_image|>', '<|image|>', '<|end_of_image|>'],
      ...['<|begin_of_video|>', '<|video|>', '<|end_of_video|>'],
    ],
    special: { image_token: '<|image|>', video_token: '<|video|>' },
  },
  {
    name: 'mistral3',
    config: {
      architectures: ['Mistral3ForConditionalGeneration'],
      model_type: 'mistral3',
      ...{ image_token_index: '[IMG]', spatial_merge_size: 2 },
      vision_config: { model_type: 'pixtral', image_size: 1540, patch_size: 14 },
      text_config: { model_type: 'mistral' },
    },
    preprocessor: {
      image_processor_type: 'PixtralImageProcessor',
      ...{ size: { longest_edge: 1540 }, patch_size: 14 },
    },
    processor: {
      ...{ processor_class: 'PixtralProcessor', patch_size: 14, spatial_merge_size: 2 },
      ...{ image_token: '[IMG]', image_break_token: '[IMG_BREAK]', image_end_token: '[IMG_END]' },
    },
    tokens: ['[IMG]', '[IMG_BREAK]', '[IMG_END]'],
  },
  {
    name: 'pixtral',
    config: {
      architectures: ['LlavaForConditionalGeneration'],
      model_type: 'llava',
      ...{ image_token_index: '[IMG]', vision_feature_select_strategy: 'full', vision_feature_layer: -1 },
      vision_config: { model_type: 'pixtral', image_size: 1024, patch_size: 16 },
      text_config: { model_type: 'mistral' },
    },
    preprocessor: {
      image_processor_type: 'PixtralImageProcessor',
      ...{ size: { longest_edge: 1024 }, patch_size: { height: 16, width: 16 } },
    },
    processor: {
      ...{ processor_class: 'PixtralProcessor', patch_size: 16 },
      ...{ image_token: '[IMG]', image_break_token: '[IMG_BREAK]', image_end_token: '[IMG_END]' },
    },
    tokens: ['[IMG]', '[IMG_BREAK]', '[IMG_END]'],
  },
  {
    name: 'molmo',
    config: { architectures: ['MolmoForCausalLM'], model_type: 'molmo' },
    preprocessor: {
      ...{ base_image_input_size: [336, 336], image_patch_size: 14, max_crops: 12, overlap_margins: [4, 4] },
      ...{ image_token_length_h: 12, image_token_length_w: 12 },
    },
    tokens: ['<|endoftext|>', '<im_patch>', '<im_col>', '<im_start>', '<im_end>'],
  },
  {
    name: 'molmo2',
    config: { architectures: ['Molmo2ForConditionalGeneration'], model_type: 'molmo2' },
    preprocessor: {
      ...{ size: { height: 378, width: 378 }, patch_size: 14, pooling_size: [2, 2], max_crops: 8 },
      overlap_margins: [4, 4],
    },
    processor: { image_use_col_tokens: true, use_single_crop_col_tokens: false },
    tokens: ['<|image|>', '<im_patch>', '<im_col>', '<im_start>', '<im_end>', '<low_res_im_start>'],
  },
  {
    name: 'llama4',
    config: {
      architectures: ['Llama4ForConditionalGeneration'],
      model_type: 'llama4',
      ...{ image_token_index: '<|patch|>', boi_token_index: '<|image_start|>', eoi_token_index: '<|image_end|>' },
      vision_config: { model_type: 'llama4_vision_model', image_size: 336, patch_size: 14, pixel_shuffle_ratio: 0.5 },
      text_config: { model_type: 'llama4_text' },
    },
    preprocessor: {
      image_processor_type: 'Llama4ImageProcessorFast',
      ...{ size: { height: 336, width: 336 }, max_patches: 16, resize_to_max_canvas: false },
    },
    processor: {
      ...{ processor_class: 'Llama4Processor', fake_image_token: '<|image|>', patch_size: 14 },
      pixel_shuffle_ratio: 0.5,
    },
    tokens: [
      ...['<|image|>', '<|image_start|>', '<|image_end|>', '<|patch|>'],
      ...['<|tile_x_separator|>', '<|tile_y_separator|>'],
    ],
  },
  {
    name: 'isaac',
    config: {
      architectures: ['IsaacForConditionalGeneration'],
      model_type: 'isaac',
      ...{ vision_token: '<image>', vision_max_num_patches: 6144, vision_min_num_patches: 256 },
      ...{ video_patch_size: 16, pixel_shuffle_scale: 2 },
      vision_config: { model_type: 'pixel_shuffle_siglip2', patch_size: 16 },
    },
    ...qwen,
  },
  {
    name: 'llava',
    config: {
      architectures: ['LlavaForConditionalGeneration'],
      model_type: 'llava',
      ...{ image_token_index: '<image>', vision_feature_select_strategy: 'default', vision_feature_layer: -2 },
      vision_config: clip,
      text_config: { model_type: 'llama' },
    },
    preprocessor: {
      image_processor_type: 'CLIPImageProcessor',
      ...{ size: { shortest_edge: 336 }, crop_size: { height: 336, width: 336 } },
    },
    processor: {
      ...{ processor_class: 'LlavaProcessor', patch_size: 14, vision_feature_select_strategy: 'default' },
      num_additional_image_tokens: 1,
    },
    tokens: ['<image>'],
    special: { image_token: '<image>' },
  },
  {
    name: 'llava-next',
    config: {
      architectures: ['LlavaNextForConditionalGeneration'],
      model_type: 'llava_next',
      ...{ image_token_index: '<image>', vision_feature_select_strategy: 'default', vision_feature_layer: -2 },
      image_grid_pinpoints: grids,
      vision_config: clip,
      text_config: { model_type: 'llama' },
    },
    preprocessor: {
      image_processor_type: 'LlavaNextImageProcessor',
      ...{ size: { shortest_edge: 336 }, crop_size: { height: 336, width: 336 }, image_grid_pinpoints: grids },
    },
    processor: {
      ...{ processor_class: 'LlavaNextProcessor', patch_size: 14, vision_feature_select_strategy: 'default' },
      num_additional_image_tokens: 1,
    },
    tokens: ['<image>'],
    special: { image_token: '<image>' },
  },
  {
    name: 'llava-onevision',
    config: {
      architectures: ['LlavaOnevisionForConditionalGeneration'],
      model_type: 'llava_onevision',
      ...{ image_token_index: '<image>', video_token_index: '<video>', vision_feature_select_strategy: 'full' },
      ...{ vision_feature_layer: -1, vision_aspect_ratio: 'anyres_max_9', image_grid_pinpoints: onevision },
      vision_config: { model_type: 'siglip_vision_model', image_size: 384, patch_size: 14 },
      text_config: { model_type: 'qwen2' },
    },
    preprocessor: {
      image_processor_type: 'LlavaOnevisionImageProcessor',
      ...{ size: { height: 384, width: 384 }, image_grid_pinpoints: onevision },
    },
    processor: {
      ...{ processor_class: 'LlavaOnevisionProcessor', num_image_tokens: 729 },
      ...{ vision_aspect_ratio: 'anyres_max_9', vision_feature_select_strategy: 'full' },
    },
    tokens: ['<image>', '<video>'],
    special: { image_token: '<image>', video_token: '<video>' },
  },
  {
    name: 'smolvlm',
    config: {
      architectures: ['SmolVLMForConditionalGeneration'],
      model_type: 'smolvlm',
      ...{ image_token_id: '<image>', scale_factor: 4 },
      vision_config: { model_type: 'smolvlm_vision', image_size: 512, patch_size: 16 },
      text_config: { model_type: 'llama' },
    },
    preprocessor: {
      image_processor_type: 'SmolVLMImageProcessor',
      ...{ size: { longest_edge: 2048 }, max_image_size: { longest_edge: 512 }, do_image_splitting: true },
    },
    processor: { processor_class: 'SmolVLMProcessor', image_seq_len: 64 },
    tokens: ['<image>', '<fake_token_around_image>', '<global-img>', '<end_of_utterance>', ...rows],
    words: ['\n\n'],
    special: {
      ...{ image_token: '<image>', fake_image_token: '<fake_token_around_image>' },
      ...{ global_image_token: '<global-img>', end_of_utterance_token: '<end_of_utterance>' },
    },
  },
  {
    name: 'idefics3',
    config: {
      architectures: ['Idefics3ForConditionalGeneration'],
      model_type: 'idefics3',
      ...{ image_token_id: '<image>', scale_factor: 2 },
      vision_config: { model_type: 'idefics3_vision', image_size: 364, patch_size: 14 },
      text_config: { model_type: 'llama' },
    },
    preprocessor: {
      image_processor_type: 'Idefics3ImageProcessor',
      ...{ size: { longest_edge: 1456 }, max_image_size: { longest_edge: 364 }, do_image_splitting: true },
    },
    processor: { processor_class: 'Idefics3Processor', image_seq_len: 169 },
    tokens: ['<image>', '<fake_token_around_image>', '<global-img>', '<end_of_utterance>', ...rows],
    special: {
      ...{ image_token: '<image>', fake_image_token: '<fake_token_around_image>' },
      ...{ global_image_token: '<global-img>', end_of_utterance_token: '<end_of_utterance>' },
    },
  },
  {
    name: 'cohere2-vision',
    config: {
      architectures: ['Cohere2VisionForConditionalGeneration'],
      model_type: 'cohere2_vision',
      ...{ image_token_id: '<|IMG_PATCH|>', downsample_factor: 2 },
      vision_config: { model_type: 'siglip_vision_model', image_size: 512, patch_size: 16 },
      text_config: { model_type: 'cohere2' },
    },
    preprocessor: {
      image_processor_type: 'Cohere2VisionImageProcessorFast',
      ...{ size: { height: 512, width: 512 }, crop_to_patches: true, min_patches: 1, max_patches: 12 },
    },
    processor: { processor_class: 'Cohere2VisionProcessor' },
    tokens: ['<|IMG_PATCH|>', '<|IMG_LINE_BREAK|>', '<|START_OF_IMG|>', '<|END_OF_IMG|>'],
    special: {
      ...{ image_token: '<|IMG_PATCH|>', img_line_break_token: '<|IMG_LINE_BREAK|>' },
      ...{ boi_token: '<|START_OF_IMG|>', eoi_token: '<|END_OF_IMG|>' },
    },
  },
  {
    name: 'kimi-vl',
    config: {
      architectures: ['KimiVLForConditionalGeneration'],
      model_type: 'kimi_vl',
      media_placeholder_token_id: '<|media_pad|>',
      vision_config: { model_type: 'moonvit', patch_size: 14, merge_kernel_size: [2, 2] },
    },
    preprocessor: { patch_size: 14, merge_kernel_size: [2, 2], in_token_limit: 4096 },
    tokens: ['<|media_start|>', '<|media_content|>', '<|media_pad|>', '<|media_end|>'],
  },
  {
    name: 'paddleocr-vl',
    config: {
      architectures: ['PaddleOCRVLForConditionalGeneration'],
      model_type: 'paddleocr_vl',
      image_token_id: '<|IMAGE_PLACEHOLDER|>',
      vision_config: { model_type: 'paddleocr_vl_vision', patch_size: 14, spatial_merge_size: 2 },
    },
    preprocessor: {
      image_processor_type: 'PaddleOCRVLImageProcessor',
      ...{ min_pixels: 147384, max_pixels: 2822400, patch_size: 14, merge_size: 2, temporal_patch_size: 1 },
    },
    processor: { processor_class: 'PaddleOCRVLProcessor' },
    tokens: ['<|IMAGE_START|>', '<|IMAGE_PLACEHOLDER|>', '<|IMAGE_END|>'],
    special: { image_token: '<|IMAGE_PLACEHOLDER|>' },
  },
]

/** Writes the folder of a model without weights. Tokens in the facts' configuration become their numbers. */
export async function writeProcessorFolder(folder: string, facts: ProcessorFacts): Promise<void> {
  const { config, preprocessor, processor, tokens, words = [], special = {} } = facts
  await mkdir(folder, { recursive: true })
  const bytes = byteLetters()
  const vocab = new Map(bytes.map((letter, id) => [letter, id]))
  const added = [...new Set(['<|end|>', ...tokens, ...words])].map((content, index) => ({
    ...{ id: vocab.size + index, content, special: !words.includes(content), normalized: false },
    ...{ single_word: false, lstrip: false, rstrip: false },
  }))
  const ids = new Map(added.map(({ content, id }) => [content, id]))
  const numbered = JSON.parse(JSON.stringify(config), (key, value) =>
    /_(id|index)$/.test(key) && typeof value === 'string' ? ids.get(value) : value,
  )
  const files = {
    'config.json': { ...numbered, vocab_size: vocab.size + added.length },
    'tokenizer.json': {
      ...{ version: '1.0', truncation: null, padding: null, added_tokens: added, normalizer: null },
      pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
      ...{
        post_processor: null,
        decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
      },
      model: { type: 'BPE', vocab: Object.fromEntries(vocab), merges: [] },
    },
    'tokenizer_config.json': {
      tokenizer_class: 'PreTrainedTokenizerFast',
      ...{ eos_token: '<|end|>', pad_token: '<|end|>' },
      ...(special.bos_token === undefined ? {} : { bos_token: special.bos_token }),
      extra_special_tokens: special,
      chat_template:
        "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\\n' }}{% endfor %}",
    },
    ...(preprocessor === undefined ? {} : { 'preprocessor_config.json': preprocessor }),
    ...(processor === undefined ? {} : { 'processor_config.json': processor }),
  }
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), JSON.stringify(content))
}

/** The letters that stand for bytes in byte-level vocabularies, by their bytes. */
function byteLetters(): string[] {
  let next = 256
  return Array.from({ length: 256 }, (_, byte) => {
    const isPrinted = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad)
    return String.fromCodePoint(isPrinted ? byte : next++)
  })
}

/** Sizes of images before they are prepared. */
export const ORIGINALS: readonly Size[] = [
  [500, 333],
  [333, 500],
  [37, 900],
  [4000, 3000],
  [64, 64],
  [1, 1],
  [1920, 1080],
  [1080, 1920],
  [3000, 180],
  [700, 710],
  [1200, 400],
].map(([width, height]) => ({ width: width!, height: height! }))

/** The limits of a card: those of the files, or, where the family has its own, some of squares of the files' size. */
export function limitsOf({ preprocessor }: ProcessorFacts, limits: FamilyImageLimits | null): ImageLimits {
  const { patch_size: patch, merge_size: merge } = preprocessor ?? {}
  const pixelsPerToken = Number(patch) * Number(merge)
  return (limits ?? { pixelsPerToken, minTokens: 64, maxTokens: 4096 }) as ImageLimits
}
