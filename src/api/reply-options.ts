import type { ReplyOptions } from '../conversation/index.ts'
import type { ReplyOptionsBody } from './wire/reply-options.ts'

/** With the contract's defaults for what the client left open. */
export function toReplyOptions(body: ReplyOptionsBody): ReplyOptions {
  const vision = body.vision_config
  return {
    maxTokens: body.max_completion_tokens ?? body.max_tokens ?? null,
    sampling: {
      temperature: body.temperature ?? 0,
      topP: body.top_p ?? 1,
      topK: body.top_k ?? 0,
      frequencyPenalty: body.frequency_penalty ?? 0,
      presencePenalty: body.presence_penalty ?? 0,
    },
    reasoningEffort: body.reasoning_effort ?? null,
    vision: {
      annotationFormat: vision?.annotation_format ?? null,
      enableThinking: vision?.enable_thinking ?? null,
      enableAudioInVideo: vision?.enable_audio_in_video ?? null,
      focus: vision?.internal_tools?.focus ?? null,
    },
  }
}
