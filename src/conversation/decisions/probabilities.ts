import { logSum } from '../../lib/log-sum.ts'

/** The probability of each option of a question. */
export interface Distribution {
  /** One probability per option, in their order; they add up to 1. */
  readonly probabilities: readonly number[]
  /** The probability, before normalisation, that the model gives any of the options; 0 to 1. */
  readonly labelMass: number
  /** The likeliest option; in a tie, the first. */
  readonly top: number
  /** The probability of the likeliest option, times `labelMass`. */
  readonly confidence: number
}

/**
 * @param replies the log-probabilities of the replies that mean each option.
 * @param temperature above 1, the options' probabilities become more alike.
 * @returns null when the model can give none of the replies.
 */
export function distributionOf(replies: readonly (readonly number[])[], temperature: number): Distribution | null {
  const options = replies.map(logSum)
  if (options.every((option) => option === Number.NEGATIVE_INFINITY)) return null
  const scaled = options.map((option) => option / temperature)
  const whole = logSum(scaled)
  const probabilities = scaled.map((option) => Math.exp(option - whole))
  const top = probabilities.indexOf(Math.max(...probabilities))
  // Rounding can lift a sum of probabilities above 1.
  const labelMass = Math.min(1, Math.exp(logSum(options)))
  return { probabilities, labelMass, top, confidence: probabilities[top]! * labelMass }
}
