import type { BoxFeature, Curve, ListFeature } from '../../models/detection-schema.ts'

/**
 * What fits of few examples stay near: the weights of the shipped model, version 16, on 330 pictures of its three worlds, as
 * `npm run eval -- detect --fit 330` prints them.
 */
export const PRIOR: {
  readonly plain: Curve<BoxFeature>
  readonly thorough: Curve<BoxFeature>
  readonly complete: Curve<ListFeature>
} = {
  plain: {
    bias: -0.4578,
    weights: {
      begin: 0.2046,
      near: 1.3321,
      mean: 0.443,
      overlap: -3.658,
      overlap30: 0.3786,
      overlap60: -0.0604,
      size: -0.0193,
      rank: 0.1351,
      length: -0.5672,
    },
    steps: [],
  },
  thorough: {
    bias: 0.1488,
    weights: {
      begin: 0.2135,
      near: 1.2893,
      mean: 0.8175,
      overlap: -3.246,
      overlap30: -0.1905,
      overlap60: -0.5188,
      size: -0.1729,
      rank: 0.197,
      length: -0.4503,
      read: 0.135,
      further: 1.8819,
      furtherBegin: 0.7584,
      furtherNear: -0.7372,
      furtherRead: 0.2538,
    },
    steps: [],
  },
  complete: { bias: -0.2473, weights: { more: -0.917, length: -0.8914 }, steps: [] },
}
