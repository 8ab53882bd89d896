import { z } from 'zod'

/** One tile: the image, or a part of it, at the encoder's size. */
const tile = {
  /** Side of a tile in pixels. */
  side: z.int().positive(),
  /** Maximum tokens of a tile. */
  tokens: z.int().positive(),
  /** Maximum tokens of the copy of the whole image beside tiles; absent if equal to that of a tile. */
  whole: z.int().positive().optional(),
  /** Pixels of an image's width and height in addition to those of its tiles, if tiles overlap; 0 by default. */
  margin: z.int().positive().optional(),
}
const count = z.int().positive().max(256)
const along = z.int().positive().max(16)

/**
 * How libmtmd cuts an image into tiles. Each tile is encoded on its own. Several tiles come with a copy of the whole
 * image, so `n` tiles cost up to `n * tokens + whole`.
 */
export const tilesSchema = z.discriminatedUnion('grid', [
  /**
   * The grid of `least` (1 by default) to `most` tiles whose aspect ratio is closest to the image's. If `least` is more
   * than one, an image that fits into a tile is neither cut nor resized: the library shows all of it, padded.
   */
  z.strictObject({ grid: z.literal('nearest'), ...tile, most: count, least: count.optional() }),
  /** An image of up to two tiles remains whole, with any aspect ratio; a larger one gets the closest grid. */
  z.strictObject({ grid: z.literal('large'), ...tile, most: count }),
  /**
   * The grid that keeps the most pixels of the image, by columns and rows. An image that is no larger than a tile
   * becomes one, unless images are `always` cut.
   */
  z.strictObject({
    grid: z.literal('listed'),
    ...tile,
    grids: z.array(z.tuple([count, count])).min(1),
    always: z.literal(true).optional(),
  }),
  /**
   * As many tiles of a fixed size as the image covers, up to `along` on the longer side. An image that is no larger
   * than a square of `wholeSide` pixels, the size of the copy, becomes that square.
   */
  z.strictObject({ grid: z.literal('windows'), ...tile, along, wholeSide: z.int().positive() }),
  /** The longer side has `along` tiles, however small the image is. */
  z.strictObject({ grid: z.literal('longest'), ...tile, along }),
  /**
   * Up to `most` slices with about a tile's area and the image's aspect ratio. Their sides are multiples of `unit`
   * pixels.
   */
  z.strictObject({ grid: z.literal('slices'), ...tile, most: count, unit: z.int().positive() }),
])
export type Tiles = z.infer<typeof tilesSchema>

/** The numbers that a family determines. The encoder's file has the others, and may override these. */
export type TileRule =
  | { readonly grid: 'nearest' | 'slices'; readonly most: number }
  /** libmtmd fixes all numbers except for the number of tiles. */
  | Required<Omit<Extract<Tiles, { grid: 'nearest' }>, 'margin'>>
  | { readonly grid: 'large'; readonly side: number; readonly most: number }
  /** If the file lists no grids, all grids of up to `along` tiles on a side. Without either, images are squares. */
  | { readonly grid: 'listed'; readonly along?: number; readonly always?: true }
  | { readonly grid: 'longest'; readonly along: number }
  /** The file gives the size of the copy of the whole image. */
  | { readonly grid: 'windows'; readonly side: number; readonly along: number }
