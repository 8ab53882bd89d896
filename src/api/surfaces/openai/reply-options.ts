import type { ReplyOptions } from '../../../conversation/request/reply-options.ts'
import type { ReplyOptionsBody } from './wire/reply-options.ts'

interface OptionsBody extends ReplyOptionsBody {
  readonly seed?: number | null | undefined
  readonly random_seed?: number | null | undefined
}

/** Converts the options of a request. Options that are missing or null get the contract's defaults. */
export function toReplyOptions(body: OptionsBody): ReplyOptions {
  const vision = body.vision_config
  const { max_completion_tokens, max_tokens } = body
  const most = max_completion_tokens ?? max_tokens ?? -1
  const seed = body.seed ?? body.random_seed ?? null
  return {
    maxTokens: most === -1 ? null : most,
    maxTokensParam: (max_completion_tokens ?? null) === null && max_tokens ? 'max_tokens' : 'max_completion_tokens',
    sampling: {
      temperature: body.temperature ?? 0,
      topP: body.top_p ?? 1,
      topK: Math.max(0, body.top_k ?? 0),
      frequencyPenalty: body.frequency_penalty ?? 0,
      presencePenalty: body.presence_penalty ?? 0,
      ...(body.min_p ? { minP: body.min_p } : {}),
      ...(body.repetition_penalty ? { repetitionPenalty: body.repetition_penalty } : {}),
      // Clients may send larger numbers than an engine accepts.
      ...(seed === null ? {} : { seed: seed >>> 0 }),
    },
    topLogProbs: body.logprobs === true ? (body.top_logprobs ?? 0) : null,
    reasoningEffort: body.reasoning_effort ?? null,
    vision: {
      annotationFormat: vision?.annotation_format ?? null,
      enableThinking: vision?.enable_thinking ?? null,
      enableAudioInVideo: vision?.enable_audio_in_video ?? null,
      focus: vision?.internal_tools?.focus ?? null,
    },
  }
}
