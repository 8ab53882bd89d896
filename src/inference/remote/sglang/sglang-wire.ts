import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import type { Sampling } from '../../contract/work.ts'
import { pictureUrls } from '../http/picture-url.ts'
import { Samples } from '../http/samples.ts'
import { checkServedModel, type ExpectedModel } from '../http/served-model.ts'
import { type Connecting, parseJson, ServerClient } from '../http/server-client.ts'
import {
  type Call,
  type CompletionRequest,
  ServerFailure,
  type ServerLoad,
  type TokenWire,
  type WireEvent,
} from '../wire/wire.ts'
import { type Chunk, StreamReader } from './sglang-stream.ts'

export interface SglangWireOptions extends ExpectedModel, Connecting {
  /** Whether the servers must support pictures. One that does not would ignore them. */
  readonly takesPictures: boolean
}

/** The release that this code follows. Older ones may ignore `cache_salt`. */
const RELEASE = [0, 5, 23] as const
/**
 * Its scheduler rejects prompts longer than the context less 6 tokens, and ends completions 2 tokens before the context
 * is full.
 */
const CONTEXT_RULE = { flag: '--context-length', reserved: 8 }
const GENERATE = '/generate'

/**
 * SGLang's `POST /generate`, with tokens (`sglang/srt/managers/io_struct.py` and `tokenizer_manager.py` of release
 * 0.5.23). Closing the connection ends the computation.
 */
export class SglangWire implements TokenWire {
  /**
   * With pictures, the server decodes the tokens, and what follows depends on the model and the release: it tokenises the
   * text again, or only looks for pictures in it (`multimodal/processors/base_processor.py`). `<image>` is one there.
   */
  readonly rereads = { marks: ['<image>'] }
  readonly mostRatedTokens = Number.POSITIVE_INFINITY
  readonly #options: SglangWireOptions
  readonly #client: ServerClient
  readonly #urlOf = pictureUrls()

  constructor(options: SglangWireOptions) {
    this.#options = options
    this.#client = new ServerClient({ engine: 'SGLang', ...options })
  }

  async verify(url: string, signal: AbortSignal): Promise<void> {
    await checkServedModel(this.#client, url, this.#options, CONTEXT_RULE, signal)
    const server = await this.#client.ask(serverSchema, url, ['GET', '/server_info'], null, signal)
    if (isOlder(server.version)) {
      throw new ServerFailure('wrong', `it is SGLang ${server.version}, older than ${RELEASE.join('.')}`)
    }
    if (server.grammar_backend != null && server.grammar_backend !== 'xgrammar') {
      const backend = `--grammar-backend ${server.grammar_backend}`
      throw new ServerFailure('wrong', `it was started with ${backend}: it must be xgrammar, whose grammars it is sent`)
    }
    if (!this.#options.takesPictures) return
    const model = await this.#client.ask(modelSchema, url, ['GET', '/model_info'], null, signal)
    if (!model.has_image_understanding) throw new ServerFailure('wrong', 'its model takes no images')
  }

  /** Unlike `/health`, this does not compute a token, which takes a second. */
  async checkHealth(url: string, signal: AbortSignal): Promise<void> {
    await this.#client.text(url, '/ready', signal)
  }

  async load(url: string, signal: AbortSignal): Promise<ServerLoad> {
    const samples = new Samples(await this.#client.text(url, '/metrics', signal))
    return {
      running: samples.sum('sglang:num_running_reqs'),
      waiting: samples.sum('sglang:num_queue_reqs'),
      kvUsage: samples.mean('sglang:token_usage'),
      kvTokens: samples.sum('sglang:max_total_num_tokens'),
      preemptions: samples.sum('sglang:num_retracted_requests_total'),
    }
  }

  /** It reports the probabilities that it samples from, before top_k and top_p. */
  logProbProblem({ temperature, frequencyPenalty, presencePenalty, repetitionPenalty = 1 }: Sampling): string | null {
    const isUnchanged = temperature === 0 || temperature === 1
    if (isUnchanged && frequencyPenalty === 0 && presencePenalty === 0 && repetitionPenalty === 1) return null
    return 'The servers of this model give log-probabilities at temperature 0 or 1 and without penalties only.'
  }

  async *complete(url: string, asked: CompletionRequest, call: Call): AsyncGenerator<WireEvent, void, void> {
    const images = await Promise.all(asked.pictures.map(({ image }) => this.#urlOf(image)))
    call.signal.throwIfAborted()
    const stream = await this.#client.open(url, GENERATE, generateBody(asked, images), call)
    const reader = new StreamReader({
      n: asked.n,
      stopTokens: asked.stopTokens,
      topLogProbs: asked.topLogProbs,
      ratedTokens: asked.ratedTokens,
      failureOf: (status, message) => this.#client.failureOf(status, message),
    })
    for await (const line of stream) yield* reader.read(parseJson(line) as Chunk)
    if (!reader.isWhole) throw new ServerFailure('lost', 'its stream ended before the reply')
  }

  async close(): Promise<void> {
    await this.#client.close()
  }
}

function generateBody(asked: CompletionRequest, images: readonly string[]): object {
  return {
    // A server does not accept an id again until it has cleaned up the first request, which may already have failed
    // here.
    rid: `${asked.id}-${randomUUID()}`,
    input_ids: asked.tokens,
    // Several completions are a batch of one prompt, whose images need a list of their own.
    ...(images.length === 0 ? {} : { image_data: asked.n === 1 ? images : [images] }),
    sampling_params: {
      ...samplingOf(asked.sampling),
      n: asked.n,
      max_new_tokens: asked.maxTokens,
      stop_token_ids: asked.stopTokens,
      ...(asked.stopText === null ? {} : { stop: [asked.stopText] }),
      ...(asked.grammar === null ? {} : { ebnf: asked.grammar }),
      ...(asked.ratedTokens === null ? {} : { ignore_eos: true }),
    },
    ...(asked.ratedTokens === null ? {} : { return_logprob: true, token_ids_logprob: asked.ratedTokens }),
    ...(asked.topLogProbs === null ? {} : { return_logprob: true, top_logprobs_num: asked.topLogProbs }),
    stream: true,
    cache_salt: asked.cacheSalt,
  }
}

/** Sends all of them: a server may have other defaults (`--preferred-sampling-params`). */
function samplingOf(sampling: Sampling): object {
  const { temperature, topP, topK, minP = 0, frequencyPenalty, presencePenalty, repetitionPenalty = 1, seed } = sampling
  return {
    temperature,
    top_p: topP,
    top_k: topK === 0 ? -1 : topK,
    min_p: minP,
    frequency_penalty: frequencyPenalty,
    presence_penalty: presencePenalty,
    repetition_penalty: repetitionPenalty,
    // Effective only on a server with --enable-deterministic-inference.
    ...(seed === undefined ? {} : { sampling_seed: seed }),
  }
}

function isOlder(version: string): boolean {
  const parts = version.split('.').map((part) => Number.parseInt(part, 10))
  for (const [index, wanted] of RELEASE.entries()) {
    const part = parts[index] ?? 0
    if (part !== wanted) return !(part > wanted)
  }
  return false
}

const serverSchema = z.object({ version: z.string(), grammar_backend: z.string().nullish() })
const modelSchema = z.object({ has_image_understanding: z.boolean() })
