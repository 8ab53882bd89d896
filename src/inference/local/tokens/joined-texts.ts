import type { MediaPart, PromptPart, TextPart } from '../../contract/parts.ts'
import type { Model } from '../native/model.ts'
import type { Reading, ReadingTerms, Texts } from './texts.ts'

type Tokeniser = Pick<Model, 'readsAsOne' | 'tokenize' | 'tokenizeContinuation' | 'isControl' | 'isMark'>

/**
 * Tokenises adjacent texts as one, for vocabularies where that matters: SentencePiece adds a space before each text, and its
 * tokens may span texts. So the tokens are those of the whole prompt, as in training. If a client's text would complete a
 * control token or a split mark, each text is tokenised separately.
 */
export class JoinedTexts {
  readonly #model: Tokeniser
  readonly #tokens = new WeakMap<TextPart, Int32Array>()
  /** Prepared runs by their first part: runs that begin a text, and runs that continue one. */
  readonly #prepared = [new WeakMap<TextPart, PreparedRun>(), new WeakMap<TextPart, PreparedRun>()] as const

  constructor(model: Tokeniser) {
    this.#model = model
  }

  /** Tokens of a part that `join` returned. */
  tokensOf(part: TextPart): Int32Array | undefined {
    return this.#tokens.get(part)
  }

  /**
   * The same prompt with one part for the texts between media, or several parts that are marked as continuations.
   * @param continues whether the first part follows ordinary text, not a control token.
   */
  join(parts: readonly PromptPart[], continues: boolean): readonly PromptPart[] {
    if (!this.#model.readsAsOne) return parts
    return runsOf(parts, continues).flatMap((run): readonly PromptPart[] => {
      if ('media' in run) return [run.media]
      const prepared = this.#prepared[Number(run.continues) as 0 | 1].get(run.texts[0]!)
      if (prepared !== undefined && isSame(prepared.texts, run.texts)) return prepared.joined
      const reads = this.#joinRun(run)
      let read = reads.next()
      while (!read.done) read = reads.next(this.#tokenize(read.value))
      return read.value
    })
  }

  /**
   * Does the slow part of `join` for the same parts. A vocabulary that reads texts apart needs none.
   * @param most maximum tokens.
   * @param follows whether another prompt precedes them, whose text they may or may not continue.
   * @returns false if there are more.
   */
  async prepare(
    parts: readonly PromptPart[],
    most: number,
    follows: boolean,
    texts: Pick<Texts, 'read'>,
    terms: ReadingTerms,
  ): Promise<boolean> {
    if (!this.#model.readsAsOne) return true
    // Only the first run depends on what precedes it.
    for (const runs of [runsOf(parts, false), follows ? runsOf(parts, true).slice(0, 1) : []]) {
      let left = most
      for (const run of runs) {
        if ('media' in run) continue
        const reads = this.#joinRun(run)
        const first = reads.next() as IteratorYieldResult<Reading>
        const whole = await texts.read(first.value, left, terms)
        if (whole === null) return false
        left -= whole.length
        let step = reads.next(whole)
        while (!step.done) step = reads.next((await texts.read(step.value, Number.POSITIVE_INFINITY, terms))!)
        const prepared = { texts: run.texts, joined: step.value }
        this.#prepared[Number(run.continues) as 0 | 1].set(run.texts[0]!, prepared)
      }
    }
    return true
  }

  /** Yields the texts to tokenise, all in one first, and takes their tokens. */
  *#joinRun({ texts, continues }: TextRun): Generator<Reading, readonly TextPart[], Int32Array> {
    const whole: TextPart = {
      type: 'text',
      text: texts.map(({ text }) => text).join(''),
      trusted: texts.some(({ trusted }) => trusted),
    }
    const tokens = yield { ...whole, continues }
    if (texts.length === 1 || (yield* this.#isHarmless(texts, tokens))) {
      this.#tokens.set(whole, tokens)
      return [whole]
    }
    let follows = continues
    const parts: TextPart[] = []
    for (const { text, trusted } of texts) {
      const part: TextPart = { type: 'text', text, trusted }
      const own = yield { ...part, continues: follows }
      this.#tokens.set(part, own)
      follows = own.length > 0 && !this.#model.isControl(own.at(-1)!)
      parts.push(part)
    }
    return parts
  }

  /** Whether the joined text has exactly the control tokens of the trusted texts and the marks of all texts. */
  *#isHarmless(texts: readonly TextPart[], tokens: Int32Array): Generator<Reading, boolean, Int32Array> {
    const wanted: number[] = []
    for (const { text, trusted } of texts) {
      const own = yield { text, trusted: true }
      if (!trusted && own.some((token) => this.#model.isControl(token))) return false
      for (const token of this.#whole(own)) wanted.push(token)
    }
    const found = this.#whole(tokens)
    return found.length === wanted.length && found.every((token, index) => token === wanted[index])
  }

  #tokenize({ text, trusted, continues }: Reading): Int32Array {
    return continues ? this.#model.tokenizeContinuation(text, trusted) : this.#model.tokenize(text, trusted)
  }

  /** The control tokens and marks among the tokens. */
  #whole(tokens: Int32Array): number[] {
    return [...tokens].filter((token) => this.#model.isControl(token) || this.#model.isMark(token))
  }
}

interface TextRun {
  readonly texts: readonly TextPart[]
  /** Whether it follows ordinary text. */
  readonly continues: boolean
}

interface PreparedRun {
  readonly texts: readonly TextPart[]
  readonly joined: readonly TextPart[]
}

/** The runs of texts between media, and the media. */
function runsOf(parts: readonly PromptPart[], continues: boolean): (TextRun | { readonly media: MediaPart })[] {
  const runs: (TextRun | { readonly media: MediaPart })[] = []
  let texts: TextPart[] = []
  const close = () => {
    if (texts.length > 0) runs.push({ texts, continues: continues && runs.length === 0 })
    texts = []
  }
  for (const part of parts) {
    if (part.type !== 'text') {
      close()
      runs.push({ media: part })
    } else if (part.text !== '') texts.push(part)
  }
  close()
  return runs
}

function isSame(one: readonly TextPart[], other: readonly TextPart[]): boolean {
  return one.length === other.length && one.every((part, at) => part === other[at])
}
