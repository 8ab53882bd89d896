import type { Matcher } from '../../constraints/matcher.ts'
import { onlyToken, someToken } from '../../constraints/tokens/token-mask.ts'
import type { Ask } from '../native/choice.ts'
import type { Model } from '../native/model.ts'
import type { FreeSampler, Rows, TokenSampler } from './sampler.ts'

/** Maximum bytes of forced text that one token may share with the free text after it. */
const LONGEST_OVERLAP = 16

/** Lets a sampler choose among the tokens that a constraint allows. */
export class ConstrainedSampler implements TokenSampler {
  readonly #sampler: Pick<FreeSampler, 'ask' | 'sample' | 'accept'>
  readonly #matcher: Matcher
  readonly #model: Pick<Model, 'tokenize' | 'piece'>

  /** Takes over sampler and matcher. */
  constructor(
    sampler: Pick<FreeSampler, 'ask' | 'sample' | 'accept'>,
    matcher: Matcher,
    model: Pick<Model, 'tokenize' | 'piece'>,
  ) {
    this.#sampler = sampler
    this.#matcher = matcher
    this.#model = model
  }

  /** The mask after tokens ahead is known only once they are accepted, so there is no request for them. */
  ask(ahead: readonly number[] = []): Ask | null {
    if (ahead.length > 0) return null
    const mask = this.#matcher.nextTokens()
    return onlyToken(mask) === null ? this.#sampler.ask([], mask) : null
  }

  sample(rows: Rows, row: number): number {
    const mask = this.#matcher.nextTokens()
    const forced = onlyToken(mask)
    const token = forced ?? this.#sampler.sample(rows, row, mask)
    if (forced !== null) this.#sampler.accept(forced)
    // Not even a bug in the sampler may emit a token that violates the constraint.
    if (!this.#matcher.accept(token)) throw new Error('A token was sampled that the constraint does not allow.')
    return token
  }

  /**
   * The forced text as the model's tokeniser writes it, as in training. The model samples the end of the text, from where a
   * token may also contain the text after it: after the tokens ` ` and `{`, a model trained on ` {"` assumes an empty object.
   */
  forced(most: number): readonly number[] {
    const text = this.#matcher.forcedText()
    if (text.length < 2) return []
    const tokens: number[] = []
    let bytesLeft = Buffer.byteLength(text)
    for (const token of this.#model.tokenize(text, false).subarray(0, -1).subarray(0, most)) {
      if (bytesLeft <= LONGEST_OVERLAP && this.#mayReachBeyond(bytesLeft)) break
      if (!this.#matcher.accept(token)) break
      this.#sampler.accept(token)
      tokens.push(token)
      bytesLeft -= this.#model.piece(token).length
    }
    return tokens
  }

  /** Whether any allowed next token is longer than this. */
  #mayReachBeyond(bytes: number): boolean {
    return someToken(this.#matcher.nextTokens(), (token) => this.#model.piece(token).length > bytes)
  }
}
