import { z } from 'zod'

/** What the probability of a box is computed from. */
export const BOX_FEATURES = [
  ...(['begin', 'near', 'mean', 'overlap', 'overlap30', 'overlap60'] as const),
  ...(['size', 'rank', 'length', 'read'] as const),
  // Boxes that the model would not have written, which other things speak for.
  ...(['further', 'furtherBegin', 'furtherNear', 'furtherRead'] as const),
] as const
export type BoxFeature = (typeof BOX_FEATURES)[number]

/** What the probability that nothing is missing from a list is computed from. */
export const LIST_FEATURES = [
  ...(['more', 'length'] as const),
  // Lists without any object, whose end says more.
  ...(['empty', 'emptyMore'] as const),
] as const
export type ListFeature = (typeof LIST_FEATURES)[number]

const share = z.number().min(0).max(1)

function curve<Feature extends string>(features: readonly [Feature, ...Feature[]]) {
  return z.strictObject({
    bias: z.number(),
    /** Those that are left out count nothing. */
    weights: z.partialRecord(z.enum(features), z.number()),
    /** What the logistic curve says, and what is right then. Between them lie straight lines, from (0, 0) and to (1, 1). */
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

/** How sure boxes may be of themselves, as `lookout calibrate` fits it. */
export const detectionSchema = z.strictObject({
  confidence: curve(BOX_FEATURES),
  /** With what the model reads in each box; without it, that of `confidence`. */
  thorough: curve(BOX_FEATURES).optional(),
  complete: curve(LIST_FEATURES),
})
export interface DetectionFit {
  readonly confidence: Curve<BoxFeature>
  readonly thorough?: Curve<BoxFeature> | undefined
  readonly complete: Curve<ListFeature>
}
