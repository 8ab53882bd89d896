import { Agent, type Dispatcher, request } from 'undici'
import { z } from 'zod'
import { askTwice } from '../../../lib/errors/fetch-failure.ts'
import { secondsOf } from '../../../lib/errors/retry-after.ts'
import { parseJsonOr } from '../../../lib/json/parse-json.ts'
import { type Call, ServerFailure } from '../wire/wire.ts'
import { dataLines } from './event-stream.ts'

/** How to connect to the servers of a card. */
export interface Connecting {
  readonly apiKey: string | null
  /** Maximum silence of a stream after it has begun, in ms. */
  readonly silenceMs?: number | undefined
}

export interface ServerClientOptions extends Connecting {
  /** The servers' engine, for errors. */
  readonly engine: string
  /** Maps an error response to a failure; null to use the default mapping. */
  readonly specialFailure?: (status: number, message: string, code: ErrorCode) => ServerFailure | null
}

/** An error's code in the response body; null or absent for none. */
export type ErrorCode = string | number | null | undefined

type Method = 'GET' | 'POST'
type Body = Dispatcher.ResponseData['body']

const SILENCE_MS = 120_000
const CONNECT_MS = 5_000
const MOST_RETRY_SECONDS = 3600

/** Sends requests to the servers of a model and interprets their responses. */
export class ServerClient {
  readonly #options: ServerClientOptions
  readonly #agent: Agent
  readonly #headers: Readonly<Record<string, string>>

  constructor(options: ServerClientOptions) {
    this.#options = options
    this.#agent = new Agent({
      connect: { timeout: CONNECT_MS },
      // A server may queue a request for as long as it has others to compute.
      headersTimeout: 0,
      bodyTimeout: options.silenceMs ?? SILENCE_MS,
      pipelining: 1,
    })
    this.#headers = {
      'content-type': 'application/json',
      ...(options.apiKey === null ? null : { authorization: `Bearer ${options.apiKey}` }),
    }
  }

  /**
   * @param body a string is sent as it is.
   * @throws ServerFailure `lost` if the server does not respond.
   */
  async send(url: string, method: Method, path: string, body: unknown, call: Call): Promise<Dispatcher.ResponseData> {
    const { signal, headers } = call
    const ask = () =>
      request(url + path, {
        method,
        dispatcher: this.#agent,
        headers: headers === undefined ? this.#headers : { ...headers, ...this.#headers },
        body: body === null || typeof body === 'string' ? body : JSON.stringify(body),
        signal,
      })
    try {
      return await (method === 'GET' ? askTwice(ask, signal) : ask())
    } catch (error) {
      signal.throwIfAborted()
      const { code, message } = error as NodeJS.ErrnoException
      throw new ServerFailure('lost', message || String(code), error)
    }
  }

  /**
   * @returns the response's JSON.
   * @throws ServerFailure for a status other than 200, or JSON that does not match the schema.
   */
  async ask<Output>(
    schema: z.ZodType<Output>,
    url: string,
    [method, path]: readonly [Method, string],
    body: unknown,
    signal: AbortSignal,
  ): Promise<Output> {
    const response = await this.send(url, method, path, body, { signal })
    if (response.statusCode !== 200) throw await this.failureOfResponse(response)
    const parsed = schema.safeParse(parseJson(await textOf(response, signal)))
    if (parsed.success) return parsed.data
    const { message } = parsed.error.issues[0]!
    throw new ServerFailure('wrong', `its answer is not that of ${this.#options.engine}: ${message}`)
  }

  /**
   * @returns the text of a response.
   * @throws ServerFailure for a status other than 200.
   */
  async text(url: string, path: string, signal: AbortSignal): Promise<string> {
    const response = await this.send(url, 'GET', path, null, { signal })
    const text = await textOf(response, signal)
    if (response.statusCode === 200) return text
    throw new ServerFailure(response.statusCode === 404 ? 'wrong' : 'lost', `${path} answered ${response.statusCode}`)
  }

  /**
   * Requests a stream of events.
   * @returns their data. The iteration throws a ServerFailure if the stream ends before `[DONE]`; stopping it closes
   * the stream.
   * @throws ServerFailure for a status other than 200.
   */
  async open(url: string, path: string, body: unknown, { signal, headers }: Call): Promise<AsyncIterable<string>> {
    signal.throwIfAborted()
    const ending = new AbortController()
    const end = () => ending.abort(signal.reason)
    const detach = () => signal.removeEventListener('abort', end)
    signal.addEventListener('abort', end, { once: true })
    try {
      const response = await this.send(url, 'POST', path, body, { signal: ending.signal, headers })
      if (response.statusCode === 200) return this.#lines(response.body, detach, signal)
      throw await this.failureOfResponse(response)
    } catch (error) {
      detach()
      throw error
    }
  }

  /**
   * @param detach stops the signal from closing the stream's connection, which another request may be using by then.
   */
  async *#lines(body: Body, detach: () => void, signal: AbortSignal): AsyncGenerator<string, void, void> {
    let isWhole = false
    try {
      // Leaving the loop must not destroy the body, which would close its connection.
      for await (const line of dataLines(body.iterator({ destroyOnReturn: false }))) {
        isWhole = line === '[DONE]'
        if (isWhole) break
        yield line
      }
    } catch (error) {
      signal.throwIfAborted()
      throw new ServerFailure('lost', (error as Error).message, error)
    } finally {
      detach()
      // No reader is affected by a later error.
      body.on('error', () => {})
      // Nothing relevant follows the last event; once the body has ended, the next request can reuse the connection.
      if (isWhole) body.resume()
      else body.destroy()
    }
    if (!isWhole) throw new ServerFailure('lost', 'its stream ended before the reply')
  }

  /** Maps an error response to a failure. */
  failureOf(status: number, message: string, code?: ErrorCode): ServerFailure {
    return this.#options.specialFailure?.(status, message, code) ?? failureOf(status, message)
  }

  /** The same for a response with a status other than 200. */
  async failureOfResponse({ statusCode, headers, body }: Dispatcher.ResponseData): Promise<ServerFailure> {
    const text = await body.text().catch(() => '')
    const said = errorSchema.safeParse(parseJsonOr(text, null)).data
    const message = said?.error?.message ?? said?.message ?? text.slice(0, 500)
    const failure = this.failureOf(statusCode, message, said?.error?.code)
    const asked = headers['retry-after']
    const seconds = secondsOf(Array.isArray(asked) ? asked[0] : asked)
    if (seconds !== null && seconds >= 1) failure.retrySeconds = Math.min(Math.ceil(seconds), MOST_RETRY_SECONDS)
    return failure
  }

  async close(): Promise<void> {
    await this.#agent.destroy()
  }
}

/** @throws ServerFailure `lost` for an incomplete response. */
export async function textOf({ body }: Dispatcher.ResponseData, signal: AbortSignal): Promise<string> {
  try {
    return await body.text()
  } catch (error) {
    signal.throwIfAborted()
    throw new ServerFailure('lost', (error as Error).message, error)
  }
}

/** Statuses that blame the request; any other blames the server or its operator. */
export const BLAMING = [400, 413, 422]

function failureOf(status: number, message: string): ServerFailure {
  const answered = `it answered ${status}: ${message}`
  if (status === 404) return new ServerFailure('wrong', answered)
  if (status === 401 || status === 403)
    return new ServerFailure('wrong', `it wants another API key (engine.apiKeyEnv): ${message}`)
  if (status === 429 || status === 503) return new ServerFailure('busy', answered)
  if (!BLAMING.includes(status)) return new ServerFailure('lost', answered)
  if (/grammar|structured_output/i.test(message)) return new ServerFailure('grammar', answered)
  return new ServerFailure('refused', answered)
}

const errorSchema = z.object({
  error: z
    .union([
      z.string().transform((message) => ({ message, code: null })),
      z.object({ message: z.string(), code: z.union([z.string(), z.number()]).nullish().catch(null) }),
    ])
    .optional(),
  message: z.string().optional(),
})

/** @throws ServerFailure `wrong` for invalid JSON. */
export function parseJson(text: string): unknown {
  const json = parseJsonOr(text, undefined)
  if (json === undefined) throw new ServerFailure('wrong', 'its answer is not JSON')
  return json
}
