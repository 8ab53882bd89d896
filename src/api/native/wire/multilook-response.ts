import { z } from 'zod'
import { responseSchemas, responses } from '../../http/wire/components.ts'
import { delta, finishReason, logProbs, replyMessage } from '../../surfaces/openai/wire/chat-response.ts'

const tokens = z.int().min(0)

const completion = responses.object('MultilookChoice', {
  index: z.int().min(0),
  message: replyMessage,
  logprobs: logProbs.optional().describe('Present when the request asks for them.'),
  finish_reason: finishReason,
})

const promptUsage = responses.object('PromptUsage', { completion_tokens: tokens })

const answered = responses.object('AnsweredPrompt', {
  prompt_index: z.int().min(0),
  completions: z.array(completion),
  usage: promptUsage,
})

const promptError = responses.object('PromptError', {
  message: z.string(),
  type: z.string(),
  code: z.string().optional(),
})

export const failed = responses.object('FailedPrompt', { prompt_index: z.int().min(0), error: promptError })

const result = z.union([answered, failed]).register(responseSchemas, { id: 'MultilookResult' })

export const tokenDetails = responses.object('MultilookPromptTokensDetails', {
  cached_tokens: tokens.describe('The part of prompt_tokens that this call prefilled once and reused.'),
  audio_tokens: tokens,
})

const usage = responses.object('MultilookUsage', {
  prompt_tokens: tokens.describe('Tokens of the prompts that ran, each including the shared context.'),
  completion_tokens: tokens,
  total_tokens: tokens,
  prompt_tokens_details: tokenDetails,
})

const heading = {
  id: z.string(),
  object: z.literal('chat.completion.multilook'),
  model: z.string(),
}

/** Response of `POST /v1/chat/completions/multilook`. */
export const multilookCompletion = responses.object('MultilookCompletion', {
  ...heading,
  results: z.array(result),
  usage,
})

/** A piece of a completion, in a stream. */
const multilookDelta = responses.object('MultilookDelta', {
  prompt_index: z.int().min(0),
  index: z.int().min(0),
  delta,
  logprobs: logProbs.optional().describe('Of the tokens of this piece, if the request asks for them.'),
})

/** The last event of a stream. */
const multilookEnd = responses.object('MultilookEnd', { ...heading, usage })

/** One event of a stream. */
export const multilookEvent = z
  .union([multilookDelta, answered, failed, multilookEnd])
  .register(responseSchemas, { id: 'MultilookEvent' })

export type PromptErrorBody = z.output<typeof promptError>
export type MultilookResultBody = z.output<typeof result>
export type MultilookCompletionBody = z.output<typeof multilookCompletion>
export type MultilookDeltaBody = z.output<typeof multilookDelta>
export type MultilookEndBody = z.output<typeof multilookEnd>
