import type { PixelRegion } from '../../media/coordinates.ts'
import type { TileGrid } from '../../media/tile-plan.ts'
import type { DetectionFit } from '../../models/detection-schema.ts'
import type { ConfidenceRequest } from '../request/detect-request.ts'
import type { RatedList } from './rated-list.ts'

/** The likelihood from which a list counts as whole. */
const WHOLE_LIST = 0.95
/** Of tiles that show much beside large things, what is at least this likely counts. */
const LIKELY = 0.5

type TileRatings = ReadonlyMap<PixelRegion, ConfidenceRequest>

/** Says of everything that a part of the picture shows, in one pass, how sure the model is. */
export const RATED: ConfidenceRequest = { least: 0, isThorough: false }

/**
 * How sure the model is to say it is of each tile. The finest tiles tell which of their lists may lack something. Of the
 * coarsest, the model is asked for one thing more of each label, and about each. What it says means little without a fit.
 * @param grids the finest first.
 */
export function ratingsOf([finest, ...coarser]: readonly TileGrid[], fit: DetectionFit | undefined): TileRatings {
  if (fit === undefined) return new Map()
  const coarsest = fit.thorough === undefined ? [] : coarser.filter(({ grid }) => Math.max(...grid) <= 2)
  const rated = (grids: readonly TileGrid[], rating: ConfidenceRequest) =>
    grids.flatMap(({ tiles }) => tiles.map((tile) => [tile, rating] as const))
  return new Map([...rated([finest!], RATED), ...rated(coarsest, { least: LIKELY, isThorough: true })])
}

/** The labels of which something may be missing; null for any label. */
export function openLabels(lists: readonly RatedList[]): (string | null)[] {
  const open = lists.filter(({ complete }) => complete !== null && complete < WHOLE_LIST)
  return open.flatMap(({ labels }): readonly (string | null)[] => labels ?? [null])
}
