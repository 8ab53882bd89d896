import { closeSync, readSync } from 'node:fs'

/** The bytes of one input, in memory or in a file. */
export interface ByteSource extends Disposable {
  readonly length: number
  /** Returns up to `size` bytes from `position`, valid until the next call. Empty at the end. */
  read(position: number, size: number): Uint8Array
  all(): Uint8Array
}

/** Bytes that were sent with their task. */
export function memorySource(bytes: Uint8Array): ByteSource {
  return {
    length: bytes.length,
    read: (position, size) => bytes.subarray(position, position + size),
    all: () => bytes,
    [Symbol.dispose]() {},
  }
}

/**
 * A file that is read on demand, so that the memory a video takes does not depend on its length.
 * @param file an open file, closed on disposal.
 */
export function fileSource(file: number, length: number): ByteSource {
  let buffer = Buffer.alloc(0)
  return {
    length,
    read(position, size) {
      if (buffer.length < size) buffer = Buffer.allocUnsafeSlow(size)
      return buffer.subarray(0, readSync(file, buffer, 0, size, position))
    },
    all() {
      const bytes = Buffer.allocUnsafeSlow(length)
      let filled = 0
      for (let count = 1; count > 0 && filled < length; filled += count) {
        count = readSync(file, bytes, filled, length - filled, filled)
      }
      return bytes.subarray(0, filled)
    },
    [Symbol.dispose]: () => closeSync(file),
  }
}
