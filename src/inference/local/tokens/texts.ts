import { setImmediate as nextTurn } from 'node:timers/promises'
import type { TextPart } from '../../engine.ts'
import type { Model } from '../native/model.ts'
import { SLICE_CHARACTERS, slicesOf } from './text-slices.ts'

/** Time that tokenisation may take in one turn of the event loop, in ms. Steps run between turns. */
const TURN_MS = 5

type Tokeniser = Pick<Model, 'tokenize' | 'tokenizeInBackground' | 'cutsAtWords' | 'longestTokenBytes'>

/** Owns the tokens of long texts, prepared a slice at a time between steps. The prompt reader calls it. */
export class Texts {
  readonly #model: Tokeniser
  readonly #prepared = new WeakMap<TextPart, Int32Array>()

  constructor(model: Tokeniser) {
    this.#model = model
  }

  /** Whether the texts of a prompt are so long that they should be prepared. */
  areLong(texts: readonly TextPart[]): boolean {
    return texts.reduce((sum, { text }) => sum + text.length, 0) > SLICE_CHARACTERS
  }

  preparedTokens(part: TextPart): Int32Array | undefined {
    return this.#prepared.get(part)
  }

  /**
   * Tokenises the texts of a prompt ahead of time, if they are long.
   * @param most tokens that the context holds.
   * @returns false as soon as it is known that they have more; they are not prepared then.
   */
  async prepare(texts: readonly TextPart[], most: number, signal: AbortSignal): Promise<boolean> {
    if (!this.areLong(texts)) return true
    const bytes = texts.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0)
    if (bytes / this.#model.longestTokenBytes > most) return false
    let count = 0
    let turnEnds = performance.now() + TURN_MS
    for (const part of texts) {
      const tokens: Int32Array[] = []
      for (const slice of this.#model.cutsAtWords ? slicesOf(part) : [part.text]) {
        if (performance.now() > turnEnds) {
          await nextTurn()
          signal.throwIfAborted()
          turnEnds = performance.now() + TURN_MS
        }
        tokens.push(
          slice.length > 2 * SLICE_CHARACTERS
            ? await this.#model.tokenizeInBackground(slice, part.trusted)
            : this.#model.tokenize(slice, part.trusted),
        )
        count += tokens.at(-1)!.length
        if (count > most) return false
      }
      this.#prepared.set(part, joined(tokens))
    }
    return true
  }

  tokenize(part: TextPart): Int32Array {
    return this.#prepared.get(part) ?? this.#model.tokenize(part.text, part.trusted)
  }
}

function joined(parts: readonly Int32Array[]): Int32Array {
  const [only] = parts
  if (parts.length === 1) return only!
  const all = new Int32Array(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}
