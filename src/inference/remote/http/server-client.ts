import { Agent, type Dispatcher, request } from 'undici'
import { z } from 'zod'
import { askTwice } from '../../../lib/errors/fetch-failure.ts'
import { secondsOf } from '../../../lib/errors/retry-after.ts'
import { parseJsonOr } from '../../../lib/json/parse-json.ts'
import { type Call, ServerFailure } from '../wire/wire.ts'
import { dataLines } from './event-stream.ts'

/** How the servers of a card are connected to. */
export interface Connecting {
  readonly apiKey: string | null
  /** How long a stream may be silent once it has begun, in ms. */
  readonly silenceMs?: number | undefined
}

export interface ServerClientOptions extends Connecting {
  /** The engine that the servers run, for errors. */
  readonly engine: string
  /** What it means when a server does not do what it was asked; null where `failureOf` says it. */
  readonly specialFailure?: (status: number, message: string, code: ErrorCode) => ServerFailure | null
}

/** What a server calls an error besides its status; null or absent for none. */
export type ErrorCode = string | number | null | undefined

type Method = 'GET' | 'POST'
type Body = Dispatcher.ResponseData['body']

const SILENCE_MS = 120_000
const CONNECT_MS = 5_000
const MOST_RETRY_SECONDS = 3600

/** Requests to the servers of a model, and what their answers mean. */
export class ServerClient {
  readonly #options: ServerClientOptions
  readonly #agent: Agent
  readonly #headers: Readonly<Record<string, string>>

  constructor(options: ServerClientOptions) {
    this.#options = options
    this.#agent = new Agent({
      connect: { timeout: CONNECT_MS },
      // A server may let a request wait for as long as it has others to compute.
      headersTimeout: 0,
      bodyTimeout: options.silenceMs ?? SILENCE_MS,
      pipelining: 1,
    })
    this.#headers = {
      'content-type': 'application/json',
      ...(options.apiKey === null ? null : { authorization: `Bearer ${options.apiKey}` }),
    }
  }

  /** @param body a text is sent as it is. @throws ServerFailure `lost` when the server does not answer. */
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

  /** @returns the answer's JSON. @throws ServerFailure for another status than 200, or an answer of another shape. */
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

  /** @returns the text of an answer. @throws ServerFailure for another status than 200. */
  async text(url: string, path: string, signal: AbortSignal): Promise<string> {
    const response = await this.send(url, 'GET', path, null, { signal })
    const text = await textOf(response, signal)
    if (response.statusCode === 200) return text
    throw new ServerFailure(response.statusCode === 404 ? 'wrong' : 'lost', `${path} answered ${response.statusCode}`)
  }

  /**
   * Asks for a stream of events.
   * @returns their data. It throws a ServerFailure when the stream ends before `[DONE]`; a reader that stops closes it.
   * @throws ServerFailure for another status than 200.
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

  /** @param detach keeps the signal from ending the stream's connection, which another request may have by then. */
  async *#lines(body: Body, detach: () => void, signal: AbortSignal): AsyncGenerator<string, void, void> {
    let isWhole = false
    try {
      // Leaving the loop must not end the body, which would take its connection with it.
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
      // A later error concerns no reader.
      body.on('error', () => {})
      // What comes behind the last event is nothing, and the next request can have the connection when it has come.
      if (isWhole) body.resume()
      else body.destroy()
    }
    if (!isWhole) throw new ServerFailure('lost', 'its stream ended before the reply')
  }

  /** What it means when a server does not do what it was asked. */
  failureOf(status: number, message: string, code?: ErrorCode): ServerFailure {
    return this.#options.specialFailure?.(status, message, code) ?? failureOf(status, message)
  }

  /** The same, of an answer with another status than 200. */
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

/** @throws ServerFailure `lost` for an answer that breaks off. */
export async function textOf({ body }: Dispatcher.ResponseData, signal: AbortSignal): Promise<string> {
  try {
    return await body.text()
  } catch (error) {
    signal.throwIfAborted()
    throw new ServerFailure('lost', (error as Error).message, error)
  }
}

/** Statuses that blame the request; with any other, the server is at fault, or who runs it. */
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

/** @throws ServerFailure `wrong` for what is not JSON. */
export function parseJson(text: string): unknown {
  const json = parseJsonOr(text, undefined)
  if (json === undefined) throw new ServerFailure('wrong', 'its answer is not JSON')
  return json
}
