import type { PromptPart, TextPart } from '../../contract/parts.ts'
import type { Model } from '../native/model.ts'

type Tokeniser = Pick<Model, 'readsAsOne' | 'tokenize' | 'tokenizeContinuation' | 'isControl' | 'isMark'>

/**
 * Tokenises adjacent texts as one, for vocabularies where that matters: SentencePiece adds a space before each text, and its
 * tokens may span texts. So the tokens are those of the whole prompt, as in training. If a client's text would complete a
 * control token or a split mark, each text is tokenised separately.
 */
export class JoinedTexts {
  readonly #model: Tokeniser
  readonly #tokens = new WeakMap<TextPart, Int32Array>()

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
    const joined: PromptPart[] = []
    let run: TextPart[] = []
    let follows = continues
    const close = () => {
      joined.push(...this.#joinRun(run, follows))
      run = []
      follows = false
    }
    for (const part of parts) {
      if (part.type === 'text') {
        if (part.text !== '') run.push(part)
      } else {
        close()
        joined.push(part)
      }
    }
    close()
    return joined
  }

  #joinRun(run: readonly TextPart[], continues: boolean): readonly TextPart[] {
    if (run.length === 0) return []
    const whole: TextPart = {
      type: 'text',
      text: run.map(({ text }) => text).join(''),
      trusted: run.some(({ trusted }) => trusted),
    }
    const tokens = this.#tokenize(whole, continues)
    if (run.length === 1 || this.#isHarmless(run, tokens)) {
      this.#tokens.set(whole, tokens)
      return [whole]
    }
    let follows = continues
    return run.map(({ text, trusted }) => {
      const part: TextPart = { type: 'text', text, trusted }
      const own = this.#tokenize(part, follows)
      this.#tokens.set(part, own)
      follows = own.length > 0 && !this.#model.isControl(own.at(-1)!)
      return part
    })
  }

  /** Whether the joined text has exactly the control tokens of the trusted texts and the marks of all texts. */
  #isHarmless(run: readonly TextPart[], tokens: Int32Array): boolean {
    const wanted: number[] = []
    for (const { text, trusted } of run) {
      const own = this.#model.tokenize(text, true)
      if (!trusted && own.some((token) => this.#model.isControl(token))) return false
      wanted.push(...this.#whole(own))
    }
    const found = this.#whole(tokens)
    return found.length === wanted.length && found.every((token, index) => token === wanted[index])
  }

  #tokenize(part: TextPart, continues: boolean): Int32Array {
    const { text, trusted } = part
    return continues ? this.#model.tokenizeContinuation(text, trusted) : this.#model.tokenize(text, trusted)
  }

  /** The control tokens and marks among the tokens. */
  #whole(tokens: Int32Array): number[] {
    return [...tokens].filter((token) => this.#model.isControl(token) || this.#model.isMark(token))
  }
}
