import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import type { Sampling } from '../../contract/work.ts'
import { pictureUrl } from '../http/picture-url.ts'
import { Samples } from '../http/samples.ts'
import { checkServedModel, type ExpectedModel } from '../http/served-model.ts'
import { type Connecting, parseJson, ServerClient } from '../http/server-client.ts'
import {
  type Call,
  type CompletionRequest,
  endOf,
  type Picture,
  ServerFailure,
  type ServerLoad,
  type TokensEvent,
  type TokenWire,
  type WireEvent,
} from '../wire/wire.ts'
import { type LogProbs, ratedTokens, ratingsOf } from './vllm-log-probs.ts'

/**
 * Maximum keys of pictures that a server is known to have. A server may have forgotten a picture, which is then sent
 * again.
 */
const KNOWN_PICTURES = 8192

/**
 * vLLM's `POST /inference/v1/generate`: tokens in, tokens out (`vllm/entrypoints/scale_out/token_in_token_out` of release
 * 0.32, started with `--enable-scale-out`). The server neither parses texts nor applies templates.
 */
export class VllmWire implements TokenWire {
  readonly rereads = null
  readonly mostRatedTokens = MOST_LOGPROBS - 1
  readonly #options: ExpectedModel
  readonly #client: ServerClient
  readonly #known = new LRUCache<string, true>({ max: KNOWN_PICTURES })

  constructor(options: ExpectedModel & Connecting) {
    this.#options = options
    this.#client = new ServerClient({ engine: 'vLLM', specialFailure, ...options })
  }

  async verify(url: string, signal: AbortSignal): Promise<void> {
    const { model, sample } = this.#options
    await checkServedModel(this.#client, url, this.#options, { flag: '--max-model-len', reserved: 0 }, signal)
    // A single token shows whether the server was started with --enable-scale-out.
    const body = { model, token_ids: sample.tokens.slice(0, 1), sampling_params: { max_tokens: 1 } }
    await this.#client.ask(z.unknown(), url, ['POST', GENERATE], body, signal)
  }

  async checkHealth(url: string, signal: AbortSignal): Promise<void> {
    await this.#client.text(url, '/health', signal)
  }

  async load(url: string, signal: AbortSignal): Promise<ServerLoad> {
    const samples = new Samples(await this.#client.text(url, '/metrics', signal))
    return {
      running: samples.sum('vllm:num_requests_running'),
      waiting: samples.sum('vllm:num_requests_waiting'),
      kvUsage: samples.mean('vllm:kv_cache_usage_perc'),
      kvTokens: samples.sumOfLabels('vllm:cache_config_info', (label) => label('num_gpu_blocks') * label('block_size')),
      preemptions: samples.sum('vllm:num_preemptions_total'),
    }
  }

  /** `--logprobs-mode` is `raw_logprobs` by default. */
  logProbProblem(): null {
    return null
  }

  async *complete(url: string, asked: CompletionRequest, call: Call): AsyncGenerator<WireEvent, void, void> {
    if (asked.n === 1 || asked.sampling.temperature >= LEAST_TEMPERATURE) {
      yield* this.#complete(url, asked, call)
      return
    }
    // Greedy completions are equal, and vLLM rejects `n` above 1 for them.
    for await (const event of this.#complete(url, { ...asked, n: 1 }, call)) {
      if (event.type !== 'tokens') yield event
      else for (let completion = 0; completion < asked.n; completion++) yield { ...event, completion }
    }
  }

  async *#complete(url: string, asked: CompletionRequest, call: Call): AsyncGenerator<WireEvent, void, void> {
    const unknown = asked.pictures.filter(({ key }) => !this.#known.has(`${url} ${key}`))
    // It computes prompts in order of arrival, and only the part that is not cached, even within one step. Pictures
    // must be prepared first: it would prepare them for each request.
    if (unknown.length === 0) yield { type: 'cached' }
    let stream: AsyncIterable<string>
    try {
      stream = await this.#generate(url, asked, unknown, call)
    } catch (error) {
      if (!(error instanceof MissingPicture) || unknown.length === asked.pictures.length) throw error
      stream = await this.#generate(url, asked, asked.pictures, call)
    }
    for (const { key } of asked.pictures) this.#known.set(`${url} ${key}`, true)
    if (unknown.length > 0) yield { type: 'cached' }
    const stop = new Set(asked.stopTokens)
    const running = new Set(Array.from({ length: asked.n }, (_, completion) => completion))
    const counts = new Map<number, number>()
    for await (const line of stream) {
      const chunk = parseJson(line) as Chunk
      if (chunk.error) throw this.#client.failureOf(chunk.error.code ?? 500, chunk.error.message)
      for (const { index, token_ids: ids, finish_reason: reason, logprobs } of chunk.choices ?? []) {
        if (!running.has(index)) continue
        const end = endOf(reason)
        const all = ids ?? []
        const tokens = end === 'stop' && stop.has(all.at(-1)!) ? all.slice(0, -1) : all
        counts.set(index, (counts.get(index) ?? 0) + tokens.length)
        if (end !== null) running.delete(index)
        yield { type: 'tokens', completion: index, tokens, ...logProbsOf(asked, logprobs, all, tokens.length), end }
      }
      if (chunk.usage) {
        const { prompt_tokens: promptTokens, prompt_tokens_details: details } = chunk.usage
        yield { type: 'usage', promptTokens, cachedTokens: details?.cached_tokens ?? null }
      }
    }
    // The server does not report an end that comes without a token.
    for (const completion of running) {
      const end = counts.get(completion) === asked.maxTokens ? 'length' : 'stop'
      yield { type: 'tokens', completion, tokens: [], end }
    }
  }

  async close(): Promise<void> {
    await this.#client.close()
  }

  async #generate(url: string, asked: CompletionRequest, sent: readonly Picture[], call: Call) {
    const images = new Map<string, string>()
    for (const { key, image } of sent) if (!images.has(key)) images.set(key, await pictureUrl(image))
    call.signal.throwIfAborted()
    return this.#client.open(url, GENERATE, generateBody(this.#options.model, asked, images), call)
  }
}

const GENERATE = '/inference/v1/generate'
/** At lower temperatures, vLLM samples greedily. */
const LEAST_TEMPERATURE = 1e-5
/**
 * For completions that are read only at their end. A line of a stream costs both servers as much as computing a token.
 */
const TOKENS_AT_ONCE = 8

/**
 * Pictures make up most of a body. Their base64 needs no escapes and is not searched for characters to escape: that
 * would take longer than everything else.
 * @param images data URLs by key.
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
      ...logProbFields(asked),
      ...(asked.whole ? { stream_interval: TOKENS_AT_ONCE } : {}),
      ...(asked.stopText === null ? { detokenize: false } : { stop: [asked.stopText], skip_special_tokens: false }),
      ...(asked.grammar === null ? {} : { structured_outputs: { grammar: asked.grammar } }),
    },
    // A server with a reasoning parser would otherwise wait for the end of a thought.
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

/** Default maximum of vLLM's `--max-logprobs`. */
const MOST_LOGPROBS = 20

function logProbFields({ topLogProbs, ratedTokens: asked }: CompletionRequest): object {
  if (asked !== null) {
    // The chosen token comes first in a list that is cut at this length, so it needs a place.
    const ids = [...asked, asked.at(-1)!]
    return { logprobs: ids.length, logprob_token_ids: ids, ignore_eos: true }
  }
  return topLogProbs === null ? {} : { logprobs: rankedAlong(topLogProbs) }
}

function logProbsOf(
  { topLogProbs, ratedTokens: asked }: CompletionRequest,
  logProbs: LogProbs | null | undefined,
  all: readonly number[],
  wanted: number,
): Pick<TokensEvent, 'ratings' | 'ending' | 'rated'> {
  if (asked !== null) return wanted === 0 ? {} : { rated: ratedTokens(logProbs, asked) }
  if (topLogProbs === null) return {}
  // Some servers also rate the token that ended the completion.
  const isTold = all.length > wanted && (logProbs?.content?.length ?? 0) > wanted
  const ratings = ratingsOf(logProbs, isTold ? all.length : wanted)
  return {
    ratings: ratings.slice(0, wanted),
    ...(isTold ? { ending: { token: all.at(-1)!, ...ratings.at(-1)! } } : {}),
  }
}

/** Number to request. The chosen token always takes one place, and may not be among the likeliest. */
function rankedAlong(most: number): number {
  return most === 0 ? 0 : Math.min(most + 1, MOST_LOGPROBS)
}

/** vLLM accepts what the contract allows, and rejects further values, which only Lookout itself uses. */
function samplingOf(sampling: Sampling): object {
  const { temperature, topP, topK, minP = 0, frequencyPenalty, presencePenalty, repetitionPenalty = 1, seed } = sampling
  return {
    temperature: Math.min(temperature, 2),
    top_p: topP,
    top_k: topK,
    frequency_penalty: Math.max(-2, Math.min(frequencyPenalty, 2)),
    presence_penalty: Math.max(-2, Math.min(presencePenalty, 2)),
    ...(minP === 0 ? {} : { min_p: minP }),
    ...(repetitionPenalty === 1 ? {} : { repetition_penalty: repetitionPenalty }),
    ...(seed === undefined ? {} : { seed }),
  }
}

class MissingPicture extends ServerFailure {}

function specialFailure(status: number, message: string): ServerFailure | null {
  const answered = `it answered ${status}: ${message}`
  if (/Cache miss for \w+ at index/.test(message)) return new MissingPicture('refused', answered)
  if (/logprobs/i.test(message)) return new ServerFailure('log_probs', answered)
  if (status === 403) return new ServerFailure('wrong', `it was not started with --enable-scale-out: ${message}`)
  return null
}

/** A line of the stream. Not validated against a schema, because it is parsed for every token. */
interface Chunk {
  readonly choices?: readonly {
    readonly index: number
    readonly token_ids?: readonly number[] | null
    readonly finish_reason?: string | null
    readonly logprobs?: LogProbs | null
  }[]
  readonly usage?: {
    readonly prompt_tokens: number
    readonly prompt_tokens_details?: { readonly cached_tokens?: number | null } | null
  } | null
  readonly error?: { readonly message: string; readonly code?: number | null }
}
