/** One tile: the image, or a part of it, as the encoder takes it. */
interface Tile {
  /** Side of a tile in pixels. */
  readonly side: number
  /** Tokens of a tile, at most. */
  readonly tokens: number
  /** Pixels of an image's width and height beside those of its tiles, where tiles overlap; by default 0. */
  readonly margin?: number
  /** Tokens of the copy of the whole that accompanies tiles; left out where it has as many as a tile at most. */
  readonly whole?: number
}

/**
 * How libmtmd cuts an image into tiles. Each tile is encoded on its own. Several of them are accompanied by a copy of the
 * whole image, so that `n` tiles cost up to `n * tokens + whole`.
 */
export type Tiles = Tile &
  (
    | {
        /**
         * The grid of `least` (1 by default) to `most` tiles whose aspect ratio is nearest to the image's. With more than one
         * at least, an image that fits into a tile is not cut, nor resized: the library shows the whole of it, padded.
         */
        readonly grid: 'nearest'
        readonly most: number
        readonly least?: number
      }
    | {
        /** An image of up to two tiles stays in one piece of any aspect ratio; a larger one gets the nearest grid. */
        readonly grid: 'large'
        readonly most: number
      }
    | {
        /**
         * The grid that keeps most of the image's pixels. An image that is no larger than a tile becomes one, unless images
         * are `always` cut.
         */
        readonly grid: 'listed'
        /** Columns and rows of each grid. */
        readonly grids: readonly (readonly [columns: number, rows: number])[]
        readonly always?: true
      }
    | {
        /**
         * As many tiles of its size as the image has, up to `along` on the longer side. An image that is no larger than a
         * square of `wholeSide` pixels, the size of the copy, becomes that.
         */
        readonly grid: 'windows'
        readonly along: number
        readonly wholeSide: number
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
  /** All numbers are fixed in libmtmd, except for how many tiles there are. */
  | (Tile & { readonly grid: 'nearest'; readonly whole: number; readonly least: number; readonly most: number })
  | { readonly grid: 'large'; readonly side: number; readonly most: number }
  /** Without a list in the file, there are all grids of up to `along` tiles on a side. Without either, images are squares. */
  | { readonly grid: 'listed'; readonly along?: number; readonly always?: true }
  | { readonly grid: 'longest'; readonly along: number }
  /** The file says how large the copy of the whole is. */
  | { readonly grid: 'windows'; readonly side: number; readonly along: number }
