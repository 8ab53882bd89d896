import {
  type ImageProcessing,
  numberOf,
  type Placeholder,
  type ProcessorFiles,
  type ProcessorReader,
  sizeOf,
} from './image-processing.ts'

const VISION: Placeholder = { before: '<|vision_start|>', target: '<|image_pad|>', after: '<|vision_end|>' }

/**
 * Processors like Qwen2-VL's, with limits in pixels, by `smart_resize`. The family's limits apply, which are the
 * numbers of tokens with which its models see well.
 */
export const qwenImages: ProcessorReader = ({ config, has }) => {
  const placeholder = markedByIds(config) ?? VISION
  return has(placeholder.target)
    ? { limits: null, placeholder, tokens: { count: 'squares', around: 0, rowEnds: 0 } }
    : `tokenizer.json has no '${placeholder.target}'`
}

/** Set by the folder's reader from the vocabulary: the texts of the tokens that config.json refers to by id. */
function markedByIds({ image_marks: marks }: ProcessorFiles['config']): Placeholder | null {
  if (!Array.isArray(marks) || !marks.every((mark) => typeof mark === 'string')) return null
  const [before = '', target = '', after = ''] = marks
  return { before, target, after }
}

/**
 * The same processors with the files' limits.
 * @param frames that one image counts as in the limits of pixels.
 */
export const pixelImages =
  (placeholder: Placeholder, frames = 1): ProcessorReader =>
  (files) => {
    const { images, vision } = files
    const patch = numberOf(images.patch_size) ?? numberOf(vision.patch_size)
    const merge =
      numberOf(images.merge_size) ?? numberOf(images.spatial_merge_size) ?? numberOf(vision.spatial_merge_size)
    const least = numberOf(images.min_pixels) ?? sizeOf(images.size, 'shortest_edge', 'min_pixels')
    const most = numberOf(images.max_pixels) ?? sizeOf(images.size, 'longest_edge', 'max_pixels')
    if (patch === undefined || merge === undefined) return 'preprocessor_config.json has no patch_size and merge_size'
    if (most === undefined) return 'preprocessor_config.json has no max_pixels'
    const square = frames * (patch * merge) ** 2
    return withTokens(files, placeholder, {
      pixelsPerToken: patch * merge,
      minTokens: Math.max(1, Math.ceil((least ?? 1) / square)),
      maxTokens: Math.floor(most / square),
    })
  }

/**
 * Perceptron's, with vLLM's numbers for it (`transformers_utils/processors/isaac.py`); it reads none from the files.
 */
export const patchRangeImages: ProcessorReader = (files) =>
  withTokens(files, { target: '<image>', isText: true }, { pixelsPerToken: 32, minTokens: 64, maxTokens: 1536 })

/** Every image is scaled to as many tokens as its aspect ratio allows (`get_aspect_ratio_preserving_size`). */
export const filledImages: ProcessorReader = (files) => {
  const { vision } = files
  const patch = numberOf(vision.patch_size)
  const pool = numberOf(vision.pooling_kernel_size)
  const most = numberOf(vision.default_output_length) ?? numberOf(vision.num_soft_tokens)
  if (patch === undefined || pool === undefined || most === undefined)
    return 'config.json has no vision_config.pooling_kernel_size and default_output_length'
  const limits = { pixelsPerToken: patch * pool, minTokens: fewestFilled(most), maxTokens: most, fills: true } as const
  return withTokens(files, { target: '<|image|>' }, limits, 2)
}

/** The minimum tokens of a grid with no room for another row or column of its own aspect ratio. */
function fewestFilled(most: number): number {
  let fewest = most
  for (let rows = 1; rows <= most; rows++)
    for (let columns = rows; columns * rows < fewest; columns++) {
      const scale = Math.sqrt(most / (rows * columns))
      if (Math.floor(rows * scale) === rows && Math.floor(columns * scale) === columns) fewest = rows * columns
    }
  return fewest
}

/** Pixtral's encoder: nothing is enlarged, and a longest side beyond the limit is reduced (`Mistral3HFEncoderInfo`). */
export const longestEdgeImages =
  (target: string, rowEnds: 0 | 1): ProcessorReader =>
  (files) => {
    const { config, images, vision } = files
    const patch = numberOf(vision.patch_size)
    const edges = [sizeOf(images.size, 'longest_edge'), numberOf(vision.image_size)].filter(
      (edge) => edge !== undefined,
    )
    if (patch === undefined || edges.length === 0) return 'config.json has no vision_config.patch_size and image_size'
    const unit = patch * (numberOf(config.spatial_merge_size) ?? 1)
    const side = Math.floor(Math.min(...edges) / unit)
    const limits = { pixelsPerToken: unit, minTokens: 1, maxTokens: side ** 2, longestEdge: side * unit }
    if (!files.has(target)) return `tokenizer.json has no '${target}'`
    return {
      limits: rowEnds === 1 ? { ...limits, rowEnds: true } : limits,
      placeholder: { target },
      tokens: { count: 'squares', around: 0, rowEnds },
    }
  }

/**
 * MoonViT's processor: the number of patches is limited, and sides are padded to whole tokens, so images are prepared
 * with such sides.
 */
export const limitedImages: ProcessorReader = (files) => {
  const { images } = files
  const patch = numberOf(images.patch_size)
  const merge = numberOf(images.merge_kernel_size)
  const most = numberOf(images.in_token_limit)
  if (patch === undefined || merge === undefined || most === undefined)
    return 'preprocessor_config.json has no patch_size, merge_kernel_size and in_token_limit'
  const placeholder = {
    before: '<|media_start|>image<|media_content|>',
    target: '<|media_pad|>',
    after: '<|media_end|>',
  }
  return withTokens(files, placeholder, {
    pixelsPerToken: patch * merge,
    minTokens: 1,
    maxTokens: Math.floor(most / merge ** 2),
  })
}

/** Squares of one size. */
interface SquareRule {
  readonly placeholder: Placeholder
  readonly around: number
  readonly side: number | undefined
  readonly tokens: number | undefined
}

function squareImages(files: ProcessorFiles, { placeholder, around, side, tokens }: SquareRule) {
  if (side === undefined || tokens === undefined) return 'config.json has no vision_config.image_size'
  const across = Math.sqrt(tokens)
  const unit = side / across
  if (!Number.isInteger(unit) || !Number.isInteger(across)) return `an image of ${side} pixels has ${tokens} tokens`
  const limits = { pixelsPerToken: unit, minTokens: tokens, maxTokens: tokens, square: true } as const
  return withTokens(files, placeholder, limits, around)
}

/** Two line breaks and a mark on each side. */
export const soughtSquares: ProcessorReader = (files) =>
  squareImages(files, {
    placeholder: { target: '<start_of_image>', joinsLines: true },
    around: 4,
    side: numberOf(files.vision.image_size),
    tokens: numberOf(files.config.mm_tokens_per_image) ?? 256,
  })

export const mobileSquares: ProcessorReader = (files) =>
  squareImages(files, {
    placeholder: { target: '<image_soft_token>', joinsLines: true },
    around: 4,
    side: sizeOf(files.images.size, 'height', 'shortest_edge') ?? 768,
    tokens: numberOf(files.config.vision_soft_tokens_per_image) ?? 256,
  })

/** CLIP's encoder has a token for the whole image, which most of these models drop. Others have Pixtral's encoder. */
export const clipSquares: ProcessorReader = (files) => {
  const { config, images, vision } = files
  const target = files.has('<image>') ? '<image>' : '[IMG]'
  if (vision.model_type === 'pixtral') return longestEdgeImages(target, 1)(files)
  const side = numberOf(vision.image_size)
  const patch = numberOf(vision.patch_size)
  const shown = sizeOf(images.crop_size, 'height') ?? sizeOf(images.size, 'height', 'shortest_edge') ?? side
  if (shown !== side) return `its images of ${shown} pixels are not those of its encoder, ${side}`
  const tokens = side === undefined || patch === undefined ? undefined : Math.floor(side / patch) ** 2
  const own = /clip/.test(String(vision.model_type)) ? 1 : 0
  const around = own - (config.vision_feature_select_strategy === 'full' ? 0 : 1)
  return squareImages(files, { placeholder: { target }, around, side, tokens })
}

function withTokens(
  files: ProcessorFiles,
  placeholder: Placeholder,
  limits: NonNullable<ImageProcessing['limits']>,
  around = 0,
): ImageProcessing | string {
  const { target, isText } = placeholder
  if (target !== '' && !isText && !files.has(target)) return `tokenizer.json has no '${target}'`
  const { minTokens = 1, maxTokens = 1 } = limits
  if (minTokens > maxTokens) return `its images have at least ${minTokens} and at most ${maxTokens} tokens`
  return { limits, placeholder, tokens: { count: 'squares', around, rowEnds: 0 } }
}
