import { contextLimit } from '../../../contract/context-length.ts'
import type { PromptPart, TextPart } from '../../../contract/parts.ts'
import type { EmbedContent, EmbedInput, RankedPair } from '../../../contract/work.ts'
import type { FailureError } from '../../failure.ts'
import type { Model } from '../../native/model.ts'
import type { EmbeddingSettings } from '../../protocol.ts'
import { JoinedTexts } from '../../tokens/joined-texts.ts'
import { type PromptReader, type TokenisedPrompt, textPrompt } from '../../tokens/prompt-tokens.ts'
import { givenTokens, inTurn, joined, type ReadingTerms, Texts } from '../../tokens/texts.ts'
import { checkMedia, invalid, textOf } from '../admission.ts'

/** Longer texts are tokenised on another thread: this many characters take about a millisecond. */
const SHORT_TEXT = 2000
/** Placeholders for the parts of a prompt. */
const PLACES = /(\{query\}|\{document\}|\{instruction\})/

/** The part of a loaded model that reads inputs. */
interface InputModel {
  readonly model: Model
  /** Reads inputs with pictures; null for a model without an image encoder. */
  readonly reader: PromptReader | null
  readonly contextTokens: number
  /** Maximum rows of an image in one call. */
  readonly mediaRows: number
}

/** The owner of an input, and how it may be read. */
interface InputTerms extends ReadingTerms {
  /** Whether a longer text is truncated. */
  readonly truncates: boolean
}

/** Turns inputs into tokens as llama-server does, except that a client's text never becomes a control token. */
export class InputTokens {
  readonly #model: Model
  readonly #reader: PromptReader | null
  readonly #contextTokens: number
  readonly #mediaRows: number
  readonly #form: Pick<EmbeddingSettings, 'prompt' | 'instruction'>
  readonly #joined: JoinedTexts
  readonly #texts: Texts

  constructor(
    { model, reader, contextTokens, mediaRows }: InputModel,
    form: Pick<EmbeddingSettings, 'prompt' | 'instruction'>,
  ) {
    this.#model = model
    this.#reader = reader
    this.#contextTokens = contextTokens
    this.#mediaRows = mediaRows
    this.#form = form
    this.#texts = new Texts(model, false, false)
    this.#joined = new JoinedTexts({
      readsAsOne: true,
      tokenize: (text, parseControl) => model.tokenize(text, parseControl),
      tokenizeContinuation: (text, parseControl) => model.tokenizeContinuation(text, parseControl),
      isControl: (token) => model.isControl(token),
      isMark: (token) => model.isMark(token),
    })
  }

  /**
   * @returns a prompt that must be closed.
   * @throws FailureError for an input that is empty, too long, or has tokens or pictures that the model does not
   * accept.
   */
  async of(input: EmbedInput, terms: InputTerms): Promise<TokenisedPrompt> {
    const prompt = closedOnce(await this.#read(input, terms))
    if (prompt.tokens > 0 && prompt.tokens <= this.#contextTokens) return prompt
    prompt.close()
    if (prompt.tokens === 0) throw invalid('The input is empty.', input.param)
    throw tooLong(prompt.tokens, this.#contextTokens, input.param)
  }

  async #read({ content, param, instruction }: EmbedInput, terms: InputTerms): Promise<TokenisedPrompt> {
    const { prompt, instruction: usual = '' } = this.#form
    if (instruction !== undefined && prompt?.includes('{instruction}') !== true)
      throw invalid('This model is not told what its vectors are for: leave the system message out.', param)
    if (isTokens(content)) return textPrompt(givenTokens(content, this.#model, param))
    if (isPair(content)) return this.#pair(content, param, terms)
    if (prompt !== undefined) {
      const told: TextPart = { type: 'text', text: instruction ?? usual, trusted: instruction === undefined }
      const [before, after] = prompt.split('{input}').map((text) => filled(text, { '{instruction}': [told] }))
      return this.#shown(content, [before!, after!], param, terms)
    }
    if (typeof content !== 'string') return this.#marked(await this.#tokensOf(content.parts, param, terms))
    return textPrompt(await this.#whole(content, param, terms))
  }

  /** Adds the tokens that begin and end a text, if the model's file asks for them. */
  #marked(prompt: TokenisedPrompt): TokenisedPrompt {
    const { rankMarks } = this.#model
    const [before, after] = [rankMarks.before, rankMarks.after].map((marks) => Int32Array.from(marks))
    const { chunks, tokens } = prompt
    if (!isText(prompt)) {
      // The reader has already added the tokens at the beginning.
      return { ...prompt, chunks: [...chunks, { type: 'text', tokens: after! }], tokens: tokens + after!.length }
    }
    const own = textOf(chunks)
    return textPrompt(joined([own[0] === before![0] ? own.subarray(0, 0) : before!, own, after!]))
  }

  async #whole(text: string, param: string, terms: InputTerms): Promise<Int32Array> {
    const { truncates } = terms
    if (!truncates) this.#checkLength(text, param)
    // A longer text cannot fit.
    const read = truncates ? text.slice(0, this.#contextTokens * this.#model.longestTokenBytes) : text
    const tokens = await this.#aside(read, terms)
    return truncates && tokens.length > this.#contextTokens ? this.#cut(tokens) : tokens
  }

  async #aside(text: string, terms: ReadingTerms): Promise<Int32Array> {
    if (text.length <= SHORT_TEXT) return this.#model.tokenize(text, false, true)
    return inTurn(text, terms, () => this.#model.tokenizeInBackground(text, false, true))
  }

  /** The beginning of a text, with the control token at its end that the model was trained with. */
  #cut(tokens: Int32Array): Int32Array {
    const kept = tokens.slice(0, this.#contextTokens)
    const end = tokens.at(-1)!
    if (this.#model.isControl(end)) kept[kept.length - 1] = end
    return kept
  }

  /** An input within the model's prompt; a text's end is cut off if the request allows that. */
  async #shown(
    content: EmbedContent,
    [before, after]: readonly [PromptPart[], PromptPart[]],
    param: string,
    terms: InputTerms,
  ): Promise<TokenisedPrompt> {
    if (terms.truncates && typeof content === 'string') {
      const [head, tail] = [await this.#textOf(before, terms), await this.#textOf(after, terms)]
      const marks = this.#marked(textPrompt(joined([head, tail]))).tokens
      const room = Math.max(0, this.#contextTokens - marks)
      const read = content.slice(0, room * this.#model.longestTokenBytes)
      const tokens = await this.#untrusted(read, terms)
      if (tokens.length > room) return this.#marked(textPrompt(joined([head, tokens.subarray(0, room), tail])))
    }
    return this.#marked(await this.#tokensOf([...before, ...partsOf(content), ...after], param, terms))
  }

  async #pair({ query, document, documentTokens }: RankedPair, param: string, terms: InputTerms) {
    const { rankTemplate, rankMarks } = this.#model
    const beginning =
      documentTokens === undefined || typeof document !== 'string'
        ? null
        : await this.#beginning(document, documentTokens, terms)
    if (rankTemplate !== null) {
      if (beginning !== null) {
        const sides = rankTemplate.split('{document}').map((text) => filled(text, { '{query}': partsOf(query) }))
        const [before, after] = [await this.#textOf(sides[0]!, terms), await this.#textOf(sides[1]!, terms)]
        return textPrompt(joined([before, beginning, after]))
      }
      const parts = filled(rankTemplate, { '{query}': partsOf(query), '{document}': partsOf(document) })
      return this.#tokensOf(parts, param, terms)
    }
    if (typeof query !== 'string' || typeof document !== 'string') throw invalid('This model rates texts only.', param)
    this.#checkLength(beginning === null ? query + document : query, param)
    const { before, between, after } = rankMarks
    const [first, second] = [await this.#untrusted(query, terms), beginning ?? (await this.#untrusted(document, terms))]
    const marked = [Int32Array.from(before), first, Int32Array.from(between), second, Int32Array.from(after)]
    return textPrompt(joined(marked))
  }

  /** The first tokens of a text; null if it has no more. */
  async #beginning(text: string, most: number, terms: InputTerms): Promise<Int32Array | null> {
    // Characters beyond this cannot belong to the first tokens.
    const read = text.slice(0, most * this.#model.longestTokenBytes)
    const tokens = await this.#untrusted(read, terms)
    return tokens.length > most || read.length < text.length ? tokens.subarray(0, most) : null
  }

  async #tokensOf(parts: readonly PromptPart[], param: string, terms: InputTerms): Promise<TokenisedPrompt> {
    const text = parts.map((part) => (part.type === 'text' && !part.trusted ? part.text : '')).join('')
    this.#checkLength(text, param)
    if (text.length > SHORT_TEXT) {
      const { length } = await this.#untrusted(text, terms)
      if (length > this.#contextTokens) throw tooLong(length, this.#contextTokens, param)
    }
    if (parts.every(({ type }) => type === 'text')) return textPrompt(await this.#textOf(parts, terms))
    const whole = await this.#join(parts, terms)
    if (this.#reader === null) throw invalid('This model does not take images.', param)
    const { organisation, signal } = terms
    const fits = await this.#reader.prepare(whole, organisation, this.#contextTokens, signal)
    if (!fits) throw tooLong(Number.POSITIVE_INFINITY, this.#contextTokens, param)
    const prompt = this.#reader.read(whole, organisation, param)
    try {
      checkMedia(prompt.chunks, this.#mediaRows, param)
      return prompt
    } catch (error) {
      prompt.close()
      throw error
    }
  }

  async #untrusted(text: string, terms: ReadingTerms): Promise<Int32Array> {
    return (await this.#texts.read({ text, trusted: false }, Number.POSITIVE_INFINITY, terms))!
  }

  /** Tokens of parts without media. */
  async #textOf(parts: readonly PromptPart[], terms: ReadingTerms): Promise<Int32Array> {
    const whole = await this.#join(parts, terms)
    return joined(whole.map((part) => this.#joined.tokensOf(part as TextPart)!))
  }

  async #join(parts: readonly PromptPart[], terms: ReadingTerms): Promise<readonly PromptPart[]> {
    const isLong = parts.reduce((sum, part) => sum + (part.type === 'text' ? part.text.length : 0), 0) > SHORT_TEXT
    if (isLong) await this.#joined.prepare(parts, Number.POSITIVE_INFINITY, false, this.#texts, terms)
    return this.#joined.join(parts, false)
  }

  #checkLength(text: string, param: string): void {
    if (Buffer.byteLength(text) / this.#model.longestTokenBytes <= this.#contextTokens) return
    throw tooLong(Number.POSITIVE_INFINITY, this.#contextTokens, param)
  }
}

/**
 * The error for an input that is too long.
 * @param tokens infinite for an input that was not read to its end.
 */
function tooLong(tokens: number, contextTokens: number, param: string): FailureError {
  const has = Number.isFinite(tokens) ? `has ${tokens} tokens` : 'is longer'
  return invalid(`The input ${has}, but ${contextLimit(contextTokens)}.`, param, 'context_length_exceeded')
}

function isTokens(content: EmbedInput['content']): content is readonly number[] {
  return Array.isArray(content)
}

function isPair(content: EmbedInput['content']): content is RankedPair {
  return typeof content === 'object' && 'query' in content
}

function partsOf(content: EmbedContent): readonly PromptPart[] {
  return typeof content === 'string' ? [{ type: 'text', text: content, trusted: false }] : content.parts
}

/** A template with its placeholders replaced. */
function filled(template: string, contents: Readonly<Record<string, readonly PromptPart[]>>): PromptPart[] {
  return template
    .split(PLACES)
    .flatMap((text): readonly PromptPart[] => contents[text] ?? [{ type: 'text', text, trusted: true }])
}

/** Makes `close` of a prompt idempotent. */
function closedOnce(prompt: TokenisedPrompt): TokenisedPrompt {
  let isOpen = true
  const close = () => {
    if (isOpen) prompt.close()
    isOpen = false
  }
  return { ...prompt, close }
}

/** Whether a prompt has no pictures. */
export function isText({ chunks }: Pick<TokenisedPrompt, 'chunks'>): boolean {
  return !chunks.some(({ type }) => type === 'media')
}
