import { inputProblem } from '../../../contract/context-length.ts'
import type { TextPart } from '../../../contract/parts.ts'
import type { EmbedInput, RankedPair } from '../../../contract/work.ts'
import type { Model } from '../../native/model.ts'
import { JoinedTexts } from '../../tokens/joined-texts.ts'
import { joined } from '../../tokens/texts.ts'
import { invalid } from '../admission.ts'

/** Longer texts are tokenised on another thread: this many characters take about a millisecond. */
const SHORT_TEXT = 2000
const PLACES = /(\{query\}|\{document\})/

/** Turns inputs into tokens as llama-server does, except that no text of a client becomes a control token. */
export class InputTokens {
  readonly #model: Model
  readonly #contextTokens: number
  readonly #joined: JoinedTexts

  constructor(model: Model, contextTokens: number) {
    this.#model = model
    this.#contextTokens = contextTokens
    this.#joined = new JoinedTexts({
      readsAsOne: true,
      tokenize: (text, parseControl) => model.tokenize(text, parseControl),
      tokenizeContinuation: (text, parseControl) => model.tokenizeContinuation(text, parseControl),
      isControl: (token) => model.isControl(token),
      isMark: (token) => model.isMark(token),
    })
  }

  /**
   * @param truncates whether a longer text is cut.
   * @throws FailureError for an input that is empty, too long, or has tokens that the model lacks.
   */
  async of({ content, param }: EmbedInput, truncates: boolean): Promise<Int32Array> {
    const tokens =
      typeof content === 'string' ? await this.#whole(content, param, truncates) : this.#given(content, param)
    const problem = inputProblem(tokens.length, this.#contextTokens)
    if (problem !== null) throw invalid(problem, param)
    return tokens
  }

  #given(content: readonly number[] | RankedPair, param: string): Int32Array {
    if ('query' in content) return this.#pair(content, param)
    const { vocabularySize } = this.#model
    const wrong = content.find((token) => token >= vocabularySize)
    if (wrong !== undefined) throw invalid(`The model has no token ${wrong}; it has ${vocabularySize}.`, param)
    return Int32Array.from(content)
  }

  async #whole(text: string, param: string, truncates: boolean): Promise<Int32Array> {
    if (!truncates) this.#checkLength(text, param)
    // No more characters can fit.
    const read = truncates ? text.slice(0, this.#contextTokens * this.#model.longestTokenBytes) : text
    const tokens = await this.#tokensOf(read)
    return truncates && tokens.length > this.#contextTokens ? this.#cut(tokens) : tokens
  }

  async #tokensOf(text: string): Promise<Int32Array> {
    if (text.length <= SHORT_TEXT) return this.#model.tokenize(text, false, true)
    return this.#model.tokenizeInBackground(text, false, true)
  }

  /** The beginning, with the control token at the end that the model was trained with. */
  #cut(tokens: Int32Array): Int32Array {
    const kept = tokens.slice(0, this.#contextTokens)
    const end = tokens.at(-1)!
    if (this.#model.isControl(end)) kept[kept.length - 1] = end
    return kept
  }

  #pair({ query, document }: RankedPair, param: string): Int32Array {
    this.#checkLength(query + document, param)
    const { rankTemplate, rankMarks } = this.#model
    if (rankTemplate === null) {
      const { before, between, after } = rankMarks
      const [first, second] = [query, document].map((text) => this.#model.tokenize(text, false))
      return joined([Int32Array.from(before), first!, Int32Array.from(between), second!, Int32Array.from(after)])
    }
    const texts: Readonly<Record<string, string>> = { '{query}': query, '{document}': document }
    const parts = rankTemplate.split(PLACES).map((text): TextPart => {
      const own = texts[text]
      return { type: 'text', text: own ?? text, trusted: own === undefined }
    })
    return joined(this.#joined.join(parts, false).map((part) => this.#joined.tokensOf(part as TextPart)!))
  }

  #checkLength(text: string, param: string): void {
    if (Buffer.byteLength(text) / this.#model.longestTokenBytes <= this.#contextTokens) return
    throw invalid(inputProblem(Number.POSITIVE_INFINITY, this.#contextTokens)!, param)
  }
}
