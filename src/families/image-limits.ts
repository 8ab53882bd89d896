import type { ImageRule } from './family.ts'
import type { GgufMetadata } from './gguf.ts'
import type { TileRule, Tiles } from './tiles.ts'

/** Limits of prepared images, in the terms of model cards. */
export interface FamilyImageLimits {
  readonly pixelsPerToken: number
  readonly minTokens?: number
  readonly maxTokens?: number
  readonly square?: true
  readonly longestEdge?: number
  readonly rowEnds?: true
  readonly fills?: true
  readonly tiles?: Tiles
}

/** A number in the header of an encoder, by its name behind `clip.vision.`; undefined where there is none. */
type NumberOf = (key: string) => number | undefined

/** The family's rule with the numbers that the encoder's file has of its own. */
export function imageLimits(rule: ImageRule, encoder: GgufMetadata | null): FamilyImageLimits {
  const number: NumberOf = (key) => positive(encoder?.get(`clip.vision.${key}`))
  const merge = number('spatial_merge_size') ?? number('projector.scale_factor') ?? rule.mergeSize
  const pixelsPerToken = (number('patch_size') ?? rule.patchSize) * merge
  if (rule.tiles !== undefined) {
    const tiled = tiledLimits(rule.tiles, rule, pixelsPerToken, encoder)
    if (tiled !== null) return tiled
  }
  const side = number('image_size')
  if (rule.square && side !== undefined) {
    const tokens = Math.max(1, Math.round(side / pixelsPerToken)) ** 2
    return { pixelsPerToken, minTokens: tokens, maxTokens: tokens, square: true }
  }
  const edge = rule.longestEdge ? side : undefined
  const tokens = (key: string): number | undefined => {
    const pixels = number(key)
    return pixels === undefined ? undefined : Math.max(1, Math.round(pixels / pixelsPerToken ** 2))
  }
  const minTokens = tokens('image_min_pixels') ?? rule.minTokens
  const maxTokens =
    tokens('image_max_pixels') ??
    rule.maxTokens ??
    (edge === undefined ? undefined : Math.ceil(edge / pixelsPerToken) ** 2)
  return {
    pixelsPerToken,
    ...(minTokens === undefined ? {} : { minTokens }),
    ...(maxTokens === undefined ? {} : { maxTokens }),
    ...(rule.square ? { square: true } : {}),
    ...(edge === undefined ? {} : { longestEdge: edge }),
    ...(rule.rowEnds ? { rowEnds: true } : {}),
  }
}

/** Null for a file that lists no grids, whose images are squares. */
function tiledLimits(
  rule: TileRule,
  { minTokens }: ImageRule,
  pixelsPerToken: number,
  encoder: GgufMetadata | null,
): FamilyImageLimits | null {
  const number: NumberOf = (key) => positive(encoder?.get(`clip.vision.${key}`))
  const side = rule.grid === 'large' ? rule.side : number('image_size')
  // Not a guess: without the file, the card has to say.
  if (side === undefined) return rule.grid === 'listed' ? null : { pixelsPerToken }
  const tile = { side, tokens: Math.max(1, Math.floor(side / pixelsPerToken)) ** 2 }
  switch (rule.grid) {
    case 'nearest': {
      const most = number('preproc_max_tiles') ?? rule.most
      return limitsOf(pixelsPerToken, { ...tile, grid: rule.grid, most }, tile.tokens, most)
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
      const grids = listedGrids(encoder, side)
      if (grids === null) return null
      const most = Math.max(...grids.map(([columns, rows]) => columns * rows))
      return limitsOf(pixelsPerToken, { ...tile, grid: rule.grid, grids }, tile.tokens, most)
    }
  }
}

function limitsOf(pixelsPerToken: number, tiles: Tiles, minTokens: number, most: number): FamilyImageLimits {
  return { pixelsPerToken, minTokens, maxTokens: most === 1 ? tiles.tokens : (most + 1) * tiles.tokens, tiles }
}

/** Tokens of a slice that a resampler makes, however large the slice is; null for an encoder without one. */
function sliceQueries(encoder: GgufMetadata | null): number | null {
  if (encoder?.get('clip.projector_type') !== 'resampler') return null
  const queries = positive(encoder.get('clip.minicpmv_query_num'))
  // As libmtmd has it for files that do not say.
  return queries ?? ((positive(encoder.get('clip.minicpmv_version')) ?? 2) < 3 ? 96 : 64)
}

/** Grids whose sizes in pixels the file lists: width, height, width, height, ... Null where there are none, or not of whole tiles. */
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
