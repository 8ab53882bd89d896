import { closeSync, readSync } from 'node:fs'

/** The bytes of one input, in memory or in a file. */
export interface ByteSource extends Disposable {
  readonly length: number
  /** Returns up to `size` bytes from `position`, valid until the next call. Empty at the end. */
  read(position: number, size: number): Uint8Array
  all(): Uint8Array
}

/** Bytes that were sent with their task. */
export class MemorySource implements ByteSource {
  readonly #bytes: Uint8Array

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  get length(): number {
    return this.#bytes.length
  }

  read(position: number, size: number): Uint8Array {
    return this.#bytes.subarray(position, position + size)
  }

  all(): Uint8Array {
    return this.#bytes
  }

  [Symbol.dispose](): void {}
}

/** A file that is read on demand, so that the memory a video takes does not depend on its length. */
export class FileSource implements ByteSource {
  readonly length: number
  readonly #file: number
  #buffer = Buffer.alloc(0)

  /** @param file an open file, closed on disposal. */
  constructor(file: number, length: number) {
    this.#file = file
    this.length = length
  }

  read(position: number, size: number): Uint8Array {
    if (this.#buffer.length < size) this.#buffer = Buffer.allocUnsafeSlow(size)
    return this.#buffer.subarray(0, readSync(this.#file, this.#buffer, 0, size, position))
  }

  all(): Uint8Array {
    const bytes = Buffer.allocUnsafeSlow(this.length)
    let length = 0
    for (let count = 1; count > 0 && length < bytes.length; length += count) {
      count = readSync(this.#file, bytes, length, bytes.length - length, length)
    }
    return bytes.subarray(0, length)
  }

  [Symbol.dispose](): void {
    closeSync(this.#file)
  }
}
