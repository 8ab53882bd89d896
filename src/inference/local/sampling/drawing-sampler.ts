import type { Sampling } from '../../engine.ts'
import { drawAmong, mixed } from '../native/logits-operations.ts'
import type { FreeSampler, Rows } from './sampler.ts'

/**
 * Chooses tokens with penalties, or draws them with random numbers that belong to the seed, to the place in the completion
 * and to the token. A logit that is rounded differently, as beside other sequences, then changes the token only where two
 * come as close as that. If one random number were held against all tokens in turn, it would move the bounds of them all.
 */
export class DrawingSampler implements FreeSampler {
  readonly #sampling: Sampling
  readonly #seed: number
  /** How often the completion has each of its tokens. */
  readonly #counts = new Map<number, number>()
  #place = 0

  constructor(sampling: Sampling, seed: number) {
    this.#sampling = sampling
    this.#seed = seed
  }

  sample(rows: Rows, row: number, allowed?: Int32Array): number {
    const logits = rows.logits(row)
    const token = this.#penalised(logits, () => this.#choose(rows, logits, allowed))
    this.accept(token)
    return token
  }

  accept(token: number): void {
    this.#place++
    this.#counts.set(token, (this.#counts.get(token) ?? 0) + 1)
  }

  /** Applies the penalties for as long as `choose` takes: several completions may share a row. */
  #penalised(logits: Float32Array, choose: () => number): number {
    const { frequencyPenalty, presencePenalty } = this.#sampling
    if (frequencyPenalty === 0 && presencePenalty === 0) return choose()
    const before = new Map<number, number>()
    for (const [token, count] of this.#counts) {
      before.set(token, logits[token]!)
      logits[token]! -= frequencyPenalty * count + presencePenalty
    }
    try {
      return choose()
    } finally {
      for (const [token, logit] of before) logits[token] = logit
    }
  }

  #choose({ operations }: Rows, logits: Float32Array, allowed: Int32Array | undefined): number {
    const { temperature, topK, topP } = this.#sampling
    const place = mixed(this.#seed ^ mixed(this.#place))
    if (temperature > 0 && topK > 0) {
      const tokens = operations.largest(logits, topK, allowed)
      if (tokens.length > 0) return drawAmong(nucleusOf(tokens, logits, topP), logits, { temperature, place })
    } else if (temperature > 0) {
      const least = topP < 1 ? operations.nucleus(logits, topP, allowed) : Number.NEGATIVE_INFINITY
      const drawn = operations.draw(logits, { temperature, least, place }, allowed)
      if (drawn !== null) return drawn
    }
    return operations.likeliest(logits, allowed)
  }
}

/** Those of the likeliest tokens, in descending order, that together have a share of their probability. */
function nucleusOf(tokens: Int32Array, logits: Float32Array, share: number): Int32Array {
  if (share === 1) return tokens
  const masses = Float64Array.from(tokens, (token) => Math.exp(logits[token]! - logits[tokens[0]!]!))
  const total = masses.reduce((sum, mass) => sum + mass)
  let mass = 0
  let count = 0
  do mass += masses[count++]!
  while (count < tokens.length && mass / total < share)
  return tokens.subarray(0, count)
}
