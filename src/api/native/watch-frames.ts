import type { FastifyReply, FastifyRequest } from 'fastify'
import { invalidRequest } from '../../lib/errors/errors.ts'
import { HEAD_BYTES, mediaType } from '../../media/media-type.ts'
import type { Pushed } from '../../watches/look.ts'
import type { WatchRunner } from '../../watches/watch-runner.ts'
import type { Watches } from '../../watches/watches.ts'
import { callOf } from '../http/client-call.ts'
import { queryBoolean } from '../http/query.ts'
import type { Serving } from '../surfaces/admission.ts'
import { foundWatch, keyOf } from './found-watch.ts'
import { dateTime } from './wire/watch-request.ts'

interface FrameTakers {
  readonly watches: Watches
  readonly watchRunner: WatchRunner
}

/** What a client specifies for a frame. */
interface FrameTerms {
  readonly cameraTime: Date | null
  /** Whether the response waits for the answers. */
  readonly waits: boolean
}

const FRAME_TIME = 'x-frame-time'

/** `POST /v1/watches/{watch_id}/frames` */
export async function pushFrame(
  request: FastifyRequest,
  reply: FastifyReply,
  running: FrameTakers & Pick<Serving, 'bodies'>,
): Promise<Pushed> {
  const terms = { waits: queryBoolean(request.query, 'wait'), cameraTime: frameTime(request.headers[FRAME_TIME]) }
  await checkTakesFrames(request, running)
  const bytes = await running.bodies.readBytes(callOf(request, reply))
  const pushed = await giveFrame(request, bytes, terms, running)
  reply.code(pushed.answers === undefined ? 202 : 200)
  return pushed
}

/** @throws ApiError 400 for a watch with a camera, 404 without the watch, 409 for a paused one. */
export async function checkTakesFrames(request: FastifyRequest, running: FrameTakers): Promise<void> {
  // Frames are frequent, and most of them need no query.
  if (running.watchRunner.takesFrames(...keyOf(request))) return
  const { paused, settings } = await foundWatch(request, running)
  if (settings.source.type !== 'push') throw invalidRequest('The frames of this watch come from its camera', 'watch_id')
  if (paused) throw invalidRequest('The watch is paused; resume it first', null, { status: 409 })
}

/**
 * Passes the frame to the request's watch.
 * @throws ApiError as `WatchRunner.push` does.
 */
export function giveFrame(
  request: FastifyRequest,
  bytes: Buffer,
  { cameraTime, waits }: FrameTerms,
  { watchRunner }: FrameTakers,
): Promise<Pushed> {
  // Other bytes are rejected when they are decoded.
  const contentType = mediaType(bytes.subarray(0, HEAD_BYTES)) ?? 'image/jpeg'
  return watchRunner.push(keyOf(request)[1], { bytes, contentType, cameraTime }, waits)
}

function frameTime(header: string | string[] | undefined): Date | null {
  if (header === undefined) return null
  const time = dateTime.safeParse(header)
  if (time.success) return new Date(time.data)
  throw invalidRequest(`Invalid '${FRAME_TIME}': ${time.error.issues[0]!.message}`, FRAME_TIME)
}
