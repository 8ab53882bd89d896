import type { Matcher } from '../../constraints/matcher.ts'
import { onlyToken, someToken } from '../../constraints/token-mask.ts'
import type { Ask } from '../native/choice.ts'
import type { Model } from '../native/model.ts'
import type { FreeSampler, Rows, TokenSampler } from './sampler.ts'

/** Bytes of forced text that a token may begin with and go on from. */
const LONGEST_OVERLAP = 16

/** Lets a sampler choose among the tokens that a constraint allows. */
export class ConstrainedSampler implements TokenSampler {
  readonly #sampler: FreeSampler
  readonly #matcher: Matcher
  readonly #model: Pick<Model, 'tokenize' | 'piece'>

  /** Takes over sampler and matcher. */
  constructor(sampler: FreeSampler, matcher: Matcher, model: Pick<Model, 'tokenize' | 'piece'>) {
    this.#sampler = sampler
    this.#matcher = matcher
    this.#model = model
  }

  /** Which tokens it allows after others shows only when those have come. */
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
    // Not even a fault of the sampler's may let a token through that breaks the promise.
    if (!this.#matcher.accept(token)) throw new Error('A token was sampled that the constraint does not allow.')
    return token
  }

  /**
   * The forced text as the model's own tokeniser writes it, as in the texts that the model learnt from. Its end is left
   * to the model from where a token may hold what follows, too: after ` ` and `{` a model that has always read ` {"`
   * takes an object for empty.
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

  /** Whether some token that may come next is longer than this. */
  #mayReachBeyond(bytes: number): boolean {
    return someToken(this.#matcher.nextTokens(), (token) => this.#model.piece(token).length > bytes)
  }
}
