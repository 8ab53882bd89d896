import { readEvents } from '../../../src/client/event-stream.ts'
import { key } from './connection.ts'
import { noteExchange } from './exchanges.ts'
import { Failure, failureInStream, failureOf, isAbort } from './failure.ts'
import type { ErrorBody } from './wire.ts'

interface CallOptions {
  readonly method?: 'GET' | 'POST' | 'DELETE'
  /** Sent as JSON; a form is sent as it is. */
  readonly body?: object | FormData
  readonly signal?: AbortSignal
  /** Whether the request drawer shows the request. */
  readonly noted?: boolean
}

/** Calls an endpoint that answers with JSON. @throws Failure; DOMException `AbortError` when aborted. */
export async function callJson<Body>(path: string, options: CallOptions = {}): Promise<Body> {
  const done = note(path, options)
  const response = await send(path, options, done)
  const body = (await reading(response.json())) as Body
  done(response.status, body)
  return body
}

/** Calls an endpoint that answers with bytes. @throws Failure */
export async function callBlob(path: string, options: CallOptions = {}): Promise<Blob> {
  const response = await send(path, options, note(path, options))
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
  try {
    for await (const data of readEvents(bytesOf(response))) {
      if (data === '[DONE]') return
      const event = JSON.parse(data) as Event
      events.push(event)
      if (event.error) throw failureInStream(event.error)
      yield event
    }
    throw new Failure('broken-off', 'The server broke off in the middle of the answer.')
  } finally {
    done(response.status, events)
  }
}

function note(path: string, { method = 'GET', body, noted = method === 'POST' }: CallOptions) {
  return noted && !(body instanceof FormData) ? noteExchange(method, path, body) : () => {}
}

async function send(
  path: string,
  { method = 'GET', body, signal }: CallOptions,
  done: (status: number, response: unknown) => void,
): Promise<Response> {
  const isForm = body instanceof FormData
  const headers: Record<string, string> = { authorization: `Bearer ${key.value}` }
  if (body !== undefined && !isForm) headers['content-type'] = 'application/json'
  const response = await fetch(path, {
    method,
    headers,
    ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
    ...(signal ? { signal } : {}),
  }).catch((error: unknown) => {
    if (isAbort(error)) throw error
    throw new Failure('offline', 'The server does not answer. Is it running?')
  })
  if (response.ok) return response
  done(
    response.status,
    await response
      .clone()
      .json()
      .catch(() => null),
  )
  throw await failureOf(response)
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
    throw new Failure('broken-off', 'The connection to the server broke in the middle of the answer.')
  })
}
