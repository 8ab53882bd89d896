import { z } from 'zod'

/** Features for the probability of a box. */
export const BOX_FEATURES = [
  ...(['begin', 'near', 'mean', 'overlap', 'overlap30', 'overlap60'] as const),
  ...(['size', 'rank', 'length', 'read'] as const),
  // For boxes that the model did not write, but that other evidence supports.
  ...(['further', 'furtherBegin', 'furtherNear', 'furtherRead'] as const),
] as const
export type BoxFeature = (typeof BOX_FEATURES)[number]

/** Features for the probability that a list is complete. */
export const LIST_FEATURES = [
  ...(['more', 'length'] as const),
  // For lists without any object, whose end says more.
  ...(['empty', 'emptyMore'] as const),
] as const
export type ListFeature = (typeof LIST_FEATURES)[number]

const share = z.number().min(0).max(1)

function curve<Feature extends string>(features: readonly [Feature, ...Feature[]]) {
  return z.strictObject({
    bias: z.number(),
    /** Omitted weights are 0. */
    weights: z.partialRecord(z.enum(features), z.number()),
    /** Pairs of the curve's value and the true share, interpolated linearly, from (0, 0) and to (1, 1). */
    steps: z
      .array(z.tuple([share, share]))
      .max(256)
      .refine(
        (steps) => steps.every(([at, value], i) => i === 0 || (at > steps[i - 1]![0] && value >= steps[i - 1]![1])),
        'must rise',
      )
      .default([]),
  })
}

/** A logistic curve over features, then steps. */
export interface Curve<Feature extends string> {
  readonly bias: number
  readonly weights: Partial<Readonly<Record<Feature, number>>>
  readonly steps: readonly (readonly [number, number])[]
}

/** Calibration of the confidence of boxes, from `lookout calibrate`. */
export const detectionSchema = z.strictObject({
  confidence: curve(BOX_FEATURES),
  /** For requests in which the model also reads each box; by default `confidence`. */
  thorough: curve(BOX_FEATURES).optional(),
  complete: curve(LIST_FEATURES),
})
export interface DetectionFit {
  readonly confidence: Curve<BoxFeature>
  readonly thorough?: Curve<BoxFeature> | undefined
  readonly complete: Curve<ListFeature>
}
