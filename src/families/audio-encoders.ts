/** How many tokens sound takes, in the terms of model cards. */
export interface AudioRule {
  readonly tokensPerSecond: number
  /** For an encoder that takes sound in windows of so many seconds: one that has begun costs as much as a whole one. */
  readonly windowSeconds?: number
}

/** Encoders of Whisper's kind take windows of 30 seconds, with 100 spectra a second. */
const WHISPER_SECONDS = 30
const WHISPER_RATE = 100

/**
 * By the projector type of the audio encoder (`clip.audio.projector_type`, or `clip.projector_type` of a file without an
 * image encoder). Rates follow `clip_n_output_tokens` in llama.cpp's `tools/mtmd/clip.cpp`.
 * @param stack `clip.audio.projector.stack_factor`: how many outputs of the encoder become one token.
 */
export function audioRule(projector: string, stack: number | undefined): AudioRule | null {
  switch (projector) {
    // Chunks of 100 spectra with 13 tokens each.
    case 'qwen3a':
      return { tokensPerSecond: 13, windowSeconds: 1 }
    // One convolution and one pooling, each of which halves.
    case 'qwen2a':
    case 'qwen2.5o':
      return { tokensPerSecond: WHISPER_RATE / 4, windowSeconds: WHISPER_SECONDS }
    // One convolution that halves, then stacked.
    case 'voxtral':
    case 'ultravox':
      return stack === undefined ? null : { tokensPerSecond: WHISPER_RATE / 2 / stack, windowSeconds: WHISPER_SECONDS }
    // Two convolutions that halve; no windows.
    case 'gemma4a':
      return { tokensPerSecond: WHISPER_RATE / 4 }
    default:
      return null
  }
}
