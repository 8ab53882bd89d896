import type { ClipAbout } from './protocol.ts'

/** Holds the bytes of a clip. */
export interface ClipHolder {
  /** The next bytes: empty at the end, and null if the clip is gone. */
  piece(): Promise<Uint8Array | null>
  drop(): void
}

/** No process holds a longer clip, unless a camera has taken it over. */
const MOST_BYTES = 64 * 2 ** 20

/** A clip of a camera, in MP4. Its bytes stay in the camera's process until they are read. */
export class LiveClip implements Disposable {
  readonly about: ClipAbout
  readonly #holder: ClipHolder

  constructor(about: ClipAbout, holder: ClipHolder) {
    this.about = about
    this.#holder = holder
  }

  /** Reads the file, once. @returns its length in bytes; null if it was not complete. */
  async read(write: (bytes: Uint8Array) => Promise<void>): Promise<number | null> {
    const most = Math.min(this.about.bytes, MOST_BYTES)
    for (let length = 0; ; ) {
      const bytes = await this.#holder.piece()
      if (!(bytes instanceof Uint8Array)) return null
      if (bytes.byteLength === 0) return length
      length += bytes.byteLength
      if (length > most) return null
      await write(bytes)
    }
  }

  [Symbol.dispose](): void {
    this.#holder.drop()
  }
}
