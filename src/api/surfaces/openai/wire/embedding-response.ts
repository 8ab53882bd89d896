import { z } from 'zod'
import { responseSchemas, responses } from '../../../http/wire/components.ts'

const tokens = z.int().min(0)
const usage = responses.object('EmbeddingUsage', { prompt_tokens: tokens, total_tokens: tokens })

const embedding = responses.object('Embedding', {
  object: z.literal('embedding'),
  index: z.int().min(0),
  embedding: z.union([z.array(z.number()), z.string()]).describe('A string with `encoding_format: base64`.'),
})

/** Response of `POST /v1/embeddings`. */
export const embeddingList = responses.object('EmbeddingList', {
  id: z.string().describe('OpenAI has none; other clients need one.'),
  object: z.literal('list'),
  data: z.array(embedding),
  model: z.string(),
  usage,
})

const result = responses.object('RerankResult', {
  index: z.int().min(0).describe('The document’s position in the request.'),
  relevance_score: z.number().describe('From 0 to 1; from other servers, their score unchanged.'),
  document: responses.object('RatedDocument', { text: z.string() }).optional(),
})

/** Response of `POST /v1/rerank`. */
export const rerank = responses.object('Rerank', {
  id: z.string(),
  object: z.literal('list'),
  model: z.string(),
  results: z.array(result),
  usage,
})

/** Response to `texts`. */
const ratedTexts = z
  .array(responses.object('RatedText', { index: z.int().min(0), score: z.number(), text: z.string().optional() }))
  .register(responseSchemas, { id: 'RatedTexts' })

export type RatedTextsBody = z.output<typeof ratedTexts>
export type EmbeddingUsageBody = z.output<typeof usage>
export type RerankResponseBody = z.output<typeof rerank>
