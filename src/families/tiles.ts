/** One tile: the image, or a part of it, as the encoder takes it. */
interface Tile {
  /** Side of a tile in pixels. */
  readonly side: number
  /** Tokens of a tile. The small copy of the whole that accompanies several tiles has as many at most. */
  readonly tokens: number
  /** Pixels of an image's width and height beside those of its tiles, where tiles overlap; by default 0. */
  readonly margin?: number
}

/**
 * How libmtmd cuts an image into tiles. Each tile is encoded on its own. Several of them are accompanied by a small copy of
 * the whole image, so that `n` tiles cost up to `(n + 1) * tokens`.
 */
export type Tiles = Tile &
  (
    | {
        /** The grid of 1 to `most` tiles whose aspect ratio is nearest to the image's. */
        readonly grid: 'nearest'
        readonly most: number
      }
    | {
        /** An image of up to two tiles stays in one piece of any aspect ratio; a larger one gets the nearest grid. */
        readonly grid: 'large'
        readonly most: number
      }
    | {
        /** The grid that keeps most of the image's pixels. An image that is no larger than a tile becomes one. */
        readonly grid: 'listed'
        /** Columns and rows of each grid. */
        readonly grids: readonly (readonly [columns: number, rows: number])[]
      }
    | {
        /** The longer side has `along` tiles, however small the image is. */
        readonly grid: 'longest'
        readonly along: number
      }
    | {
        /** Up to `most` slices of about a tile's area and the image's own aspect ratio. Their sides are multiples of `unit` pixels. */
        readonly grid: 'slices'
        readonly most: number
        readonly unit: number
      }
  )

/** What a family knows of its tiles. The file of the encoder has the other numbers, and may have these. */
export type TileRule =
  | { readonly grid: 'nearest' | 'slices'; readonly most: number }
  | { readonly grid: 'large'; readonly side: number; readonly most: number }
  /** Without a list in the file, images are squares. */
  | { readonly grid: 'listed' }
  | { readonly grid: 'longest'; readonly along: number }
