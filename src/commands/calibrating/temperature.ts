import { halves } from './halves.ts'
import { CALIBRATED_TYPES, type CalibratedType, type Judged, qualityOf, type Temperatures, tempered } from './judged.ts'

/** As in the card's schema. For examples that a model answers without a mistake, the lowest temperature is best. */
const [LOWEST, HIGHEST] = [0.25, 20]
const GOLDEN = (Math.sqrt(5) - 1) / 2
/** In steps of the logarithm. */
const PRECISION = 0.002

/**
 * The temperature at which the right options are likeliest. The negative log-likelihood is convex in the inverse
 * temperature, so the search converges to the minimum.
 * @param judged without a temperature, at least one.
 */
function fitTemperature(judged: readonly Judged[]): number {
  const loss = (log: number) => qualityOf(tempered(judged, Math.exp(log))).nll
  let [low, high] = [Math.log(LOWEST), Math.log(HIGHEST)]
  let [left, right] = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)]
  let [atLeft, atRight] = [loss(left), loss(right)]
  while (high - low > PRECISION) {
    if (atLeft <= atRight) {
      ;[high, right, atRight] = [right, left, atLeft]
      left = high - GOLDEN * (high - low)
      atLeft = loss(left)
    } else {
      ;[low, left, atLeft] = [left, right, atRight]
      right = low + GOLDEN * (high - low)
      atRight = loss(right)
    }
  }
  return Number(Math.exp((low + high) / 2).toFixed(2))
}

/** One for each type; 1 if there are no examples of it. */
export function fitTemperatures(judged: readonly Judged[]): Temperatures {
  const fitted = CALIBRATED_TYPES.map((type) => {
    const ofType = judged.filter((one) => one.type === type)
    return [type, ofType.length === 0 ? 1 : fitTemperature(ofType)]
  })
  return Object.fromEntries(fitted) as Record<CalibratedType, number>
}

/**
 * Answers of one type with temperatures fitted on the other half of the files, so that no answer is judged by a fit of
 * itself. Null if a half would be empty.
 */
export function crossFitted(judged: readonly Judged[]): readonly Judged[] | null {
  const [first, second] = halves(judged)
  if (first.length === 0 || second.length === 0) return null
  return [...tempered(first, fitTemperature(second)), ...tempered(second, fitTemperature(first))]
}
