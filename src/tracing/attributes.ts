/**
 * Names of attributes. Those of OpenTelemetry's GenAI conventions are not stable yet, and its package asks users to
 * copy them: https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/
 */
export const GEN_AI = {
  operation: 'gen_ai.operation.name',
  provider: 'gen_ai.provider.name',
  model: 'gen_ai.request.model',
  inputTokens: 'gen_ai.usage.input_tokens',
  cachedTokens: 'gen_ai.usage.cache_read.input_tokens',
  outputTokens: 'gen_ai.usage.output_tokens',
  finishReasons: 'gen_ai.response.finish_reasons',
} as const

/** Operations that have a name in the conventions, by the endpoint's name. */
export const OPERATIONS: Readonly<Record<string, string>> = {
  responses: 'chat',
  messages: 'chat',
  completions: 'text_completion',
}

/** Lookout's own attributes. */
export const LOOKOUT = {
  /** The `x-trace-id` of the response. */
  requestId: 'lookout.request.id',
  /** The `x-request-id` of the request. */
  clientRequestId: 'lookout.client_request.id',
  organisation: 'lookout.organisation',
  mediaKind: 'lookout.media.kind',
  /** Encoded images, pairs of frames and stretches of audio, and the encoder's time for them. */
  encodedMedia: 'lookout.encode.count',
  encodeMs: 'lookout.encode.ms',
  /** Branches of a work: the prompts of a multilook, the searches of a detection. */
  branches: 'lookout.branches',
  failedBranches: 'lookout.branches.failed',
  completions: 'lookout.completions',
  imageTokens: 'lookout.usage.image_tokens',
  audioTokens: 'lookout.usage.audio_tokens',
} as const
