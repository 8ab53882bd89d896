import type { ClipAbout } from './protocol.ts'

/** What has the bytes of a clip. */
export interface ClipHolder {
  /** The next ones; none at the end, and null where they are gone. */
  piece(): Promise<Uint8Array | null>
  drop(): void
}

/** A clip of a camera, in MP4. Its bytes stay in the camera's process until they are read. */
export class LiveClip implements Disposable {
  readonly about: ClipAbout
  readonly #holder: ClipHolder

  constructor(about: ClipAbout, holder: ClipHolder) {
    this.about = about
    this.#holder = holder
  }

  /** Reads the file, once. @returns whether all of it was there. */
  async read(write: (bytes: Uint8Array) => Promise<void>): Promise<boolean> {
    for (;;) {
      const bytes = await this.#holder.piece()
      if (bytes === null || bytes.byteLength === 0) return bytes !== null
      await write(bytes)
    }
  }

  [Symbol.dispose](): void {
    this.#holder.drop()
  }
}
