import { z } from 'zod'
import type { ImageRule } from './family.ts'
import type { GgufMetadata } from './gguf.ts'
import { type TileRule, type Tiles, tilesSchema } from './tiles.ts'

/** Limits of prepared images, as in model cards. */
export const imageFields = {
  /** Side in pixels of the square that one token covers; sides of prepared pictures are multiples of it. */
  pixelsPerToken: z.int().positive(),
  minTokens: z.int().positive(),
  maxTokens: z.int().positive(),
  /** Tokens of an image without a requested level of detail; by default the limits above. */
  auto: z.strictObject({ minTokens: z.int().positive(), maxTokens: z.int().positive() }).optional(),
  /** Every image becomes a square of `maxTokens` tokens. */
  square: z.boolean().optional(),
  /** No image is enlarged, except up to the minimum tokens, and a longer side is reduced to this number of pixels. */
  longestEdge: z.int().positive().optional(),
  /** Every image is scaled to `longestEdge`: the token limits have no effect. */
  enlarges: z.literal(true).optional(),
  /** A token ends every row but the last. It counts towards neither `minTokens` nor `maxTokens`. */
  rowEnds: z.boolean().optional(),
  /** Every image is scaled to as many of `maxTokens` tokens as its aspect ratio allows. */
  fills: z.boolean().optional(),
  /** Images are cut into tiles. `maxTokens` limits their number, and tokens between tiles do not count. */
  tiles: tilesSchema.optional(),
}
type ImageFields = z.infer<z.ZodObject<typeof imageFields>>
/** The limits that a family or a file determines. */
export type FamilyImageLimits = Pick<ImageFields, 'pixelsPerToken'> & Partial<ImageFields>

/** A number in an encoder's header, by its name after `clip.vision.`; undefined if absent. */
type NumberOf = (key: string) => number | undefined

/** The family's rule, with the numbers from the encoder's file. */
export function imageLimits(rule: ImageRule, encoder: GgufMetadata | null): FamilyImageLimits {
  const number: NumberOf = (key) => positive(encoder?.get(`clip.vision.${key}`))
  const pixelsPerToken = rule.fixed
    ? rule.patchSize * rule.mergeSize
    : (number('patch_size') ?? rule.patchSize) * mergeOf(rule, number)
  if (rule.tiles !== undefined) {
    const tiled = tiledLimits(rule.tiles, rule, pixelsPerToken, encoder)
    if (tiled !== null) return tiled
  }
  const side = number('image_size')
  if (rule.square) return squareLimits(rule, side, pixelsPerToken)
  const edge = rule.longestEdge === 'always' ? (number('preproc_image_size') ?? side) : rule.longestEdge && side
  const tokens = (key: string, round: (tokens: number) => number): number | undefined => {
    const pixels = number(key)
    return pixels === undefined ? undefined : Math.max(1, round(pixels / pixelsPerToken ** 2))
  }
  const minTokens = tokens('image_min_pixels', Math.ceil) ?? rule.minTokens
  const maxTokens =
    tokens('image_max_pixels', Math.floor) ??
    rule.maxTokens ??
    (edge === undefined ? undefined : Math.ceil(edge / pixelsPerToken) ** 2)
  return {
    pixelsPerToken,
    ...(minTokens === undefined ? {} : { minTokens }),
    ...(maxTokens === undefined ? {} : { maxTokens }),
    ...(rule.auto === undefined ? {} : { auto: rule.auto }),
    ...(edge === undefined ? {} : { longestEdge: edge }),
    ...(rule.longestEdge === 'always' && edge !== undefined ? { enlarges: true } : {}),
    ...(rule.rowEnds ? { rowEnds: true } : {}),
  }
}

/** Side in patches of the square that is merged into one token. */
function mergeOf(rule: ImageRule, number: NumberOf): number {
  const window = number('projector.window_side')
  const query = number('projector.query_side')
  if (window !== undefined && query !== undefined) return window / query
  return number('spatial_merge_size') ?? number('projector.scale_factor') ?? rule.mergeSize
}

/** @param side of the square in pixels, if the file says. */
function squareLimits(rule: ImageRule, side: number | undefined, pixelsPerToken: number): FamilyImageLimits {
  const { along, minTokens, maxTokens } = rule
  if (along !== undefined) {
    const unit = side === undefined ? pixelsPerToken : Math.max(1, Math.round(side / along))
    return { pixelsPerToken: unit, minTokens: along ** 2, maxTokens: along ** 2, square: true }
  }
  const tokens = side === undefined ? undefined : Math.max(1, Math.floor(side / pixelsPerToken)) ** 2
  return {
    pixelsPerToken,
    ...((tokens ?? minTokens) === undefined ? {} : { minTokens: tokens ?? minTokens! }),
    ...((tokens ?? maxTokens) === undefined ? {} : { maxTokens: tokens ?? maxTokens! }),
    square: true,
  }
}

/** Null for a file without a list of grids, whose images are squares. */
function tiledLimits(
  rule: TileRule,
  { minTokens }: ImageRule,
  pixelsPerToken: number,
  encoder: GgufMetadata | null,
): FamilyImageLimits | null {
  const number: NumberOf = (key) => positive(encoder?.get(`clip.vision.${key}`))
  const given = 'side' in rule ? rule.side : undefined
  const side = given ?? number('image_size')
  // Not guessed: if the file does not say, the card must.
  if (side === undefined)
    return rule.grid === 'listed' && rule.along === undefined && !rule.always ? null : { pixelsPerToken }
  const tile = { side, tokens: squareOf(side, pixelsPerToken) }
  switch (rule.grid) {
    case 'nearest': {
      const most = number('preproc_max_tiles') ?? rule.most
      if (!('whole' in rule)) return limitsOf(pixelsPerToken, { ...tile, grid: rule.grid, most }, tile.tokens, most)
      const least = number('preproc_min_tiles') ?? rule.least
      return limitsOf(pixelsPerToken, { ...rule, least, most }, rule.whole, most)
    }
    case 'large':
      return limitsOf(
        pixelsPerToken,
        { ...tile, grid: rule.grid, most: rule.most },
        minTokens ?? tile.tokens,
        rule.most,
      )
    case 'slices': {
      const tokens = sliceQueries(encoder) ?? tile.tokens
      const isResampled = sliceQueries(encoder) !== null
      const unit = isResampled ? (number('patch_size') ?? 1) : pixelsPerToken
      const share = isResampled ? Math.round(side / Math.sqrt(tokens)) : pixelsPerToken
      return limitsOf(share, { side, tokens, grid: rule.grid, most: rule.most, unit }, tokens, rule.most)
    }
    case 'longest': {
      const edge = number('preproc_image_size')
      const along = edge === undefined ? rule.along : Math.ceil(edge / side)
      return limitsOf(pixelsPerToken, { ...tile, grid: rule.grid, along }, (along + 1) * tile.tokens, along ** 2)
    }
    case 'listed': {
      const grids = listedGrids(encoder, side) ?? gridsUpTo(rule.along)
      if (grids === null) return rule.always ? { pixelsPerToken } : null
      const counts = grids.map(([columns, rows]) => columns * rows)
      const tiles: Tiles = { ...tile, grid: rule.grid, grids, ...(rule.always ? { always: true } : {}) }
      const least = rule.always ? (Math.min(...counts) + 1) * tile.tokens : tile.tokens
      return limitsOf(pixelsPerToken, tiles, least, Math.max(...counts))
    }
    case 'windows': {
      const wholeSide = number('image_size')
      if (wholeSide === undefined) return { pixelsPerToken }
      const edge = number('preproc_image_size')
      const along = edge === undefined ? rule.along : Math.max(2, Math.floor(edge / side))
      const whole = squareOf(wholeSide, pixelsPerToken)
      return limitsOf(pixelsPerToken, { ...tile, grid: rule.grid, whole, wholeSide, along }, whole, along ** 2)
    }
  }
}

/** Tokens of a square. */
function squareOf(side: number, pixelsPerToken: number): number {
  return Math.max(1, Math.floor(side / pixelsPerToken)) ** 2
}

function limitsOf(pixelsPerToken: number, tiles: Tiles, minTokens: number, most: number): FamilyImageLimits {
  const cut = most * tiles.tokens + (tiles.whole ?? tiles.tokens)
  const isOne = most === 1 && !('always' in tiles)
  return { pixelsPerToken, minTokens, maxTokens: isOne ? tiles.tokens : cut, tiles }
}

/** Every grid of up to `along` tiles on a side, except for a single tile. */
function gridsUpTo(along: number | undefined): [number, number][] | null {
  if (along === undefined) return null
  const sides = Array.from({ length: along }, (_, i) => i + 1)
  return sides.flatMap((columns) => sides.map((rows): [number, number] => [columns, rows])).slice(1)
}

/** Tokens that a resampler makes from a slice of any size; null for an encoder without one. */
function sliceQueries(encoder: GgufMetadata | null): number | null {
  if (encoder?.get('clip.projector_type') !== 'resampler') return null
  const queries = positive(encoder.get('clip.minicpmv_query_num'))
  // libmtmd's defaults for files that do not say.
  return queries ?? ((positive(encoder.get('clip.minicpmv_version')) ?? 2) < 3 ? 96 : 64)
}

/**
 * Grids whose sizes in pixels the file lists: width, height, width, height, ... Null if there are none, or if they do
 * not consist of whole tiles.
 */
function listedGrids(encoder: GgufMetadata | null, side: number): [number, number][] | null {
  const list = encoder?.get('clip.vision.image_grid_pinpoints')
  if (typeof list !== 'object' || list === null || !(Symbol.iterator in list)) return null
  const tiles = Array.from(list as Iterable<unknown>, (pixels) => (positive(pixels) ?? 0) / side)
  if (tiles.length === 0 || tiles.length % 2 !== 0 || !tiles.every((count) => count >= 1 && Number.isInteger(count)))
    return null
  return Array.from({ length: tiles.length / 2 }, (_, i) => [tiles[2 * i]!, tiles[2 * i + 1]!])
}

function positive(value: unknown): number | undefined {
  return typeof value === 'number' && value > 0 ? value : undefined
}
