import { signal } from '@preact/signals'

/** Until frames have been seen: most cameras. */
const USUAL_FRAME_S = 1 / 30
/** A longer gap between two shown frames is a seek or a dropped frame. */
const LONGEST_FRAME_S = 0.25

/** A video or a sound that plays: an element of the page plays it, and signals say where it is. */
export class Playback {
  /** In seconds. */
  readonly time = signal(0)
  readonly duration: number
  readonly isPlaying = signal(false)
  readonly isMuted = signal(false)
  #element: HTMLMediaElement | null = null
  #frame = USUAL_FRAME_S

  constructor(duration: number) {
    this.duration = duration
  }

  /** @returns a function that lets the element go. */
  attach(element: HTMLMediaElement): () => void {
    this.#element = element
    const stop = new AbortController()
    const on = (name: string, listener: () => void) => element.addEventListener(name, listener, stop)
    const read = () => {
      this.time.value = element.currentTime
    }
    const follow = () => {
      if (stop.signal.aborted || element.paused) return
      read()
      requestAnimationFrame(follow)
    }
    on('play', () => {
      this.isPlaying.value = true
      follow()
    })
    for (const name of ['pause', 'ended']) on(name, () => (this.isPlaying.value = false))
    on('seeked', read)
    on('timeupdate', () => element.paused || read())
    on('volumechange', () => (this.isMuted.value = element.muted))
    if (element instanceof HTMLVideoElement) this.#watchFrames(element, stop.signal)
    return () => {
      stop.abort()
      element.pause()
      this.#element = null
    }
  }

  toggle(): void {
    const element = this.#element
    if (element === null) return
    // Without a device to play on, the browser refuses; there is nothing to say then.
    if (element.paused) element.play().catch(() => {})
    else element.pause()
  }

  toggleSound(): void {
    if (this.#element) this.#element.muted = !this.#element.muted
  }

  /** @param time in seconds; kept within the media */
  seek(time: number): void {
    const within = Math.max(0, Math.min(this.duration, time))
    this.time.value = within
    if (this.#element) this.#element.currentTime = within
  }

  /** Moves by a number of frames of a video, and pauses. */
  step(frames: number): void {
    this.#element?.pause()
    this.seek(this.time.value + frames * this.#frame)
  }

  /** Learns how long a frame is shown: files need not say it, and the page cannot ask. */
  #watchFrames(element: HTMLVideoElement, signal: AbortSignal): void {
    if (!('requestVideoFrameCallback' in element)) return
    let [last, shortest] = [Number.NaN, LONGEST_FRAME_S]
    const onFrame = (_now: number, { mediaTime }: VideoFrameCallbackMetadata) => {
      if (signal.aborted) return
      const gap = mediaTime - last
      if (!element.paused && gap > 0.001 && gap < shortest) this.#frame = shortest = gap
      last = mediaTime
      element.requestVideoFrameCallback(onFrame)
    }
    element.requestVideoFrameCallback(onFrame)
  }
}
