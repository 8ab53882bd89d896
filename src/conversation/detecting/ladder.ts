import type { Leaf } from '../../grounding/annotation.ts'
import { areaOf, iouOf, type Rectangle } from '../../lib/rectangle.ts'
import { GRID, type PixelRegion } from '../../media/coordinates.ts'
import type { Size } from '../../media/pixels.ts'
import type { TileGrid } from '../../media/tile-plan.ts'
import type { Sureness } from './rated-list.ts'

export interface Found {
  readonly mention: string
  /** In pixels of the upright picture, not rounded. */
  readonly box: Rectangle
  /** Absent if the request asks for no confidence. */
  readonly sureness?: Sureness | undefined
}

/** An object, merged from the finds of all tiles. */
export interface Thing extends Found {
  /** The tiles in which it was found. Objects that one answer distinguishes are never merged. */
  readonly seen: ReadonlySet<PixelRegion>
  /** Whether only tiles of a coarser grid than the finest show it. */
  readonly isCoarse: boolean
  /**
   * Whether a finer grid should have shown it, or shows several objects in its place: it counts only if found again.
   */
  readonly isDoubtful: boolean
}

/** An object that a second look has found again. */
export type Again<Kind extends Found = Thing> = Kind & {
  /** Whether the look shows none of its label within it. */
  readonly isAlone: boolean
}

/** Boxes of two tiles, or of two looks, with a greater IoU than this are the same object. */
const SAME = 0.5
/** A second look has found an object again if the IoU of the boxes is greater than this. */
const AGAIN = 0.25
/** A box within this share of the tile's side from an inner edge may be cut off. */
const MARGIN = 0.01
/** From this probability on, a box needs no second look. */
const SURE = 0.99
/** The least distance between such a box and an inner edge, as a share of the tile's side. */
const CLEAR = 0.03
/** A second look hardly ever finds a less probable box again. */
const UNLIKELY = 0.3
/**
 * The share of a crop's side that an object takes in a second look. At this size, the shipped model finds nine in ten
 * objects of its training world; at a share of one half, half of them.
 */
const LOOK_SHARE = 1 / 3

/**
 * Merges the finds in the tiles of all grids. A box that a tile's edge may cut off is left out: an object no larger
 * than the overlap lies entirely in another tile. So a coarser grid is responsible for larger objects. Its smaller
 * finds, and large boxes around several finds, are doubtful: the latter may be parts of one large object.
 * @param grids the finest first.
 */
export function mergeFinds(
  picture: Size,
  grids: readonly TileGrid[],
  finds: ReadonlyMap<PixelRegion, readonly Found[]>,
): Thing[] {
  const things: (Thing & { readonly seen: Set<PixelRegion>; sureness?: Sureness | undefined })[] = []
  for (const [level, { tiles }] of grids.entries()) {
    const finer = grids[level - 1]
    const known = [...things]
    for (const tile of tiles) {
      for (const found of finds.get(tile) ?? []) {
        if (isCut(found.box, tile, picture)) continue
        const isLarge = finer === undefined || isLarger(found.box, clearOf(finer))
        const isGroup = isAround(found, known)
        if (!isLarge && isGroup) continue
        const same = sameAs(
          found,
          things.filter(({ seen }) => !seen.has(tile)),
        )
        if (same) {
          same.seen.add(tile)
          same.sureness = surer(same, found)
        } else things.push({ ...found, seen: new Set([tile]), isCoarse: level > 0, isDoubtful: !isLarge || isGroup })
      }
    }
  }
  return things
}

function surer({ sureness: one }: Found, { sureness: other }: Found): Sureness | undefined {
  return (one?.confidence ?? 0) < (other?.confidence ?? 0) ? other : one
}

/** A box on the grid of a part of the picture. */
export function foundIn({ mention = '', points }: Leaf, part: PixelRegion, sureness?: Sureness): Found {
  const [from, to] = points
  const x = (value: number) => part.left + (value / GRID) * part.width
  const y = (value: number) => part.top + (value / GRID) * part.height
  return { mention, box: { left: x(from!.x), top: y(from!.y), right: x(to!.x), bottom: y(to!.y) }, sureness }
}

/** The box on the grid of the picture, not rounded. */
export function onGrid({ mention, box }: Found, { width, height }: Size): Leaf {
  const point = (x: number, y: number) => ({ x: (x / width) * GRID, y: (y / height) * GRID })
  return { kind: 'point_box', mention, points: [point(box.left, box.top), point(box.right, box.bottom)] }
}

/** The square around an object for a second look, moved and cut to lie within the picture. */
export function lookAt({ box }: Found, picture: Size): PixelRegion {
  const side = Math.max(1, Math.ceil(Math.max(box.right - box.left, box.bottom - box.top) / LOOK_SHARE))
  const span = (from: number, to: number, total: number) => {
    const length = Math.min(side, total)
    return { from: Math.round(Math.min(Math.max((from + to - length) / 2, 0), total - length)), length }
  }
  const [across, down] = [span(box.left, box.right, picture.width), span(box.top, box.bottom, picture.height)]
  return { left: across.from, top: down.from, width: across.length, height: down.length }
}

/** The object with the box of a second look; null if the look does not find it again. */
export function foundAgain<Kind extends Found>(thing: Kind, finds: readonly Found[]): Again<Kind> | null {
  const again = sameAs(thing, finds, AGAIN)
  if (again === null) return null
  const { box, sureness = thing.sureness } = again
  return { ...thing, box, sureness, isAlone: !finds.some((other) => holds(again, other)) }
}

/** Whether it needs no second look because several tiles of a coarse grid show it, beside much else. */
export function isAgreed({ isCoarse, isDoubtful, seen }: Thing): boolean {
  return isCoarse && !isDoubtful && seen.size > 1
}

/**
 * Whether an object is right, by the model's probability; null if only a second look can tell. It counts as right only
 * if it is not cut off, and no other object of its label touches it.
 */
export function isRight(
  thing: Thing,
  { confidence }: Pick<Sureness, 'confidence'>,
  things: readonly Thing[],
  picture: Size,
): boolean | null {
  if (confidence < UNLIKELY) return false
  const { box, mention, isCoarse, isDoubtful, seen } = thing
  const isClear = [...seen].some((tile) => !isCut(box, tile, picture, CLEAR))
  if (isDoubtful || confidence < SURE || !isClear) return null
  const touches = (other: Thing) => other !== thing && other.mention === mention && iouOf(other.box, box) > 0
  // Finer tiles show parts of large objects.
  return things.some((other) => touches(other) && !(isCoarse && holds(thing, other))) ? null : true
}

/**
 * Merges the objects that second looks have found again with those that were not looked at. An object within another
 * whose look shows only that one is a part of it; other boxes around several objects do not count. Looks at two boxes
 * may find the same object.
 */
export function withoutRepeats<Kind extends Found>(again: readonly Again<Kind>[], others: readonly Kind[]): Kind[] {
  const wholes = again.filter(({ isAlone }) => isAlone)
  const things = again.filter((thing) => !wholes.some((whole) => holds(whole, thing)))
  const kept = [...others]
  for (const thing of things) if (sameAs(thing, kept) === null && !isAround(thing, things)) kept.push(thing)
  return kept
}

/** Whether an inner edge of the tile may cut the box off. The edges of the picture do not count. */
function isCut(
  { left, top, right, bottom }: Rectangle,
  tile: PixelRegion,
  { width, height }: Size,
  margin = MARGIN,
): boolean {
  const [across, down] = [margin * tile.width, margin * tile.height]
  const [tileRight, tileBottom] = [tile.left + tile.width, tile.top + tile.height]
  return (
    (tile.left > 0 && left < tile.left + across) ||
    (tile.top > 0 && top < tile.top + down) ||
    (tileRight < width && right > tileRight - across) ||
    (tileBottom < height && bottom > tileBottom - down)
  )
}

function isLarger({ left, top, right, bottom }: Rectangle, { width, height }: Size): boolean {
  return right - left > width || bottom - top > height
}

/** An object no larger than this is complete, and clear of the edges, in some tile of the grid. */
function clearOf({ overlap, tiles: [tile] }: TileGrid): Size {
  return { width: overlap.width - 2 * MARGIN * tile!.width, height: overlap.height - 2 * MARGIN * tile!.height }
}

/** Whether it holds several separate objects: parts of one object overlap. */
function isAround(found: Found, others: readonly Found[]): boolean {
  const held = others.filter((other) => holds(found, other))
  return held.some((one, index) => held.slice(index + 1).some((other) => iouOf(one.box, other.box) === 0))
}

/** Whether the box contains the centre of a smaller object with the same label. */
function holds({ mention, box }: Found, { mention: name, box: inner }: Found): boolean {
  const [x, y] = [(inner.left + inner.right) / 2, (inner.top + inner.bottom) / 2]
  const isInside = x > box.left && x < box.right && y > box.top && y < box.bottom
  return mention === name && isInside && areaOf(inner) < areaOf(box)
}

/** The object with the greatest IoU, if that exceeds `least`. */
function sameAs<Kind extends Found>(found: Found, others: readonly Kind[], least = SAME): Kind | null {
  let best: Kind | null = null
  let most = least
  for (const other of others) {
    const common = other.mention === found.mention ? iouOf(found.box, other.box) : 0
    if (common <= most) continue
    best = other
    most = common
  }
  return best
}
