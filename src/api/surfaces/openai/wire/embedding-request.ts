import { z } from 'zod'
import { bodyFormat } from '../../../http/body/body-format.ts'
import { requestSchemas, requests } from '../../../http/wire/components.ts'
import { MOST_PARTS, mediaUrl, system, toolPart } from './messages.ts'

/** Limit of OpenAI's API. */
const MOST_INPUTS = 2048
/** Limit of Cohere's API. */
const MOST_DOCUMENTS = 1000

const tokens = z.array(z.int().min(0)).min(1)
const most = <Item extends z.ZodType>(item: Item) => z.array(item).min(1).max(MOST_INPUTS)

const parts = z.array(toolPart).min(1).max(MOST_PARTS)
/** Jina's form of an input. */
const ofJina = {
  text: z.string().nullish(),
  image: mediaUrl.nullish().describe('A URL, a data URL or base64.'),
}
const item = z
  .strictObject(ofJina)
  .refine(({ text, image }) => text != null || image != null, "expected 'text', 'image' or both")
  .register(requestSchemas, { id: 'EmbeddingItem' })
const user = requests.object('EmbeddingUserMessage', {
  role: z.literal('user'),
  content: z.union([z.string(), parts]),
})

/** Body of `POST /v1/embeddings`. Unknown keys are rejected. */
export const embeddingRequest = requests.strictObject('EmbeddingRequest', {
  model: z.string(),
  input: z
    .union([z.string(), item, tokens, most(tokens), most(z.union([z.string(), item]))])
    .nullish()
    .describe('Texts, images as Jina has them, or tokens of the model’s own. An object with both has one vector.'),
  messages: z
    .array(requests.union('EmbeddingMessage', 'role', [system, user]))
    .min(1)
    .max(2)
    .nullish()
    .describe(
      'In place of `input`, as vLLM has it: a turn with texts and images, which has one vector. A system message before it says what the vector is for.',
    ),
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

const document = z
  .object({ ...ofJina, content: parts.nullish().describe('Texts and images, as vLLM has them.') })
  .refine(({ text, image, content }) => (content == null) === (text != null || image != null), {
    error: "expected 'text', 'image', both, or 'content'",
  })
  .register(requestSchemas, { id: 'RerankDocument' })

/** Body of `POST /v1/rerank`, as Jina, Cohere and vLLM have it. Unknown keys are rejected. */
export const rerankRequest = requests.strictObject('RerankRequest', {
  model: z.string(),
  query: z.union([z.string().min(1), document]),
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
export type RerankDocumentBody = z.output<typeof document>
