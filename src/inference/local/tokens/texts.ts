import { setImmediate as nextTurn } from 'node:timers/promises'
import { FairSlots } from '../../../lib/fair-slots.ts'
import type { TextPart } from '../../contract/parts.ts'
import { FailureError } from '../failure.ts'
import type { Model } from '../native/model.ts'
import { AddedTokens, SLICE_CHARACTERS, slicesOf } from './text-slices.ts'

/** Maximum tokenisation time in one turn of the event loop, in ms. Steps run between turns. */
const TURN_MS = 5
/** Node's four threads hash media and look up names too: one is left for them. */
const THREADS = 3
/**
 * Minimum characters of a slice for another thread. 500 words have 2,500 characters and take a millisecond; three threads take
 * less than half of it.
 */
const LEAST_ASIDE = 512
/** Longer slices need a slot, because they keep a thread busy for a while. */
const LONG = 2 * SLICE_CHARACTERS

const slots = new FairSlots(THREADS)

type Tokeniser = Pick<
  Model,
  | 'tokenize'
  | 'tokenizeContinuation'
  | 'tokenizeInBackground'
  | 'tokenizeContinuationInBackground'
  | 'addedTokens'
  | 'cutsAtWords'
  | 'readsLongWords'
  | 'longestTokenBytes'
>

/** A text to tokenise. */
export interface Reading {
  readonly text: string
  /** Whether texts of control tokens become control tokens. */
  readonly trusted: boolean
  /** Whether it follows another text. */
  readonly continues?: boolean
}

/** The owner of texts, and the signal that aborts reading them. */
export interface ReadingTerms {
  readonly organisation: string
  /** Aborts reading between two slices. */
  readonly signal: AbortSignal
}

/**
 * Owns the tokens of long texts, prepared one slice at a time between steps, or on other threads if the CPU is free. The
 * prompt reader calls it.
 */
export class Texts {
  readonly #model: Tokeniser
  readonly #isAside: boolean
  readonly #cutsAtWords: boolean
  readonly #marks: AddedTokens
  readonly #marksAndControls: AddedTokens
  readonly #prepared = new WeakMap<TextPart, Int32Array>()
  /** When reading must yield in this turn of the event loop; null before it begins. */
  #turnEnds: number | null = null

  /**
   * @param isAside whether other threads tokenise texts.
   * @param cutsAtWords whether texts are also cut between words, and anywhere if there are none.
   */
  constructor(model: Tokeniser, isAside = false, cutsAtWords = model.cutsAtWords) {
    this.#model = model
    this.#cutsAtWords = cutsAtWords
    // Slices of any length would not keep threads busy.
    this.#isAside = isAside && cutsAtWords
    this.#marks = new AddedTokens(model.addedTokens.filter(({ isControl }) => !isControl))
    this.#marksAndControls = new AddedTokens(model.addedTokens)
  }

  /** Whether the texts of a prompt are long enough to be prepared. */
  areLong(texts: readonly TextPart[]): boolean {
    const most = this.#isAside ? 2 * LEAST_ASIDE : SLICE_CHARACTERS
    return texts.reduce((sum, { text }) => sum + text.length, 0) > most
  }

  /** Whether texts may have no more tokens. */
  mayFit(texts: readonly TextPart[], most: number): boolean {
    const bytes = texts.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0)
    return bytes / this.#model.longestTokenBytes <= most
  }

  preparedTokens(part: TextPart): Int32Array | undefined {
    return this.#prepared.get(part)
  }

  /**
   * Tokenises the texts of a prompt ahead of time, if they are long.
   * @param most maximum tokens of the context.
   * @returns false once they are known to have more; they are then not prepared.
   */
  async prepare(texts: readonly TextPart[], most: number, terms: ReadingTerms): Promise<boolean> {
    if (!this.areLong(texts)) return true
    if (!this.mayFit(texts, most)) return false
    let left = most
    for (const part of texts) {
      if (this.#isAside && part.text.length < LEAST_ASIDE) continue
      const tokens = await this.read(part, left, terms)
      if (tokens === null) return false
      left -= tokens.length
      this.#prepared.set(part, tokens)
    }
    return true
  }

  /** The tokens of one text. @returns null if there are more than `most`. @throws the reason of the signal. */
  async read(
    { text, trusted, continues = false }: Reading,
    most: number,
    terms: ReadingTerms,
  ): Promise<Int32Array | null> {
    const added = trusted ? this.#marksAndControls : this.#marks
    const tokens: Int32Array[] = []
    let follows = continues
    let reading: (Int32Array | Promise<Int32Array>)[] = []
    let count = 0
    const finish = async () => {
      for (const slice of await Promise.all(reading)) {
        tokens.push(slice)
        count += slice.length
      }
      reading = []
      // Steps have run in the meantime.
      if (this.#isAside) this.#turnEnds = null
      terms.signal.throwIfAborted()
      return count <= most
    }
    const least = this.#isAside ? leastOf(text) : SLICE_CHARACTERS
    const keepsWords = trusted && this.#model.readsLongWords
    for (const slice of slicesOf(text, added, { atWords: this.#cutsAtWords, keepsWords, least })) {
      await this.#pause(terms.signal)
      if (slice === '') continue
      reading.push(this.#tokensOf({ text: slice, trusted, continues: follows }, terms))
      follows = false
      if ((!this.#isAside || reading.length === THREADS) && !(await finish())) return null
    }
    return (await finish()) ? joined(tokens) : null
  }

  tokenize(part: TextPart): Int32Array {
    return this.#prepared.get(part) ?? this.#model.tokenize(part.text, part.trusted)
  }

  #tokensOf(slice: Required<Reading>, terms: ReadingTerms): Int32Array | Promise<Int32Array> {
    const { text, trusted, continues } = slice
    const model = this.#model
    if (text.length <= LONG && !this.#isAside)
      return continues ? model.tokenizeContinuation(text, trusted) : model.tokenize(text, trusted)
    const call = inTurn(text, terms, () =>
      continues ? model.tokenizeContinuationInBackground(text, trusted) : model.tokenizeInBackground(text, trusted),
    )
    // The pause before the next slice may be aborted before this promise is awaited.
    call.catch(() => {})
    return call
  }

  /** Lets steps run if they have waited too long. */
  async #pause(signal: AbortSignal): Promise<void> {
    if (this.#turnEnds !== null && performance.now() > this.#turnEnds) {
      await nextTurn()
      signal.throwIfAborted()
    }
    if (this.#turnEnds !== null) return
    this.#turnEnds = performance.now() + TURN_MS
    setImmediate(() => {
      this.#turnEnds = null
    })
  }
}

/** Tokenises a text on another thread. A long text first waits for a slot. */
export async function inTurn(
  text: string,
  { organisation, signal }: ReadingTerms,
  tokenize: () => Promise<Int32Array>,
): Promise<Int32Array> {
  using _slot = text.length > LONG ? await slots.take(organisation, signal) : null
  return await tokenize()
}

/** Characters per slice of a text, so that slices keep all threads busy. */
function leastOf(text: string): number {
  return Math.min(SLICE_CHARACTERS, Math.max(LEAST_ASIDE, Math.ceil(text.length / THREADS)))
}

/**
 * Token ids from a client.
 * @throws FailureError for an id that the model does not have.
 */
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

/** Concatenates arrays. */
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
