import { z } from 'zod'
import { type BodyFormat, bodyFormat } from '../../../http/body/body-format.ts'
import { requestSchemas, requests, responses } from '../../../http/wire/components.ts'
import { openAiResponseFormat } from './chat-request.ts'
import { finishReason, usage } from './chat-response.ts'
import { constraints, openAiFields, openAiStreamOptions, stopSequences } from './openai-fields.ts'
import { replyOptions, unlimited, vllmSampling } from './reply-options.ts'

/** The limits of a multilook, for prompts and for completions of each. */
const MOST_PROMPTS = 16
const MOST_CHOICES = 8
const MOST_LOGPROBS = 20
/** OpenAI allows 4. Clients that know other servers send more: editors, and lm-eval's tasks. */
const MOST_STOPS = 32

const text = z.string().min(1)
const token = z.int().min(0)
const prompts = z
  .array(z.union([text, token, z.array(token).min(1)], 'expected a text or token ids'))
  .min(1)
  .superRefine((items, context) => {
    const refuse = (message: string) => context.addIssue({ code: 'custom', message })
    if (new Set(items.map((item) => typeof item)).size > 1) refuse('expected only texts, or only token ids')
    else if (typeof items[0] !== 'number' && items.length > MOST_PROMPTS)
      refuse(`expected at most ${MOST_PROMPTS} items`)
  })
const prompt = z.union([text, prompts])

const { frequency_penalty, presence_penalty, temperature, top_p } = replyOptions
const { max_tokens, top_k } = unlimited
const { seed, user } = openAiFields
const noBias = z.strictObject({}, 'only an empty one is supported').register(requestSchemas, { id: 'NoLogitBias' })

/** Body of `POST /v1/completions`. Unknown keys are dropped. */
export const completionRequest = requests
  .object('CompletionRequest', {
    model: z.string(),
    prompt: prompt.describe(
      'One or more texts or lists of tokens, used unchanged, without a chat template. Control tokens are parsed.',
    ),
    max_tokens: max_tokens.describe('16 by default, as in OpenAI’s API.'),
    n: z.int().min(1).max(MOST_CHOICES).nullish(),
    best_of: z.int().min(1).max(MOST_CHOICES).nullish().describe('Must equal `n`.'),
    echo: z
      .boolean()
      .nullish()
      .describe('Whether each text begins with its prompt, and `logprobs` with the prompt’s tokens.'),
    logprobs: z.int().min(0).max(MOST_LOGPROBS).nullish(),
    stream: z.boolean().nullish(),
    stream_options: requests.object('CompletionStreamOptions', openAiStreamOptions.shape).nullish(),
    suffix: z.literal('', 'text before a given end is not supported').nullish(),
    logit_bias: noBias.nullish(),
    stop: stopSequences(MOST_STOPS),
    regex: z.string().min(1).nullish(),
    response_format: openAiResponseFormat.nullish(),
    ...constraints,
    ...vllmSampling,
    ...{ frequency_penalty, presence_penalty, temperature, top_k, top_p, seed, user },
  })
  .superRefine(({ n, best_of: best, stream, stream_options: options }, context) => {
    const refuse = (path: string, message: string) => context.addIssue({ code: 'custom', path: [path], message })
    if (typeof best === 'number' && best !== (n ?? 1)) refuse('best_of', 'only the same number as n is supported')
    if (options && stream !== true) refuse('stream_options', 'it requires stream to be true')
  })

export type CompletionRequestBody = z.output<typeof completionRequest>
export const completionBody: BodyFormat<CompletionRequestBody> = bodyFormat(
  import.meta.url,
  'completionRequest',
  completionRequest,
)

// In Go, a list of named maps or nulls has no type.
const topLogProbs = z
  .record(z.string(), z.number())
  .nullable()
  .meta({ anyOf: undefined, type: ['object', 'null'], additionalProperties: { type: 'number', format: 'double' } })

const logProbs = responses.object('CompletionLogProbs', {
  tokens: z.array(z.string()),
  token_logprobs: z.array(z.number().nullable()).describe('Null for the first token of a prompt.'),
  top_logprobs: z.array(topLogProbs),
  text_offset: z.array(z.int().min(0)).describe('Where each token begins in `text`, in UTF-16 units.'),
})

const choice = responses.object('CompletionChoice', {
  index: z.int().min(0).describe('Prompt by prompt: those of the first prompt come first.'),
  text: z.string(),
  logprobs: logProbs.nullable(),
  finish_reason: finishReason.extract(['stop', 'length']).nullable(),
})

/** Response of `POST /v1/completions`, and one event of its stream. */
const completion = responses.object('Completion', {
  id: z.string(),
  object: z.literal('text_completion'),
  created: z.int().min(0),
  model: z.string(),
  choices: z.array(choice),
  usage: usage.nullish(),
})

export type CompletionBody = z.output<typeof completion>
export type CompletionLogProbsBody = z.output<typeof logProbs>
