import { z } from 'zod'
import { bodyFormat } from '../../../http/body/body-format.ts'
import { requests } from '../../../http/wire/components.ts'

/** Limit of OpenAI's API. */
const MOST_INPUTS = 2048
/** Limit of Cohere's API. */
const MOST_DOCUMENTS = 1000

const tokens = z.array(z.int().min(0)).min(1)
const most = <Item extends z.ZodType>(item: Item) => z.array(item).min(1).max(MOST_INPUTS)

/** Body of `POST /v1/embeddings`. Unknown keys are rejected. */
export const embeddingRequest = requests.strictObject('EmbeddingRequest', {
  model: z.string(),
  input: z.union([z.string(), most(z.string()), tokens, most(tokens)]).describe('Texts, or tokens of the model’s own.'),
  encoding_format: z
    .enum(['float', 'base64'])
    .nullish()
    .describe('`base64`: 32-bit floats, little-endian. `float` by default.'),
  dimensions: z
    .int()
    .min(1)
    .nullish()
    .describe('To how many numbers vectors are cut, for models that were trained for that.'),
  user: z.string().nullish().describe('Accepted and ignored.'),
})

const document = requests.object('RerankDocument', { text: z.string() })

/** Body of `POST /v1/rerank`, as Jina, Cohere and vLLM have it. Unknown keys are rejected. */
export const rerankRequest = requests.strictObject('RerankRequest', {
  model: z.string(),
  query: z.string().min(1),
  documents: z
    .array(z.union([z.string(), document]))
    .min(1)
    .max(MOST_DOCUMENTS),
  top_n: z.int().min(1).nullish().describe('How many results are returned; by default all.'),
  return_documents: z.boolean().nullish().describe('Whether results have the documents, too. False by default.'),
  user: z.string().nullish().describe('Accepted and ignored.'),
})

export const embeddingBody = bodyFormat(import.meta.url, 'embeddingRequest', embeddingRequest)
export const rerankBody = bodyFormat(import.meta.url, 'rerankRequest', rerankRequest)

export type EmbeddingRequestBody = z.output<typeof embeddingRequest>
