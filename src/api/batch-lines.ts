import { Readable } from 'node:stream'
import type { LineCaller, LineRequest } from '../batches/line-runner.ts'
import type { LineResponse } from '../batches/output-writer.ts'
import type { ApiError } from '../lib/errors/errors.ts'
import type { RequestTrace } from '../tracing/request-trace.ts'
import type { ApiOptions } from './api.ts'
import { accessError } from './http/access/auth.ts'
import type { ApiCall } from './http/api-call.ts'
import { CLIENT_CLOSED_REQUEST, ClientDisconnected } from './http/connection/abort-signal.ts'
import { noteError, type ShownError, showError, toApiError } from './http/error-handler.ts'
import { PRIORITY_HEADER } from './http/record/metering.ts'
import { logRequest, newTraceId } from './http/record/request-log.ts'
import { detect } from './native/detect.ts'
import { multilook } from './native/multilook.ts'
import type { BATCH_ENDPOINTS } from './openai/wire/batches.ts'
import { showError as showAnthropicError } from './surfaces/anthropic/errors.ts'
import { messages } from './surfaces/anthropic/messages.ts'
import { ocr } from './surfaces/mistral/ocr.ts'
import { chatCompletions } from './surfaces/openai/chat-completions.ts'
import { completions } from './surfaces/openai/completions.ts'
import { decide } from './surfaces/openai/decisions.ts'
import { embeddings, rerank } from './surfaces/openai/embeddings.ts'
import { type ResponsesApiOptions, responses } from './surfaces/responses/responses.ts'
import { type ChatSurface, serveChat } from './surfaces/serve-chat.ts'

export interface BatchLinesOptions extends ResponsesApiOptions, Pick<ApiOptions, 'logger' | 'meter' | 'tracing'> {}

type BatchEndpoint = (typeof BATCH_ENDPOINTS)[number]

/** Handles the lines of one endpoint. */
interface LineSurface {
  answer(call: ApiCall): Promise<object | undefined>
  show(error: ApiError, requestId: string): ShownError
}

/**
 * Returns a function that runs lines of batches with the code, checks and records of HTTP requests. Only rate limits do
 * not apply: a batch was counted when it was created.
 */
export function lineCaller(options: BatchLinesOptions): LineCaller {
  const surfaces = surfacesOf(options)
  return async (line) => {
    line.signal.throwIfAborted()
    // Checked when the batch was created.
    return new LineCall(line, options).answer(surfaces[line.endpoint as BatchEndpoint])
  }
}

function surfacesOf(options: BatchLinesOptions): Readonly<Record<BatchEndpoint, LineSurface>> {
  const chats = <Read, Event>(surface: ChatSurface<Read, Event>) => ({
    answer: (call: ApiCall) => serveChat(call, options, surface),
    show: showError,
  })
  return {
    '/v1/chat/completions': chats(chatCompletions(options)),
    '/v1/chat/completions/multilook': chats(multilook(options)),
    '/v1/completions': chats(completions(options)),
    '/v1/embeddings': { answer: (call) => embeddings(call, options), show: showError },
    '/v1/rerank': { answer: (call) => rerank(call, options), show: showError },
    '/v1/ocr': { answer: (call) => ocr(call, options), show: showError },
    '/v1/responses': chats(responses(options)),
    '/v1/messages': { ...chats(messages(options)), show: showAnthropicError },
    '/v1/detect': { answer: (call) => detect(call, options), show: showError },
    '/v1/decisions': { answer: (call) => decide(call, options), show: showError },
  }
}

/** A line of a batch as a call. Stopping the line closes the call. */
class LineCall implements ApiCall {
  readonly id = newTraceId()
  readonly headers: ApiCall['headers']
  readonly body: Buffer
  readonly logger: ApiCall['logger']
  readonly trace: RequestTrace | null
  readonly #closing = new AbortController()
  readonly closed = this.#closing.signal
  status: number | null = null
  readonly #line: LineRequest
  readonly #options: BatchLinesOptions
  readonly #refusal: ApiError | undefined
  readonly #started = performance.now()
  #model = ''

  constructor(line: LineRequest, options: BatchLinesOptions) {
    const { endpoint, body, principal } = line
    options.meter?.requestStarted()
    this.#line = line
    this.#options = options
    this.body = body
    this.logger = options.logger
    this.headers = { 'content-length': `${body.length}`, [PRIORITY_HEADER]: 'background' }
    this.#refusal = accessError(principal, { url: endpoint, scope: 'inference' })
    this.trace = this.#refusal === undefined ? this.#beginTrace() : null
  }

  #beginTrace(): RequestTrace | null {
    const { endpoint } = this.#line
    const { tracing } = this.#options
    const about = { id: this.id, clientId: null, method: 'POST', route: endpoint, path: endpoint, httpVersion: '1.1' }
    return tracing?.begin({ ...about, organisation: this.principal.organisation, headers: {} }) ?? null
  }

  get principal() {
    const { principal } = this.#line
    if (principal === null) throw new Error('A line was answered without a key')
    return principal
  }

  servedBy(model: string): void {
    this.#model = model
  }

  /** A batch has no place for headers. */
  setHeader(): void {}

  openStream(): never {
    throw new Error('A line of a batch cannot be streamed')
  }

  /** @throws when the line is stopped, at once. */
  async answer(surface: LineSurface): Promise<LineResponse> {
    const { signal } = this.#line
    const stopped = Promise.withResolvers<never>()
    const stop = () => {
      this.#end()
      stopped.reject(signal.reason)
    }
    signal.addEventListener('abort', stop, { once: true })
    try {
      const { status, body } = await Promise.race([this.#respond(surface), stopped.promise])
      const json = body instanceof Readable ? (await body.toArray()).join('') : JSON.stringify(body)
      const response = { status, requestId: this.id, body: json }
      this.status = status
      return response
    } finally {
      signal.removeEventListener('abort', stop)
      this.#end()
    }
  }

  async #respond({ answer, show }: LineSurface) {
    try {
      if (this.#refusal !== undefined) throw this.#refusal
      return { status: 200, body: await answer(this) }
    } catch (cause) {
      if (cause instanceof ClientDisconnected) throw cause
      const error = toApiError(cause)
      noteError(error, this)
      return show(error, this.id)
    }
  }

  /** Records how it ended, once. */
  #end(): void {
    if (this.closed.aborted) return
    const { id, logger, trace } = this
    const { endpoint: path, principal } = this.#line
    const ms = performance.now() - this.#started
    const ended = { method: 'POST', status: this.status ?? CLIENT_CLOSED_REQUEST, ms }
    logRequest(logger, { ...ended, id, clientId: null, trace, path, organisation: principal?.organisation })
    this.#options.meter?.requestEnded({ ...ended, endpoint: path, model: this.#model })
    this.#closing.abort(new ClientDisconnected('The line of a batch was stopped'))
    trace?.end(this.status ?? 200, this.status !== null)
  }
}
