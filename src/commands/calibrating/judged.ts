import { calibrationError, type Rated } from './box-quality.ts'

/** Types of question that have a temperature. A count is a score whose levels are numbers. */
export const CALIBRATED_TYPES = ['predicate', 'choice', 'score'] as const
export type CalibratedType = (typeof CALIBRATED_TYPES)[number]

export type Temperatures = Readonly<Record<CalibratedType, number>>

/** An answered question whose right answer is known. */
export interface Judged {
  readonly type: CalibratedType
  /** Questions with the same name are reported together; null for none. */
  readonly name: string | null
  /** Its file: questions about the same file are not independent. */
  readonly file: string
  /** Probability of each option; those of a predicate are yes and no. */
  readonly probabilities: readonly number[]
  /** The right option. */
  readonly right: number
}

/** Quality of answers. */
export interface Quality {
  readonly questions: number
  /** Share of questions whose likeliest option is right. */
  readonly accuracy: number
  /** Mean squared error of the probabilities: of yes for predicates, summed over the options for others. 0 is best. */
  readonly brier: number
  /** Expected calibration error: how far the likeliest option's probability is from how often it is right. */
  readonly ece: number
  /** Mean negative log-likelihood of the right option. */
  readonly nll: number
}

/** Bins of the calibration error. */
export const ANSWER_BINS = 15
/** The smallest probability that a JSON number and its difference from 1 can show. */
const LEAST = 2 ** -53

/** @param judged at least one. */
export function qualityOf(judged: readonly Judged[]): Quality {
  const rated = likeliest(judged)
  let [brier, nll] = [0, 0]
  for (const { type, probabilities, right } of judged) {
    const squares = probabilities.reduce((sum, share, option) => sum + (share - Number(option === right)) ** 2, 0)
    brier += type === 'predicate' ? squares / 2 : squares
    nll -= Math.log(Math.max(LEAST, probabilities[right]!))
  }
  const questions = judged.length
  return {
    questions,
    accuracy: rated.filter(({ right }) => right).length / questions,
    brier: brier / questions,
    ece: calibrationError(rated, ANSWER_BINS)!,
    nll: nll / questions,
  }
}

/** The likeliest option of each answer. */
export function likeliest(judged: readonly Judged[]): readonly Rated[] {
  return judged.map(({ probabilities, right }) => {
    const confidence = Math.max(...probabilities)
    return { confidence, right: probabilities.indexOf(confidence) === right }
  })
}

/** The same answers with another temperature: log-probabilities are divided by it. */
export function tempered(judged: readonly Judged[], temperature: number): readonly Judged[] {
  return judged.map((one) => ({ ...one, probabilities: softened(one.probabilities, temperature) }))
}

function softened(probabilities: readonly number[], temperature: number): readonly number[] {
  const logs = probabilities.map((share) => Math.log(share) / temperature)
  const most = Math.max(...logs)
  const shares = logs.map((log) => Math.exp(log - most))
  const whole = shares.reduce((sum, share) => sum + share, 0)
  return shares.map((share) => share / whole)
}
