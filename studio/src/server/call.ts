import { readEvents } from '../../../src/client/event-stream.ts'
import { attachmentAt } from '../media/known-media.ts'
import { key, rejectKey } from './connection.ts'
import { noteExchange } from './exchanges.ts'
import { Failure, failureInStream, failureOf, isAbort } from './failure.ts'
import { isServerThere } from './server-watch.ts'
import type { ErrorBody } from './wire.ts'

interface CallOptions {
  readonly method?: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  /** Sent as JSON; a form or bytes are sent as they are. */
  readonly body?: object | FormData | Blob
  readonly headers?: Readonly<Record<string, string>>
  /** What the response should be: `text/event-stream`. */
  readonly accept?: string
  readonly signal?: AbortSignal
  /** Whether the request drawer shows the request. */
  readonly noted?: boolean
}

/** What proxies allow unless they are told otherwise. */
const LARGE_BYTES = 1_000_000

type Done = ReturnType<typeof noteExchange>

/** Calls an endpoint that answers with JSON. @throws Failure; DOMException `AbortError` when aborted. */
export async function callJson<Body>(path: string, options: CallOptions = {}): Promise<Body> {
  const done = note(path, options)
  const response = await send(path, options, done)
  let body: unknown = null
  try {
    body = await reading(response.json())
    return body as Body
  } finally {
    done({ status: response.status, response: body })
  }
}

/** Calls an endpoint that answers with bytes. The request drawer does not show it. @throws Failure */
export async function callBlob(path: string, options: CallOptions = {}): Promise<Blob> {
  const response = await send(path, options, () => {})
  return reading(response.blob())
}

/**
 * Calls an endpoint that answers with Server-Sent Events of JSON, and yields each.
 * @throws Failure, also for an error that the server sends in the middle, and for a stream that breaks off.
 */
export async function* callEvents<Event extends { readonly error?: ErrorBody }>(
  path: string,
  options: CallOptions,
): AsyncGenerator<Event> {
  const done = note(path, options)
  const response = await send(path, options, done)
  const events: Event[] = []
  let isDone = false
  try {
    // The last event is not left unread: that would abort the request.
    for await (const data of readEvents(bytesOf(response))) {
      if (isDone || data === '[DONE]') {
        isDone = true
        continue
      }
      const event = JSON.parse(data) as Event
      events.push(event)
      // One that names a prompt of a multilook is that prompt's alone.
      if (event.error && !('prompt_index' in event)) throw named(failureInStream(event.error), options.body)
      yield event
    }
    if (!isDone) throw new Failure('broken-off', 'The server stopped in the middle of the answer.')
  } catch (error) {
    if (!isDone) throw error
  } finally {
    done({ status: response.status, response: events, isStream: true })
  }
}

/**
 * Calls an endpoint that answers with Server-Sent Events of JSON for as long as it can, and yields each. It ends when the
 * server ends it. The request drawer does not show it.
 * @throws Failure, also when the connection breaks.
 */
export async function* callEndless<Event>(path: string, options: CallOptions): AsyncGenerator<Event> {
  const response = await send(path, { accept: 'text/event-stream', ...options }, () => {})
  for await (const data of readEvents(bytesOf(response))) yield JSON.parse(data) as Event
}

function note(path: string, { method = 'GET', body, accept, noted = method === 'POST' }: CallOptions): Done {
  if (!noted || isRaw(body)) return () => {}
  return noteExchange({ method, path, accept: accept ?? null, body })
}

function isRaw(body: CallOptions['body']): body is FormData | Blob {
  return body instanceof FormData || body instanceof Blob
}

async function send(
  path: string,
  { method = 'GET', body, accept, signal, headers: own }: CallOptions,
  done: Done,
): Promise<Response> {
  const given = key.value
  const headers: Record<string, string> = { ...own, authorization: `Bearer ${given}` }
  if (accept !== undefined) headers.accept = accept
  if (body !== undefined && !isRaw(body)) headers['content-type'] = 'application/json'
  const sent = body === undefined || isRaw(body) ? body : JSON.stringify(body)
  const response = await fetch(path, {
    method,
    headers,
    ...(sent === undefined ? {} : { body: sent }),
    ...(signal ? { signal } : {}),
  }).catch(async (error: unknown) => {
    done({ status: 0, response: null })
    if (isAbort(error)) throw error
    if (!(await isServerThere(signal))) throw new Failure('offline', 'The server does not answer.')
    const guess = sizeOf(sent) > LARGE_BYTES ? ' The request may be larger than a proxy on the way allows.' : ''
    throw new Failure(
      'unanswered',
      `The connection broke before an answer came, although the server is running.${guess}`,
    )
  })
  if (response.ok) return response
  if (response.status === 401) rejectKey(given)
  const answer = (await response
    .clone()
    .json()
    .catch(() => null)) as unknown
  done({ status: response.status, response: answer })
  throw named(await failureOf(response), body)
}

/** About the bytes of a body. */
function sizeOf(sent: FormData | Blob | string | undefined): number {
  if (sent === undefined) return 0
  if (typeof sent === 'string') return sent.length
  if (sent instanceof Blob) return sent.size
  return [...sent.values()].reduce((sum, value) => sum + (typeof value === 'string' ? value.length : value.size), 0)
}

/** Names the file that a failure is about: a person does not know the fields of the request. */
function named(failure: Failure, body: object | undefined): Failure {
  const media = failure.param === null ? null : attachmentAt(body, failure.param)
  return media === null ? failure : failure.about(media)
}

/** The bytes of a response. A connection that breaks is a failure that says so. */
async function* bytesOf(response: Response): AsyncGenerator<Uint8Array> {
  const reader = response.body!.getReader()
  try {
    for (;;) {
      const { done, value } = await reading(reader.read())
      if (done) return
      yield value
    }
  } finally {
    // When the reader of the events leaves early, the server should stop generating.
    await reader.cancel().catch(() => {})
  }
}

function reading<Value>(promise: Promise<Value>): Promise<Value> {
  return promise.catch((error: unknown) => {
    if (isAbort(error)) throw error
    void isServerThere()
    throw new Failure('broken-off', 'The connection to the server broke in the middle of the answer.')
  })
}
