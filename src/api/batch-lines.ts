import { Readable } from 'node:stream'
import type { LineCaller, LineRequest } from '../batches/line-runner.ts'
import type { LineResponse } from '../batches/output-writer.ts'
import type { ApiError } from '../lib/errors/errors.ts'
import { accessError } from './http/access/auth.ts'
import type { ApiCall } from './http/api-call.ts'
import { ClientDisconnected } from './http/connection/abort-signal.ts'
import { noteError, type ShownError, showError, toApiError } from './http/error-handler.ts'
import { type CallRecords, InnerCall } from './http/inner-call.ts'
import { PRIORITY_HEADER } from './http/record/metering.ts'
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

export interface BatchLinesOptions extends ResponsesApiOptions, CallRecords {}

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
class LineCall extends InnerCall {
  readonly #signal: AbortSignal
  readonly #refusal: ApiError | undefined

  constructor({ endpoint: path, body, principal: owner, signal }: LineRequest, options: BatchLinesOptions) {
    const refusal = accessError(owner, { url: path, scope: 'inference' })
    const headers = { [PRIORITY_HEADER]: 'background' }
    super({ path, body, owner, headers, clientId: null, isTraced: refusal === undefined }, options)
    this.#signal = signal
    this.#refusal = refusal
  }

  openStream(): never {
    throw new Error('A line of a batch cannot be streamed')
  }

  /** @throws when the line is stopped, at once. */
  async answer(surface: LineSurface): Promise<LineResponse> {
    const stopped = Promise.withResolvers<never>()
    const stop = () => {
      this.end()
      stopped.reject(this.#signal.reason)
    }
    this.#signal.addEventListener('abort', stop, { once: true })
    try {
      const { status, body } = await Promise.race([this.#respond(surface), stopped.promise])
      const json = body instanceof Readable ? (await body.toArray()).join('') : JSON.stringify(body)
      const response = { status, requestId: this.id, body: json }
      this.status = status
      return response
    } finally {
      this.#signal.removeEventListener('abort', stop)
      this.end()
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
}
