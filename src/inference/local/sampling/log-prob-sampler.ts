import type { RankedToken, TokenLogProb } from '../../contract/generation.ts'
import type { Ask, TokenRanking } from '../native/choice.ts'
import type { Model } from '../native/model.ts'
import type { FreeSampler, Rows } from './sampler.ts'

const DECODER = new TextDecoder('utf-8', { ignoreBOM: true })

/** Reports the log-probabilities of a completion's tokens. */
export interface LogProbs {
  /**
   * Log-probabilities of the tokens of the last `sample` call and of the tokens forced after it. Tokens that this sampler has
   * not chosen count as forced.
   */
  of(tokens: readonly number[]): TokenLogProb[]
}

/** Adds log-probabilities to the requests of another sampler. It changes nothing else. */
export class LogProbSampler implements FreeSampler, LogProbs {
  readonly #sampler: Pick<FreeSampler, 'ask' | 'accept'>
  readonly #model: Pick<Model, 'piece' | 'name'>
  readonly #most: number
  #sampled: (TokenRanking & { readonly token: number }) | null = null

  /**
   * Takes over the sampler.
   * @param most number of top log-probabilities per token.
   */
  constructor(sampler: Pick<FreeSampler, 'ask' | 'accept'>, model: Pick<Model, 'piece' | 'name'>, most: number) {
    this.#sampler = sampler
    this.#model = model
    this.#most = most
  }

  ask(ahead?: readonly number[], allowed?: Int32Array): Ask {
    return { ...this.#sampler.ask(ahead, allowed), ranked: this.#most }
  }

  sample(rows: Rows, row: number, allowed?: Int32Array): number {
    const token = this.choose(rows, row, allowed)
    this.accept(token)
    return token
  }

  choose(rows: Rows, row: number, allowed?: Int32Array): number {
    const { token, ranking } = rows.choose(row, this.ask([], allowed))
    this.#sampled = { token, ...ranking! }
    return token
  }

  accept(token: number): void {
    this.#sampler.accept(token)
  }

  of(tokens: readonly number[]): TokenLogProb[] {
    const sampled = this.#sampled
    this.#sampled = null
    return tokens.map((token, at) => {
      if (at > 0 || sampled?.token !== token) return this.#forced(token)
      return reportToken(this.#model, token, sampled)
    })
  }

  #forced(token: number): TokenLogProb {
    const ranked = rankedToken(this.#model, token, 0)
    return { ...ranked, top: [ranked].slice(0, this.#most) }
  }
}

type Vocabulary = Pick<Model, 'piece' | 'name'>

/** The log-probability of a token, and the likeliest alternatives. */
export function reportToken(model: Vocabulary, token: number, { logProb, top }: TokenRanking): TokenLogProb {
  const likeliest = top.map((one) => rankedToken(model, one.token, one.logProb))
  return { ...rankedToken(model, token, logProb), top: likeliest }
}

function rankedToken(model: Vocabulary, token: number, logProb: number): RankedToken {
  const bytes = model.piece(token)
  const text = bytes.length === 0 ? model.name(token) : DECODER.decode(bytes)
  return { text, bytes: Array.from(bytes), logProb }
}
