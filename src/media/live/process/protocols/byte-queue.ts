const LEAST = 16_384
const NEWLINE = 10
const RETURN = 13

/** Bytes that have arrived and are not yet read. However they are cut into pieces, each is copied a bounded number of times. */
export class ByteQueue {
  #bytes = Buffer.allocUnsafeSlow(LEAST)
  #start = 0
  #end = 0
  /** How far past the start `headLength` has looked. */
  #searched = 0

  get length(): number {
    return this.#end - this.#start
  }

  push(chunk: Uint8Array): void {
    if (this.#end + chunk.length > this.#bytes.length) this.#makeRoom(this.length + chunk.length)
    this.#bytes.set(chunk, this.#end)
    this.#end += chunk.length
  }

  at(offset: number): number {
    return this.#bytes[this.#start + offset]!
  }

  /** @returns a view, which is valid until the next `push`. */
  peek(length: number): Buffer {
    return this.#bytes.subarray(this.#start, Math.min(this.#start + length, this.#end))
  }

  /** @returns a view, which is valid until the next `push`. */
  take(length: number): Buffer {
    const bytes = this.peek(length)
    this.#start += bytes.length
    this.#searched = 0
    return bytes
  }

  /** The length of a message's head, with the empty line at its end; null while that has not arrived. */
  headLength(): number | null {
    const bytes = this.peek(this.length)
    for (;;) {
      const newline = bytes.indexOf(NEWLINE, this.#searched)
      if (newline < 0) {
        this.#searched = bytes.length
        return null
      }
      const next = bytes[newline + 1] === RETURN ? newline + 2 : newline + 1
      if (bytes[next] === NEWLINE) return next + 1
      if (next >= bytes.length) {
        this.#searched = newline
        return null
      }
      this.#searched = newline + 1
    }
  }

  /** Half of the new room is free, so the cost of the copy is amortised over the bytes that fill it. */
  #makeRoom(needed: number): void {
    const size = this.#bytes.length
    const fits = needed * 2 <= size && size <= Math.max(4 * LEAST, needed * 16)
    const target = fits ? this.#bytes : Buffer.allocUnsafeSlow(Math.max(LEAST, needed * 2))
    this.#bytes.copy(target, 0, this.#start, this.#end)
    this.#end -= this.#start
    this.#start = 0
    this.#bytes = target
  }
}
