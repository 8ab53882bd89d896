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
  /** Absent where the model was not asked how sure it is. */
  readonly sureness?: Sureness | undefined
}

/** What the tiles say together. */
export interface Thing extends Found {
  /** The tiles in which it was found. What one answer tells apart is never the same thing. */
  readonly seen: ReadonlySet<PixelRegion>
  /** Whether only tiles of a coarser grid than the finest show it. */
  readonly isCoarse: boolean
  /** Whether a finer grid ought to have shown it, or shows several in its place: it counts only if it is found again. */
  readonly isDoubtful: boolean
}

/** What a second look has found again. */
export type Again<Kind extends Found = Thing> = Kind & {
  /** Whether the look shows none of its label within it. */
  readonly isAlone: boolean
}

/** Boxes of two tiles, or of two looks, with more intersection over union than this are of the same thing. */
const SAME = 0.5
/** A second look finds a thing again when its box has more intersection over union than this. */
const AGAIN = 0.25
/** A box that is no further than this share of the tile's side from an inner edge may be cut. */
const MARGIN = 0.01
/** From this likelihood on, a box needs no second look. */
const SURE = 0.99
/** The share of a tile's side that lies between such a box and an inner edge. */
const CLEAR = 0.03
/** A second look hardly ever finds a box again that is less likely. */
const UNLIKELY = 0.3
/**
 * The share of a crop's side that a thing takes in a second look. The shipped model finds nine in ten of its world's things at
 * that, and half at a half.
 */
const LOOK_SHARE = 1 / 3

/**
 * Merges what was found in the tiles of all grids. A box that a tile's edge may cut is left out: a thing that is no larger than
 * the overlap is whole in another tile. So a coarser grid answers for larger things; what it says of smaller ones, and of large
 * boxes around several finds, is doubtful: those may be parts of one large thing.
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

/** The square around a thing for a second look, moved and cut to lie within the picture. */
export function lookAt({ box }: Found, picture: Size): PixelRegion {
  const side = Math.max(1, Math.ceil(Math.max(box.right - box.left, box.bottom - box.top) / LOOK_SHARE))
  const span = (from: number, to: number, total: number) => {
    const length = Math.min(side, total)
    return { from: Math.round(Math.min(Math.max((from + to - length) / 2, 0), total - length)), length }
  }
  const [across, down] = [span(box.left, box.right, picture.width), span(box.top, box.bottom, picture.height)]
  return { left: across.from, top: down.from, width: across.length, height: down.length }
}

/** The thing with the box of a second look; null where it does not find it again. */
export function foundAgain<Kind extends Found>(thing: Kind, finds: readonly Found[]): Again<Kind> | null {
  const again = sameAs(thing, finds, AGAIN)
  if (again === null) return null
  const { box, sureness = thing.sureness } = again
  return { ...thing, box, sureness, isAlone: !finds.some((other) => holds(again, other)) }
}

/** Whether it needs no second look: several tiles show it, which see much else beside it. */
export function isAgreed({ isCoarse, isDoubtful, seen }: Thing): boolean {
  return isCoarse && !isDoubtful && seen.size > 1
}

/**
 * What the model's likelihood says of a thing: whether it is one; null where only a second look can tell. It must be whole, and
 * no other of its label may touch it.
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
  // Finer tiles show parts of large things.
  return things.some((other) => touches(other) && !(isCoarse && holds(thing, other))) ? null : true
}

/**
 * The things that second looks have found again, beside those that were not looked at. What lies within a thing whose look
 * shows it alone is a part of it; other boxes around several things do not count. Looks at two boxes may find the same thing.
 */
export function withoutRepeats<Kind extends Found>(again: readonly Again<Kind>[], others: readonly Kind[]): Kind[] {
  const wholes = again.filter(({ isAlone }) => isAlone)
  const things = again.filter((thing) => !wholes.some((whole) => holds(whole, thing)))
  const kept = [...others]
  for (const thing of things) if (sameAs(thing, kept) === null && !isAround(thing, things)) kept.push(thing)
  return kept
}

/** The edges of the picture are no cuts. */
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

/** What is no larger is whole, and clear of the edges, in some tile of the grid. */
function clearOf({ overlap, tiles: [tile] }: TileGrid): Size {
  return { width: overlap.width - 2 * MARGIN * tile!.width, height: overlap.height - 2 * MARGIN * tile!.height }
}

/** Whether it holds several things that lie apart: parts of one thing overlap. */
function isAround(found: Found, others: readonly Found[]): boolean {
  const held = others.filter((other) => holds(found, other))
  return held.some((one, index) => held.slice(index + 1).some((other) => iouOf(one.box, other.box) === 0))
}

/** Whether the centre of a smaller thing with the same label is in the box. */
function holds({ mention, box }: Found, { mention: name, box: inner }: Found): boolean {
  const [x, y] = [(inner.left + inner.right) / 2, (inner.top + inner.bottom) / 2]
  const isInside = x > box.left && x < box.right && y > box.top && y < box.bottom
  return mention === name && isInside && areaOf(inner) < areaOf(box)
}

/** The one that has the most in common with it, if that is enough. */
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
