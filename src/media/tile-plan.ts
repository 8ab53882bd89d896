import { sumOf } from '../lib/sum.ts'
import type { ImageLimits } from '../models/card.ts'
import type { PixelRegion } from './coordinates.ts'
import type { Size } from './pixels.ts'

export type Grid = readonly [columns: number, rows: number]

/** How a client wants a picture cut into tiles. */
export interface TileWish {
  /** The finest grid. */
  readonly grid: Grid | 'auto'
  /** Sides in pixels of the smallest things to find. `auto` makes tiles that show them large enough. */
  readonly smallest: number | null
}

/** The tiles of one grid, row by row. */
export interface TileGrid {
  readonly grid: Grid
  /** A thing whose sides are no longer than these lies whole in some tile, wherever it is. */
  readonly overlap: Size
  readonly tiles: readonly PixelRegion[]
}

/** The most tiles of all grids over one picture. */
export const MOST_TILES = 128
/** The share of its side that a tile has in common with its neighbour. */
const OVERLAP = 0.2
/** Overlap in the coarsest grid that is cut: larger tiles show large things whole, and more than once. */
const COARSE_OVERLAP = 1 / 2
/** Its most columns and rows. */
const COARSEST = 3
/** A model finds things whose sides are at least this share of the picture's. */
const SMALLEST_SHARE = 1 / 13
/** Without a smallest thing, a tile has at most this many times the pixels that the model gets of it. */
const MOST_SHRUNK = 2
/** Columns and rows of a grid for one of the next: what its overlap does not hold takes a thirteenth of a larger tile. */
const STEP = 2.5
/** How much coarser the next grid is that is tried, until one fits. */
const COARSER = 1.02

/**
 * Plans the tiles of a picture: the finest grid, then coarser ones, and the whole picture as the last. Things that are too large
 * for the tiles of one grid are for the next.
 * @returns null for more tiles than there may be.
 */
export function planTiles(picture: Size, wish: TileWish, limits: ImageLimits): TileGrid[] | null {
  const ladder = ladderOf(finestGrid(picture, wish, limits))
  return countOf(ladder) > MOST_TILES
    ? null
    : ladder.map((grid, level) => gridOver(picture, grid, overlapOf(grid, level)))
}

function finestGrid(picture: Size, { grid, smallest }: TileWish, limits: ImageLimits): Grid {
  if (grid !== 'auto') return grid
  if (smallest !== null) return gridOf(picture, sideFor(smallest))
  const side = Math.sqrt(MOST_SHRUNK * limits.maxTokens) * limits.pixelsPerToken
  return fitting((factor) => gridOf(picture, side * factor))
}

/** The tiles that are cut out of the picture, which is itself the last one: those of the coarsest grid come first. */
export function partsToCut(grids: readonly TileGrid[]): PixelRegion[] {
  return grids
    .slice(0, -1)
    .reverse()
    .flatMap(({ tiles }) => tiles)
}

/** The finest grid like a client's whose tiles are not too many. */
export function fittingGrid(picture: Size, { grid, smallest }: TileWish): Grid {
  if (grid === 'auto') return fitting((factor) => gridOf(picture, sideFor(smallest!) * factor))
  const [columns, rows] = grid
  return fitting((factor) => [Math.max(1, Math.floor(columns / factor)), Math.max(1, Math.floor(rows / factor))])
}

function fitting(gridFor: (factor: number) => Grid): Grid {
  for (let factor = 1; ; factor *= COARSER) {
    const grid = gridFor(factor)
    if (countOf(ladderOf(grid)) <= MOST_TILES) return grid
  }
}

function countOf(ladder: readonly Grid[]): number {
  return sumOf(ladder, ([columns, rows]) => columns * rows)
}

function ladderOf(finest: Grid): Grid[] {
  const grids = [finest]
  for (let [columns, rows] = finest; columns > 1 || rows > 1; grids.push([columns, rows])) {
    const step = isCoarsest([columns, rows]) ? COARSEST : STEP
    ;[columns, rows] = [Math.ceil(columns / step), Math.ceil(rows / step)]
  }
  return grids
}

function sideFor(smallest: number): number {
  return smallest / SMALLEST_SHARE
}

/** The coarsest grid whose tiles have no longer sides than this. */
function gridOf({ width, height }: Size, side: number): Grid {
  const count = (length: number) => Math.max(1, Math.ceil((length / side - OVERLAP) / (1 - OVERLAP)))
  return [count(width), count(height)]
}

function isCoarsest(grid: Grid): boolean {
  return Math.max(...grid) <= COARSEST
}

function overlapOf(grid: Grid, level: number): number {
  return level > 0 && isCoarsest(grid) ? COARSE_OVERLAP : OVERLAP
}

function gridOver(picture: Size, grid: Grid, overlap: number): TileGrid {
  const [across, down] = [spansOf(picture.width, grid[0], overlap), spansOf(picture.height, grid[1], overlap)]
  return {
    grid,
    overlap: { width: across.overlap, height: down.overlap },
    tiles: down.starts.flatMap((top) =>
      across.starts.map((left) => ({ left, top, width: across.length, height: down.length })),
    ),
  }
}

interface Spans {
  readonly starts: readonly number[]
  readonly length: number
  readonly overlap: number
}

/** Equal spans over `total` pixels, from the first to the last of them. */
function spansOf(total: number, count: number, share: number): Spans {
  const length = Math.ceil(total / (count - (count - 1) * share))
  if (count === 1) return { starts: [0], length, overlap: length }
  const step = (total - length) / (count - 1)
  const starts = Array.from({ length: count }, (_, index) => Math.round(index * step))
  return { starts, length, overlap: length - Math.ceil(step) }
}
