/** How many tokens audio takes, in the terms of model cards. */
export interface AudioRule {
  readonly tokensPerSecond: number
  /** Length of an encoder's windows, in seconds. A partial window costs as much as a whole one. */
  readonly windowSeconds?: number
}

/** Encoders of Whisper's kind take windows of 30 seconds, with 100 spectra a second. */
const WHISPER_SECONDS = 30
const WHISPER_RATE = 100

/** A number in an encoder's header, by its name after `clip.audio.`; undefined if absent. */
export type AudioNumberOf = (key: string) => number | undefined

/**
 * By the projector type of the audio encoder (`clip.audio.projector_type`, or `clip.projector_type` of a file without
 * an image encoder). Rates follow `clip_n_output_tokens` in llama.cpp's `tools/mtmd/clip.cpp`. Null for an unknown
 * encoder, or one whose file lacks a number.
 */
export function audioRule(projector: string, number: AudioNumberOf): AudioRule | null {
  /** Number of encoder outputs per token. */
  const stack = number('projector.stack_factor')
  switch (projector) {
    // Chunks of 100 spectra with 13 tokens each.
    case 'qwen3a':
      return { tokensPerSecond: 13, windowSeconds: 1 }
    // A convolution and a pooling, each with stride 2.
    case 'qwen2a':
    case 'qwen2.5o':
    case 'musicflamingo':
      return { tokensPerSecond: WHISPER_RATE / 4, windowSeconds: WHISPER_SECONDS }
    // The same, then stacked.
    case 'voxtral':
      return stack === undefined ? null : { tokensPerSecond: WHISPER_RATE / 4 / stack, windowSeconds: WHISPER_SECONDS }
    // A convolution with stride 2, then stacked.
    case 'ultravox':
    case 'meralion':
      return stack === undefined ? null : { tokensPerSecond: WHISPER_RATE / 2 / stack, windowSeconds: WHISPER_SECONDS }
    // The same, with a token at each end of a window.
    case 'glma': {
      if (stack === undefined) return null
      const tokens = Math.floor((WHISPER_RATE * WHISPER_SECONDS) / 2 / stack) + 2
      return { tokensPerSecond: tokens / WHISPER_SECONDS, windowSeconds: WHISPER_SECONDS }
    }
    // Two convolutions with stride 2; no windows.
    case 'gemma4a':
      return { tokensPerSecond: WHISPER_RATE / 4 }
    // Frames of 640 samples, without an encoder.
    case 'gemma4ua':
      return { tokensPerSecond: 25 }
    // Three convolutions with stride 2; no windows.
    case 'lfm2a':
    case 'parakeet':
    case 'dots3note_a':
      return { tokensPerSecond: WHISPER_RATE / 8 }
    // Pairs of spectra, in windows of a fixed number of pairs, each of which becomes fewer tokens.
    case 'granite_speech': {
      const pairs = number('projector.window_size')
      const share = number('projector.downsample_rate')
      if (pairs === undefined || share === undefined) return null
      return { tokensPerSecond: WHISPER_RATE / 2 / share, windowSeconds: (2 * pairs) / WHISPER_RATE }
    }
    default:
      return null
  }
}

/** Outputs of a Whisper-like encoder per window of audio. */
const WINDOW_OUTPUTS = 1500

/**
 * Whether libmtmd 0.4.0 makes as many tokens from a window of audio as it expects; otherwise it aborts. It rounds the
 * stacked outputs up with a mask that is right for powers of two, and the expected number down (`build_stack` and
 * `clip_n_output_tokens` in llama.cpp's `tools/mtmd/clip.cpp`).
 * @param stack number of encoder outputs per token.
 * @param width floats per output.
 */
export function stacksEvenly(stack: number, width: number): boolean {
  if (stack <= 1) return true
  const mask = BigInt(stack * width) - 1n
  const padded = Number((BigInt(WINDOW_OUTPUTS * width) + mask) & ~mask)
  return Math.floor(padded / (stack * width)) === Math.floor(Math.ceil((2 * WINDOW_OUTPUTS) / stack) / 2)
}
