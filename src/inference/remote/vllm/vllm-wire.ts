import { LRUCache } from 'lru-cache'
import { Agent, type Dispatcher, request } from 'undici'
import { z } from 'zod'
import type { RgbImage } from '../../../media/pixels.ts'
import { encodePng } from '../../../media/png.ts'
import type { Sampling } from '../../engine.ts'
import {
  type CompletionRequest,
  type Picture,
  ServerFailure,
  type ServerLoad,
  type Wire,
  type WireEvent,
} from '../wire/wire.ts'
import { dataLines } from './event-stream.ts'
import { readLoad } from './vllm-metrics.ts'

export interface VllmWireOptions {
  /** The name under which the servers have the model. */
  readonly model: string
  readonly apiKey: string | null
  /** Tokens in one sequence that a server must take. */
  readonly contextTokens: number
  /** A text, and what our tokenizer makes of it. A server whose tokens differ has another tokenizer. */
  readonly sample: { readonly text: string; readonly tokens: readonly number[] }
  /** How long a completion may be silent once it has begun, in ms. */
  readonly silenceMs?: number | undefined
}

const SILENCE_MS = 120_000
const CONNECT_MS = 5_000
/** Pictures that a server is known to have, by their keys. A server may forget them earlier; then it is sent them again. */
const KNOWN_PICTURES = 8192

/**
 * vLLM's `POST /inference/v1/generate`: tokens in, tokens out (`vllm/entrypoints/scale_out/token_in_token_out` of release
 * 0.32, started with `--enable-scale-out`). The server neither parses texts nor applies templates.
 */
export class VllmWire implements Wire {
  readonly #options: VllmWireOptions
  readonly #agent: Agent
  readonly #headers: Readonly<Record<string, string>>
  readonly #known = new LRUCache<string, true>({ max: KNOWN_PICTURES })

  constructor(options: VllmWireOptions) {
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

  async verify(url: string, signal: AbortSignal): Promise<void> {
    const { model, sample, contextTokens } = this.#options
    const { data } = parse(modelsSchema, await this.#json(url, 'GET', '/v1/models', null, signal))
    const served = data.find(({ id }) => id === model)
    if (served === undefined) {
      const names = data.map(({ id }) => `'${id}'`).join(', ')
      throw new ServerFailure('wrong', `it serves ${names || 'no model'}, not '${model}'`)
    }
    if (served.max_model_len != null && served.max_model_len < contextTokens) {
      const limits = `it takes ${served.max_model_len} tokens (--max-model-len)`
      throw new ServerFailure('wrong', `${limits}, and the card's engine.contextTokens are ${contextTokens}`)
    }
    const asked = { model, prompt: sample.text, add_special_tokens: false }
    const { tokens } = parse(tokensSchema, await this.#json(url, 'POST', '/tokenize', asked, signal))
    if (tokens.join() !== sample.tokens.join()) {
      throw new ServerFailure('wrong', "its tokenizer is not the one in the card's engine.tokenizer")
    }
    // One token shows whether the server was started with --enable-scale-out.
    const body = { model, token_ids: sample.tokens.slice(0, 1), sampling_params: { max_tokens: 1 } }
    await this.#json(url, 'POST', GENERATE, body, signal)
  }

  async checkHealth(url: string, signal: AbortSignal): Promise<void> {
    const response = await this.#send(url, 'GET', '/health', null, signal)
    await response.body.dump()
    if (response.statusCode !== 200) throw new ServerFailure('lost', `/health answered ${response.statusCode}`)
  }

  async load(url: string, signal: AbortSignal): Promise<ServerLoad> {
    const response = await this.#send(url, 'GET', '/metrics', null, signal)
    const text = await response.body.text()
    if (response.statusCode !== 200) throw new ServerFailure('lost', `/metrics answered ${response.statusCode}`)
    return readLoad(text)
  }

  async *complete(url: string, asked: CompletionRequest, signal: AbortSignal): AsyncGenerator<WireEvent, void, void> {
    const unknown = asked.pictures.filter(({ key }) => !this.#known.has(`${url} ${key}`))
    let body: Dispatcher.ResponseData['body']
    try {
      body = await this.#generate(url, asked, unknown, signal)
    } catch (error) {
      if (!(error instanceof MissingPicture) || unknown.length === asked.pictures.length) throw error
      body = await this.#generate(url, asked, asked.pictures, signal)
    }
    for (const { key } of asked.pictures) this.#known.set(`${url} ${key}`, true)
    // It has prepared the pictures, and computes prompts in the order of their arrival, each only where no cache has it.
    yield { type: 'cached' }
    const stop = new Set(asked.stopTokens)
    const running = new Set(Array.from({ length: asked.n }, (_, completion) => completion))
    const counts = new Map<number, number>()
    let isWhole = false
    try {
      for await (const line of dataLines(body)) {
        isWhole = line === '[DONE]'
        if (isWhole) break
        const chunk = parseJson(line) as Chunk
        if (chunk.error) throw failureOf(chunk.error.code ?? 500, chunk.error.message)
        for (const { index, token_ids: ids, finish_reason: reason } of chunk.choices ?? []) {
          if (!running.has(index)) continue
          const end = reason == null ? null : reason === 'length' ? 'length' : 'stop'
          const all = ids ?? []
          const tokens = end === 'stop' && stop.has(all.at(-1)!) ? all.slice(0, -1) : all
          counts.set(index, (counts.get(index) ?? 0) + tokens.length)
          if (end !== null) running.delete(index)
          yield { type: 'tokens', completion: index, tokens, end }
        }
        if (chunk.usage) {
          const { prompt_tokens: promptTokens, prompt_tokens_details: details } = chunk.usage
          yield { type: 'usage', promptTokens, cachedTokens: details?.cached_tokens ?? null }
        }
      }
    } catch (error) {
      signal.throwIfAborted()
      throw error instanceof ServerFailure ? error : new ServerFailure('lost', (error as Error).message, error)
    } finally {
      body.destroy()
    }
    if (!isWhole) throw new ServerFailure('lost', 'its stream ended before the reply')
    // The server sends nothing about an end that came without a token.
    for (const completion of running) {
      const end = counts.get(completion) === asked.maxTokens ? 'length' : 'stop'
      yield { type: 'tokens', completion, tokens: [], end }
    }
  }

  async close(): Promise<void> {
    await this.#agent.destroy()
  }

  async #generate(
    url: string,
    asked: CompletionRequest,
    sent: readonly Picture[],
    signal: AbortSignal,
  ): Promise<Dispatcher.ResponseData['body']> {
    const images = new Map<string, string>()
    for (const { key, image } of sent) if (!images.has(key)) images.set(key, await pngUrl(image))
    signal.throwIfAborted()
    const response = await this.#send(url, 'POST', GENERATE, generateBody(this.#options.model, asked, images), signal)
    if (response.statusCode === 200) return response.body
    throw await failureOfResponse(response)
  }

  async #json(url: string, method: 'GET' | 'POST', path: string, body: unknown, signal: AbortSignal): Promise<unknown> {
    const text = body === null ? null : JSON.stringify(body)
    const response = await this.#send(url, method, path, text, signal)
    if (response.statusCode !== 200) throw await failureOfResponse(response)
    return parseJson(await response.body.text())
  }

  async #send(
    url: string,
    method: 'GET' | 'POST',
    path: string,
    body: string | null,
    signal: AbortSignal,
  ): Promise<Dispatcher.ResponseData> {
    try {
      return await request(url + path, {
        method,
        dispatcher: this.#agent,
        headers: this.#headers,
        body,
        signal,
      })
    } catch (error) {
      signal.throwIfAborted()
      const { code, message } = error as NodeJS.ErrnoException
      throw new ServerFailure('lost', message || String(code), error)
    }
  }
}

const GENERATE = '/inference/v1/generate'

/**
 * Pictures are most of a body. Their base64 needs no escapes, and is not searched for any: that would take longer than all
 * the rest.
 * @param images as data URLs, by their keys.
 */
function generateBody(model: string, asked: CompletionRequest, images: ReadonlyMap<string, string>): string {
  const body = JSON.stringify({
    request_id: asked.id,
    model,
    token_ids: asked.tokens,
    sampling_params: {
      ...samplingOf(asked.sampling),
      n: asked.n,
      max_tokens: asked.maxTokens,
      stop_token_ids: asked.stopTokens,
      ...(asked.stopText === null ? { detokenize: false } : { stop: [asked.stopText], skip_special_tokens: false }),
      ...(asked.grammar === null ? {} : { structured_outputs: { grammar: asked.grammar } }),
    },
    // Where the server has a parser for thoughts, it would wait for the end of one.
    ...(asked.grammar === null ? {} : { reasoning_ended: true }),
    stream: true,
    stream_options: { include_usage: true },
    cache_salt: asked.cacheSalt,
  })
  if (asked.pictures.length === 0) return body
  const parts = asked.pictures.map(({ key }) => {
    const image = images.get(key)
    return `{"type":"image_url","url":${image === undefined ? 'null' : `"${image}"`},"uuid":"${key}"}`
  })
  return `{"content_parts":[${parts.join()}],${body.slice(1)}`
}

function samplingOf({ temperature, topP, topK, frequencyPenalty, presencePenalty }: Sampling): object {
  return {
    temperature,
    top_p: topP,
    top_k: topK,
    frequency_penalty: frequencyPenalty,
    presence_penalty: presencePenalty,
  }
}

/** The server would read any other format with losses, or as something else than RGB. */
async function pngUrl(image: RgbImage): Promise<string> {
  return `data:image/png;base64,${(await encodePng(image)).toString('base64')}`
}

class MissingPicture extends ServerFailure {
  constructor(message: string) {
    super('refused', message)
  }
}

async function failureOfResponse({ statusCode, body }: Dispatcher.ResponseData): Promise<ServerFailure> {
  const text = await body.text().catch(() => '')
  const said = errorSchema.safeParse(parseJsonOr(text, null)).data
  return failureOf(statusCode, said?.error?.message ?? said?.message ?? text.slice(0, 500))
}

function failureOf(status: number, message: string): ServerFailure {
  const answered = `it answered ${status}: ${message}`
  if (/Cache miss for \w+ at index/.test(message)) return new MissingPicture(answered)
  if (status === 401) return new ServerFailure('wrong', `it wants another API key (engine.apiKeyEnv): ${message}`)
  if (status === 403) return new ServerFailure('wrong', `it was not started with --enable-scale-out: ${message}`)
  if (status === 404) return new ServerFailure('wrong', answered)
  if (status === 429 || status === 503) return new ServerFailure('busy', answered)
  if (status >= 500) return new ServerFailure('lost', answered)
  if (/grammar|structured_output|xgrammar/i.test(message)) return new ServerFailure('grammar', answered)
  return new ServerFailure('refused', answered)
}

const modelsSchema = z.object({
  data: z.array(z.object({ id: z.string(), max_model_len: z.number().nullish() })),
})
const tokensSchema = z.object({ tokens: z.array(z.number()) })
const errorSchema = z.object({
  error: z.object({ message: z.string(), code: z.number().nullish().catch(null) }).optional(),
  message: z.string().optional(),
})
/** A line of the stream. It is read for every token, so that it is not checked against a schema. */
interface Chunk {
  readonly choices?: readonly {
    readonly index: number
    readonly token_ids?: readonly number[] | null
    readonly finish_reason?: string | null
  }[]
  readonly usage?: {
    readonly prompt_tokens: number
    readonly prompt_tokens_details?: { readonly cached_tokens?: number | null } | null
  } | null
  readonly error?: { readonly message: string; readonly code?: number | null }
}

function parse<Output>(schema: z.ZodType<Output>, value: unknown): Output {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  throw new ServerFailure('wrong', `its answer is not that of vLLM: ${parsed.error.issues[0]!.message}`)
}

function parseJson(text: string): unknown {
  const json = parseJsonOr(text, undefined)
  if (json === undefined) throw new ServerFailure('wrong', 'its answer is not JSON')
  return json
}

function parseJsonOr<Other>(text: string, other: Other): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return other
  }
}
