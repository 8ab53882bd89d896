import { type ApiError, internalError } from '../../lib/errors/errors.ts'
import type { ApiCall, ReplyStream } from '../http/api-call.ts'
import { EVENTS, type Framing } from '../http/connection/response-stream.ts'
import { noteError, toApiError } from '../http/error-handler.ts'
import type { MeteredRequest } from '../http/record/metering.ts'
import { type Admitted, admit, type Reading, type Serving } from './admission.ts'

/** Serves chats in the form of one API. */
export interface ChatSurface<Read, Event> extends Reading<Read> {
  /** Server-Sent Events by default. */
  readonly framing?: Framing
  /**
   * Resolves when the engine has admitted the request.
   * @throws ApiError for every reason to reject the request.
   */
  start(asked: AskedChat<Read>): Promise<StartedReply<Event>>
}

interface AskedChat<Read> extends Admitted<Read> {
  readonly call: ApiCall
  /** Disposed of when the response has ended. */
  readonly held: AsyncDisposableStack
}

interface StartedReply<Event> {
  readonly events: AsyncIterable<Event>
  readonly writer: ReplyWriter<Event>
  readonly streamed: boolean
}

/** The part of a stream that a writer uses. A writer need not wait for the client. */
export type Frames = Pick<ReplyStream, 'send'>

/** Writes one reply in the form of its API: as a stream, or as one body. */
export interface ReplyWriter<Event> {
  /** Writes the beginning of a stream. */
  begin?(stream: Frames): void
  /**
   * Writes an event into a stream. For the last event, it writes only the part that may precede the ledger's record.
   * @returns the finish reason after the last event; null before that.
   */
  write(event: Event, stream: Frames): string | null
  /** Writes the end of a stream. */
  end(stream: Frames): void
  /** Writes an error in place of the end; by default in the contract's shape. */
  fail?(error: ApiError, stream: Frames): void
  /** Collects an event of a reply in one body. Returns the same as `write`. */
  collect(event: Event): string | null
  body(): object
  /** Stores the reply, if required, before the client learns of the end. */
  keep?(): Promise<void>
}

/** Answers a chat. @returns the whole response; undefined after a stream. */
export async function serveChat<Read, Event>(
  call: ApiCall,
  serving: Serving,
  surface: ChatSurface<Read, Event>,
): Promise<object | undefined> {
  const admitted = await admit(call, serving, surface)
  await using held = new AsyncDisposableStack()
  const started = await surface.start({ ...admitted, call, held })
  const { writer, streamed } = started
  if (!streamed) {
    await writeAll(started, null, admitted.metered)
    return writer.body()
  }

  const stream = call.openStream(surface.framing ?? EVENTS, serving.keepAliveMs)
  try {
    writer.begin?.(stream)
    await writeAll(started, stream, admitted.metered)
    writer.end(stream)
  } catch (failure) {
    if (!stream.isClosed) {
      const error = toApiError(failure)
      noteError(error, call)
      if (writer.fail === undefined) stream.send(JSON.stringify(error.toBody()))
      else writer.fail(error, stream)
    }
  } finally {
    await stream.full
    stream.end()
  }
}

/** Writes the events of a reply at the client's pace, and records how it ended. */
async function writeAll<Event>(
  { events, writer }: StartedReply<Event>,
  stream: ReplyStream | null,
  { finish }: MeteredRequest,
): Promise<void> {
  for await (const event of events) {
    const reason = stream === null ? writer.collect(event) : writer.write(event, stream)
    if (reason !== null) {
      await writer.keep?.()
      finish(reason)
      return
    }
    // Most clients are ready at once, and waiting would cost as much as the rest of a token.
    const full = stream === null ? null : stream.full
    if (full !== null) await full
  }
  throw internalError(new Error('A reply ended without a finish event'))
}
