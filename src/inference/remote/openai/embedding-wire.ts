import { z } from 'zod'
import type { EmbedInput, RankedPair } from '../../contract/work.ts'
import { ServerClient } from '../http/server-client.ts'
import { type Call, ServerFailure } from '../wire/wire.ts'
import { OpenAiWire, type OpenAiWireOptions } from './openai-wire.ts'

type Content = EmbedInput['content']

/** What a server makes of some inputs. */
export interface EmbeddingAnswer {
  /** In the order of the inputs. */
  readonly vectors: readonly Float32Array[]
  /** Of all inputs together. */
  readonly promptTokens: number
}

/** `POST /v1/embeddings` as OpenAI has defined it, and `POST /v1/rerank` as vLLM and others have it. */
export class EmbeddingWire extends OpenAiWire {
  readonly #model: string
  readonly #parameters: object
  readonly #client: ServerClient

  constructor(options: OpenAiWireOptions) {
    super(options)
    this.#model = options.model
    this.#parameters = options.parameters
    this.#client = new ServerClient({ engine: 'an OpenAI-compatible server', ...options })
  }

  /** @param inputs all of one kind; pairs have the same query. @throws ServerFailure */
  async embed(url: string, inputs: readonly Content[], { signal }: Call): Promise<EmbeddingAnswer> {
    const { vectors, promptTokens } = isPair(inputs[0]!)
      ? await this.#rate(url, inputs as readonly RankedPair[], signal)
      : await this.#embed(url, inputs, signal)
    if (vectors.length !== inputs.length || vectors.includes(undefined))
      throw new ServerFailure('wrong', `it answered ${inputs.length} inputs with ${vectors.length} vectors`)
    return { vectors: vectors as Float32Array[], promptTokens }
  }

  override async close(): Promise<void> {
    await Promise.all([super.close(), this.#client.close()])
  }

  async #embed(url: string, input: readonly Content[], signal: AbortSignal) {
    const body = { ...this.#parameters, model: this.#model, input, encoding_format: 'float' }
    const { data, usage } = await this.#client.ask(embeddings, url, ['POST', '/v1/embeddings'], body, signal)
    const vectors: (Float32Array | undefined)[] = []
    for (const { index, embedding } of data) vectors[index] = Float32Array.from(embedding)
    return { vectors, promptTokens: usage?.prompt_tokens ?? 0 }
  }

  async #rate(url: string, pairs: readonly RankedPair[], signal: AbortSignal) {
    const documents = pairs.map(({ document }) => document)
    const body = { ...this.#parameters, model: this.#model, query: pairs[0]!.query, documents, top_n: documents.length }
    const { results, usage } = await this.#client.ask(scores, url, ['POST', '/v1/rerank'], body, signal)
    const vectors: (Float32Array | undefined)[] = []
    for (const { index, relevance_score: score } of results) vectors[index] = Float32Array.of(score)
    return { vectors, promptTokens: usage?.prompt_tokens ?? usage?.total_tokens ?? 0 }
  }
}

function isPair(content: Content): content is RankedPair {
  return typeof content === 'object' && 'query' in content
}

const index = z.int().min(0).max(1_000_000)
const tokens = z.int().min(0)
const embeddings = z.object({
  data: z.array(z.object({ index, embedding: z.array(z.number()).min(1) })),
  usage: z.object({ prompt_tokens: tokens }).nullish(),
})
const scores = z.object({
  results: z.array(z.object({ index, relevance_score: z.number() })),
  usage: z.object({ prompt_tokens: tokens.nullish(), total_tokens: tokens.nullish() }).nullish(),
})
