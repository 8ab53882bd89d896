import type { BoxFeature, Curve, ListFeature } from '../../models/detection-schema.ts'

/** What fits of few examples stay near. */
export const PRIOR: {
  readonly plain: Curve<BoxFeature>
  readonly thorough: Curve<BoxFeature>
  readonly complete: Curve<ListFeature>
} = {
  plain: { bias: 0, weights: { begin: 0.5, near: 1 }, steps: [] },
  thorough: { bias: 0, weights: { begin: 0.5, near: 1 }, steps: [] },
  complete: { bias: 0, weights: { more: -1 }, steps: [] },
}
