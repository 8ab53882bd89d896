import { z } from 'zod'
import { CAMERA_FAULTS, CAMERA_TYPES } from '../../../media/live/camera-source.ts'
import { CLIP_FAULTS } from '../../../media/live/protocol.ts'
import { FILE_ERRORS } from '../../../watches/events/watch-events.ts'
import { page, responseSchemas, responses } from '../../http/wire/components.ts'
import { answer, edges } from '../../surfaces/openai/wire/decision-response.ts'
import { decode, eventType, share } from './watch-request.ts'

const number = z.int().min(0)
const dropped = responses.object('WatchDropped', { busy: number, late: number, rate: number, still: number })
const counts = responses.object('WatchCounts', {
  frames: number,
  looks: number,
  failed: number,
  suppressed: number.describe(
    'How often a question reached 60 events in an hour, after which further ones are not reported.',
  ),
  dropped,
})
const givenQuestion = z.record(z.string(), z.unknown()).register(responseSchemas, { id: 'GivenWatchQuestion' })
const givenMetadata = z.record(z.string(), z.string()).register(responseSchemas, { id: 'GivenWatchMetadata' })

export const watch = responses.object('Watch', {
  id: z.string(),
  object: z.literal('watch'),
  created_at: z.int(),
  model: z.string(),
  name: z.string().nullable(),
  source: responses.object('GivenWatchSource', {
    type: z.enum(['push', 'camera', ...CAMERA_TYPES]),
    camera: z.string().optional(),
    url: z.string().optional().describe('Keys without the scope `admin` get only its host.'),
    certificate: z.string().optional(),
  }),
  fps: z.number(),
  decode,
  motion: responses.object('GivenWatchMotion', { share, at_least_every_seconds: z.number() }).nullable(),
  region: edges.nullable(),
  questions: z.array(givenQuestion).describe('As they were sent, with all defaults.'),
  record: responses.object('GivenWatchRecord', {
    frame: z.boolean(),
    before_seconds: z.number(),
    after_seconds: z.number(),
  }),
  keep_days: z.int(),
  metadata: givenMetadata.nullable(),
  webhook: responses
    .object('GivenWatchWebhook', {
      url: z.string(),
      types: z.array(eventType),
      secret: z.string().optional().describe('Only in the answer to the request for which it was made.'),
      status: z.enum(['active', 'ended']).describe('It ends when the receiver answers 410.'),
      pending: number.describe('Events that are still to be sent.'),
      last_error: z.string().nullable().describe('Why the last attempt failed.'),
    })
    .nullable(),
  status: z.enum(['starting', 'running', 'paused', 'offline', 'waiting']),
  reason: z.string().nullable().describe('Why it does not run.'),
  message: z.string().nullable().describe('Explains `reason`.'),
  last_seq: number.describe('The number of its last event; 0 before the first one.'),
  counts: counts.nullable().describe('Since the server started to run it; null while it does not.'),
  looked_fps: z.number().min(0),
  lag_ms: z.int().nullable().describe('From the arrival of the last frame to the end of its look.'),
})
export const watchList = responses.object('WatchList', page(watch, z.string().nullable()))
export const cameraList = responses.object('CameraList', {
  object: z.literal('list'),
  data: z.array(
    responses.object('Camera', {
      name: z.string(),
      object: z.literal('camera'),
      status: z.enum(['delivering', 'offline', 'unused']).describe('`unused`: no running watch uses it.'),
      reason: z
        .enum(CAMERA_FAULTS)
        .nullable()
        .describe('Why it delivers nothing; null if another server is connected to it.'),
      message: z.string().nullable().describe('Explains `reason`.'),
    }),
  ),
})
export const deletedWatch = responses.object('DeletedWatch', {
  id: z.string(),
  object: z.literal('watch'),
  deleted: z.literal(true),
})

const moment = z.string().meta({ format: 'date-time' })
const frameAbout = {
  number,
  time: moment.describe('When it arrived, by the server’s clock.'),
  camera_time: moment.nullable().describe('What `x-frame-time` said.'),
  width: number,
  height: number,
}
const eventFrame = responses.object('WatchEventFrame', {
  ...frameAbout,
  file_id: z.string().nullable(),
  file_error: z
    .enum(FILE_ERRORS)
    .nullable()
    .describe('Why the frame of a start was not stored: the organisation, or the server, has no room for it.'),
})
const eventClip = responses.object('WatchEventClip', {
  status: z
    .enum(['pending', 'available', 'unavailable'])
    .describe('`pending`: the event `watch.event.clip` will report the result.'),
  file_id: z.string().nullable().describe('A file of MP4.'),
  reason: z
    .enum([...CLIP_FAULTS, ...FILE_ERRORS])
    .nullable()
    .describe(
      'Why there is no clip. `codec`: the camera sends JPEG. `no_key_frame`: no key frame arrived before the event, or too much data since. `stopped`: the server or its camera process stopped. `busy`: too many clips at a time. `quota`, `storage`: no space left.',
    ),
  from: moment.nullable().describe('When its first picture arrived.'),
  to: moment.nullable(),
})
const gap = responses.object('WatchGap', { from: moment, to: moment })
const ofEvents = 'Only of events that start or end.'
const eventData = responses.object('WatchEventData', {
  watch: z.string(),
  name: z.string().nullable(),
  seq: number.describe('From 1, without gaps.'),
  happening: z.string().optional().describe(`The same for the start and the end of one event. ${ofEvents}`),
  question: z.string().optional(),
  reason: z.string().nullable().optional(),
  message: z.string().optional().describe('The error of looks that fail.'),
  looked_fps: z.number().optional().describe('Actual looks per second, if looks lag behind.'),
  probability: share
    .nullable()
    .optional()
    .describe('Probability from the look; null if the model was unsure, or if there was no look.'),
  answer: answer.nullable().optional(),
  started_at: moment.optional(),
  ended_at: moment.nullable().optional(),
  peak_probability: share.optional(),
  gaps: z.array(gap).optional().describe(`Times in which nothing was seen. ${ofEvents}`),
  frame: eventFrame.nullable().optional(),
  clip: eventClip
    .nullable()
    .optional()
    .describe('Null: no clip is recorded. In events that start, and in `watch.event.clip`.'),
  box: edges.nullable().optional().describe('Where the evidence is, as fractions of the picture’s sides.'),
  from: moment.optional().describe('When frames were last seen.'),
  to: moment.optional(),
})
export const watchEvent = responses.object('WatchEvent', {
  id: z.string(),
  object: z.literal('event'),
  type: eventType,
  created_at: z.int(),
  data: eventData,
})
export const watchEventList = responses.object('WatchEventList', {
  object: z.literal('list'),
  data: z.array(watchEvent),
  has_more: z.boolean(),
})

const answers = z.array(answer)
/** A look, as an event of a stream. It has no number and is not stored. */
export const watchLook = responses.object('WatchLook', {
  object: z.literal('look'),
  watch: z.string(),
  still: z.boolean().describe('True if nothing had moved, so that the answers are those of the previous look.'),
  frame: responses.object('WatchLookFrame', frameAbout),
  answers,
})
export const watchStreamEvent = z.union([watchEvent, watchLook]).register(responseSchemas, { id: 'WatchStreamEvent' })

export const watchFrame = responses.object('WatchFrame', {
  frame: number.describe('The number of the frame, from 1 since the server started to run the watch.'),
  dropped: z.enum(['busy', 'late', 'rate', 'still']).optional().describe('Why it is not looked at.'),
  answers: answers.optional().describe('With `wait`.'),
})

export type WatchBody = z.output<typeof watch>
export type CameraListBody = z.output<typeof cameraList>
export type WatchListBody = z.output<typeof watchList>
