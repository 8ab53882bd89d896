import { z } from 'zod'

const MAX_CATEGORIES = 100
const MAX_NAME_LENGTH = 200
const MAX_EXEMPLARS = 16
const MAX_ANNOTATIONS = 100
/** Far beyond any picture that is decoded. */
const MAX_PIXEL = 1_000_000

const media = z.object({ type: z.literal('image'), image_url: z.string().min(1, 'expected a URL') })

const name = z
  .string()
  .max(MAX_NAME_LENGTH)
  .refine((text) => text.trim() !== '', 'expected a name')

const pixel = z.number().min(0).max(MAX_PIXEL)
const point = z.object({ x: pixel, y: pixel })
const box = z
  .object({ top_left: point, bottom_right: point })
  .superRefine(({ top_left: from, bottom_right: to }, context) => {
    const message = 'expected a corner below and to the right of top_left'
    if (to.x < from.x) context.addIssue({ code: 'custom', path: ['bottom_right', 'x'], message })
    if (to.y < from.y) context.addIssue({ code: 'custom', path: ['bottom_right', 'y'], message })
  })

const annotation = z
  .object({
    mention: name.nullish(),
    label: name.nullish().describe('Stands in for a mention that is missing.'),
    index: z.int().nullish(),
    point: point.nullish(),
    point_box: box.nullish(),
    timestamp: z.number().nullish(),
  })
  .superRefine(({ point, point_box }, context) => {
    if (point || point_box) return
    context.addIssue({ code: 'custom', message: 'expected a point or a point_box' })
  })

/** Body of `POST /v1/detect`. Coordinates are pixels of the picture they are about, upright. Unknown keys are dropped. */
export const detectRequest = z
  .object({
    model: z.string().nullish().describe('By default the first model that finds objects.'),
    media,
    categories: z.array(name).max(MAX_CATEGORIES).nullish().describe('What to look for; without exemplars too: all.'),
    config: z
      .object({
        enable_thinking: z.boolean().nullish(),
        output: z.enum(['box', 'point']).nullish(),
      })
      .nullish(),
    exemplars: z
      .array(z.object({ media, annotations: z.array(annotation).min(1).max(MAX_ANNOTATIONS) }))
      .max(MAX_EXEMPLARS)
      .nullish(),
    negative_exemplars: z.array(z.object({ media })).max(MAX_EXEMPLARS).nullish(),
  })
  .superRefine(({ categories, exemplars, negative_exemplars }, context) => {
    if (!negative_exemplars?.length || categories?.length || exemplars?.length) return
    context.addIssue({
      code: 'custom',
      path: ['negative_exemplars'],
      message: 'allowed only together with a category or an exemplar',
    })
  })

const pixels = z.int().min(0)
const pixelPoint = z.object({ x: pixels, y: pixels })

/** Answer of `POST /v1/detect`. */
export const detectResponse = z.object({
  detections: z.array(
    z.object({
      mention: z.string(),
      point: pixelPoint.optional(),
      point_box: z.object({ top_left: pixelPoint, bottom_right: pixelPoint }).optional(),
    }),
  ),
  finish_reason: z.enum(['complete', 'length']).describe('`length` when the model was cut off.'),
})

export type DetectRequestBody = z.output<typeof detectRequest>
export type DetectResponseBody = z.output<typeof detectResponse>
