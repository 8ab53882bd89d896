import { z } from 'zod'
import { bodyFormat } from '../../http/body/body-format.ts'
import { requestSchemas, requests, responses } from '../../http/wire/components.ts'
import { mediaUrl } from '../../surfaces/openai/wire/messages.ts'

const MAX_CATEGORIES = 100
const MAX_NAME_LENGTH = 200
const MAX_EXEMPLARS = 16
const MAX_ANNOTATIONS = 100
/** Far larger than any image that the server decodes. */
const MAX_PIXEL = 1_000_000

const media = requests.object('DetectMedia', { type: z.literal('image'), image_url: mediaUrl })

const name = z
  .string()
  .max(MAX_NAME_LENGTH)
  .refine((text) => text.trim() !== '', 'expected a name')

const pixel = z.number().min(0).max(MAX_PIXEL)
const point = requests.object('Point', { x: pixel, y: pixel })
const box = z
  .object({ top_left: point, bottom_right: point })
  .superRefine(({ top_left: from, bottom_right: to }, context) => {
    const message = 'expected a corner below and to the right of top_left'
    if (to.x < from.x) context.addIssue({ code: 'custom', path: ['bottom_right', 'x'], message })
    if (to.y < from.y) context.addIssue({ code: 'custom', path: ['bottom_right', 'y'], message })
  })
  .register(requestSchemas, { id: 'Box' })

const annotation = z
  .object({
    mention: name.nullish(),
    label: name.nullish().describe('Used when mention is missing.'),
    index: z.int().nullish(),
    point: point.nullish(),
    point_box: box.nullish(),
    timestamp: z.number().nullish(),
  })
  .superRefine(({ point, point_box: box }, context) => {
    if (!point && !box) context.addIssue({ code: 'custom', message: 'expected a point or a point_box' })
    if (!point || !box) return
    // The contract allows both. They must agree, because the model sees only one of them.
    for (const axis of ['x', 'y'] as const) {
      if (point[axis] >= box.top_left[axis] && point[axis] <= box.bottom_right[axis]) continue
      context.addIssue({ code: 'custom', path: ['point', axis], message: 'expected a point within point_box' })
    }
  })
  .register(requestSchemas, { id: 'ExemplarAnnotation' })

const exemplar = requests.object('Exemplar', { media, annotations: z.array(annotation).min(1).max(MAX_ANNOTATIONS) })
const negativeExemplar = requests.object('NegativeExemplar', { media })

const config = requests.object('DetectConfig', {
  enable_thinking: z.boolean().nullish(),
  output: z.enum(['box', 'point']).nullish(),
})

/** Body of `POST /v1/detect`. Coordinates are pixels of their own image, upright. Unknown keys are dropped. */
export const detectRequest = z
  .object({
    model: z.string().nullish().describe('By default, the first model that detects objects.'),
    media,
    categories: z
      .array(name)
      .max(MAX_CATEGORIES)
      .nullish()
      .describe('Without categories and exemplars, the model finds every object.'),
    config: config.nullish(),
    exemplars: z.array(exemplar).max(MAX_EXEMPLARS).nullish(),
    negative_exemplars: z.array(negativeExemplar).max(MAX_EXEMPLARS).nullish(),
  })
  .superRefine(({ categories, exemplars, negative_exemplars }, context) => {
    if (!negative_exemplars?.length || categories?.length || exemplars?.length) return
    const message = 'allowed only together with a category or an exemplar'
    context.addIssue({ code: 'custom', path: ['negative_exemplars'], message })
  })
  .register(requestSchemas, { id: 'DetectRequest' })

const pixels = z.int().min(0)
const pixelPoint = responses.object('DetectedPoint', { x: pixels, y: pixels })
const pixelBox = responses.object('DetectedBox', { top_left: pixelPoint, bottom_right: pixelPoint })

const detection = responses.object('Detection', {
  mention: z.string(),
  point: pixelPoint.optional(),
  point_box: pixelBox.optional(),
})

/** Response of `POST /v1/detect`. */
export const detectResponse = responses.object('Detections', {
  detections: z.array(detection),
  finish_reason: z.enum(['complete', 'length']).describe('`length` when the reply was cut off.'),
})

export const detectBody = bodyFormat(import.meta.url, 'detectRequest', detectRequest)

export type DetectRequestBody = z.output<typeof detectRequest>
export type DetectResponseBody = z.output<typeof detectResponse>
