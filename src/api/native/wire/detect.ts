import { z } from 'zod'
import { LOOKS } from '../../../conversation/request/detect-request.ts'
import { isRecord } from '../../../lib/json/parse-json.ts'
import { bodyFormat } from '../../http/body/body-format.ts'
import { requestSchemas, requests, responses } from '../../http/wire/components.ts'
import { estimated } from '../../surfaces/openai/wire/input-tokens.ts'
import { mediaUrl } from '../../surfaces/openai/wire/messages.ts'

const MAX_CATEGORIES = 100
const MAX_NAME_LENGTH = 200
const MAX_EXEMPLARS = 16
const MAX_ANNOTATIONS = 100
/** Maximum columns or rows; the maximum of a grid in total depends on its coarser grids. */
const MOST_TILES = 128
/** Far larger than any image that the server decodes. */
const MAX_PIXEL = 1_000_000
const MAX_FRAMES = 256
/** About a century: cameras may count the times of frames from an epoch. */
const MAX_SECONDS = 4_000_000_000
/** Larger than any state that the server makes. */
const MAX_STATE_LENGTH = 8_192
const MAX_PATIENCE = 60

const share = z.number().min(0).max(1)

const media = requests.object('DetectMedia', { type: z.literal('image'), image_url: mediaUrl })

const seconds = z.number().min(0).max(MAX_SECONDS)
const frame = requests.object('DetectFrame', { image_url: mediaUrl, timestamp: seconds.describe('Seconds.') })
const frames = z
  .array(frame)
  .min(1)
  .max(MAX_FRAMES)
  .superRefine((frames, context) => {
    const at = frames.findIndex(({ timestamp }, i) => i > 0 && timestamp < frames[i - 1]!.timestamp)
    if (at === -1) return
    context.addIssue({ code: 'custom', path: [at, 'timestamp'], message: 'expected timestamps that do not decrease' })
  })

/** The media of a request. With `tracks`, it must be a video or frames; without, an image. */
const subject = requests.union('DetectSubject', 'type', [
  media,
  requests.object('DetectVideo', { type: z.literal('video'), video_url: mediaUrl }),
  requests.object('DetectFrames', { type: z.literal('frames'), frames }),
])

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
    confidence: z
      .union([z.boolean(), z.literal('thorough')])
      .nullish()
      .describe(
        'Whether to return how likely each detection is to be right, and each category to be complete. thorough: more accurate, about twice as slow; looks for one more object in each list.',
      ),
    min_confidence: share
      .nullish()
      .describe('Detections with less are left out; needs confidence. 0 by default, 0.05 with thorough.'),
    evidence: z
      .boolean()
      .nullish()
      .describe('Whether the reply has the numbers that confidence is computed from; needs confidence.'),
    tracks: z.boolean().nullish().describe('Whether to follow objects through the frames of a video.'),
    patience: z
      .number()
      .min(0)
      .max(MAX_PATIENCE)
      .nullish()
      .describe('Seconds for which an object that is not seen keeps its track. 2 by default.'),
    state: z.string().max(MAX_STATE_LENGTH).nullish().describe('The `state` of the reply to the preceding frames.'),
  })
  .superRefine(({ tracks, confidence, tiles, smallest, looks, ...rest }, context) => {
    const refuse = (key: string, message: string) => context.addIssue({ code: 'custom', path: [key], message })
    for (const key of ['min_confidence', 'evidence'] as const) {
      if (!confidence && (rest[key] ?? false) !== false) refuse(key, 'it requires confidence')
    }
    for (const key of ['patience', 'state'] as const) {
      if (!tracks && (rest[key] ?? null) !== null) refuse(key, 'it requires tracks')
    }
    if (tracks && confidence) refuse('confidence', 'it cannot be combined with tracks')
    if (smallest != null && tiles !== 'auto') refuse('smallest', "allowed only together with tiles 'auto'")
    if (looks != null && tiles == null) refuse('looks', 'allowed only together with tiles')
    if (tiles == null) return
    if (tracks) refuse('tiles', 'it cannot be combined with tracks')
  })
  .register(requestSchemas, { id: 'DetectConfig' })

const request = z
  .object({
    model: z.string().nullish().describe('By default, the first model that detects objects.'),
    media: subject,
    categories: z
      .array(name)
      .max(MAX_CATEGORIES)
      .nullish()
      .describe('Without categories and exemplars, the model finds every object.'),
    config: config.nullish(),
    exemplars: z.array(exemplar).max(MAX_EXEMPLARS).nullish(),
    negative_exemplars: z.array(negativeExemplar).max(MAX_EXEMPLARS).nullish(),
  })
  .superRefine(({ media, config, categories, exemplars, negative_exemplars }, context) => {
    if (config?.tracks && media.type === 'image') {
      context.addIssue({ code: 'custom', path: ['media', 'type'], message: "expected one of 'video', 'frames'" })
    }
    if (!negative_exemplars?.length || categories?.length || exemplars?.length) return
    const message = 'allowed only together with a category or an exemplar'
    context.addIssue({ code: 'custom', path: ['negative_exemplars'], message })
  })
  .register(requestSchemas, { id: 'DetectRequest' })

/** Body of `POST /v1/detect`. Coordinates are pixels of their own image, upright. Unknown keys are dropped. */
export const detectRequest = z
  .unknown()
  .superRefine((body, context) => {
    const { media, config } = (isRecord(body) ? body : {}) as Partial<Record<'media' | 'config', unknown>>
    if (!isRecord(media) || media.type === 'image' || (isRecord(config) && config.tracks === true)) return
    context.addIssue({ code: 'custom', path: ['media', 'type'], message: "expected 'image'" })
  })
  .pipe(request)

const pixels = z.int().min(0)
const pixelPoint = responses.object('DetectedPoint', { x: pixels, y: pixels })
const pixelBox = responses.object('DetectedBox', { top_left: pixelPoint, bottom_right: pixelPoint })

const detection = responses.object('Detection', {
  mention: z.string(),
  point: pixelPoint.optional(),
  point_box: pixelBox.optional(),
  track: z.int().min(1).optional().describe('Number of the object, the same in all frames. Present with `tracks`.'),
  timestamp: z.number().optional().describe('Of the frame, in seconds. Present with `tracks`.'),
  confidence: share.optional().describe('How likely it is to be right. Present if the request asks for it.'),
  evidence: responses
    .object('DetectionEvidence', {
      begin: share.describe('Probability of starting an object here rather than ending the list.'),
      near: share.describe('Probability mass of the digits near the written ones, averaged over the coordinates.'),
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
  complete: share
    .nullable()
    .describe('Probability that none is missing; null with `config.tiles`, or if the engine cannot say.'),
  evidence: responses
    .object('CategoryEvidence', { more: share.nullable().describe('Probability of continuing the list at its end.') })
    .optional(),
})

const grids = z.array(z.array(z.int().min(1)).length(2))

/** Response of `POST /v1/detect`. */
export const detectResponse = responses.object('Detections', {
  detections: z.array(detection),
  categories: z.array(category).optional().describe('Present if the request asks for confidence, as is the next.'),
  confidence: responses
    .object('DetectionConfidence', { calibrated: z.boolean().describe('Whether it was fitted to examples.') })
    .optional(),
  finish_reason: z.enum(['complete', 'length']).describe('`length` when the reply was cut off.'),
  timestamps: z.array(z.number()).optional().describe('Of the frames that were searched. Present with `tracks`.'),
  width: z.int().min(1).optional().describe('Of the upright video, in pixels. Present with `tracks` of a video.'),
  height: z.int().min(1).optional(),
  frames_left: z.int().min(1).optional().describe('Frames that the time limit left out, at the end.'),
  state: z.string().optional().describe('Send it as `config.state` with the next frames. Present with `tracks`.'),
  tiles: grids.optional().describe('With `config.tiles`: columns and rows of the grids, the finest first.'),
  looks: z.int().min(0).optional().describe('With `config.tiles`: how many things were looked at again.'),
  tiles_left: z.int().min(0).optional().describe('At the time limit: tiles that were not searched.'),
})

const tokens = z.int().min(0)

const details = responses.object('DetectInputTokensDetails', {
  cached_tokens: tokens.describe(
    'The part that is computed once and shared by the searches of a picture, tile or frame.',
  ),
  image_tokens: tokens,
})

/** Response of `POST /v1/detect/input_tokens`. */
export const detectInputTokens = responses.object('DetectInputTokens', {
  object: z.literal('detect.input_tokens'),
  input_tokens: tokens.describe('Tokens of all searches, each with its picture, tile or frame; without looks.'),
  input_tokens_details: details,
  frames: tokens.optional().describe('With `config.tracks`: how many are searched.'),
  tiles: grids.optional(),
  looks: tokens.describe('The most second looks; with `config.tracks`, searches for the names of tracks.'),
  look_tokens: tokens.describe('The most tokens of a look.'),
  estimated,
})

export const detectBody = bodyFormat(import.meta.url, 'detectRequest', detectRequest)

export type DetectRequestBody = z.output<typeof detectRequest>
export type DetectResponseBody = z.output<typeof detectResponse>
export type DetectInputTokensBody = z.output<typeof detectInputTokens>
