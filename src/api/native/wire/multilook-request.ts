import { z } from 'zod'
import { bodyFormat } from '../../http/body/body-format.ts'
import { requestSchemas, requests } from '../../http/wire/components.ts'
import { MOST_MESSAGES, message, userParts } from '../../surfaces/openai/wire/messages.ts'
import { replyOptions } from '../../surfaces/openai/wire/reply-options.ts'

const MAX_PROMPTS = 16
const MAX_N = 8
/** Maximum completions of all prompts together. */
const MAX_COMPLETIONS = 64
/** Maximum tokens of one completion. */
const MAX_TOKENS = 8192

const nRange = `expected an integer between 1 and ${MAX_N}`

const tokens = z.int().min(0).max(MAX_TOKENS).nullish()

const promptParts = requests.object('PromptParts', { content: userParts })
const prompt = z.union([z.string(), promptParts]).register(requestSchemas, { id: 'MultilookPrompt' })

const notSupported = 'it is not supported by multilook'
const noList = z.array(z.unknown(), notSupported).max(0, notSupported).nullish()

/**
 * Body of `POST /v1/chat/completions/multilook`. Chat fields that multilook does not support are rejected where they
 * would change the reply. Other unknown keys are dropped.
 */
export const multilookRequest = z
  .object({
    model: z.string(),
    context: z.array(message).max(MOST_MESSAGES),
    prompts: z.array(prompt).min(1).max(MAX_PROMPTS),
    n: z.int(nRange).min(1, nRange).max(MAX_N, nRange).nullish(),
    ...replyOptions,
    max_completion_tokens: tokens,
    max_tokens: tokens.describe('Older name of max_completion_tokens, which takes precedence.'),
    stream: z.literal(false, notSupported).nullish(),
    response_format: z.null(notSupported).optional(),
    regex: z.null(notSupported).optional(),
    stop: noList,
    tools: noList,
  })
  .superRefine(({ prompts, n, temperature }, context) => {
    const reject = (message: string) => context.addIssue({ code: 'custom', path: ['n'], message })
    if ((n ?? 1) > 1 && !temperature) reject('n > 1 requires temperature > 0')
    const completions = prompts.length * (n ?? 1)
    if (completions > MAX_COMPLETIONS) {
      reject(`expected at most ${MAX_COMPLETIONS} completions, got ${prompts.length} prompts with ${n} each`)
    }
  })
  .register(requestSchemas, { id: 'MultilookRequest' })

export const multilookBody = bodyFormat(import.meta.url, 'multilookRequest', multilookRequest)

export type MultilookRequestBody = z.output<typeof multilookRequest>
