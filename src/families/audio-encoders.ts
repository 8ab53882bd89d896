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

/** Outputs of an encoder of Whisper's kind for one window of sound. */
const WINDOW_OUTPUTS = 1500

/**
 * Whether libmtmd 0.4.0 makes as many tokens of a window of sound as it expects; otherwise it ends the process. It rounds the
 * stacked outputs up with a mask that is right for powers of two, and the expected number down (`build_stack` and
 * `clip_n_output_tokens` in llama.cpp's `tools/mtmd/clip.cpp`).
 * @param stack how many outputs of the encoder become one token.
 * @param width numbers in one output.
 */
export function stacksEvenly(stack: number, width: number): boolean {
  if (stack <= 1) return true
  const mask = BigInt(stack * width) - 1n
  const padded = Number((BigInt(WINDOW_OUTPUTS * width) + mask) & ~mask)
  return Math.floor(padded / (stack * width)) === Math.floor(Math.ceil((2 * WINDOW_OUTPUTS) / stack) / 2)
}
