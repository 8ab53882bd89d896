import { getOrMake } from '../../../lib/get-or-make.ts'
import {
  characters,
  choice,
  choiceOrNull,
  EMPTY,
  type Expression,
  type GrammarBuilder,
  literal,
  sequence,
} from '../grammar.ts'
import { setOf } from '../regex/code-points.ts'
import {
  type Bound,
  integersWithin,
  LARGEST,
  mirrored,
  type NumberRange,
  nextInteger,
  numbersWithin,
} from './number-range.ts'

/** Maximum number of multiples that are listed, closest to zero, for a divisor without an automaton. */
const MOST_LISTED = 2_000
/** Maximum number of remainders that an automaton distinguishes. */
const MOST_REMAINDERS = 64
const MOST_DECIMALS = 9
/**
 * JavaScript writes numbers from here on with an exponent; validators such as Ajv do not accept them as whole
 * quotients.
 */
const LARGEST_QUOTIENT = 1e21

/** Whether validators accept a number as a multiple of another. */
export function isMultiple(value: number, divisor: number): boolean {
  const quotient = value / divisor
  return Number.isInteger(quotient) && Math.abs(quotient) < LARGEST_QUOTIENT
}

/**
 * The numbers that satisfy the bounds, are multiples of all divisors and are not excluded. Null if none can be written.
 */
export function numbersOf(
  type: 'number' | 'integer',
  { minimum, maximum, exclusiveMinimum, exclusiveMaximum }: Bounds,
  multiples: readonly number[],
  excluded: readonly number[],
  builder: GrammarBuilder,
): Expression | null {
  let min = tighter(boundOf(minimum, false), boundOf(exclusiveMinimum, true), 1)
  const max = tighter(boundOf(maximum, false), boundOf(exclusiveMaximum, true), -1)
  // Ranges between the excluded numbers.
  const gaps: NumberRange[] = []
  for (const value of [...new Set(excluded)].sort((a, b) => a - b)) {
    gaps.push({ min, max: tighter(max, { value, exclusive: true }, -1) })
    min = tighter(min, { value, exclusive: true }, 1)
  }
  const ranges = [...gaps, { min, max }]
  const written = ranges.map((range) =>
    multiples.length > 0
      ? multiplesWithin(type, range, multiples, builder)
      : type === 'integer'
        ? integersWithin(range)
        : numbersWithin(range),
  )
  return choiceOrNull(written)
}

interface Bounds {
  readonly minimum?: number
  readonly maximum?: number
  readonly exclusiveMinimum?: number
  readonly exclusiveMaximum?: number
}

function boundOf(value: number | undefined, exclusive: boolean): Bound | null {
  return value === undefined ? null : { value, exclusive }
}

function tighter(a: Bound | null, b: Bound | null, sign: 1 | -1): Bound | null {
  if (a === null || b === null) return a ?? b
  return (b.value - a.value) * sign >= 0 ? b : a
}

/**
 * Numbers of a range that validators accept as multiples of all divisors: a quotient of doubles must be whole, which is
 * so for most multiples of 0.01, but not for all. Null if none can be written.
 */
function multiplesWithin(
  type: 'number' | 'integer',
  range: NumberRange,
  divisors: readonly number[],
  builder: GrammarBuilder,
): Expression | null {
  const decimals = Math.max(...divisors.map(decimalsOf))
  if (decimals > MOST_DECIMALS) return null
  const unit = 10n ** BigInt(decimals)
  const scaled = divisors.map((divisor) => Math.round(divisor * 10 ** decimals))
  if (!scaled.every(Number.isFinite)) return null
  const step = scaled.map(BigInt).reduce(commonMultiple)
  const whole = commonMultiple(step, unit) / unit
  const low = range.min === null ? -LARGEST : Math.max(-LARGEST, nextInteger(range.min))
  const high = range.max === null ? LARGEST : Math.min(LARGEST, -nextInteger(mirrored(range.max)))
  const isExact = divisors.every((divisor) => dividesWholeNumbers(divisor) && LARGEST / divisor < LARGEST_QUOTIENT)
  const isCommon = (value: number) => divisors.every((divisor) => isMultiple(value, divisor))
  const options: (Expression | null)[] = []
  if (isExact && whole <= BigInt(LARGEST)) options.push(wholeMultiples(Number(whole), builder, low, high))
  if (type === 'number' && step % unit !== 0n) {
    const listed = nearest(range, Number(step), Number(unit)).filter(
      (value) => Math.abs(value) < LARGEST_QUOTIENT && isWithin(value, range) && isCommon(value),
    )
    const fractions = listed.filter((value) => !isExact || !Number.isInteger(value))
    options.push(choiceOrNull(fractions.map((value) => literal(value.toFixed(decimals).replace(/\.?0+$/, '')))))
  }
  return choiceOrNull(options)
}

/** Multiples of `step / unit` in a range, closest to zero first. */
function nearest({ min, max }: NumberRange, step: number, unit: number): readonly number[] {
  const first = min === null ? Number.NEGATIVE_INFINITY : Math.ceil((min.value * unit) / step) - 1
  const last = max === null ? Number.POSITIVE_INFINITY : Math.floor((max.value * unit) / step) + 1
  const start = Math.min(Math.max(0, first), last)
  const factors = [start]
  for (let distance = 1; factors.length < MOST_LISTED; distance++) {
    const added = [start + distance, start - distance].filter((factor) => factor >= first && factor <= last)
    if (added.length === 0) break
    factors.push(...added)
  }
  return factors.map((factor) => (factor * step) / unit)
}

function isWithin(value: number, { min, max }: NumberRange): boolean {
  const isAbove = min === null || value > min.value || (!min.exclusive && value === min.value)
  return isAbove && (max === null || value < max.value || (!max.exclusive && value === max.value))
}

/**
 * Whether every whole number that is a multiple of the divisor also has a whole quotient in doubles: the divisor is off
 * by no more than half the distance between doubles.
 */
function dividesWholeNumbers(divisor: number): boolean {
  if (Number.isInteger(divisor)) return true
  const decimals = BigInt(decimalsOf(divisor))
  const exact = BigInt(Math.round(divisor * 10 ** Number(decimals)))
  // divisor = mantissa / 2^shift, exactly.
  let [mantissa, shift] = [divisor, 0n]
  while (!Number.isInteger(mantissa)) [mantissa, shift] = [mantissa * 2, shift + 1n]
  const error = BigInt(mantissa) * 10n ** decimals - exact * 2n ** shift
  return (error < 0n ? -error : error) * 2n ** 54n <= exact * 2n ** shift
}

/** Whole multiples of a whole number within a range. */
function wholeMultiples(multiplied: number, builder: GrammarBuilder, low: number, high: number): Expression | null {
  const zeros = /0*$/.exec(String(multiplied))![0].length
  const unit = 10 ** zeros
  const divisor = multiplied / unit
  const known = new Map<string, Expression | null>()

  const [from, to] = [Math.ceil(low / unit), Math.floor(high / unit)]
  if (from > to) return null
  const options: (Expression | null)[] = []
  if (from <= 0 && to >= 0) options.push(literal('0'))
  const ended = (numbers: Expression | null) => numbers && sequence([numbers, literal('0'.repeat(zeros))])
  if (to > 0) options.push(ended(positives(Math.max(1, from), to)))
  if (from < 0) {
    const negatives = ended(positives(Math.max(1, -to), -from))
    options.push(negatives && sequence([literal('-'), negatives]))
  }
  return choiceOrNull(options)

  function positives(low: number, high: number): Expression | null {
    if (divisor === 1)
      return integersWithin({ min: { value: low, exclusive: false }, max: { value: high, exclusive: false } })
    const first = Math.ceil(low / divisor)
    const count = Math.floor(high / divisor) - first + 1
    if (count <= 0) return null
    if (divisor > MOST_REMAINDERS || count <= MOST_REMAINDERS) {
      const listed = Array.from({ length: Math.min(count, MOST_LISTED) }, (_, at) => (first + at) * divisor)
      return choice(listed.map((value) => literal(String(value))))
    }
    const options: (Expression | null)[] = []
    for (let start = low; start <= high; ) {
      const end = Math.min(high, 10 ** String(start).length - 1)
      options.push(digits(String(start), String(end), 0))
      start = end + 1
    }
    return choiceOrNull(options)
  }

  /** Digits between two strings of equal length that leave no remainder after digits with the given remainder. */
  function digits(low: string, high: string, remainder: number): Expression | null {
    if (low === '') return remainder === 0 ? EMPTY : null
    return getOrMake(known, `${low} ${high} ${remainder}`, () => {
      const rest = low.length - 1
      const byNext = new Map<Expression, string>()
      for (let digit = Number(low[0]); digit <= Number(high[0]); digit++) {
        const from = digit === Number(low[0]) ? low.slice(1) : '0'.repeat(rest)
        const to = digit === Number(high[0]) ? high.slice(1) : '9'.repeat(rest)
        const next = digits(from, to, (remainder * 10 + digit) % divisor)
        if (next !== null) byNext.set(next, (byNext.get(next) ?? '') + digit)
      }
      const options = choiceOrNull(Array.from(byNext, ([next, set]) => sequence([characters(setOf(set)), next])))
      return options && builder.rule(options)
    })
  }
}

function commonMultiple(a: bigint, b: bigint): bigint {
  let [x, y] = [a, b]
  while (y > 0n) [x, y] = [y, x % y]
  return (a * b) / x
}

function decimalsOf(value: number): number {
  const [digits = '', exponent = '0'] = String(value).split('e')
  return Math.max(0, (digits.split('.')[1]?.length ?? 0) - Number(exponent))
}
