import type { ImageLimits } from '../models/card.ts'
import { type Size, toMultiple } from './pixels.ts'

type Tiles = NonNullable<ImageLimits['tiles']>
type Tiling<Grid extends Tiles['grid']> = Extract<Tiles, { grid: Grid }>
/** Limits of images that are cut. */
type TiledLimits = ImageLimits & { readonly tiles: Tiles }
type Grid = readonly [columns: number, rows: number]

/** Aspect ratio beyond which an image is stretched: slices of narrower images would be much larger than a tile. */
const NARROWEST = 64
/** An image that is larger than this number of tiles is cut. */
const LARGE_TILES = 2
const MOST_TRIES = 4

/**
 * The size at which an image is passed to libmtmd, which cuts it into tiles. It is one that the library does not
 * change: it would pad others, and coordinates on what the model sees would not be those on the image. The exceptions
 * are named below.
 */
export function tiledSize(original: Size, limits: TiledLimits): Size | null {
  const { margin = 0 } = limits.tiles
  if (margin === 0) return gridSize(original, limits)
  const without = { width: Math.max(1, original.width - margin), height: Math.max(1, original.height - margin) }
  const size = gridSize(without, limits)
  return size && { width: size.width + margin, height: size.height + margin }
}

function gridSize(original: Size, limits: TiledLimits): Size | null {
  const { tiles } = limits
  switch (tiles.grid) {
    case 'nearest':
      return nearestSize(original, limits, tiles)
    case 'large':
      return isLarge(original, limits.pixelsPerToken, tiles) ? largeSize(original, limits, tiles) : null
    case 'listed':
      return sizeOf(listedGrid(original, limits, tiles), tiles)
    case 'longest':
      return sizeOf(longestGrid(original, tiles), tiles)
    case 'slices':
      return slicedSize(original, limits, tiles)
    case 'windows':
      return windowedSize(original, limits, tiles)
  }
}

/** The size of an image of one tile, or of the fewest that the library makes. */
export function fewestTiles(tiles: Tiles): Size {
  if (tiles.grid === 'windows') return { width: tiles.wholeSide, height: tiles.wholeSide }
  if (tiles.grid === 'listed' && tiles.always) return sizeOf(fewestOf(tiles.grids), tiles)
  const { width, height } = sizeOf([tiles.grid === 'longest' ? tiles.along : 1, 1], tiles)
  const { margin = 0 } = tiles
  return { width: width + margin, height: height + margin }
}

/** Tokens of `count` tiles and of the overview of the whole image. */
function cutTokens(count: number, { tokens, whole = tokens }: Tiles): number {
  return count * tokens + whole
}

/** Whether an image may be cut into this number of tiles, to which the overview is added. */
function isWithin(count: number, { tiles, maxTokens }: TiledLimits): boolean {
  return count === 1 || cutTokens(count, tiles) <= maxTokens
}

/** All grids of up to `most` tiles that the limits allow, the smallest first. */
function gridsWithin(limits: TiledLimits, most: number): Grid[] {
  const grids: Grid[] = []
  for (let columns = 1; columns <= most; columns++)
    for (let rows = 1; columns * rows <= most; rows++) if (isWithin(columns * rows, limits)) grids.push([columns, rows])
  return grids.sort(([a, b], [c, d]) => a * b - c * d)
}

/**
 * If two grids have the same ratio, the reference processors use the larger for images of more than half its pixels.
 */
function nearestGrid({ width, height }: Size, grids: readonly Grid[], { side }: Tiles): Grid {
  let best: Grid = [1, 1]
  let least = Number.POSITIVE_INFINITY
  for (const grid of grids) {
    const [columns, rows] = grid
    const distance = Math.abs(width / height - columns / rows)
    const isLargeEnough = width * height > (columns * rows * side ** 2) / 2
    if (distance > least || (distance === least && !isLargeEnough)) continue
    best = grid
    least = distance
  }
  return best
}

/**
 * If the library makes several tiles at least, an image that is not cut keeps its size, or is shrunk to that of a tile.
 */
function nearestSize(original: Size, limits: TiledLimits, tiles: Tiling<'nearest'>): Size {
  const { most, least = 1, side } = tiles
  const grids = gridsWithin(limits, most).filter(([columns, rows]) => columns * rows >= least)
  if (least > 1 && (grids.length === 0 || !isLarger(original, side))) return fittingInto(original, side)
  return sizeOf(nearestGrid(original, grids, tiles), tiles)
}

/** The image, shrunk to fit into a square. */
function fittingInto({ width, height }: Size, side: number): Size {
  const scale = Math.min(1, side / Math.max(width, height))
  return { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) }
}

/**
 * The makers' processor adds a row of tiles if more than a fifth of one would be lost otherwise. It pads images that
 * are smaller than a tile on one side; here, they fill a tile.
 */
const LOST_TILE = 0.2

function windowedSize(original: Size, limits: TiledLimits, tiles: Tiling<'windows'>): Size {
  const { side, along, wholeSide } = tiles
  const whole = { width: wholeSide, height: wholeSide }
  if (!isLarger(original, wholeSide)) return whole
  const bounded = fittingInto(original, along * side)
  for (let most = along; most > 0; most--) {
    const { width, height } = fittingInto(bounded, most * side)
    const count = (length: number) => Math.min(most, Math.max(1, Math.ceil(length / side - LOST_TILE)))
    const grid: Grid = [count(width), count(height)]
    if (grid[0] * grid[1] > 1 && cutTokens(grid[0] * grid[1], tiles) <= limits.maxTokens) return sizeOf(grid, tiles)
  }
  return whole
}

function isLarge({ width, height }: Size, unit: number, { tokens }: Tiles): boolean {
  const rounded = (side: number) => Math.max(1, Math.round(side / unit))
  return rounded(width) * rounded(height) > LARGE_TILES * tokens
}

/** Null if the limits leave no room for tiles. */
function largeSize(original: Size, limits: TiledLimits, tiles: Tiling<'large'>): Size | null {
  const grids = gridsWithin(limits, tiles.most).filter(([columns, rows]) => columns * rows >= LARGE_TILES)
  if (grids.length === 0) return null
  const grid = nearestGrid(original, grids, tiles)
  const { width, height } = sizeOf(grid, tiles)
  // The library cuts only what is larger than two tiles, so it gets a quarter more and shrinks that itself.
  const more = grid[0] * grid[1] === LARGE_TILES ? 1.25 : 1
  return { width: width * more, height: height * more }
}

/**
 * The grid that keeps the most pixels; of equal ones, the one that enlarges least, and then that of the nearest aspect
 * ratio.
 */
function listedGrid({ width, height }: Size, limits: TiledLimits, { side, grids, always }: Tiling<'listed'>): Grid {
  let best: Grid = always ? fewestOf(grids) : [1, 1]
  if (!always && !isLarger({ width, height }, side)) return best
  let most = 0
  let leastWaste = Number.POSITIVE_INFINITY
  const distance = ([columns, rows]: Grid) => Math.abs(Math.log((columns * height) / (rows * width)))
  for (const grid of grids) {
    const [columns, rows] = grid
    if (always ? cutTokens(columns * rows, limits.tiles) > limits.maxTokens : !isWithin(columns * rows, limits))
      continue
    const scale = Math.min((columns * side) / width, (rows * side) / height)
    const kept = Math.min(Math.trunc(width * scale) * Math.trunc(height * scale), width * height)
    const waste = columns * rows * side ** 2 - kept
    if (kept < most || (kept === most && waste > leastWaste)) continue
    if (kept === most && waste === leastWaste && distance(grid) >= distance(best)) continue
    best = grid
    most = kept
    leastWaste = waste
  }
  return best
}

function fewestOf(grids: readonly Grid[]): Grid {
  return grids.reduce((fewest, grid) => (grid[0] * grid[1] < fewest[0] * fewest[1] ? grid : fewest))
}

/** As the library rounds: the shorter side, in proportion, is even, and the last tile begins where there are pixels. */
function longestGrid({ width, height }: Size, { side, along }: Tiling<'longest'>): Grid {
  const short = Math.trunc((along * side * Math.min(width, height)) / Math.max(width, height))
  const across = Math.max(1, Math.ceil((short + (short % 2)) / side))
  return width >= height ? [along, across] : [across, along]
}

/**
 * The library cuts an image by its area into slices whose sides are multiples of a unit. An image that has the size of
 * its slices is not resized, unless that size would be cut in another way. Then it gets the pixels that it has, in the
 * slices' aspect ratio, or, as a last resort, in its own: the library pads slices by at most half a unit on each side.
 */
function slicedSize(original: Size, limits: TiledLimits, tiles: Tiling<'slices'>): Size {
  const { side } = tiles
  const count = Math.floor(limits.maxTokens / tiles.tokens) - 1
  if (count < 2 || !isLarger(original, side)) return { width: side, height: side }
  // The library may choose one more slice than the area has tiles.
  const area = (count >= tiles.most ? tiles.most : count - 1) * side ** 2
  const bounded = within(original, area)
  const withArea = ({ width, height }: Size) => {
    const scale = Math.sqrt((bounded.width * bounded.height) / (width * height))
    return { width: Math.round(width * scale), height: Math.round(height * scale) }
  }
  return settled(bounded, (size) => size, tiles) ?? settled(bounded, withArea, tiles) ?? bounded
}

/**
 * A size that the library cuts into the slices that it was computed for. Rounding to units may take some tries.
 * @param given the size at which an image with slices of this size is passed.
 */
function settled(original: Size, given: (slices: Size) => Size, tiles: Tiling<'slices'>): Size | null {
  const { grid, size: first } = slicesOf(original, tiles)
  let size = first
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const handed = given(size)
    const next = slicesOf(handed, tiles)
    if (!isLarger(handed, tiles.side) || next.grid[0] !== grid[0] || next.grid[1] !== grid[1]) return null
    if (next.size.width === size.width && next.size.height === size.height) return handed
    size = next.size
  }
  return null
}

/** The same ratio of sides, unless that is extreme, within an area. */
function within({ width, height }: Size, area: number): Size {
  const wide = Math.max(width, Math.ceil(height / NARROWEST))
  const high = Math.max(height, Math.ceil(width / NARROWEST))
  const scale = Math.min(1, Math.sqrt(area / (wide * high)))
  const scaled = (side: number) => Math.max(1, Math.floor(side * scale))
  return { width: scaled(wide), height: scaled(high) }
}

/** What the library makes of an image that is larger than a tile: a grid, and the size of all slices together. */
function slicesOf({ width, height }: Size, { side, most, unit }: Tiling<'slices'>): { grid: Grid; size: Size } {
  const multiple = Math.min(Math.ceil((width * height) / side ** 2), most)
  let best: Grid = [1, 1]
  let least = Number.POSITIVE_INFINITY
  for (const count of [multiple - 1, multiple, multiple + 1]) {
    if (count === 1 || count > most) continue
    for (let columns = 1; columns <= count; columns++) {
      if (count % columns !== 0) continue
      const rows = count / columns
      const distance = Math.abs(Math.log(width / height) - Math.log(columns / rows))
      if (distance >= least) continue
      best = [columns, rows]
      least = distance
    }
  }
  const [columns, rows] = best
  const ratio = toMultiple(width, columns) / columns / (toMultiple(height, rows) / rows)
  const sliceHeight = Math.trunc(side / Math.sqrt(ratio))
  const sliceWidth = Math.trunc(sliceHeight * ratio)
  const size = { width: toMultiple(sliceWidth, unit) * columns, height: toMultiple(sliceHeight, unit) * rows }
  return { grid: best, size }
}

function isLarger({ width, height }: Size, side: number): boolean {
  return width > side || height > side
}

function sizeOf([columns, rows]: Grid, { side }: Tiles): Size {
  return { width: columns * side, height: rows * side }
}
