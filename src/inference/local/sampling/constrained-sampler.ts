import type { Matcher } from '../../constraints/matcher.ts'
import type { Context } from '../native/context.ts'
import type { Model } from '../native/model.ts'
import type { Sampler, TokenSampler } from '../native/sampler.ts'

const BITS = 32
/** Bytes of forced text that a token may begin with and go on from. */
const LONGEST_OVERLAP = 16

/** Lets a sampler choose among the tokens that a constraint allows. */
export class ConstrainedSampler implements TokenSampler {
  readonly #sampler: Pick<Sampler, 'sample' | 'accept' | 'close'>
  readonly #matcher: Matcher
  readonly #model: Pick<Model, 'tokenize' | 'piece'>

  /** Takes over sampler and matcher. */
  constructor(
    sampler: Pick<Sampler, 'sample' | 'accept' | 'close'>,
    matcher: Matcher,
    model: Pick<Model, 'tokenize' | 'piece'>,
  ) {
    this.#sampler = sampler
    this.#matcher = matcher
    this.#model = model
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

  close(): void {
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

function someToken(mask: Int32Array, holds: (token: number) => boolean): boolean {
  return mask.some((word, index) => {
    for (let bits = word; bits !== 0; bits &= bits - 1) {
      if (holds(index * BITS + (BITS - 1 - Math.clz32(bits & -bits)))) return true
    }
    return false
  })
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
