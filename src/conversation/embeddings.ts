import type { ServedModel } from '../inference/catalog/registry.ts'
import { cannotEmbed } from '../inference/contract/cannot-read.ts'
import type { EmbedContent, EmbedInput } from '../inference/contract/work.ts'
import { invalidRequest } from '../lib/errors/errors.ts'
import { nameOf } from '../lib/errors/param.ts'
import { sumOf } from '../lib/sum.ts'
import type { Call } from './call/call.ts'
import { checkMedia, checkMediaCount, named } from './call/capability-checks.ts'
import { type LoadedMedia, loadMedia } from './prompt/media-parts.ts'
import { contentOf } from './prompt/prompt.ts'
import type { EmbeddingRequest, InputContent, PartsInput, Placed, RerankRequest } from './request/embedding-request.ts'
import type { PlacedMessage } from './request/message.ts'

export interface EmbeddingReply {
  /** In the order of the inputs. */
  readonly vectors: readonly Float32Array[]
  readonly promptTokens: number
}

/**
 * Computes a vector for each input.
 * @throws ApiError for a model that makes none, an input that does not fit, or dimensions that the model does not allow.
 */
export async function embed(
  { inputs, dimensions, truncates = false }: EmbeddingRequest,
  call: Call,
): Promise<EmbeddingReply> {
  checkMakes('embeddings', call.model)
  if (dimensions !== null) checkDimensions(dimensions, call.model, call.model.engine.info.embedding?.dimensions ?? null)
  const media = await loadOf(inputs, call)
  const shown = inputs.map(({ content, param }) => {
    if (!isParts(content)) return { content, param }
    const { instruction } = content
    return { content: shownOf(content, media), param, ...(instruction === undefined ? {} : { instruction }) }
  })
  const { vectors, promptTokens } = await run(shown, call, truncates)
  if (dimensions === null) return { vectors, promptTokens }
  checkDimensions(dimensions, call.model, vectors[0]!.length)
  return { vectors: vectors.map((vector) => cut(vector, dimensions)), promptTokens }
}

/** Scores each document. @returns vectors of one number, from 0 to 1. @throws ApiError as `embed` does. */
export async function rerank({ query, documents, documentTokens }: RerankRequest, call: Call): Promise<EmbeddingReply> {
  checkMakes('rerank', call.model)
  const media = await loadOf([{ content: query, param: ['query'] }, ...documents], call)
  const asked = shownOf(query, media)
  const pairs = documents.map(({ content, param }) => ({
    content: { query: asked, document: shownOf(content, media), ...(documentTokens !== null && { documentTokens }) },
    param,
  }))
  return run(pairs, call, false)
}

/** The turns of inputs that may contain media. */
export function turnsOf(inputs: EmbeddingRequest['inputs']): readonly PlacedMessage[] {
  return inputs.flatMap(({ content }) => (isParts(content) ? [content.placed] : []))
}

function isParts(content: InputContent | readonly number[]): content is PartsInput {
  return typeof content === 'object' && 'placed' in content
}

/** @throws ApiError 400 for pictures that the model does not support, or that cannot be loaded. */
async function loadOf(inputs: EmbeddingRequest['inputs'], call: Call): Promise<LoadedMedia> {
  const turns = turnsOf(inputs)
  checkMedia(turns, call.model)
  checkMediaCount(turns, null)
  const media = await loadMedia(turns, { ...call, withSound: false, maxFrames: 1 })
  call.held.dispose()
  return media
}

/** Converts an input for the engine. Texts without media become one text. */
function shownOf(content: InputContent, media: LoadedMedia): EmbedContent {
  if (typeof content === 'string') return content
  const parts = contentOf(content.placed, media)
  const texts = parts.flatMap((part) => (part.type === 'text' ? [part.text] : []))
  return texts.length === parts.length ? texts.join('\n') : { parts }
}

/** Refuses chats and other requests for text to models that write none. */
export function checkWrites(model: ServedModel): void {
  const made = MADE.find((one) => model.served.capabilities.includes(one))
  if (made === undefined) return
  throw invalidRequest(`${named(model)} ${DOES[made]} and writes no text; use POST /v1/${made}`, 'model')
}

const MADE = ['embeddings', 'rerank'] as const
const DOES = { embeddings: 'makes embeddings', rerank: 'rates documents' } as const

function checkMakes(asked: (typeof MADE)[number], model: ServedModel): void {
  if (model.served.capabilities.includes(asked)) return
  const other = MADE.find((one) => model.served.capabilities.includes(one))
  // The hidden states of a model that was trained to write say little about the similarity of texts.
  const does = other === undefined ? 'writes text and makes' : `${DOES[other]} and makes`
  const none = asked === 'rerank' ? 'no scores of documents' : 'no embeddings'
  throw invalidRequest(`${named(model)} ${does} ${none}`, 'model')
}

function checkDimensions(asked: number, model: ServedModel, whole: number | null): void {
  if (asked === whole) return
  const least = model.card.embedding?.leastDimensions
  if (least === undefined) {
    if (whole === null) return
    throw invalidRequest(`${named(model)} makes embeddings of ${whole} numbers, which cannot be cut`, 'dimensions')
  }
  if (asked >= least && asked <= (whole ?? asked)) return
  throw invalidRequest(
    `${named(model)} allows from ${least}${whole === null ? '' : ` to ${whole}`} dimensions`,
    'dimensions',
  )
}

/** The beginning of a vector, normalised to length 1. */
function cut(vector: Float32Array, dimensions: number): Float32Array {
  const kept = vector.subarray(0, dimensions)
  const length = Math.hypot(...kept)
  return kept.map((value) => (length === 0 ? 0 : value / length))
}

async function run(
  inputs: readonly (Omit<EmbedInput, 'param'> & Pick<Placed<unknown>, 'param'>)[],
  { model, organisation, signal }: Call,
  truncates: boolean,
): Promise<EmbeddingReply> {
  const { engine } = model
  if (engine.embed === undefined) throw cannotEmbed()
  const placed = inputs.map((input) => ({ ...input, param: nameOf(input.param)! }))
  const embedding = await engine.embed({ organisation, inputs: placed, truncates }, signal)
  const vectors = new Array<Float32Array>(inputs.length)
  for await (const { input, vector } of embedding.vectors) vectors[input] = vector
  return { vectors, promptTokens: sumOf(embedding.prompts, ({ promptTokens }) => promptTokens) }
}
