import type { GridRegion } from '../coordinates.ts'
import type { ImageTarget } from '../image-detail.ts'
import type { RgbImage, Size } from '../pixels.ts'

/** Holds the pixels of a camera's frame. */
export interface FrameHolder {
  view(frame: number, target: ImageTarget | Size, region: GridRegion | null): Promise<RgbImage>
  jpeg(frame: number): Promise<Uint8Array>
  release(frame: number): void
}

/** A frame of a camera. Its pixels stay in the camera's process, which returns the wanted parts until the release. */
export class LiveFrame implements Disposable {
  readonly original: Size
  readonly #number: number
  readonly #holder: FrameHolder
  #isReleased = false

  constructor(number: number, original: Size, holder: FrameHolder) {
    this.#number = number
    this.original = original
    this.#holder = holder
  }

  /**
   * The frame, or a part of it, at the size that a model takes.
   * @throws ApiError 503 when its process has ended.
   */
  image(target: ImageTarget | Size, region: GridRegion | null = null): Promise<RgbImage> {
    return this.#holder.view(this.#number, target, region)
  }

  /** All of the frame, as a JPEG. @throws ApiError 503 as above. */
  jpeg(): Promise<Uint8Array> {
    return this.#holder.jpeg(this.#number)
  }

  [Symbol.dispose](): void {
    if (this.#isReleased) return
    this.#isReleased = true
    this.#holder.release(this.#number)
  }
}
