/** Words of shared memory between the engine and the thread of a grammar. What one side writes, the other reads in turn. */
const TURN = 0
const OPERATION = 1
const MATCHER = 2
const VALUE = 3
const DATA = 4

const ENGINE = 0
const THREAD = 1

export const Operation = { create: 0, nextTokens: 1, accept: 2, forcedText: 3, dispose: 4 } as const

/** Text that a grammar forces is cut after so many bytes; the rest is found forced when that much was taken. */
const LONGEST_TEXT = 4096

export interface Call {
  readonly operation: number
  readonly matcher: number
  /** A token, where there is one. */
  readonly value: number
}

/** A call that failed says so by this value. */
export const FAULT = -1

/**
 * Synchronous calls from the engine into the thread of a grammar: the engine needs the answer between two of its steps,
 * and a message would only come after it let go of its own thread.
 */
export class GrammarLine {
  readonly buffer: SharedArrayBuffer
  readonly #words: Int32Array
  readonly #maskWords: number

  constructor(vocabularySize: number, buffer?: SharedArrayBuffer) {
    this.#maskWords = Math.ceil(vocabularySize / 32)
    this.buffer = buffer ?? new SharedArrayBuffer(4 * (DATA + Math.max(this.#maskWords, LONGEST_TEXT / 4)))
    this.#words = new Int32Array(this.buffer)
  }

  /** For the engine. Blocks. @returns the value of the answer, or null when none came in time. */
  call({ operation, matcher, value }: Call, limitMs: number): number | null {
    this.#words[OPERATION] = operation
    this.#words[MATCHER] = matcher
    this.#words[VALUE] = value
    Atomics.store(this.#words, TURN, THREAD)
    Atomics.notify(this.#words, TURN)
    return Atomics.wait(this.#words, TURN, THREAD, limitMs) === 'timed-out' ? null : this.#words[VALUE]!
  }

  /** For the thread: answers calls, one after the other, and never returns. Blocks while there are none. */
  serve(answer: (call: Call) => number): never {
    for (;;) {
      Atomics.wait(this.#words, TURN, ENGINE)
      const [operation, matcher, value] = [this.#words[OPERATION]!, this.#words[MATCHER]!, this.#words[VALUE]!]
      this.#words[VALUE] = answer({ operation, matcher, value })
      Atomics.store(this.#words, TURN, ENGINE)
      Atomics.notify(this.#words, TURN)
    }
  }

  get mask(): Int32Array {
    return this.#words.slice(DATA, DATA + this.#maskWords)
  }

  set mask(mask: Int32Array) {
    this.#words.set(mask, DATA)
  }

  /** @param bytes length of the text, as `writeText` told it. */
  readText(bytes: number): string {
    return Buffer.from(new Uint8Array(this.buffer, 4 * DATA, bytes)).toString()
  }

  /** @returns bytes written: whole characters only. */
  writeText(text: string): number {
    return new TextEncoder().encodeInto(text, new Uint8Array(this.buffer, 4 * DATA, LONGEST_TEXT)).written
  }
}
