import type { Readable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import type { EmbeddingRequest, InputContent, PartsInput } from '../../../conversation/request/embedding-request.ts'
import type { ContentPart, MediaUrl } from '../../../conversation/request/message.ts'
import type { ModelCatalog } from '../../../inference/catalog/model-catalog.ts'
import type { ServedModel } from '../../../inference/catalog/registry.ts'
import { invalidRequest } from '../../../lib/errors/errors.ts'
import { type Path, within } from '../../../lib/errors/param.ts'
import type { ApiCall } from '../../http/api-call.ts'
import type { ReadBody } from '../../http/body/body-reader.ts'
import { addCalls } from '../../http/client-call.ts'
import { namedModel } from '../../http/named-model.ts'
import { admit, bodiesOf, type Reading, type Serving } from '../admission.ts'
import { longList } from '../long-list.ts'
import {
  type EmbeddingRequestBody,
  embeddingBody,
  type RerankDocumentBody,
  type RerankRequestBody,
  rerankBody,
} from './wire/embedding-request.ts'
import type { EmbeddingUsageBody, RatedTextsBody, RerankResponseBody } from './wire/embedding-response.ts'

const READING = bodiesOf('embeddings', embeddingBody)
const RERANKING: Reading<ReadBody<RerankRequestBody>> = {
  endpoint: 'rerank',
  read: (call, bodies) => bodies.read(call, rerankBody),
  find: ({ value: { model } }, models) => (model == null ? onlyRanker(models) : namedModel(models, model)),
}

/** `POST /v1/embeddings` and `POST /v1/rerank`, which the contract does not have. */
export function addEmbeddings(app: FastifyInstance, serving: Serving): void {
  const rank = (call: ApiCall) => rerank(call, serving)
  const answers = {
    '/v1/embeddings': (call: ApiCall) => embeddings(call, serving),
    // The path that vLLM also has, which LiteLLM and Cohere's clients use.
    '/v1/rerank': rank,
    '/v2/rerank': rank,
    '/rerank': rank,
  }
  addCalls(app, { bucket: 'embeddings', answers })
}

/** @returns the JSON of the response, serialised in pieces: all vectors at once may take a second. */
export async function embeddings(call: ApiCall, serving: Serving): Promise<Readable | object> {
  const { read, metered, caller, signal } = await admit(call, serving, READING)
  const { model, encoding_format: format, dimensions = null } = read.value
  const asked = { inputs: inputsOf(read.value), dimensions, names: nameOfImage }
  const { vectors, promptTokens } = await serving.conversations.embed(asked, caller, signal)
  metered.finish('stop')
  call.setHeader('content-type', 'application/json; charset=utf-8')
  const isBase64 = format === 'base64'
  const rest = { id: `embd-${call.id}`, object: 'list', model, usage: toUsage(promptTokens) }
  return longList('data', vectors, (vector, index) => toItem(vector, index, isBase64), rest)
}

/** @throws ApiError 400 for a body without `input` and `messages`, or with both. */
function inputsOf(body: EmbeddingRequestBody): EmbeddingRequest['inputs'] {
  const { input, messages, continue_final_message: continues } = body
  if ((input == null) === (messages == null)) throw invalidRequest("Expected one of 'input' and 'messages'", 'input')
  if (messages != null) return [{ content: turnOf(messages, continues === true), param: ['messages'] }]
  const isTokens = (one: unknown): one is readonly number[] => Array.isArray(one) && typeof one[0] === 'number'
  const list = Array.isArray(input) && !isTokens(input) ? input : null
  const all = list ?? [input as string | RerankDocumentBody | readonly number[]]
  return all.map((one, index) => {
    const param = list === null ? ['input'] : ['input', index]
    return { content: isTokens(one) ? one : contentOf(one as string | RerankDocumentBody, param), param }
  })
}

/** @throws ApiError 400 for turns of other roles than the user's. */
function turnOf(messages: NonNullable<EmbeddingRequestBody['messages']>, continues: boolean): PartsInput {
  const replies = messages.at(-1)!.role === 'assistant'
  if (replies !== continues)
    throw invalidRequest(
      "Expected true where the last message is of the role 'assistant', and only there",
      'continue_final_message',
    )
  const [first, second, ...more] = replies ? messages.slice(0, -1) : messages
  const message = second ?? first
  if (message?.role !== 'user' || (second !== undefined && first!.role !== 'system') || more.length > 0)
    throw invalidRequest("Expected a message of the role 'user', and at most one of 'system' before it", 'messages')
  const placed = { message, param: ['messages', second === undefined ? 0 : 1] }
  if (first!.role !== 'system') return { placed }
  const { content } = first!
  const instruction = typeof content === 'string' ? content : content.map(({ text }) => text).join('\n')
  return { placed, instruction }
}

/** A text, or the parts of an input, in any of the forms that clients send. */
function contentOf(one: string | RerankDocumentBody, param: Path): InputContent {
  if (typeof one === 'string') return one
  const { text, image, content } = one
  if (content != null) return { placed: { message: { role: 'user', content }, param } }
  if (image == null) return text!
  const parts: ContentPart[] = [{ type: 'image_url', image_url: { url: urlOf(image) } }]
  if (text) parts.push({ type: 'text', text })
  const places = [within(param, 'image'), within(param, 'text')]
  return { placed: { message: { role: 'user', content: parts }, param, places } }
}

/** Jina also accepts bare base64. */
function urlOf(image: MediaUrl): MediaUrl {
  return typeof image !== 'string' || /^\s*(https?|data):/i.test(image) ? image : `data:;base64,${image}`
}

/** In Jina's form, the URL is the image itself. */
function nameOfImage(path: Path): Path {
  const at = path.indexOf('image')
  return at === -1 ? path : path.slice(0, at + 1)
}

function toItem(vector: Float32Array, index: number, isBase64: boolean) {
  const bytes = () => Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength)
  return { object: 'embedding', index, embedding: isBase64 ? bytes().toString('base64') : Array.from(vector) }
}

/** @throws ApiError 400 if no model rates documents, or several do. */
async function onlyRanker(models: ModelCatalog): Promise<ServedModel> {
  const rankers = (await models.list()).filter(({ served }) => served.capabilities.includes('rerank'))
  if (rankers.length === 1) return rankers[0]!
  throw invalidRequest(`Invalid 'model': it is required, because ${rankers.length} models rate documents`, 'model')
}

export async function rerank(call: ApiCall, serving: Serving): Promise<RerankResponseBody | RatedTextsBody> {
  const { read, model, metered, caller, signal } = await admit(call, serving, RERANKING)
  const { query, texts, top_n: most, return_documents: shows, return_text: showsText } = read.value
  const documents = read.value.documents ?? texts!
  const asked = {
    query: contentOf(query, ['query']),
    documents: documents.map((document, index) => {
      const param = [texts == null ? 'documents' : 'texts', index]
      return { content: contentOf(document, param), param }
    }),
    documentTokens: cutOf(read.value, model),
    names: nameOfImage,
  }
  const { vectors, promptTokens } = await serving.conversations.rerank(asked, caller, signal)
  metered.finish('stop')
  const rated = vectors.map(([score], index) => ({
    index,
    relevance_score: score!,
    ...(shows ? { document: { text: textOf(documents[index]!) } } : {}),
  }))
  const results = rated.toSorted((a, b) => b.relevance_score - a.relevance_score).slice(0, most ?? undefined)
  if (texts != null)
    return results.map(({ index, relevance_score: score }) => ({
      index,
      score,
      ...(showsText && { text: texts[index]! }),
    }))
  return {
    id: `rerank-${call.id}`,
    object: 'list',
    model: read.value.model ?? model.id,
    results,
    usage: toUsage(promptTokens),
  }
}

/**
 * Maximum tokens of a document; null for models with no larger context anyway.
 * @throws ApiError 400 for documents that cannot be truncated: those with images, and those for remote servers.
 */
function cutOf(
  { max_tokens_per_doc: most, query, documents }: RerankRequestBody,
  { card, contextTokens }: ServedModel,
): number | null {
  if (most == null || most >= contextTokens) return null
  const isText = (one: string | RerankDocumentBody) =>
    typeof one === 'string' || (one.image == null && (one.content ?? []).every(({ type }) => type === 'text'))
  if (card.engine.type === 'local' && [query, ...(documents ?? [])].every(isText)) return most
  const advice = `these documents cannot be cut: leave it out, or send at least ${contextTokens}, as many as the model takes`
  throw invalidRequest(`Invalid 'max_tokens_per_doc': ${advice}`, 'max_tokens_per_doc')
}

/** The text of a document; empty for an image alone. */
function textOf(document: string | RerankDocumentBody): string {
  if (typeof document === 'string') return document
  const { text, content } = document
  return text ?? (content ?? []).flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n')
}

function toUsage(promptTokens: number): EmbeddingUsageBody {
  return { prompt_tokens: promptTokens, total_tokens: promptTokens }
}
