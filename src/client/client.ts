import { setTimeout as delay } from 'node:timers/promises'
import type { Dispatcher } from 'undici'
import { ADVICE_OF_TRUST, isUntrusted } from '../lib/errors/fetch-failure.ts'
import { secondsOf } from '../lib/errors/retry-after.ts'
import type {
  DecisionAnswer,
  Detections,
  EngineEntry,
  FinishedReply,
  ModelEntry,
  ReplyPiece,
  WatchEvent,
} from './answers.ts'
import { readEvents } from './event-stream.ts'
import { readReply } from './reply-stream.ts'
import { type RawAnswer, ServerError } from './server-error.ts'

export interface ClientOptions {
  /** Without a path or a trailing slash. */
  readonly url: string
  readonly key: string | null
  /** Whether all its requests yield to those of others. */
  readonly priority?: 'background' | null
  /** Maximum seconds that a request waits for a server that is too busy or limits the rate; 600 by default. */
  readonly mostWait?: number
  /** Whether the server has already answered another client of this process. */
  readonly hasAnswered?: boolean
  /** Whether to wait as long for a server that answered before and is now unreachable, such as one that restarts. */
  readonly waitsForRestart?: boolean
  /** Called before the client waits, with the reason, and when it continues after a restart. */
  readonly onWait?: (reason: string) => void
  /** Called once with why places written by the model are unreliable. */
  readonly onWarning?: (warning: string) => void
  /** Fires when the process is about to end: from then on, only deletions get a response. */
  readonly parting?: AbortSignal | null
  /** Called with the media that the model did not get, and with schema keywords that have no effect. */
  readonly onNote?: (note: string) => void
}

export const MOST_WAIT_S = 600
/** Pause before a frame that a watch has dropped is sent again, in ms. */
const DROPPED_MS = 100
const DEFAULTS = {
  priority: null,
  mostWait: MOST_WAIT_S,
  hasAnswered: false,
  waitsForRestart: false,
  parting: null,
  onWait: () => {},
  onWarning: () => {},
  onNote: () => {},
}
/**
 * Pause between attempts to reach an unreachable server: half of the time since it became unreachable, within these
 * limits, in ms.
 */
const RETRY_MS = { least: 500, most: 5_000 }

/** A client of this API over HTTP, with no more access than any other client. */
export class LookoutClient {
  readonly url: string
  readonly #options: Required<ClientOptions>
  #warned = ''
  #hasAnswered: boolean
  /** By `performance.now()`; null while the server responds. */
  #awaySince: number | null = null

  constructor(options: ClientOptions) {
    this.#options = { ...DEFAULTS, ...options }
    this.url = options.url
    this.#hasAnswered = this.#options.hasAnswered
  }

  /** A client of the same server with another `onNote`. */
  noting(onNote: (note: string) => void): LookoutClient {
    return new LookoutClient({ ...this.#options, onNote })
  }

  async models(): Promise<readonly ModelEntry[]> {
    const list = await this.#json<{ data?: ModelEntry[] } | null>('/v1/models?extended=true')
    if (!Array.isArray(list?.data)) throw this.#notLookout()
    return list.data
  }

  /** The model served under a name or an alias, which lists omit; null if there is none. */
  async model(name: string): Promise<ModelEntry | null> {
    try {
      // Some paths below that of the models are not models, such as the catalogue.
      const path = `/v1/models/${encodeURIComponent(name)}?extended=true`
      const found = await this.#json<ModelEntry & { object?: string }>(path)
      return found.object === 'model' ? found : null
    } catch (error) {
      if (error instanceof ServerError && (error.status === 404 || error.status === 405)) return null
      throw error
    }
  }

  /** Whether the model is the one that Lookout ships for demonstration. */
  async isDemonstration(id: string): Promise<boolean> {
    const { engines } = await this.#json<{ engines: readonly EngineEntry[] }>('/v1/server')
    return engines.some(({ models, demonstration }) => demonstration && models.includes(id))
  }

  /**
   * Streams a chat completion. A reply that breaks off after its first piece is not requested again.
   * @param body without `stream`.
   * @param onPiece called with each piece; resolves when the next one may arrive. Null if only the whole reply matters.
   * @throws the signal's reason when it fires, which also ends the reply on the server.
   */
  async chat(
    body: object,
    onPiece: ((piece: ReplyPiece) => Promise<void> | void) | null,
    signal?: AbortSignal,
  ): Promise<FinishedReply> {
    let isBegun = false
    const begin = async (piece: ReplyPiece) => {
      isBegun = true
      await onPiece!(piece)
    }
    const read = () => this.#readChat(body, onPiece === null ? () => {} : begin, signal)
    return this.#patiently(read, signal, () => !isBegun)
  }

  async #readChat(
    body: object,
    onPiece: (piece: ReplyPiece) => Promise<void> | void,
    signal: AbortSignal | undefined,
  ): Promise<FinishedReply> {
    const streamed = { ...body, stream: true, stream_options: { include_usage: true } }
    const response = await this.#send('/v1/chat/completions', posted(streamed, signal))
    const reply = await readReply(this.#bodyOf(response, signal), onPiece)
    if (reply !== null) return reply
    throw new ServerError(`the server at ${this.url} stopped in the middle of the reply`, {
      status: 502,
      isAway: true,
    })
  }

  /** @throws the signal's reason when that fires. */
  async detect(body: object, signal?: AbortSignal): Promise<Detections> {
    return this.#json('/v1/detect', posted(body, signal))
  }

  /** @throws the signal's reason when that fires. */
  async decide(body: object, signal?: AbortSignal): Promise<readonly DecisionAnswer[]> {
    const { answers } = await this.#json<{ answers: readonly DecisionAnswer[] }>('/v1/decisions', posted(body, signal))
    return answers
  }

  /** Registers a watch. @returns its id. */
  /** @param probes whether to wait for the first frame of its camera. */
  async createWatch(body: object, probes = false): Promise<string> {
    return (await this.#json<{ id: string }>(`/v1/watches${probes ? '?probe=true' : ''}`, posted(body, undefined))).id
  }

  /** Events of a watch as they happen, endlessly. Reconnects when the connection breaks. */
  async *watchEvents(watch: string, signal: AbortSignal): AsyncGenerator<WatchEvent> {
    for (let last = 0; ; ) {
      const path = `/v1/watches/${encodeURIComponent(watch)}/stream?after=${last}`
      const { body } = await this.#patiently(() => this.#send(path, { signal }), signal)
      try {
        for await (const text of readEvents(body!)) {
          const event = JSON.parse(text) as WatchEvent
          last = event.data.seq
          yield event
        }
      } catch (error) {
        if (signal.aborted || !(error instanceof TypeError)) throw error
      }
    }
  }

  /**
   * Sends a frame to a watch and waits for the look. Retries while it is too early for the frame or the server is too
   * busy.
   * @returns the events since.
   */
  async pushFrame(watch: string, frame: Blob, since: number): Promise<readonly WatchEvent[]> {
    const path = `/v1/watches/${encodeURIComponent(watch)}`
    for (;;) {
      const pushed: { dropped?: string } = await this.#json(`${path}/frames?wait=true`, { method: 'POST', body: frame })
      if (pushed.dropped === undefined || pushed.dropped === 'still') break
      await delay(DROPPED_MS)
    }
    return (await this.#json<{ data: WatchEvent[] }>(`${path}/events?after=${since}&limit=1000`)).data
  }

  /**
   * The clip of an event.
   * @throws ServerError 404 if there is none.
   */
  async watchClip(watch: string, seq: number): Promise<ReadableStream<Uint8Array>> {
    const path = `/v1/watches/${encodeURIComponent(watch)}/events/${seq}/clip`
    return (await this.#patiently(() => this.#send(path, {}), undefined)).body!
  }

  async deleteWatch(watch: string): Promise<void> {
    await this.#json(`/v1/watches/${encodeURIComponent(watch)}`, { method: 'DELETE' })
  }

  /**
   * Sends JSON unchanged.
   * @returns the API's response, errors included.
   * @throws ServerError if the response is not from the API, or the key is unknown.
   */
  async answer(path: string, json: string): Promise<RawAnswer> {
    try {
      return await this.#patiently(async () => {
        const response = await this.#send(path, postedJson(json))
        return await rawAnswer(response).catch((error: unknown) => {
          throw this.#broken(error)
        })
      }, undefined)
    } catch (error) {
      if (error instanceof ServerError && error.answer !== null) return error.answer
      throw error
    }
  }

  /**
   * An upload in progress is not aborted, which might be too late to keep its file from being stored.
   * @returns the id of the stored file.
   * @throws the signal's reason if it fires before the upload, or before a retry.
   */
  async upload(bytes: Blob, filename: string, signal?: AbortSignal): Promise<string> {
    signal?.throwIfAborted()
    const form = new FormData()
    form.set('purpose', 'user_data')
    form.set('file', bytes, filename)
    return (await this.#json<{ id: string }>('/v1/files', { method: 'POST', body: form }, signal)).id
  }

  async deleteFile(id: string): Promise<void> {
    await this.#json(`/v1/files/${encodeURIComponent(id)}`, { method: 'DELETE' })
  }

  /** @param waiting aborts the wait for a server that is busy or unreachable. */
  async #json<Body>(path: string, init: RequestInit = {}, waiting = init.signal): Promise<Body> {
    return this.#patiently(async () => {
      const response = await this.#send(path, init)
      try {
        return (await response.json()) as Body
      } catch (error) {
        init.signal?.throwIfAborted()
        throw error instanceof SyntaxError ? this.#notLookout() : this.#broken(error)
      }
    }, waiting)
  }

  /** Retries while the server is too busy or unreachable, as long as the client may wait. */
  async #patiently<Result>(
    attempt: () => Promise<Result>,
    signal: AbortSignal | null | undefined,
    isRepeatable = () => true,
  ): Promise<Result> {
    let waited = 0
    for (;;) {
      try {
        const result = await attempt()
        if (this.#awaySince !== null) this.#options.onWait('the server answers again')
        this.#awaySince = null
        this.#hasAnswered = true
        return result
      } catch (error) {
        if (!(error instanceof ServerError) || !isRepeatable()) throw error
        let ms: number
        if (error.isAway) ms = this.#nextTry(error)
        else {
          const seconds = error.retryAfter
          if (seconds === null || waited + seconds > this.#options.mostWait) throw error
          this.#options.onWait(`${error.message} (waiting for ${Math.ceil(seconds)} s)`)
          waited += seconds
          ms = seconds * 1000
        }
        await delay(ms, undefined, signal ? { signal } : {})
      }
    }
  }

  /**
   * Milliseconds until the next attempt to reach the server, which is unreachable for all requests.
   * @throws the error when the time is up.
   */
  #nextTry(error: ServerError): number {
    if (!this.#options.waitsForRestart || !this.#hasAnswered || this.#options.mostWait === 0) throw error
    const now = performance.now()
    if (this.#awaySince === null)
      this.#options.onWait(`${error.message}: waiting for up to ${spanOf(this.#options.mostWait)}`)
    this.#awaySince ??= now
    const away = now - this.#awaySince
    const left = this.#options.mostWait * 1000 - away
    if (left <= 0) throw error
    return Math.min(Math.max(away / 2, RETRY_MS.least), RETRY_MS.most, left)
  }

  /** @throws ServerError for every response but a success. */
  async #send(path: string, init: RequestInit): Promise<Response> {
    const headers = {
      ...init.headers,
      ...(this.#options.priority === null ? {} : { 'x-lookout-priority': this.#options.priority }),
      ...(this.#options.key === null ? {} : { authorization: `Bearer ${this.#options.key}` }),
    }
    await this.#hold(init)
    const dispatcher = await withoutTimeLimits()
    // The response to an upload says which file to delete.
    const hold = init.body instanceof FormData ? () => {} : () => this.#hold(init)
    const answering = fetch(this.url + path, { ...init, headers, dispatcher }).finally(hold)
    const response = await answering.catch((error: unknown) => {
      init.signal?.throwIfAborted()
      if (isUntrusted(error)) {
        const problem = `the certificate of the server at ${this.url} is not trusted (${causeOf(error)})`
        throw new ServerError(`${problem}: ${ADVICE_OF_TRUST}`, { status: 0 })
      }
      throw new ServerError(`no server answers at ${this.url} (${causeOf(error)})`, { status: 0, isAway: true })
    })
    if (!response.ok) throw await this.#errorOf(response)
    const warning = response.headers.get('x-lookout-warning')
    if (warning !== null && warning !== this.#warned) this.#options.onWarning(warning)
    this.#warned = warning ?? this.#warned
    const note = response.headers.get('x-lookout-note')
    if (note !== null) this.#options.onNote(note)
    const ignored = response.headers.get('x-lookout-ignored-keywords')
    if (ignored !== null) this.#options.onNote(`these keywords of the JSON schema have no effect: ${ignored}`)
    return response
  }

  /**
   * If the process is about to end, waits for that: otherwise the caller would upload the next file, or report that the
   * last one is gone.
   */
  async #hold({ method }: RequestInit): Promise<void> {
    if (this.#options.parting?.aborted && method !== 'DELETE') await new Promise(() => {})
  }

  #bodyOf(response: Response, signal: AbortSignal | undefined): AsyncIterable<Uint8Array> {
    if (!response.headers.get('content-type')?.startsWith('text/event-stream') || response.body === null)
      throw this.#notLookout()
    return this.#named(response.body, signal)
  }

  /** The bytes of a response; a broken connection throws an error that says so. */
  async *#named(body: AsyncIterable<Uint8Array>, signal: AbortSignal | undefined): AsyncGenerator<Uint8Array> {
    try {
      yield* body
    } catch (error) {
      signal?.throwIfAborted()
      throw this.#broken(error)
    }
  }

  async #errorOf(response: Response): Promise<ServerError> {
    const { status } = response
    const answer = await rawAnswer(response).catch(() => null)
    const error = errorIn(answer?.body ?? '')
    if (typeof error?.message !== 'string') {
      // The response may be from a proxy that cannot reach the server, or rejects a body of this size.
      const said = `${status} ${response.statusText}`.trim()
      const message = `the server at ${this.url} answered ${said}, not as a Lookout server does`
      return new ServerError(message, { status, isAway: status >= 502 && status <= 504 })
    }
    if (status === 401) {
      const message =
        this.#options.key === null
          ? `the server at ${this.url} needs a key: --key or LOOKOUT_API_KEY`
          : `the server at ${this.url} does not know this key`
      return new ServerError(message, { status })
    }
    const seconds = status === 429 || status === 503 ? secondsOf(response.headers.get('retry-after')) : null
    return new ServerError(error.message, {
      status,
      param: error.param ?? null,
      code: error.code ?? null,
      retryAfter: seconds === 0 ? null : seconds,
      answer,
    })
  }

  #broken(error: unknown): ServerError {
    return new ServerError(`the connection to ${this.url} broke (${causeOf(error)})`, { status: 0, isAway: true })
  }

  #notLookout(): ServerError {
    return new ServerError(`the server at ${this.url} is not a Lookout server`, { status: 502 })
  }
}

/**
 * A dispatcher for `fetch` with the time limit that a server may need for models: undici gives up after five minutes.
 */
async function withoutTimeLimits(): Promise<Dispatcher> {
  const { getGlobalDispatcher } = await import('undici')
  return getGlobalDispatcher().compose((dispatch) => (options, handler) => {
    return dispatch({ ...options, headersTimeout: 0, bodyTimeout: 0 }, handler)
  })
}

function posted(body: object, signal: AbortSignal | undefined): RequestInit {
  return postedJson(JSON.stringify(body), signal)
}

function postedJson(body: string, signal?: AbortSignal): RequestInit {
  return { method: 'POST', headers: { 'content-type': 'application/json' }, body, signal: signal ?? null }
}

async function rawAnswer(response: Response): Promise<RawAnswer> {
  const { status, headers } = response
  return { status, requestId: headers.get('x-request-id') ?? '', body: await response.text() }
}

/** Reads an error in the shape of any of the APIs. */
function errorIn(body: string): { message?: string; param?: string | null; code?: string | null } | undefined {
  try {
    return (JSON.parse(body) as { error?: object } | null)?.error
  } catch {
    return undefined
  }
}

function spanOf(seconds: number): string {
  return seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`
}

/** A code such as `ECONNREFUSED`, which the message `fetch failed` lacks. */
function causeOf(error: unknown): string {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && typeof cause.code === 'string') return cause.code
    if (cause instanceof AggregateError && cause.errors[0] instanceof Error) return causeOf(cause.errors[0])
    if (cause.cause === undefined) return cause.message
  }
  return String(error)
}
