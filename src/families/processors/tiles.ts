import type { FamilyImageLimits } from '../image-limits.ts'
import type { Tiles } from '../tiles.ts'
import {
  type ImageProcessing,
  type ImageTokenRule,
  numberOf,
  type Placeholder,
  type ProcessorFiles,
  type ProcessorReader,
  sizeOf,
} from './image-processing.ts'

type TileTokens = Omit<Extract<ImageTokenRule, { count: 'tiles' }>, 'count'>

interface TiledImages {
  readonly pixelsPerToken: number
  readonly tiles: Tiles
  readonly placeholder: Placeholder
  readonly tokens: TileTokens
}

/** Maximum tiles of an image. */
function mostOf(tiles: Tiles): number {
  if (tiles.grid === 'longest' || tiles.grid === 'windows') return tiles.along ** 2
  if (tiles.grid === 'listed') return Math.max(...tiles.grids.map(([columns, rows]) => columns * rows))
  return tiles.most
}

function tiled(files: ProcessorFiles, { pixelsPerToken, tiles, placeholder, tokens }: TiledImages) {
  const { target, isText } = placeholder
  if (!isText && target !== '' && !files.has(target)) return `tokenizer.json has no '${target}'`
  const most = mostOf(tiles)
  const fewest = tiles.grid === 'longest' ? (tiles.along === 1 ? 1 : tiles.along + 1) : 1
  const limits: FamilyImageLimits = {
    pixelsPerToken,
    minTokens: fewest * tiles.tokens,
    maxTokens: most === 1 ? tiles.tokens : (most + 1) * tiles.tokens,
    tiles,
  }
  return { limits, placeholder, tokens: { count: 'tiles', ...tokens } } satisfies ImageProcessing
}

/** InternVL's own format (`InternVLChatModel`), whose placeholder is text. */
export const chatTiles: ProcessorReader = (files) => {
  const { config, vision } = files
  const least = config.dynamic_image_size === false ? 1 : (numberOf(config.min_dynamic_patch) ?? 1)
  const most = config.dynamic_image_size === false ? 1 : numberOf(config.max_dynamic_patch)
  const side = numberOf(vision.image_size)
  const patch = numberOf(vision.patch_size)
  const ratio = numberOf(config.downsample_ratio)
  if (side === undefined || patch === undefined || most === undefined || ratio === undefined)
    return 'config.json has no vision_config.image_size, max_dynamic_patch and downsample_ratio'
  if (least !== 1) return `config.json has min_dynamic_patch ${least}`
  const tokens = Math.floor(Math.floor(side / patch) ** 2 * ratio ** 2)
  const copy = config.use_thumbnail === false ? 0 : tokens
  return tiled(files, {
    pixelsPerToken: Math.round(side / Math.sqrt(tokens)),
    tiles: { grid: 'nearest', side, tokens, most },
    placeholder: { target: '<image>', isText: true },
    tokens: { tokens, copy, around: 2, perTile: 0, perRow: 0 },
  })
}

/** The same models in the format of Transformers (`InternVLForConditionalGeneration`). */
export const contextTiles: ProcessorReader = (files) => {
  const { config, images, vision, processor } = files
  const side = numberOf(vision.image_size)
  const tokens = numberOf(processor.image_seq_length) ?? numberOf(config.image_seq_length) ?? 256
  if (side === undefined) return 'config.json has no vision_config.image_size'
  const most = images.crop_to_patches === false ? 1 : (numberOf(images.max_patches) ?? 12)
  return tiled(files, {
    pixelsPerToken: Math.round(side / Math.sqrt(tokens)),
    tiles: { grid: 'nearest', side, tokens, most },
    placeholder: { target: '<IMG_CONTEXT>' },
    tokens: { tokens, copy: tokens, around: 2, perTile: 0, perRow: 0 },
  })
}

/** Cohere's: a line break ends each tile and the copy. */
export const lineBreakTiles: ProcessorReader = (files) => {
  const { images, vision } = files
  const side = sizeOf(images.size, 'height') ?? numberOf(vision.image_size)
  // The processor uses the side of a patch as the number of patches.
  const across = numberOf(images.patch_size) ?? 16
  if (side === undefined) return 'preprocessor_config.json has no size'
  const tokens = across ** 2
  const most = images.crop_to_patches === false ? 1 : (numberOf(images.max_patches) ?? 12)
  return tiled(files, {
    pixelsPerToken: Math.round(side / across),
    tiles: { grid: 'nearest', side, tokens, most },
    placeholder: { target: '<|IMG_PATCH|>' },
    tokens: { tokens, copy: tokens, around: 3, perTile: 1, perRow: 0 },
  })
}

/** Llama 4's: a mark after each tile, and three around the copy. */
export const separatedTiles: ProcessorReader = (files) => {
  const { images, vision } = files
  const side = numberOf(vision.image_size)
  const patch = numberOf(vision.patch_size)
  const ratio = numberOf(vision.pixel_shuffle_ratio)
  if (side === undefined || patch === undefined || ratio === undefined)
    return 'config.json has no vision_config.pixel_shuffle_ratio'
  const tokens = Math.floor(Math.floor(side / patch) ** 2 / Math.round(1 / ratio ** 2))
  const most = numberOf(images.max_patches) ?? 16
  return tiled(files, {
    pixelsPerToken: Math.round(patch / ratio),
    tiles: { grid: 'nearest', side, tokens, most },
    placeholder: { target: '<|image|>' },
    tokens: { tokens, copy: tokens, around: 3, perTile: 1, perRow: 0 },
  })
}

/** Idefics 3's and SmolVLM's: two marks before each tile, a line break after each row, three marks around the copy. */
export const namedTiles: ProcessorReader = (files) => {
  const { config, images, processor, vision } = files
  const side = sizeOf(images.max_image_size, 'longest_edge') ?? numberOf(vision.image_size)
  const edge = sizeOf(images.size, 'longest_edge')
  const patch = numberOf(vision.patch_size)
  const scale = numberOf(config.scale_factor)
  if (side === undefined || edge === undefined || patch === undefined || scale === undefined)
    return 'preprocessor_config.json has no max_image_size and size'
  const tokens = numberOf(processor.image_seq_len) ?? Math.floor(Math.floor(side / patch) ** 2 / scale ** 2)
  const along = images.do_image_splitting === false ? 1 : Math.ceil(edge / side)
  // One token has the numbers of a row and a column.
  if (!files.has(`<row_${Math.min(along, 6)}_col_1>`)) return 'tokenizer.json has no tokens for rows and columns'
  if (along > 6) return `its images have ${along} tiles along the longer side, more than its vocabulary has names for`
  const joins = files.has('\n\n') || files.has('ĊĊ') || files.has('<0x0A><0x0A>')
  return tiled(files, {
    pixelsPerToken: patch * scale,
    tiles: { grid: 'longest', side, tokens, along },
    placeholder: { target: '<image>' },
    tokens: { tokens, copy: tokens, around: 3, perTile: 2, perRow: 1, between: joins ? 0 : 1 },
  })
}

/** LLaVA-NeXT's and LLaVA-OneVision's: a copy, then all tiles as one grid, with a token at the end of each row. */
export const pinpointTiles =
  (mostTiles: number): ProcessorReader =>
  (files) => {
    const { config, vision } = files
    const side = numberOf(vision.image_size)
    const patch = numberOf(vision.patch_size)
    const points = config.image_grid_pinpoints
    if (side === undefined || patch === undefined || !Array.isArray(points))
      return 'config.json has no image_grid_pinpoints'
    const grids = points.map((point): [number, number] => [Number(point?.[1]) / side, Number(point?.[0]) / side])
    if (!grids.flat().every((count) => Number.isInteger(count) && count >= 1))
      return 'image_grid_pinpoints of config.json are not of whole tiles'
    const across = Math.floor(side / patch)
    const own = /clip/.test(String(vision.model_type)) ? 1 : 0
    const copy = across ** 2 + own - (config.vision_feature_select_strategy === 'full' ? 0 : 1)
    return tiled(files, {
      pixelsPerToken: patch,
      tiles: {
        ...{ grid: 'listed', side, tokens: across ** 2 },
        // The tokens of larger images are interpolated.
        grids: grids.filter(([columns, rows]) => columns * rows <= mostTiles),
      },
      placeholder: { target: '<image>' },
      tokens: {
        ...{ tokens: across ** 2, copy, around: 0, perTile: 0, perRow: across, encodesRows: true },
        alone: copy + across * (across + 1),
      },
    })
  }

interface OverlappingRule {
  readonly target: string
  /** Names of the numbers in preprocessor_config.json. */
  readonly side: unknown
  readonly patch: unknown
  /** Side in patches of the square that becomes one token. */
  readonly pool: unknown
}

/**
 * Molmo's: tiles overlap by margins. A copy of the whole image comes first, then all tiles as one grid; a token ends
 * each row of both, and two marks surround each.
 */
function overlappingTiles(files: ProcessorFiles, { target, ...given }: OverlappingRule): ImageProcessing | string {
  const { images } = files
  const side = sizeOf(given.side, 'height')
  const patch = numberOf(given.patch)
  const pool = numberOf(given.pool)
  const most = numberOf(images.max_crops)
  const margins = images.overlap_margins
  if (side === undefined || patch === undefined || pool === undefined || most === undefined || !Array.isArray(margins))
    return 'preprocessor_config.json has no max_crops and overlap_margins'
  const margin = margins.reduce((sum, one) => sum + Number(one), 0) * patch
  const window = side - margin
  const across = Math.ceil(side / patch / pool)
  const tokens = Math.ceil(window / patch / pool) ** 2
  const grids: [number, number][] = []
  for (let columns = 1; columns <= most; columns++)
    for (let rows = 1; columns * rows <= most; rows++) grids.push([columns, rows])
  const read = tiled(files, {
    pixelsPerToken: patch * pool,
    tiles: { grid: 'listed', side: window, tokens, grids, margin },
    placeholder: { target },
    tokens: {
      ...{ tokens: across ** 2, copy: across ** 2, around: across + 4, perTile: 0, perRow: 1 },
      joined: { side: patch * pool },
    },
  })
  if (typeof read === 'string') return read
  // The grid of all tiles has the margins as well, and so has the copy.
  const extra = across ** 2 + 2 * across * Math.ceil(margin / patch / pool) * Math.ceil(Math.sqrt(most))
  return { ...read, limits: { ...read.limits, maxTokens: read.limits.maxTokens! + extra } }
}

/** Molmo, whose images vLLM inserts at the beginning of the prompt. */
export const insertedTiles: ProcessorReader = (files) =>
  overlappingTiles(files, {
    target: '',
    side: numberOf(files.images.base_image_input_size) ?? 336,
    patch: files.images.image_patch_size ?? 14,
    pool: 2,
  })

/** Molmo2. */
export const pooledTiles: ProcessorReader = (files) => {
  const { images, processor } = files
  if (processor.image_use_col_tokens === false) return 'processor_config.json has image_use_col_tokens false'
  const read = overlappingTiles(files, {
    ...{ target: '<|image|>', side: images.size, patch: images.patch_size },
    pool: images.pooling_size,
  })
  if (typeof read === 'string' || read.tokens.count !== 'tiles') return read
  // The copy's rows may have no ends.
  if (processor.use_single_crop_col_tokens !== false) return read
  return { ...read, tokens: { ...read.tokens, around: 4 } }
}
