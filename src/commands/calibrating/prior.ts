import type { BoxFeature, Curve, ListFeature } from '../../models/detection-schema.ts'

/**
 * The prior for fits of few examples: the weights of the shipped model, version 16, on 330 pictures of its three
 * worlds, as printed by `npm run eval -- detect --fit 330`.
 */
export const PRIOR: {
  readonly plain: Curve<BoxFeature>
  readonly thorough: Curve<BoxFeature>
  readonly complete: Curve<ListFeature>
} = {
  plain: {
    bias: -0.3323,
    weights: {
      begin: 0.2027,
      near: 1.3278,
      mean: 0.4866,
      overlap: -3.6004,
      overlap30: 0.397,
      overlap60: -0.0788,
      size: 0.0101,
      rank: 0.1099,
      length: -0.5962,
    },
    steps: [],
  },
  thorough: {
    bias: 1.7762,
    weights: {
      begin: 0.0536,
      near: 1.0145,
      mean: 1.0842,
      overlap: -4.586,
      overlap30: -0.4127,
      overlap60: -0.0067,
      size: 0.8441,
      rank: -0.4645,
      length: -0.0159,
      read: 0.4014,
      further: 0.3985,
      furtherBegin: 0.467,
      furtherNear: -0.6825,
      furtherRead: 0.0304,
    },
    steps: [],
  },
  complete: { bias: 0.7886, weights: { more: -0.762, length: -1.3535, empty: -3.0598, emptyMore: -0.7547 }, steps: [] },
}
