import { z } from 'zod'
import { LOOKS } from '../../../conversation/request/detect-request.ts'
import { bodyFormat } from '../../http/body/body-format.ts'
import { requestSchemas, requests, responses } from '../../http/wire/components.ts'
import { estimated } from '../../surfaces/openai/wire/input-tokens.ts'
import { mediaUrl } from '../../surfaces/openai/wire/messages.ts'

const MAX_CATEGORIES = 100
const MAX_NAME_LENGTH = 200
const MAX_EXEMPLARS = 16
const MAX_ANNOTATIONS = 100
/** Columns or rows; what a grid may have in all depends on its coarser ones. */
const MOST_TILES = 128
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

const count = z.int().min(1).max(MOST_TILES)

const config = z
  .object({
    enable_thinking: z.boolean().nullish(),
    output: z.enum(['box', 'point']).nullish(),
    tiles: z
      .union([z.literal('auto'), z.array(count).length(2)])
      .nullish()
      .describe('Searches a large picture tile by tile: the columns and rows of the finest grid.'),
    smallest: z.int().min(1).max(MAX_PIXEL).nullish().describe('Pixels of the smallest things to find.'),
    looks: z.enum(LOOKS).nullish().describe('Which things are looked at again, closer; `all` by default.'),
  })
  .superRefine(({ tiles, smallest, looks }, context) => {
    const issue = (key: string, message: string) => context.addIssue({ code: 'custom', path: [key], message })
    if (smallest != null && tiles !== 'auto') issue('smallest', "allowed only together with tiles 'auto'")
    if (looks != null && tiles == null) issue('looks', 'allowed only together with tiles')
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
})

const grids = z.array(z.array(z.int().min(1)).length(2))

/** Response of `POST /v1/detect`. */
export const detectResponse = responses.object('Detections', {
  detections: z.array(detection),
  finish_reason: z.enum(['complete', 'length']).describe('`length` when the reply was cut off.'),
  tiles: grids.optional().describe('With `config.tiles`: columns and rows of the grids, the finest first.'),
  looks: z.int().min(0).optional().describe('With `config.tiles`: how many things were looked at again.'),
  tiles_left: z.int().min(0).optional().describe('At the time limit: tiles that were not searched.'),
})

const tokens = z.int().min(0)

const details = responses.object('DetectInputTokensDetails', {
  cached_tokens: tokens.describe('The part that is computed once and shared by the searches of a picture or tile.'),
  image_tokens: tokens,
})

/** Response of `POST /v1/detect/input_tokens`. */
export const detectInputTokens = responses.object('DetectInputTokens', {
  object: z.literal('detect.input_tokens'),
  input_tokens: tokens.describe('Tokens of all searches, each with its picture or tile; without second looks.'),
  input_tokens_details: details,
  tiles: grids.optional(),
  looks: tokens.describe('The most second looks.'),
  look_tokens: tokens.describe('The most tokens of a second look.'),
  estimated,
})

export const detectBody = bodyFormat(import.meta.url, 'detectRequest', detectRequest)

export type DetectRequestBody = z.output<typeof detectRequest>
export type DetectResponseBody = z.output<typeof detectResponse>
export type DetectInputTokensBody = z.output<typeof detectInputTokens>
