/** How the frames of a video are laid out in a prompt. */
export interface VideoLayout {
  /**
   * Consecutive frames of one size that the encoder merges into one grid of tokens; 1 if each frame is an image of its
   * own.
   */
  readonly framesPerGrid: 1 | 2
  /**
   * Text before each grid, in which `{seconds}` is replaced by the time of its middle, with one decimal, and `{mm:ss}`
   * by the same in whole minutes and seconds. Null if the prompt contains no times.
   */
  readonly timestamp: string | null
}

/** Frames in pairs, each after its time in words. */
export const TIMED_PAIRS: VideoLayout = { framesPerGrid: 2, timestamp: '<{seconds} seconds>' }
/** Frames in pairs. Only their order conveys time. */
export const UNTIMED_PAIRS: VideoLayout = { framesPerGrid: 2, timestamp: null }
