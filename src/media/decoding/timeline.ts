/** One coded frame, as its container describes it. */
export interface CodedFrame {
  /** In units of the stream's time base. */
  readonly time: number
  readonly duration: number
  readonly isKey: boolean
  /** Whether the frame is decoded but never displayed. */
  readonly isHidden: boolean
}

/** A moment of a video that the model sees. */
export interface Sample {
  /** Time from the start of the video, in units of the stream's time base. */
  readonly at: number
  /** Timestamp of the frame displayed at that moment. */
  readonly time: number
  /** Index, in decoding order, of the frame where decoding must start to get that frame. */
  readonly start: number
}

/** Two seconds at two frames per second are four frames, even if rounding errors make it slightly more. */
const ROUNDING = 1e-6

/** The frames that a video actually holds. Its header may claim others. */
export class Timeline {
  readonly #shown: readonly number[]
  /** Keyframes in order of time. */
  readonly #keys: readonly { readonly time: number; readonly place: number }[]
  readonly start: number
  /** From the first frame to the end of the last one. */
  readonly duration: number

  /** @param frames in decoding order; at least one is shown. */
  constructor(frames: readonly CodedFrame[]) {
    const shown = frames.filter(({ isHidden }) => !isHidden).sort((a, b) => a.time - b.time)
    this.#shown = shown.map(({ time }) => time)
    this.#keys = frames
      .map(({ time, isKey }, place) => ({ time, isKey, place }))
      .filter(({ isKey }) => isKey)
      .sort((a, b) => a.time - b.time)
    const first = shown[0]!
    const last = shown.at(-1)!
    const mean = shown.length > 1 ? (last.time - first.time) / (shown.length - 1) : 0
    this.start = first.time
    this.duration = last.time - first.time + (last.duration > 0 ? last.duration : mean)
  }

  /**
   * Samples at equal intervals from the start: `rate` per unit of time. If that is more than `most`, `most` samples are
   * spread over the whole video.
   * @param isOnce whether no frame is taken twice: instead, each is taken at its own time.
   */
  sample(rate: number, most: number, isOnce = false): Sample[] {
    // At least two, to show whether anything moves.
    const wanted = Math.max(2, Math.ceil(this.duration * rate - ROUNDING))
    const count = this.#shown.length === 1 ? 1 : Math.min(wanted, most)
    const times =
      isOnce && count >= this.#shown.length
        ? this.#shown.map((time) => time - this.start)
        : Array.from({ length: count }, (_, index) => (this.duration * index) / count)
    return times.map((at) => {
      const time = this.#shownAt(this.start + at)
      return { at, time, start: this.#keyBefore(time) }
    })
  }

  #shownAt(time: number): number {
    return this.#shown[lastAtMost(this.#shown, (shown) => shown, time)] ?? this.#shown[0]!
  }

  #keyBefore(time: number): number {
    return this.#keys[lastAtMost(this.#keys, (key) => key.time, time)]?.place ?? 0
  }
}

/** Index of the last item at or below the limit, or -1. Items are in ascending order. */
function lastAtMost<Item>(items: readonly Item[], value: (item: Item) => number, limit: number): number {
  let low = 0
  let high = items.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (value(items[middle]!) <= limit) low = middle + 1
    else high = middle
  }
  return low - 1
}
