import { z } from 'zod'
import { certificateRule } from '../../../config/cameras.ts'
import { DECODES } from '../../../media/live/camera-source.ts'
import { EVENT_TYPES } from '../../../watches/events/watch-events.ts'
import { isSecret } from '../../../watches/webhooks/webhook.ts'
import { bodyFormat } from '../../http/body/body-format.ts'
import { requestSchemas, requests } from '../../http/wire/components.ts'
import { metadataPairs, storable } from '../../http/wire/metadata.ts'
import { choice, count, predicate, score } from '../../surfaces/openai/wire/decision-request.ts'

const MOST_QUESTIONS = 64
const LONGEST_INSTRUCTIONS = 4_000
const MOST_COUNTED = 20
const LONGEST_SECONDS = 3_600
const DAY_SECONDS = 86_400
const LONGEST_URL = 2_048
/** Maximum before the start of an event, and maximum after its end. */
const LONGEST_CLIP_SECONDS = 30

/** A field that may be absent or null. */
function optional<Schema extends z.ZodType>(schema: Schema) {
  return schema.nullish().transform((given) => given ?? undefined)
}

/** A field with a default if absent or null; for fields where null has no other meaning. */
function usual<Schema extends z.ZodType>(schema: Schema, value: z.core.util.NoUndefined<z.output<Schema>>) {
  return schema
    .nullable()
    .default(value)
    .transform((given) => (given === null ? value : given))
}

/** When a frame was taken. */
export const dateTime = z.iso.datetime({ offset: true, error: 'expected a time such as 2027-01-31T12:00:00.5Z' })
export const share = z.number().min(0).max(1)
const RULE = { above: 0.7, below: 0.4, for_seconds: 2, clear_seconds: 5, cooldown_seconds: 0 }
const rule = {
  above: usual(share, RULE.above).describe('An event starts when the value has been at least this.'),
  below: usual(share, RULE.below).describe('An event ends when the value has been less than this.'),
  for_seconds: usual(z.number().min(0).max(LONGEST_SECONDS), RULE.for_seconds),
  clear_seconds: usual(z.number().min(0).max(LONGEST_SECONDS), RULE.clear_seconds),
  cooldown_seconds: usual(z.number().min(0).max(DAY_SECONDS), RULE.cooldown_seconds).describe(
    'Least time between the end of an event and the start of the next.',
  ),
}
const evidence = requests
  .strictObject('WatchEvidence', {
    type: z.literal('x_box'),
    instructions: z.string().min(1).max(400).describe('What to look for in the first frame of an event.'),
  })
  .nullable()
  .default(null)
const asked = {
  name: z.string().min(1).max(256),
  instructions: z.string().min(1).max(LONGEST_INSTRUCTIONS),
  evidence,
}

const event = requests.strictObject('WatchEventRule', rule)
const ruleOrNull = event.nullable().default(RULE).describe('Null: no events. If absent: the default rule.')
const eventOfChoice = requests.strictObject('WatchChoiceEventRule', {
  ...rule,
  values: z
    .array(z.union([z.string(), z.boolean()]))
    .min(1)
    .describe('The choices whose probabilities are added up.'),
})
const eventOfNumber = requests.strictObject('WatchNumberEventRule', {
  ...rule,
  at_least: z
    .int()
    .min(1)
    .describe('The rule compares the probability that the number, or the level counted from 0, is at least this.'),
})
const question = requests.union('WatchQuestion', 'type', [
  requests.strictObject('WatchPredicate', { ...predicate.shape, ...asked, event: ruleOrNull }),
  requests.strictObject('WatchChoice', { ...choice.shape, ...asked, event: eventOfChoice.nullable().default(null) }),
  requests.strictObject('WatchScore', { ...score.shape, ...asked, event: eventOfNumber.nullable().default(null) }),
  requests.strictObject('WatchCount', { ...count.shape, ...asked, event: eventOfNumber.nullable().default(null) }),
])
type QuestionBody = z.output<typeof question>

const questions = z
  .array(question)
  .min(1)
  .max(MOST_QUESTIONS)
  .superRefine((questions, context) => {
    const names = new Set<string>()
    for (const [i, one] of questions.entries()) {
      const [path, message] = faultOf(one, names) ?? []
      if (path !== undefined) context.addIssue({ code: 'custom', path: [i, ...path], message: message! })
      names.add(one.name)
    }
  })

/** The problem with a question as a whole: its path and the message; null if there is none. */
function faultOf(one: QuestionBody, names: ReadonlySet<string>): [path: (string | number)[], message: string] | null {
  if (names.has(one.name)) return [['name'], 'another question has this name']
  const { event } = one
  if (event === null) return null
  if (event.below >= event.above) return [['event', 'below'], `expected less than 'above', which is ${event.above}`]
  if (one.type === 'choice') {
    const known = new Set(one.choices.map(({ value }) => value))
    const unknown = one.event!.values.findIndex((value) => !known.has(value))
    return unknown === -1 ? null : [['event', 'values', unknown], 'expected one of the choices']
  }
  const most = one.type === 'score' ? one.levels.length - 1 : one.type === 'x_count' ? (one.max ?? MOST_COUNTED) : null
  if (most === null || !('at_least' in event) || event.at_least <= most) return null
  return [['event', 'at_least'], `expected at most ${most}`]
}

const described = {
  url: z
    .string()
    .max(LONGEST_URL)
    .describe('Without user name and password. The server’s setting LOOKOUT_CAMERA_HOSTS must name its host.'),
  username: optional(z.string().min(1).max(256)),
  password: optional(z.string().max(256)).describe('Stored encrypted, and never shown.'),
  certificate: optional(certificateRule).describe(
    'For rtsps and https. `verify` (default): trust a certificate that is valid for the host. `any`: trust every certificate. `sha256:` with a hexadecimal fingerprint: trust only that one.',
  ),
}
const source = requests.union(
  'WatchSource',
  'type',
  [
    requests.strictObject('WatchPushSource', { type: z.literal('push') }),
    requests.strictObject('WatchConfiguredSource', {
      type: z.literal('camera'),
      camera: z.string().max(64).describe('A camera of the server’s configuration, as /v1/cameras lists them.'),
    }),
    requests.strictObject('WatchRtspSource', { type: z.literal('rtsp'), ...described }),
    requests.strictObject('WatchMjpegSource', { type: z.literal('mjpeg'), ...described }),
    requests.strictObject('WatchJpegSource', { type: z.literal('jpeg'), ...described }),
    requests.strictObject('WatchHlsSource', { type: z.literal('hls'), ...described }),
  ],
  "expected push, camera, rtsp, mjpeg, jpeg or hls. For 'webrtc' and others, put MediaMTX in front, which offers rtsp",
)
export const decode = z.enum(DECODES)
const name = z.string().max(256).nullable()
const fps = z.number().min(0.05).max(10)
const motion = requests
  .strictObject('WatchMotion', {
    share: usual(share, 0.01).describe('The share of the picture that must have changed.'),
    at_least_every_seconds: usual(z.number().min(0).max(DAY_SECONDS), 60),
  })
  .nullable()
const clipSeconds = z.number().min(0).max(LONGEST_CLIP_SECONDS)
const region = z
  .strictObject({ top: share, left: share, bottom: share, right: share })
  .superRefine(({ top, left, bottom, right }, context) => {
    const wrong =
      bottom <= top ? (['bottom', 'top', top] as const) : right <= left ? (['right', 'left', left] as const) : null
    if (wrong === null) return
    const [side, other, least] = wrong
    context.addIssue({ code: 'custom', path: [side], message: `expected more than '${other}', which is ${least}` })
  })
  .register(requestSchemas, { id: 'WatchRegion' })
  .nullable()
const REGION =
  'The part of each frame to look at, as fractions of the frame’s sides. Motion outside it causes no look. Null: the whole frame.'
const record = requests.strictObject('WatchRecord', {
  frame: usual(z.boolean(), true).describe('Whether the first frame of an event becomes a file.'),
  before_seconds: usual(clipSeconds, 0).describe('For cameras: how long before the start of an event its clip begins.'),
  after_seconds: usual(clipSeconds, 0).describe('How long the clip continues after the start. Both 0: no clip.'),
})
const metadata = metadataPairs().register(requestSchemas, { id: 'WatchMetadata' }).nullable()
const keepDays = z.int().min(1).max(365)
export const eventType = z.enum(EVENT_TYPES)
const webhook = requests
  .strictObject('WatchWebhook', {
    url: storable
      .max(LONGEST_URL)
      .refine((text) => URL.canParse(text), 'expected an http or https URL')
      .refine((text) => !hasCredentials(text), 'expected a URL without a user name and password')
      .describe('Gets each event by POST, signed as Standard Webhooks say.'),
    types: optional(z.array(eventType).min(1)).describe('The types of events that are sent. Left out: all.'),
    secret: optional(z.string().refine(isSecret, 'expected whsec_ and 24 to 64 bytes in base64')).describe(
      'Signs the events. If absent, the watch keeps its secret, or the response shows a new one.',
    ),
  })
  .nullable()

function hasCredentials(text: string): boolean {
  const { username, password } = URL.canParse(text) ? new URL(text) : { username: '', password: '' }
  return username !== '' || password !== ''
}

/** Body of `POST /v1/watches`. Unknown keys are rejected. */
export const watchRequest = requests.strictObject('WatchRequest', {
  model: z.string(),
  name: name.default(null),
  source,
  fps: usual(fps, 1).describe('Most looks per second.'),
  decode: usual(decode, 'auto').describe(
    'For cameras: which frames to decode. `auto`: only key frames, if they arrive as often as `fps` asks.',
  ),
  motion: motion
    .default({ share: 0.01, at_least_every_seconds: 60 })
    .describe('Frames without motion get no look. Null: every frame does. If absent: the defaults.'),
  region: region.default(null).describe(REGION),
  questions,
  record: usual(record, { frame: true, before_seconds: 0, after_seconds: 0 }),
  keep_days: usual(keepDays, 7).describe('How long events, their frames and their clips are kept.'),
  metadata: metadata.default(null),
  webhook: webhook.default(null),
})
export const watchBody = bodyFormat(import.meta.url, 'watchRequest', watchRequest)

/**
 * Body of `PATCH /v1/watches/{watch_id}`: the changes. Null removes a setting if a watch can lack it; otherwise null
 * changes nothing.
 */
export const watchChange = requests.strictObject('WatchChange', {
  model: optional(z.string()),
  name: name.optional(),
  fps: optional(fps),
  decode: optional(decode),
  motion: motion.optional(),
  region: region.optional().describe(REGION),
  questions: optional(questions),
  record: optional(record),
  keep_days: optional(keepDays),
  metadata: metadata.optional(),
  webhook: webhook.optional().describe('Null: no webhook. One that has ended is active again.'),
})
export const watchChangeBody = bodyFormat(import.meta.url, 'watchChange', watchChange)

/** Body of `POST /v1/watches/{watch_id}/frames`, for `openapi.json` only. */
export const watchPicture = z.string().meta({ format: 'binary' }).register(requestSchemas, { id: 'WatchPicture' })

/** A text message of a WebSocket, which describes the next frame. */
export const watchFrameNote = z.strictObject({
  type: z.literal('frame'),
  time: optional(dateTime),
  wait: optional(z.boolean()),
})
