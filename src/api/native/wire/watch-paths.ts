import './watch-request.ts'
import './watch-response.ts'
import {
  inPath,
  json,
  type Operation,
  ok,
  operations,
  paging,
  query,
  RANGE,
  ref,
  SUBPROTOCOLS,
  storedContent,
  stream,
} from '../../http/wire/describe.ts'

const WATCH_ID = inPath('watch_id', 'The id of the watch, which begins with `watch_`.')
const BYTES = { schema: ref('WatchPicture') }
const PICTURE = { 'application/octet-stream': BYTES, '*/*': BYTES }
const OF_ONE = [401, 403, 404, 429, 503]
const WITH_BODY = [400, 401, 403, 408, 413, 415, 429, 503]
const FRAME_TIME = {
  name: 'x-frame-time',
  in: 'header',
  description: 'When the frame was taken, such as 2027-01-31T12:00:00.5Z. Events repeat it, and nothing depends on it.',
  schema: { type: 'string' },
}
const LAST_EVENT = {
  name: 'last-event-id',
  in: 'header',
  description: 'Start after the event with this number. Clients send it when they connect again.',
  schema: { type: 'integer', minimum: 0 },
}

const SOCKET =
  'Each binary message is a frame, as in `POST …/frames`, and gets one reply in the order of the frames: ' +
  '`{"type": "frame.accepted", …}` with the fields of `WatchFrame`, or `{"type": "error", "error": …}`. ' +
  'A text message `{"type": "frame", "time": …, "wait": true}` sets `x-frame-time` and `wait` of the next frame; ' +
  'both are optional. Other texts from the server are events and looks, as in `GET …/stream`. ' +
  'Close codes: 1000 when the watch is deleted, 1001 when the server shuts down, 1008 when the key is revoked or ' +
  'expires, 1009 for a message over 20 MB, 1013 when the server has no room for it.'

export const WATCH_PATHS = operations({
  'GET /v1/cameras': {
    id: 'listCameras',
    tag: 'watches',
    summary: 'The cameras of the server’s configuration, and whether they deliver',
    replies: ok('All cameras.', json('CameraList')),
    errors: [401, 403, 429, 503],
  },
  'POST /v1/watches': {
    id: 'createWatch',
    tag: 'watches',
    summary: 'Register standing questions; needs a key of scope `watch`, and `admin` for a camera by its address',
    parameters: [
      query('probe', 'Whether to wait for the first frame of the camera, up to 40 seconds.', {
        type: 'boolean',
        default: false,
      }),
    ],
    body: json('WatchRequest'),
    replies: { 201: { description: 'The watch, which waits for frames.', content: json('Watch') } },
    errors: WITH_BODY,
  },
  'GET /v1/watches': {
    id: 'listWatches',
    tag: 'watches',
    summary: 'The watches of the organisation, newest first',
    parameters: paging('watch', { most: 100, usual: 20 }),
    replies: ok('A page of watches.', json('WatchList')),
    errors: [400, 401, 403, 429, 503],
  },
  'GET /v1/watches/{watch_id}': {
    id: 'retrieveWatch',
    tag: 'watches',
    summary: 'Get a watch and its status',
    limited: false,
    parameters: [WATCH_ID],
    replies: ok('The watch.', json('Watch')),
    errors: [401, 403, 404, 503],
  },
  'PATCH /v1/watches/{watch_id}': {
    id: 'changeWatch',
    tag: 'watches',
    summary: 'Change a watch from its next look on; questions that stay the same keep their events',
    parameters: [WATCH_ID],
    body: json('WatchChange'),
    replies: ok('The watch.', json('Watch')),
    errors: [...WITH_BODY, 404],
  },
  'DELETE /v1/watches/{watch_id}': {
    id: 'deleteWatch',
    tag: 'watches',
    summary: 'Delete a watch with its events, their frames and their clips',
    parameters: [WATCH_ID],
    replies: ok('The watch is deleted.', json('DeletedWatch')),
    errors: OF_ONE,
  },
  'POST /v1/watches/{watch_id}/pause': {
    id: 'pauseWatch',
    tag: 'watches',
    summary: 'Pause a watch',
    parameters: [WATCH_ID],
    replies: ok('The watch.', json('Watch')),
    errors: OF_ONE,
  },
  'POST /v1/watches/{watch_id}/resume': {
    id: 'resumeWatch',
    tag: 'watches',
    summary: 'Resume a watch',
    parameters: [WATCH_ID],
    replies: ok('The watch.', json('Watch')),
    errors: OF_ONE,
  },
  'GET /v1/watches/{watch_id}/events': {
    id: 'listWatchEvents',
    tag: 'watches',
    summary: 'The events of a watch that are kept, in order',
    limited: false,
    parameters: [
      WATCH_ID,
      query('after', 'Start after the event with this number.', { type: 'integer', minimum: 0, default: 0 }),
      query('limit', 'Maximum number in a page.', { type: 'integer', minimum: 1, maximum: 1000, default: 100 }),
    ],
    replies: ok('A page of events.', json('WatchEventList')),
    errors: [400, 401, 403, 404, 503],
  },
  'GET /v1/watches/{watch_id}/events/{seq}/frame': ofEvent('retrieveWatchEventFrame', {
    summary: 'The first frame of an event, as it was sent',
    seq: 'The number of the event that reports the start.',
    reply: 'The frame.',
  }),
  'GET /v1/watches/{watch_id}/events/{seq}/clip': ofEvent('retrieveWatchEventClip', {
    summary: 'The clip of an event, in MP4',
    seq: 'The number of the event that reports the start or the clip.',
    reply: 'The clip.',
  }),
  'GET /v1/watches/{watch_id}/stream': {
    id: 'streamWatch',
    tag: 'watches',
    summary: 'Events as they happen; the number of each is its `id`',
    limited: false,
    parameters: [
      WATCH_ID,
      LAST_EVENT,
      query('after', 'The same, for the first connection.', { type: 'integer', minimum: 0 }),
      query('looks', 'Whether to send every look too.', { type: 'boolean', default: false }),
    ],
    replies: ok(
      'Events, until the client leaves, its key is revoked or the watch is deleted.',
      stream('WatchStreamEvent'),
    ),
    errors: [400, 401, 403, 404, 503],
  },
  'GET /v1/watches/{watch_id}/socket': {
    id: 'openWatchSocket',
    tag: 'watches',
    summary: 'A WebSocket that takes frames and sends events',
    description: SOCKET,
    limited: false,
    parameters: [
      WATCH_ID,
      SUBPROTOCOLS,
      query('after', 'Send the events after the one with this number.', { type: 'integer', minimum: 0 }),
      query('looks', 'Whether to send every look too.', { type: 'boolean', default: false }),
      query('wait', 'Whether to wait for the look of each frame.', { type: 'boolean', default: false }),
    ],
    replies: { 101: { description: 'The connection is a WebSocket now.' } },
    errors: [400, 401, 403, 404, 426, 503],
  },
  'GET /v1/watches/{watch_id}/frame': {
    id: 'retrieveWatchFrame',
    tag: 'watches',
    summary: 'The newest frame that was looked at, as it was sent',
    limited: false,
    parameters: [WATCH_ID],
    replies: ok('The frame.', PICTURE),
    errors: [401, 403, 404, 503],
  },
  'POST /v1/watches/{watch_id}/frames': {
    id: 'pushWatchFrame',
    tag: 'watches',
    summary: 'Send a frame: a JPEG, PNG or WebP of at most 20 MB',
    limited: false,
    parameters: [
      WATCH_ID,
      FRAME_TIME,
      query('wait', 'Whether to wait for the look.', { type: 'boolean', default: false }),
    ],
    body: { 'application/octet-stream': BYTES },
    replies: {
      200: { description: 'The answers of the look.', content: json('WatchFrame') },
      202: { description: 'The frame is being looked at, or was dropped.', content: json('WatchFrame') },
    },
    errors: [400, 401, 403, 404, 408, 409, 413, 415, 500, 503, 504],
  },
})

/** The paths of an event's stored files. */
function ofEvent(
  id: string,
  { summary, seq, reply }: Readonly<Record<'summary' | 'seq' | 'reply', string>>,
): Operation {
  return {
    ...{ id, tag: 'watches', summary, limited: false },
    parameters: [WATCH_ID, inPath('seq', seq), RANGE],
    replies: storedContent(reply, PICTURE),
    errors: [401, 403, 404, 416, 503],
  }
}
