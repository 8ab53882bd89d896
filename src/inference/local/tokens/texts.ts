import { setImmediate as nextTurn } from 'node:timers/promises'
import type { TextPart } from '../../contract/parts.ts'
import { FailureError } from '../failure.ts'
import type { Model } from '../native/model.ts'
import { SLICE_CHARACTERS, slicesOf } from './text-slices.ts'

/** Maximum tokenisation time in one turn of the event loop, in ms. Steps run between turns. */
const TURN_MS = 5
/** Slices that other threads tokenise at the same time. Node has four threads. */
const AT_ONCE = 4
/**
 * Minimum characters of a slice for another thread. 500 words have 2,500 characters and take a millisecond; four threads take
 * a third of it.
 */
const LEAST_ASIDE = 512

type Tokeniser = Pick<Model, 'tokenize' | 'tokenizeInBackground' | 'cutsAtWords' | 'longestTokenBytes'>

/**
 * Owns the tokens of long texts, prepared one slice at a time between steps, or on other threads if the CPU is free. The
 * prompt reader calls it.
 */
export class Texts {
  readonly #model: Tokeniser
  readonly #isAside: boolean
  readonly #prepared = new WeakMap<TextPart, Int32Array>()

  /** @param isAside whether other threads tokenise texts. */
  constructor(model: Tokeniser, isAside = false) {
    this.#model = model
    // If tokens may span words, `JoinedTexts` tokenises texts again as one.
    this.#isAside = isAside && model.cutsAtWords
  }

  /** Whether the texts of a prompt are long enough to be prepared. */
  areLong(texts: readonly TextPart[]): boolean {
    const most = this.#isAside ? 2 * LEAST_ASIDE : SLICE_CHARACTERS
    return texts.reduce((sum, { text }) => sum + text.length, 0) > most
  }

  preparedTokens(part: TextPart): Int32Array | undefined {
    return this.#prepared.get(part)
  }

  /**
   * Tokenises the texts of a prompt ahead of time, if they are long.
   * @param most maximum tokens of the context.
   * @returns false once they are known to have more; they are then not prepared.
   */
  async prepare(texts: readonly TextPart[], most: number, signal: AbortSignal): Promise<boolean> {
    if (!this.areLong(texts)) return true
    const bytes = texts.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0)
    if (bytes / this.#model.longestTokenBytes > most) return false
    if (this.#isAside) return this.#prepareAside(texts, most, signal)
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

  async #prepareAside(texts: readonly TextPart[], most: number, signal: AbortSignal): Promise<boolean> {
    let count = 0
    for (const part of texts) {
      if (part.text.length < LEAST_ASIDE) continue
      const slices = [...slicesOf(part, sliceOf(part))]
      const tokens: Int32Array[] = []
      for (let at = 0; at < slices.length; at += AT_ONCE) {
        const wave = slices.slice(at, at + AT_ONCE)
        tokens.push(...(await Promise.all(wave.map((slice) => this.#model.tokenizeInBackground(slice, part.trusted)))))
        signal.throwIfAborted()
        count += tokens.slice(at).reduce((sum, { length }) => sum + length, 0)
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

/** Characters per slice of a text, so that slices keep all threads busy. */
function sliceOf({ text }: TextPart): number {
  return Math.min(SLICE_CHARACTERS, Math.max(LEAST_ASIDE, Math.ceil(text.length / AT_ONCE)))
}

/** Tokens that a client has sent. @throws FailureError for one that the model does not have. */
export function givenTokens(
  tokens: readonly number[],
  { vocabularySize }: Pick<Model, 'vocabularySize'>,
  param: string,
): Int32Array {
  const wrong = tokens.find((token) => token >= vocabularySize)
  if (wrong === undefined) return Int32Array.from(tokens)
  const message = `The model has no token ${wrong}; it has ${vocabularySize}.`
  throw new FailureError({ kind: 'invalid', message, param })
}

/** All of them in one. */
export function joined(parts: readonly Int32Array[]): Int32Array {
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
