import { z } from 'zod'
import { sumOf } from '../../../lib/sum.ts'
import type { EmbedContent, EmbedInput, RankedPair } from '../../contract/work.ts'
import { pictureUrls } from '../http/picture-url.ts'
import { ServerClient } from '../http/server-client.ts'
import { type Call, ServerFailure } from '../wire/wire.ts'
import { estimatedTokens } from './estimate.ts'
import { OpenAiWire, type OpenAiWireOptions, specialFailure } from './openai-wire.ts'

type Asked = Pick<EmbedInput, 'content' | 'instruction'>

/** A server's result for some inputs. */
export interface EmbeddingAnswer {
  /** In the order of the inputs. */
  readonly vectors: readonly Float32Array[]
  /** Tokens of all inputs together; an estimate if the server does not count them. */
  readonly promptTokens: number
}

interface EmbeddingWireOptions extends OpenAiWireOptions {
  /** See `estimatedTokens`. */
  readonly pixelsPerToken: number | null
}

/**
 * `POST /v1/embeddings` as OpenAI defines it, and `POST /v1/rerank` as vLLM and others do; both with images as vLLM
 * takes them.
 */
export class EmbeddingWire extends OpenAiWire {
  readonly #model: string
  readonly #parameters: object
  readonly #client: ServerClient
  readonly #pixelsPerToken: number | null
  readonly #urlOf = pictureUrls()

  constructor(options: EmbeddingWireOptions) {
    super(options)
    this.#pixelsPerToken = options.pixelsPerToken
    this.#model = options.model
    this.#parameters = options.parameters
    this.#client = new ServerClient({ engine: 'an OpenAI-compatible server', specialFailure, ...options })
  }

  /**
   * @param inputs all of one kind: pairs with the same query, or turns, which are requested concurrently.
   * @throws ServerFailure
   */
  async embed(url: string, inputs: readonly Asked[], { signal }: Call): Promise<EmbeddingAnswer> {
    const contents = inputs.map(({ content }) => content)
    const { vectors, promptTokens } = isPair(contents[0]!)
      ? await this.#rate(url, contents as readonly RankedPair[], signal)
      : isTurn(inputs[0]!)
        ? together(await Promise.all(inputs.map((input) => this.#embedTurn(url, input, signal))))
        : await this.#embed(url, { input: contents }, signal)
    if (vectors.length !== inputs.length || vectors.includes(undefined))
      throw new ServerFailure('wrong', `it answered ${inputs.length} inputs with ${vectors.length} vectors`)
    return {
      vectors: vectors as Float32Array[],
      promptTokens: promptTokens ?? sumOf(contents, (content) => this.#estimateOf(content)),
    }
  }

  #estimateOf(content: EmbedInput['content']): number {
    if (isTokens(content)) return content.length
    if (isPair(content)) return this.#estimateOf(content.query) + this.#estimateOf(content.document)
    const parts = typeof content === 'string' ? [{ type: 'text' as const, text: content }] : content.parts
    const pieces = parts.flatMap((part) => (part.type === 'text' || part.type === 'image' ? [part] : []))
    return estimatedTokens(pieces, this.#pixelsPerToken).promptTokens
  }

  override async close(): Promise<void> {
    await Promise.all([super.close(), this.#client.close()])
  }

  async #embedTurn(url: string, { content, instruction }: Asked, signal: AbortSignal) {
    const system = instruction === undefined ? [] : [{ role: 'system', content: instruction }]
    const turn = await this.#shown(content as EmbedContent)
    const user = { role: 'user', ...(typeof turn === 'string' ? { content: turn } : turn) }
    return this.#embed(url, { messages: [...system, user] }, signal)
  }

  /** A text, or vLLM's object of parts. */
  async #shown(content: EmbedContent): Promise<string | { readonly content: readonly object[] }> {
    if (typeof content === 'string') return content
    const parts = content.parts.map(async (part) => {
      if (part.type === 'text') return { type: 'text', text: part.text }
      if (part.type !== 'image') throw new Error('Vectors are made of texts and images.')
      return { type: 'image_url', image_url: { url: await this.#urlOf(part.image) } }
    })
    return { content: await Promise.all(parts) }
  }

  async #embed(url: string, asked: object, signal: AbortSignal) {
    const body = { ...this.#parameters, model: this.#model, ...asked, encoding_format: 'float' }
    const { data, usage } = await this.#client.ask(embeddings, url, ['POST', '/v1/embeddings'], body, signal)
    const vectors: (Float32Array | undefined)[] = []
    for (const { index, embedding } of data) vectors[index] = ofLength1(embedding)
    return { vectors, promptTokens: counted(usage?.prompt_tokens) }
  }

  async #rate(url: string, pairs: readonly RankedPair[], signal: AbortSignal) {
    const documents = await Promise.all(pairs.map(({ document }) => this.#shown(document)))
    const query = await this.#shown(pairs[0]!.query)
    signal.throwIfAborted()
    const body = { ...this.#parameters, model: this.#model, query, documents, top_n: documents.length }
    const { results, usage } = await this.#client.ask(scores, url, ['POST', '/v1/rerank'], body, signal)
    const vectors: (Float32Array | undefined)[] = []
    for (const { index, relevance_score: score } of results) vectors[index] = Float32Array.of(score)
    return { vectors, promptTokens: counted(usage?.prompt_tokens) ?? counted(usage?.total_tokens) }
  }
}

function together(answers: readonly { vectors: (Float32Array | undefined)[]; promptTokens: number | null }[]) {
  const counts = answers.map(({ promptTokens }) => promptTokens)
  const promptTokens = counts.includes(null) ? null : sumOf(counts, (count) => count!)
  return { vectors: answers.map(({ vectors }) => vectors[0]), promptTokens }
}

/** Null if a server has not counted: every input has tokens. */
function counted(tokens: number | null | undefined): number | null {
  return tokens || null
}

/** Normalises a vector: servers of some models do not. */
function ofLength1(vector: readonly number[]): Float32Array {
  const length = Math.sqrt(sumOf(vector, (value) => value * value)) || 1
  return Float32Array.from(vector, (value) => value / length)
}

function isTokens(content: EmbedInput['content']): content is readonly number[] {
  return Array.isArray(content)
}

function isPair(content: EmbedInput['content']): content is RankedPair {
  return typeof content === 'object' && 'query' in content
}

/** Whether an input is sent as a turn of a conversation, in a request of its own. */
export function isTurn({ content, instruction }: Asked): boolean {
  return instruction !== undefined || (typeof content === 'object' && 'parts' in content)
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
