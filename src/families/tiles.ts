import { z } from 'zod'

/** One tile: the image, or a part of it, as the encoder takes it. */
const tile = {
  /** Side of a tile in pixels. */
  side: z.int().positive(),
  /** Tokens of a tile, at most. */
  tokens: z.int().positive(),
  /** Tokens of the copy of the whole that accompanies tiles; left out where it has as many as a tile at most. */
  whole: z.int().positive().optional(),
  /** Pixels of an image's width and height beside those of its tiles, where tiles overlap; by default 0. */
  margin: z.int().positive().optional(),
}
const count = z.int().positive().max(256)
const along = z.int().positive().max(16)

/**
 * How libmtmd cuts an image into tiles. Each tile is encoded on its own. Several of them are accompanied by a copy of the
 * whole image, so that `n` tiles cost up to `n * tokens + whole`.
 */
export const tilesSchema = z.discriminatedUnion('grid', [
  /**
   * The grid of `least` (1 by default) to `most` tiles whose aspect ratio is nearest to the image's. With more than one at
   * least, an image that fits into a tile is not cut, nor resized: the library shows the whole of it, padded.
   */
  z.strictObject({ grid: z.literal('nearest'), ...tile, most: count, least: count.optional() }),
  /** An image of up to two tiles stays in one piece of any aspect ratio; a larger one gets the nearest grid. */
  z.strictObject({ grid: z.literal('large'), ...tile, most: count }),
  /**
   * The grid that keeps most of the image's pixels, by columns and rows. An image that is no larger than a tile becomes
   * one, unless images are `always` cut.
   */
  z.strictObject({
    grid: z.literal('listed'),
    ...tile,
    grids: z.array(z.tuple([count, count])).min(1),
    always: z.literal(true).optional(),
  }),
  /**
   * As many tiles of its size as the image has, up to `along` on the longer side. An image that is no larger than a square
   * of `wholeSide` pixels, the size of the copy, becomes that.
   */
  z.strictObject({ grid: z.literal('windows'), ...tile, along, wholeSide: z.int().positive() }),
  /** The longer side has `along` tiles, however small the image is. */
  z.strictObject({ grid: z.literal('longest'), ...tile, along }),
  /** Up to `most` slices of about a tile's area and the image's own aspect ratio. Their sides are multiples of `unit` pixels. */
  z.strictObject({ grid: z.literal('slices'), ...tile, most: count, unit: z.int().positive() }),
])
export type Tiles = z.infer<typeof tilesSchema>

/** What a family knows of its tiles. The file of the encoder has the other numbers, and may have these. */
export type TileRule =
  | { readonly grid: 'nearest' | 'slices'; readonly most: number }
  /** All numbers are fixed in libmtmd, except for how many tiles there are. */
  | Required<Omit<Extract<Tiles, { grid: 'nearest' }>, 'margin'>>
  | { readonly grid: 'large'; readonly side: number; readonly most: number }
  /** Without a list in the file, there are all grids of up to `along` tiles on a side. Without either, images are squares. */
  | { readonly grid: 'listed'; readonly along?: number; readonly always?: true }
  | { readonly grid: 'longest'; readonly along: number }
  /** The file says how large the copy of the whole is. */
  | { readonly grid: 'windows'; readonly side: number; readonly along: number }
