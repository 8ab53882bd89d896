import { sumOf } from '../lib/sum.ts'
import type { Edges } from './watch-region.ts'
import type { WatchQuestion } from './watch-settings.ts'

/** The part of a decision's answer that a watch reads. */
export interface LookAnswer {
  readonly type: string
  readonly probability?: number
  readonly probabilities?: readonly { readonly value: string | boolean | number; readonly probability: number }[]
  readonly x_label_mass?: number
  /** Where the thing is, as fractions of the picture's sides. */
  readonly box?: Edges | null
}

/** With less, the model would rather have said something other than a label. */
const LEAST_LABEL_MASS = 0.5

/** The probability that what a question asks about is there, from 0 to 1; null if the look is unsure or was refused. */
export function probabilityIn({ event }: WatchQuestion, answer: LookAnswer): number | null {
  const { probability, probabilities, x_label_mass: labelMass = 0 } = answer
  if (labelMass < LEAST_LABEL_MASS) return null
  if (probabilities === undefined) return probability ?? null
  const { values, at_least: least = 0 } = event ?? {}
  const counts = (value: string | boolean | number) =>
    values === undefined ? Number(value) >= least : values.some((one) => one === value)
  return Math.min(
    1,
    sumOf(probabilities, (option) => (counts(option.value) ? option.probability : 0)),
  )
}
