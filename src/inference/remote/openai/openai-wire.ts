import { z } from 'zod'
import { parseJsonOr } from '../../../lib/json/parse-json.ts'
import type { RankedToken, TokenLogProb } from '../../contract/generation.ts'
import type { Sampling } from '../../contract/work.ts'
import { pictureUrls } from '../http/picture-url.ts'
import { checkListed, type ExpectedModel, modelsSchema } from '../http/served-model.ts'
import { BLAMING, type Connecting, type ErrorCode, ServerClient, textOf } from '../http/server-client.ts'
import { type Call, endOf, ServerFailure, type ServerLoad, type Wire, type WireEvent } from '../wire/wire.ts'
import type { ChatMessage } from './chat-messages.ts'

export interface OpenAiWireOptions extends Pick<ExpectedModel, 'model'>, Connecting {
  /** Minimum context of a server, in tokens, if it reports its context. */
  readonly contextTokens: number
  /** Additional fields of each request. */
  readonly parameters: Readonly<Record<string, unknown>>
}

/** One completion. */
export interface ChatQuestion {
  readonly messages: readonly ChatMessage[]
  readonly maxTokens: number
  readonly sampling: Sampling
  /** The fields that request the form of the reply, and a thought before it. */
  readonly fields: Readonly<Record<string, unknown>>
  /** Number of likeliest tokens to report beside each token; null for no log-probabilities. */
  readonly topLogProbs: number | null
}

/** A fingerprint that can be forwarded in a header. */
const SENDABLE = /^[\x21-\x7e]{1,128}$/
const TEMPLATE = 'chat_template_kwargs'
const COMPLETIONS = '/v1/chat/completions'
const MODELS = '/v1/models'
/** Health endpoints of servers. A server that has none of them is asked for its models. */
const HEALTH_PATHS = ['/health', '/readyz']
const UNKNOWN_PATH = [404, 405, 501]

/**
 * `POST /v1/chat/completions` as OpenAI defines it, streamed: messages in, text out. The server applies its own
 * template.
 */
export class OpenAiWire implements Wire<ChatQuestion> {
  readonly rereads = null
  readonly #options: OpenAiWireOptions
  readonly #client: ServerClient
  /** By server URL. */
  readonly #healthPaths = new Map<string, string>()
  readonly #urlOf = pictureUrls()

  constructor(options: OpenAiWireOptions) {
    this.#options = options
    const { apiKey, silenceMs } = options
    this.#client = new ServerClient({ engine: 'an OpenAI-compatible server', apiKey, silenceMs, specialFailure })
  }

  async verify(url: string, signal: AbortSignal): Promise<void> {
    const response = await this.#client.send(url, 'GET', MODELS, null, { signal })
    if (response.statusCode !== 200) throw await this.#client.failureOfResponse(response)
    const listed = modelsSchema.safeParse(parseJsonOr(await textOf(response, signal), null)).data
    if (listed === undefined) throw new ServerFailure('wrong', `its answer to GET ${MODELS} is no list of models`)
    checkListed(listed, this.#options)
  }

  async checkHealth(url: string, signal: AbortSignal): Promise<void> {
    const known = this.#healthPaths.get(url)
    for (const path of known === undefined ? [...HEALTH_PATHS, MODELS] : [known]) {
      const response = await this.#client.send(url, 'GET', path, null, { signal })
      if (path !== MODELS && UNKNOWN_PATH.includes(response.statusCode)) {
        await response.body.dump()
        continue
      }
      // A server that merely limits the rate of requests is healthy.
      if (path === MODELS && response.statusCode !== 200) throw await this.#client.failureOfResponse(response)
      await response.body.dump()
      if (response.statusCode !== 200) throw new ServerFailure('lost', `${path} answered ${response.statusCode}`)
      this.#healthPaths.set(url, path)
      return
    }
    // Another server may now be at this address.
    this.#healthPaths.delete(url)
    throw new ServerFailure('lost', 'it no longer reports its health')
  }

  /** Servers report their load in different ways, or not at all. */
  async load(): Promise<ServerLoad> {
    throw new ServerFailure('refused', 'it is not asked for its load')
  }

  /** What a server supports is not known before a request. */
  logProbProblem(): null {
    return null
  }

  async *complete(url: string, asked: ChatQuestion, call: Call): AsyncGenerator<WireEvent, void, void> {
    const stream = await this.#ask(url, asked, call)
    let hasEnded = false
    /** Whether text may be passed on. */
    let isRated = asked.topLogProbs === null
    try {
      for await (const line of stream) {
        const chunk = parseJsonOr(line, null) as Chunk | null
        if (chunk === null) throw new ServerFailure('lost', 'a line of its stream is not JSON')
        if (chunk.error) {
          const { message, code } = chunk.error
          throw this.#client.failureOf(statusOf(code), message, code)
        }
        const choice = chunk.choices?.find((one) => (one?.index ?? 0) === 0)
        if (choice && !hasEnded) {
          const { delta, finish_reason: reason } = choice
          const thought = delta?.reasoning_content || delta?.reasoning || ''
          const text = delta?.content ?? ''
          if (typeof thought !== 'string' || typeof text !== 'string') throw new TypeError('a text is not a string')
          const end = endOf(reason)
          const logProbs = asked.topLogProbs === null ? [] : toLogProbs(choice.logprobs, asked.topLogProbs)
          isRated ||= logProbs.length > 0
          if (text !== '' && !isRated) throw new ServerFailure('log_probs', 'it sent a text without them')
          const { system_fingerprint: said } = chunk
          hasEnded = end !== null
          const fingerprint = typeof said === 'string' && SENDABLE.test(said) ? { fingerprint: said } : {}
          if (thought !== '' || text !== '' || logProbs.length > 0 || end !== null)
            yield {
              ...{ type: 'text' as const, completion: 0, thought, text, end },
              ...(logProbs.length === 0 ? {} : { logProbs }),
              ...fingerprint,
            }
        }
        const usage = chunk.usage ? usageOf(chunk.usage) : null
        if (usage !== null) yield usage
      }
    } catch (error) {
      call.signal.throwIfAborted()
      // Only the usage is missing.
      if (hasEnded) return
      if (error instanceof ServerFailure) throw error
      throw new ServerFailure('lost', `a line of its stream cannot be read: ${(error as Error).message}`, error)
    }
    if (!hasEnded) throw new ServerFailure('lost', 'its stream ended before the reply')
  }

  async close(): Promise<void> {
    await this.#client.close()
  }

  async #ask(url: string, asked: ChatQuestion, call: Call): Promise<AsyncIterable<string>> {
    const { model, parameters } = this.#options
    const messages = await Promise.all(asked.messages.map((message) => this.#messageOf(message)))
    call.signal.throwIfAborted()
    const template = { ...Object(parameters[TEMPLATE]), ...Object(asked.fields[TEMPLATE]) }
    const body = {
      ...parameters,
      ...asked.fields,
      // Template arguments from the card are kept beside the switch for thinking.
      ...(Object.keys(template).length === 0 ? {} : { [TEMPLATE]: template }),
      model,
      messages,
      max_tokens: asked.maxTokens,
      ...samplingOf(asked.sampling),
      // If none are requested, llama-server returns no log-probabilities at all.
      ...(asked.topLogProbs === null ? {} : { logprobs: true, top_logprobs: Math.max(1, asked.topLogProbs) }),
      stream: true,
      stream_options: { include_usage: true },
    }
    return this.#client.open(url, COMPLETIONS, body, call)
  }

  /** Content without pictures is a string, which all servers accept. */
  async #messageOf({ role, content, reasoning }: ChatMessage): Promise<object> {
    const texts = content.map((part) => (part.type === 'text' ? part.text : null))
    const parts = content.map(async (part) =>
      part.type === 'text' ? part : { type: 'image_url', image_url: { url: await this.#urlOf(part.image) } },
    )
    return {
      role,
      content: texts.includes(null) ? await Promise.all(parts) : texts.join(''),
      ...(reasoning === null ? {} : { reasoning_content: reasoning }),
    }
  }
}

/** Only values that differ from the defaults of all servers: some reject unknown fields. */
function samplingOf(sampling: Sampling): object {
  const { temperature, topP, topK, minP = 0, frequencyPenalty, presencePenalty, repetitionPenalty = 1, seed } = sampling
  return {
    temperature,
    ...(topP === 1 ? {} : { top_p: topP }),
    ...(topK === 0 ? {} : { top_k: topK }),
    ...(frequencyPenalty === 0 ? {} : { frequency_penalty: penaltyOf(frequencyPenalty) }),
    ...(presencePenalty === 0 ? {} : { presence_penalty: penaltyOf(presencePenalty) }),
    ...(minP === 0 ? {} : { min_p: minP }),
    ...(repetitionPenalty === 1 ? {} : { repetition_penalty: repetitionPenalty }),
    ...(seed === undefined ? {} : { seed }),
  }
}

/** OpenAI accepts penalties from -2 to 2. */
function penaltyOf(penalty: number): number {
  return Math.max(-2, Math.min(penalty, 2))
}

function toLogProbs(said: LogProbs | null | undefined, most: number): TokenLogProb[] {
  return (said?.content ?? []).map(({ top_logprobs: top, ...chosen }) => ({
    ...toRanked(chosen),
    top: (top ?? []).slice(0, most).map(toRanked),
  }))
}

function toRanked({ token, logprob, bytes }: Ranked): RankedToken {
  return { text: token.toWellFormed(), logProb: logprob, bytes: bytes ?? [...Buffer.from(token)] }
}

/** Null unless the counts are valid. */
function usageOf(said: unknown): WireEvent | null {
  const usage = usageSchema.safeParse(said).data
  if (usage === undefined) return null
  const { prompt_tokens: promptTokens, completion_tokens: completionTokens } = usage
  const cachedTokens = usage.prompt_tokens_details?.cached_tokens ?? null
  const reasoningTokens = usage.completion_tokens_details?.reasoning_tokens ?? null
  return { type: 'usage', promptTokens, completionTokens, cachedTokens, reasoningTokens }
}

/** The last alternative is llama-server's, with status 500. */
const TOO_LONG =
  /context.{0,20}(length|size|window)|exceed.{0,40}context|maximum context|max_model_len|too long|too large to process/i
const LOG_PROBS = /log_?probs/i
const CONSTRAINT = /grammar|json.?schema|response_format|structured|regex/i

export function specialFailure(status: number, message: string, code: ErrorCode): ServerFailure | null {
  // Any other status is unambiguous.
  if (status !== 500 && !BLAMING.includes(status)) return null
  const answered = `it answered ${status}: ${message}`
  if (code === 'context_length_exceeded' || TOO_LONG.test(message)) return new ServerFailure('long', answered)
  if (status === 500) return null
  if (LOG_PROBS.test(message)) return new ServerFailure('log_probs', answered)
  if (CONSTRAINT.test(message)) return new ServerFailure('grammar', answered)
  return new ServerFailure('rejected', answered)
}

/** Within a stream, an error's code may be its status or a word. */
function statusOf(code: ErrorCode): number {
  const status = Number(code)
  return Number.isInteger(status) && status >= 400 ? status : 500
}

const count = z.int().min(0)
const usageSchema = z.object({
  prompt_tokens: count,
  completion_tokens: count,
  prompt_tokens_details: z.object({ cached_tokens: count.nullish() }).nullish(),
  completion_tokens_details: z.object({ reasoning_tokens: count.nullish() }).nullish().catch(null),
})
/** A line of the stream. Not validated against a schema, because it is parsed for every token. */
interface Chunk {
  readonly choices?: readonly ({
    readonly index?: number
    readonly delta?: {
      readonly content?: string | null
      readonly reasoning_content?: string | null
      readonly reasoning?: string | null
    } | null
    readonly finish_reason?: string | null
    readonly logprobs?: LogProbs | null
  } | null)[]
  readonly system_fingerprint?: unknown
  readonly usage?: unknown
  readonly error?: { readonly message: string; readonly code?: ErrorCode }
}

interface LogProbs {
  readonly content?: readonly (Ranked & { readonly top_logprobs?: readonly Ranked[] | null })[] | null
}

interface Ranked {
  readonly token: string
  readonly logprob: number
  readonly bytes?: readonly number[] | null
}
