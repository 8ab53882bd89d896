import { Readable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import type { ApiCall } from '../../http/api-call.ts'
import { addCalls } from '../../http/client-call.ts'
import { admit, bodiesOf, type Serving } from '../admission.ts'
import { longList } from '../long-list.ts'
import { type EmbeddingRequestBody, embeddingBody, rerankBody } from './wire/embedding-request.ts'
import type { EmbeddingUsageBody, RerankResponseBody } from './wire/embedding-response.ts'

const READING = bodiesOf('embeddings', embeddingBody)
const RERANKING = bodiesOf('rerank', rerankBody)

/** `POST /v1/embeddings` and `POST /v1/rerank`, which the contract does not have. */
export function addEmbeddings(app: FastifyInstance, serving: Serving): void {
  const rank = (call: ApiCall) => rerank(call, serving)
  const answers = {
    '/v1/embeddings': (call: ApiCall) => embeddings(call, serving),
    // Where vLLM has it as well: LiteLLM and Cohere's clients ask there.
    '/v1/rerank': rank,
    '/v2/rerank': rank,
    '/rerank': rank,
  }
  addCalls(app, { bucket: 'embeddings', answers })
}

/** @returns the JSON of the response, written piece by piece: that of all vectors may take a second. */
export async function embeddings(call: ApiCall, serving: Serving): Promise<Readable> {
  const { read, metered, caller, signal } = await admit(call, serving, READING)
  const { model, encoding_format: format, dimensions = null } = read.value
  const asked = { inputs: inputsOf(read.value), dimensions }
  const { vectors, promptTokens } = await serving.conversations.embed(asked, caller, signal)
  metered.finish('stop')
  call.setHeader('content-type', 'application/json; charset=utf-8')
  const isBase64 = format === 'base64'
  const rest = { object: 'list', model, usage: toUsage(promptTokens) }
  return Readable.from(longList('data', vectors, (vector, index) => toItem(vector, index, isBase64), rest))
}

function inputsOf({ input }: EmbeddingRequestBody) {
  const isOne = typeof input === 'string' || typeof input[0] === 'number'
  if (isOne) return [{ content: input as string | number[], param: ['input'] }]
  return (input as (string | number[])[]).map((content, index) => ({ content, param: ['input', index] }))
}

function toItem(vector: Float32Array, index: number, isBase64: boolean) {
  const bytes = () => Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength)
  return { object: 'embedding', index, embedding: isBase64 ? bytes().toString('base64') : Array.from(vector) }
}

export async function rerank(call: ApiCall, serving: Serving): Promise<RerankResponseBody> {
  const { read, metered, caller, signal } = await admit(call, serving, RERANKING)
  const { model, query, documents, top_n: most, return_documents: shows } = read.value
  const texts = documents.map((document) => (typeof document === 'string' ? document : document.text))
  const placed = texts.map((content, index) => ({ content, param: ['documents', index] }))
  const { vectors, promptTokens } = await serving.conversations.rerank({ query, documents: placed }, caller, signal)
  metered.finish('stop')
  const rated = vectors.map(([score], index) => ({
    index,
    relevance_score: score!,
    ...(shows ? { document: { text: texts[index]! } } : {}),
  }))
  const results = rated.toSorted((a, b) => b.relevance_score - a.relevance_score).slice(0, most ?? undefined)
  return { id: `rerank-${call.id}`, object: 'list', model, results, usage: toUsage(promptTokens) }
}

function toUsage(promptTokens: number): EmbeddingUsageBody {
  return { prompt_tokens: promptTokens, total_tokens: promptTokens }
}
