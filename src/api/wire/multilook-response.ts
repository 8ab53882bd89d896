import { z } from 'zod'
import { finishReason, replyMessage } from './chat-response.ts'

const tokens = z.int().min(0)

const answered = z.object({
  prompt_index: z.int().min(0),
  completions: z.array(
    z.object({
      index: z.int().min(0),
      message: replyMessage,
      finish_reason: finishReason,
    }),
  ),
  usage: z.object({ completion_tokens: tokens }),
})

const failed = z.object({
  prompt_index: z.int().min(0),
  error: z.object({ message: z.string(), type: z.string(), code: z.string().optional() }),
})

const result = z.union([answered, failed])

/** Answer of `POST /v1/chat/completions/multilook`. */
export const multilookCompletion = z.object({
  id: z.string(),
  object: z.literal('chat.completion.multilook'),
  model: z.string(),
  results: z.array(result),
  usage: z.object({
    prompt_tokens: tokens.describe('Of the prompts that ran, each with the shared context.'),
    completion_tokens: tokens,
    total_tokens: tokens,
    prompt_tokens_details: z.object({
      cached_tokens: tokens.describe('The part of prompt_tokens that this call prefilled once and used again.'),
      audio_tokens: tokens,
    }),
  }),
})

export type MultilookResultBody = z.output<typeof result>
export type MultilookCompletionBody = z.output<typeof multilookCompletion>
