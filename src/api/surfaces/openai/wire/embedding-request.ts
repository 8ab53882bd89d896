import { z } from 'zod'
import { bodyFormat } from '../../../http/body/body-format.ts'
import { requestSchemas, requests } from '../../../http/wire/components.ts'
import { MOST_PARTS, mediaUrl, system, textPart, toolPart } from './messages.ts'

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
/** An empty turn where the reply would begin. */
const reply = requests.object('EmbeddingAssistantMessage', {
  role: z.literal('assistant'),
  content: z.union([
    z.string().max(0),
    z.array(requests.object('NoTextPart', { ...textPart.shape, text: z.string().max(0) })).max(1),
  ]),
})

/** Body of `POST /v1/embeddings`. Unknown keys are rejected. */
export const embeddingRequest = requests.strictObject('EmbeddingRequest', {
  model: z.string(),
  input: z
    .union([z.string(), item, tokens, most(tokens), most(z.union([z.string(), item]))])
    .nullish()
    .describe('Texts, images as Jina has them, or tokens of the model’s own. An object with both has one vector.'),
  messages: z
    .array(requests.union('EmbeddingMessage', 'role', [system, user, reply]))
    .min(1)
    .max(3)
    .nullish()
    .describe(
      'In place of `input`, as vLLM has it: a turn with texts and images, which has one vector. A system message before it says what the vector is for; an empty reply may follow.',
    ),
  continue_final_message: z
    .boolean()
    .nullish()
    .describe('From vLLM’s API: true if the last message is an empty reply. It does not change the prompt.'),
  add_special_tokens: z.boolean().nullish().describe('Accepted and ignored.'),
  encoding_format: z
    .enum(['float', 'base64'])
    .nullish()
    .describe('`base64`: 32-bit floats, little-endian. `float` by default.'),
  dimensions: z
    .int()
    .min(1)
    .nullish()
    .describe('Dimensions to which vectors are truncated, for models that were trained for it.'),
  user: z.string().nullish().describe('Accepted and ignored.'),
})

const document = z
  .object({ ...ofJina, content: parts.nullish().describe('Texts and images, as vLLM has them.') })
  .refine(({ text, image, content }) => (content == null) === (text != null || image != null), {
    error: "expected 'text', 'image', both, or 'content'",
  })
  .register(requestSchemas, { id: 'RerankDocument' })

const fixed = z.literal(false, 'only false is supported').nullish()
const unsupported = z.null('only null is supported').optional()

/**
 * Body of `POST /v1/rerank`, as Jina, Cohere and vLLM define it; with `texts`, as text-embeddings-inference does, whose
 * clients name no model. Unknown keys are rejected.
 */
const rerankFields = requests.strictObject('RerankRequest', {
  model: z.string().nullish().describe('May be left out with `texts` where only one model rates documents.'),
  query: z.union([z.string().min(1), document]),
  documents: z
    .array(z.union([z.string(), document]))
    .min(1)
    .max(MOST_DOCUMENTS)
    .nullish(),
  texts: z
    .array(z.string())
    .min(1)
    .max(MOST_DOCUMENTS)
    .nullish()
    .describe('In place of `documents`; the reply is a list.'),
  return_text: z.boolean().nullish().describe('With `texts`, whether results have them, too. False by default.'),
  raw_scores: fixed,
  truncate: fixed,
  truncation_direction: z.string().nullish().describe('Accepted and ignored.'),
  top_n: z.int().min(1).nullish().describe('How many results are returned; by default all.'),
  max_tokens_per_doc: z
    .int()
    .min(1)
    .nullish()
    .describe(
      'Longer documents are truncated to this many tokens. Documents with images, and models on other servers, do not support this: send at least the model’s maximum.',
    ),
  max_chunks_per_doc: unsupported,
  rank_fields: unsupported,
  priority: z.int().nullish().describe('Accepted and ignored.'),
  return_documents: z.boolean().nullish().describe('Whether results have the documents, too. False by default.'),
  user: z.string().nullish().describe('Accepted and ignored.'),
})
export const rerankRequest = rerankFields.superRefine(({ model, documents, texts }, context) => {
  const refuse = (path: string, message: string) => context.addIssue({ code: 'custom', path: [path], message })
  if (documents == null && texts == null) refuse('documents', 'it is required')
  else if (documents != null && texts != null) refuse('texts', 'expected only one of documents and texts')
  else if (model == null && texts == null) refuse('model', 'it is required')
})

export const embeddingBody = bodyFormat(import.meta.url, 'embeddingRequest', embeddingRequest)
export const rerankBody = bodyFormat(import.meta.url, 'rerankRequest', rerankRequest)

export type RerankRequestBody = z.output<typeof rerankRequest>
export type EmbeddingRequestBody = z.output<typeof embeddingRequest>
export type RerankDocumentBody = z.output<typeof document>
