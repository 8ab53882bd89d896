import { sumOf } from '../lib/sum.ts'
import type { ImageLimits } from '../models/card.ts'
import type { PixelRegion } from './coordinates.ts'
import type { Size } from './pixels.ts'

export type Grid = readonly [columns: number, rows: number]

/** How a client wants a picture cut into tiles. */
export interface TileWish {
  /** The finest grid. */
  readonly grid: Grid | 'auto'
  /** Side of the smallest objects to find, in pixels. `auto` makes tiles that show them large enough. */
  readonly smallest: number | null
}

/** The tiles of one grid, row by row. */
export interface TileGrid {
  readonly grid: Grid
  /** An object no larger than this lies entirely in some tile, wherever it is. */
  readonly overlap: Size
  readonly tiles: readonly PixelRegion[]
}

/** The most tiles of all grids over one picture. */
export const MOST_TILES = 128
/** The share of its side that a tile has in common with its neighbour. */
const OVERLAP = 0.2
/** Overlap in the coarsest grid that is cut: its tiles show large objects entirely, and more than once. */
const COARSE_OVERLAP = 1 / 2
/** Its most columns and rows. */
const COARSEST = 3
/** A model finds things whose sides are at least this share of the picture's. */
const SMALLEST_SHARE = 1 / 13
/** Without `smallest`, a tile has at most this many times the pixels that the model gets of it. */
const MOST_SHRUNK = 2
/**
 * Factor between the columns and rows of two grids: objects larger than the overlap fill a thirteenth of the next tile.
 */
const STEP = 2.5
/** How much coarser each grid that is tried is than the last, until one fits. */
const COARSER = 1.02

/**
 * Plans the tiles of a picture: the finest grid, then coarser ones, and the whole picture as the last. Objects that are
 * too large for the tiles of one grid are found in the next.
 * @returns null for more tiles than are allowed.
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

/** The tiles to cut, those of the coarsest grid first. The last grid is the picture itself, which is not cut. */
export function partsToCut(grids: readonly TileGrid[]): PixelRegion[] {
  return grids
    .slice(0, -1)
    .reverse()
    .flatMap(({ tiles }) => tiles)
}

/** The finest grid in the shape that a client wants whose tiles are not too many. */
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
