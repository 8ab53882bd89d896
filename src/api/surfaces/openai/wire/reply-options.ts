import { z } from 'zod'
import { requests } from '../../../http/wire/components.ts'

const penalty = z.number().min(-2).max(2).nullish()

const internalTools = requests.object('InternalTools', { focus: z.boolean().nullish() })

const visionConfig = requests.object('VisionConfig', {
  annotation_format: z.enum(['point', 'box', 'polygon', 'clip']).nullish(),
  enable_thinking: z.boolean().nullish().meta({ deprecated: true }),
  enable_audio_in_video: z.boolean().nullish(),
  internal_tools: internalTools.nullish(),
})

/** Fields that vLLM defines. */
export const vllmSampling = {
  min_p: z.number().min(0).max(1).nullish().describe('As in vLLM: the least probability, as a share of the likeliest.'),
  repetition_penalty: z.number().gt(0).max(2).nullish().describe('As in vLLM: for tokens of the prompt and the reply.'),
}

const MOST_LOGPROBS = 20
export const logprobs = z.boolean().nullish()
export const topLogprobs = z.int().min(0).max(MOST_LOGPROBS).nullish()

const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high'] as const
/** Efforts of only some of OpenAI's models. Here they mean `high`. */
const HIGHER = ['xhigh', 'max'] as const

/** An effort by any name in OpenAI's clients. */
export const anyEffort = z
  .enum([...EFFORTS, ...HIGHER])
  .transform((effort) => (effort === 'xhigh' || effort === 'max' ? 'high' : effort))

/** Fields that control how a reply is generated, the same in chat and multilook requests. */
export const replyOptions = {
  frequency_penalty: penalty,
  presence_penalty: penalty,
  max_completion_tokens: z.int().min(0).nullish(),
  max_tokens: z.int().min(0).nullish().describe('Older name of max_completion_tokens, which takes precedence.'),
  reasoning_effort: z.enum(EFFORTS).nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  // Other values count as absent: the contract ignores them.
  min_p: vllmSampling.min_p.catch(undefined),
  repetition_penalty: vllmSampling.repetition_penalty.catch(undefined),
  logprobs: logprobs.catch(undefined),
  top_logprobs: topLogprobs.catch(undefined),
  top_k: z.int().min(0).nullish(),
  top_p: z.number().gt(0).max(1).nullish(),
  vision_config: visionConfig.nullish(),
}

/** The same with -1 for no limit, as in vLLM and LM Studio. */
export const unlimited = {
  max_completion_tokens: z.int().min(-1).nullish(),
  max_tokens: z.int().min(-1).nullish(),
  top_k: z.int().min(-1).nullish(),
}

const object = z.object(replyOptions)
export type ReplyOptionsBody = z.output<typeof object>
