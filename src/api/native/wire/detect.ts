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

const share = z.number().min(0).max(1)

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

const config = z
  .object({
    enable_thinking: z.boolean().nullish(),
    output: z.enum(['box', 'point']).nullish(),
    confidence: z
      .union([z.boolean(), z.literal('thorough')])
      .nullish()
      .describe(
        'Whether each detection says how likely it is to be right, and each category whether all were found. thorough: surer, with one detection more of each list, and about twice as slow.',
      ),
    min_confidence: share
      .nullish()
      .describe('Detections with less are left out; needs confidence. 0 by default, 0.05 with thorough.'),
    evidence: z
      .boolean()
      .nullish()
      .describe('Whether the reply has the numbers that confidence is computed from; needs confidence.'),
  })
  .superRefine(({ confidence, ...rest }, context) => {
    for (const key of ['min_confidence', 'evidence'] as const) {
      if (confidence || (rest[key] ?? false) === false) continue
      context.addIssue({ code: 'custom', path: [key], message: 'it requires confidence' })
    }
  })
  .register(requestSchemas, { id: 'DetectConfig' })

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
  confidence: share.optional().describe('How likely it is to be right. Present if the request asks for it.'),
  evidence: responses
    .object('DetectionEvidence', {
      begin: share.describe('The chance of beginning an object there, rather than ending the list.'),
      near: share.describe('The mass of the digits near those that were written, in the mean of the coordinates.'),
      mean: share.describe('The geometric mean of the probabilities of the digits.'),
      overlap: share.describe('The greatest IoU with another box of its list.'),
      size: share.describe('The square root of the area, as a share of the image.'),
      rank: z.int().min(1),
      list_length: z.int().min(0),
      read: share
        .optional()
        .describe('With thorough: how likely the model finds the object there when asked about that.'),
    })
    .optional(),
})

const category = responses.object('DetectedCategory', {
  mention: z.string().nullable().describe('Null where every object was asked for.'),
  complete: share.nullable().describe('How likely it is that none is missing; null where the engine does not tell.'),
  evidence: responses
    .object('CategoryEvidence', { more: share.nullable().describe('The chance of going on at the end of the list.') })
    .optional(),
})

/** Response of `POST /v1/detect`. */
export const detectResponse = responses.object('Detections', {
  detections: z.array(detection),
  categories: z.array(category).optional().describe('Present if the request asks for confidence, as is the next.'),
  confidence: responses
    .object('DetectionConfidence', { calibrated: z.boolean().describe('Whether it was fitted to examples.') })
    .optional(),
  finish_reason: z.enum(['complete', 'length']).describe('`length` when the reply was cut off.'),
})

export const detectBody = bodyFormat(import.meta.url, 'detectRequest', detectRequest)

export type DetectRequestBody = z.output<typeof detectRequest>
export type DetectResponseBody = z.output<typeof detectResponse>
