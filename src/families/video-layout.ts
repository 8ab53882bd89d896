/** How the frames of a video stand in a prompt. */
export interface VideoLayout {
  /** Consecutive frames of one size that the encoder merges into one grid of tokens; 1: each frame is an image of its own. */
  readonly framesPerGrid: 1 | 2
  /**
   * Text before each grid, in which `{seconds}` stands for the time of its middle, with one decimal, and `{mm:ss}` for the same
   * in whole minutes and seconds. Null: the prompt says
   * nothing about time.
   */
  readonly timestamp: string | null
}

/** Frames in pairs, each behind its time in words. */
export const TIMED_PAIRS: VideoLayout = { framesPerGrid: 2, timestamp: '<{seconds} seconds>' }
/** Frames in pairs. Only their order tells the model about time. */
export const UNTIMED_PAIRS: VideoLayout = { framesPerGrid: 2, timestamp: null }
