import type { Context } from '../native/context.ts'
import type { Sampler, TokenSampler } from '../native/sampler.ts'
import type { Matcher } from './xgrammar.ts'

const BITS = 32

/** Lets a sampler choose among the tokens that a grammar allows. */
export class ConstrainedSampler implements TokenSampler {
  readonly #sampler: Sampler
  readonly #matcher: Matcher
  readonly #tokenize: (text: string) => Int32Array

  /** Takes over sampler and matcher. */
  constructor(sampler: Sampler, matcher: Matcher, tokenize: (text: string) => Int32Array) {
    this.#sampler = sampler
    this.#matcher = matcher
    this.#tokenize = tokenize
  }

  sample(context: Context, row: number): number {
    const mask = this.#matcher.nextTokens()
    const forced = onlyToken(mask)
    const token =
      forced ??
      context.withChangedLogits(
        row,
        (logits) => forbid(logits, mask),
        () => this.#sampler.sample(context, row),
      )
    if (forced !== null) this.#sampler.accept(forced)
    // Not even a fault of the sampler's may let a token through that breaks the promise.
    if (!this.#matcher.accept(token)) throw new Error('A token was sampled that the constraint does not allow.')
    return token
  }

  /**
   * The forced text as the model's own tokeniser writes it, as in the texts that the model learnt from. The last token is
   * left to the model: it may be one that holds the beginning of what follows, too.
   */
  forced(most: number): readonly number[] {
    const text = this.#matcher.forcedText()
    if (text.length < 2) return []
    const tokens: number[] = []
    for (const token of this.#tokenize(text).subarray(0, -1).subarray(0, most)) {
      if (!this.#matcher.accept(token)) break
      this.#sampler.accept(token)
      tokens.push(token)
    }
    return tokens
  }

  close(): void {
    this.#matcher.dispose()
    this.#sampler.close()
  }
}

/** The token that is forced because no other may come next. */
function onlyToken(mask: Int32Array): number | null {
  let only: number | null = null
  for (let word = 0; word < mask.length; word++) {
    const bits = mask[word]!
    if (bits === 0) continue
    if (only !== null || (bits & (bits - 1)) !== 0) return null
    only = word * BITS + (BITS - 1 - Math.clz32(bits))
  }
  return only
}

function forbid(logits: Float32Array, mask: Int32Array): void {
  for (let word = 0; word * BITS < logits.length; word++) {
    const bits = mask[word] ?? 0
    const start = word * BITS
    if (bits === 0) logits.fill(Number.NEGATIVE_INFINITY, start, start + BITS)
    else if (bits !== -1) {
      const end = Math.min(start + BITS, logits.length)
      for (let token = start; token < end; token++) {
        if (((bits >>> (token - start)) & 1) === 0) logits[token] = Number.NEGATIVE_INFINITY
      }
    }
  }
}
