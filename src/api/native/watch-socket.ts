import type { FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { invalidRequest } from '../../lib/errors/errors.ts'
import { parseRecord } from '../../lib/json/parse-json.ts'
import type { Pushed } from '../../watches/look.ts'
import type { Watch } from '../../watches/watches.ts'
import { checkSocketOrigin } from '../http/access/cors.ts'
import type { ApiCall } from '../http/api-call.ts'
import { callOf } from '../http/client-call.ts'
import { type Message, MessageSocket } from '../http/connection/message-socket.ts'
import { upgrade } from '../http/connection/upgrades.ts'
import { logServerError, toApiError } from '../http/error-handler.ts'
import { queryBoolean } from '../http/query.ts'
import { parseBody } from '../http/wire/parse.ts'
import type { Serving } from '../surfaces/admission.ts'
import { checkTakesFrames, giveFrame } from './watch-frames.ts'
import { followedBy, sendEvents, type WatchStreamOptions } from './watch-stream.ts'
import { watchFrameNote } from './wire/watch-request.ts'

export interface WatchSocketOptions extends WatchStreamOptions, Pick<Serving, 'bodies'> {
  /** Origins whose pages may connect; see `allowOrigins`. */
  readonly corsOrigins: readonly string[]
}

type FrameNote = Partial<z.output<typeof watchFrameNote>>

const MOST_NOTE_BYTES = 4_096
/** Maximum frames without a sent reply. At this number, no more frames are read. */
const MOST_WAITING = 64
const NORMAL_CLOSURE = 1000
const GOING_AWAY = 1001
const POLICY_VIOLATION = 1008

/** Receives frames from a WebSocket and sends the watch's events to it, until either of the two ends. */
export async function openWatchSocket(
  watch: Watch,
  request: FastifyRequest,
  reply: FastifyReply,
  options: WatchSocketOptions,
): Promise<undefined> {
  const { bodies, draining, keepAliveMs, corsOrigins } = options
  checkSocketOrigin(request, corsOrigins)
  const followed = followedBy(request, watch)
  const waits = queryBoolean(request.query, 'wait')
  const call = callOf(request, reply)
  const socket: MessageSocket = new MessageSocket(upgrade(request, reply), {
    pingMs: keepAliveMs,
    reserve: (bytes, isBegun) => bodies.reserve(bytes, isBegun, call),
    onMessage: (message) => frames.take(message),
  })
  const frames = new FrameReceiver(
    socket,
    async (bytes, { time, wait = waits }) => {
      await socket.pausing(checkTakesFrames(request, options))
      const terms = { cameraTime: time === undefined ? null : new Date(time), waits: wait }
      return giveFrame(request, bytes, terms, options)
    },
    call,
  )
  // At once: a client that does not read would delay the shutdown.
  const leave = () => socket.close(GOING_AWAY, 'The server is shutting down')
  draining.addEventListener('abort', leave)
  let isShutOut = false
  try {
    isShutOut = await sendEvents(socket, request, { ...followed, closed: call.closed, endsElsewhere: false }, options)
  } finally {
    draining.removeEventListener('abort', leave)
    if (draining.aborted) leave()
    else if (isShutOut) socket.close(POLICY_VIOLATION, 'The API key is revoked or has expired')
    else socket.close(NORMAL_CLOSURE, 'The watch is deleted')
  }
  return undefined
}

/** Receives the frames of a socket and replies to each, in order. */
class FrameReceiver {
  readonly #socket: MessageSocket
  readonly #give: (bytes: Buffer, note: FrameNote) => Promise<Pushed>
  readonly #call: ApiCall
  /** The client's note about the next frame. Rejects if the note cannot be read. */
  #note: Promise<FrameNote> = Promise.resolve({})
  #replied: Promise<void> = Promise.resolve()
  #waiting = 0

  constructor(socket: MessageSocket, give: (bytes: Buffer, note: FrameNote) => Promise<Pushed>, call: ApiCall) {
    this.#socket = socket
    this.#give = give
    this.#call = call
  }

  take({ data, isBinary, lease }: Message): void {
    if (!isBinary) {
      this.#note = readNote(data)
      // The frame is rejected instead.
      this.#note.catch(() => {})
      lease?.release()
      return
    }
    const reply = this.#reply(data, this.#note).finally(() => lease?.release())
    this.#note = Promise.resolve({})
    this.#waiting++
    this.#replied = this.#replied.then(async () => {
      this.#socket.send(JSON.stringify(await reply))
      this.#waiting--
    })
    if (this.#waiting >= MOST_WAITING) void this.#socket.pausing(this.#replied)
  }

  async #reply(bytes: Buffer, note: Promise<FrameNote>): Promise<object> {
    try {
      return { type: 'frame.accepted', ...(await this.#give(bytes, await note)) }
    } catch (caught) {
      const error = toApiError(caught)
      logServerError(error, this.#call)
      return { type: 'error', ...error.toBody() }
    }
  }
}

/** @throws ApiError 400 */
async function readNote(text: Buffer): Promise<FrameNote> {
  const note = text.byteLength > MOST_NOTE_BYTES ? null : parseRecord(text.toString())
  if (note !== null) return parseBody(watchFrameNote, note)
  throw invalidRequest(`Expected a JSON object of at most ${MOST_NOTE_BYTES} bytes in a text message`, null)
}
