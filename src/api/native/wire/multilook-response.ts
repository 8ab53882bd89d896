import { z } from 'zod'
import { responseSchemas } from '../../http/wire/components.ts'
import { delta, finishReason, logProbs, replyMessage } from '../../surfaces/openai/wire/chat-response.ts'

const tokens = z.int().min(0)

const completion = z
  .object({
    index: z.int().min(0),
    message: replyMessage,
    logprobs: logProbs.optional().describe('Present when the request asks for them.'),
    finish_reason: finishReason,
  })
  .register(responseSchemas, { id: 'MultilookChoice' })

const promptUsage = z.object({ completion_tokens: tokens }).register(responseSchemas, { id: 'PromptUsage' })

const answered = z
  .object({
    prompt_index: z.int().min(0),
    completions: z.array(completion),
    usage: promptUsage,
  })
  .register(responseSchemas, { id: 'AnsweredPrompt' })

const promptError = z
  .object({ message: z.string(), type: z.string(), code: z.string().optional() })
  .register(responseSchemas, { id: 'PromptError' })

export const failed = z
  .object({ prompt_index: z.int().min(0), error: promptError })
  .register(responseSchemas, { id: 'FailedPrompt' })

const result = z.union([answered, failed]).register(responseSchemas, { id: 'MultilookResult' })

export const tokenDetails = z
  .object({
    cached_tokens: tokens.describe('The part of prompt_tokens that this call prefilled once and reused.'),
    audio_tokens: tokens,
  })
  .register(responseSchemas, { id: 'MultilookPromptTokensDetails' })

const usage = z
  .object({
    prompt_tokens: tokens.describe('Tokens of the prompts that ran, each including the shared context.'),
    completion_tokens: tokens,
    total_tokens: tokens,
    prompt_tokens_details: tokenDetails,
  })
  .register(responseSchemas, { id: 'MultilookUsage' })

const heading = {
  id: z.string(),
  object: z.literal('chat.completion.multilook'),
  model: z.string(),
}

/** Response of `POST /v1/chat/completions/multilook`. */
export const multilookCompletion = z
  .object({ ...heading, results: z.array(result), usage })
  .register(responseSchemas, { id: 'MultilookCompletion' })

/** A piece of a completion, in a stream. */
const multilookDelta = z
  .object({
    prompt_index: z.int().min(0),
    index: z.int().min(0),
    delta,
    logprobs: logProbs.optional().describe('Of the tokens of this piece, if the request asks for them.'),
  })
  .register(responseSchemas, { id: 'MultilookDelta' })

/** The last event of a stream. */
const multilookEnd = z.object({ ...heading, usage }).register(responseSchemas, { id: 'MultilookEnd' })

/** One event of a stream. */
export const multilookEvent = z
  .union([multilookDelta, answered, failed, multilookEnd])
  .register(responseSchemas, { id: 'MultilookEvent' })

export type PromptErrorBody = z.output<typeof promptError>
export type MultilookResultBody = z.output<typeof result>
export type MultilookCompletionBody = z.output<typeof multilookCompletion>
export type MultilookDeltaBody = z.output<typeof multilookDelta>
export type MultilookEndBody = z.output<typeof multilookEnd>
