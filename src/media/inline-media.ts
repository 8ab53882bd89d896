/**
 * Media from the body of a request, already decoded from base64. Its owner releases it when it will not be read again.
 */
export class InlineMedia {
  readonly byteLength: number
  #bytes: Uint8Array | null
  readonly #onRelease: (() => void) | undefined

  /** @param onRelease called once, when the bytes are dropped. */
  constructor(bytes: Uint8Array, onRelease?: () => void) {
    this.byteLength = bytes.byteLength
    this.#bytes = bytes
    this.#onRelease = onRelease
  }

  /** @throws Error after the release, which no client can cause. */
  get bytes(): Uint8Array {
    if (this.#bytes === null) throw new Error('Inline media was read after its release')
    return this.#bytes
  }

  release(): void {
    if (this.#bytes === null) return
    this.#bytes = null
    this.#onRelease?.()
  }
}
