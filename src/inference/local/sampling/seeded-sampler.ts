import { forbidOthers, likeliestToken } from '../../constraints/token-mask.ts'
import type { Sampling } from '../../engine.ts'
import type { Context } from '../native/context.ts'
import type { FreeSampler } from './sampler.ts'

/** The noise of a token lies between these: it is made of 32 bits. */
const LEAST_NOISE = -3.2
const MOST_NOISE = 23
/** Tokens whose logits are so much lower than the largest have no share in what a nucleus holds. */
const NEGLIGIBLE = 30

/**
 * Draws tokens with random numbers that belong to the seed, to the place in the completion and to the token: the token whose
 * logit and Gumbel noise add up to the most. Tokens have their probabilities then, as they have where one random number is
 * held against all of them in turn. But a logit that is rounded otherwise, as beside other sequences, changes the token only
 * where two come as close as that; there, it would move the bounds of all tokens.
 */
export class SeededSampler implements FreeSampler {
  readonly #sampling: Sampling
  readonly #seed: number
  /** How often the completion has each of its tokens. */
  readonly #counts = new Map<number, number>()
  #place = 0

  /** @param sampling with a temperature above 0. */
  constructor(sampling: Sampling, seed: number) {
    this.#sampling = sampling
    this.#seed = seed
  }

  sample(context: Pick<Context, 'logits'>, row: number, allowed?: Int32Array): number {
    const token =
      this.#draw(this.#possible(context.logits(row), allowed)) ?? likeliestToken(context.logits(row), allowed)
    this.accept(token)
    return token
  }

  accept(token: number): void {
    this.#place++
    this.#counts.set(token, (this.#counts.get(token) ?? 0) + 1)
  }

  close(): void {}

  /** The logits after penalties; minus infinity for what may not come. */
  #possible(logits: Float32Array, allowed: Int32Array | undefined): Float32Array {
    const { frequencyPenalty, presencePenalty } = this.#sampling
    const possible = Float32Array.from(logits)
    if (frequencyPenalty !== 0 || presencePenalty !== 0) {
      for (const [token, count] of this.#counts) possible[token]! -= frequencyPenalty * count + presencePenalty
    }
    if (allowed !== undefined) forbidOthers(possible, allowed)
    return possible
  }

  /** @returns null where no logit is a number. */
  #draw(logits: Float32Array): number | null {
    const { temperature } = this.#sampling
    const least = this.#leastOf(logits)
    const place = mixed(this.#seed ^ mixed(this.#place))
    let best: number | null = null
    let most = Number.NEGATIVE_INFINITY
    for (let token = 0; token < logits.length; token++) {
      const logit = logits[token]!
      if (!(logit >= least)) continue
      const score = logit / temperature
      // Most tokens cannot win, whatever their noise is.
      if (score + MOST_NOISE <= most) continue
      const noisy = score + noiseOf(mixed(place ^ Math.imul(token + 1, 0x9e3779b1)))
      if (noisy <= most) continue
      most = noisy
      best = token
    }
    return best
  }

  /** What a logit must be at least for its token to be among those that are drawn from. */
  #leastOf(logits: Float32Array): number {
    const { temperature, topK, topP } = this.#sampling
    const largest = logits[likeliestToken(logits)]!
    const reach = largest - (MOST_NOISE - LEAST_NOISE) * temperature
    if (topK === 0 && topP === 1) return reach
    const sorted = logits.filter((logit) => logit >= largest - NEGLIGIBLE).sort()
    const of = topK === 0 ? sorted.length : Math.min(topK, sorted.length)
    const kept = sorted.subarray(sorted.length - of)
    const total = kept.reduce((sum, logit) => sum + Math.exp(logit - largest), 0)
    let mass = 0
    let at = kept.length
    // The most likely token is always among them.
    do mass += Math.exp(kept[--at]! - largest) / total
    while (at > 0 && mass < topP)
    return Math.max(reach, kept[at] ?? reach)
  }
}

/** A number of 32 bits in which each of the given one's changes about half. */
function mixed(number: number): number {
  let bits = number | 0
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b)
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35)
  return (bits ^ (bits >>> 16)) >>> 0
}

function noiseOf(bits: number): number {
  return -Math.log(-Math.log((bits + 0.5) / 2 ** 32))
}
