import { choice, choiceOrNull, EMPTY, type Expression, literal, range, repeat, sequence } from '../grammar.ts'

/** Both ends are inclusive unless marked as exclusive; null for no end. */
export interface NumberRange {
  readonly min: Bound | null
  readonly max: Bound | null
}

export interface Bound {
  readonly value: number
  readonly exclusive: boolean
}

/** Digits before and after the decimal point of numbers that may have a fraction, so that a double can hold them. */
const WHOLE_DIGITS = 15
export const LARGEST = 10 ** WHOLE_DIGITS - 1
/** Unbounded integers are those of 64 bits, as identifiers often are: many clients read no larger ones. */
const LEAST_INTEGER = -(2n ** 63n)
const GREATEST_INTEGER = 2n ** 63n - 1n
/** The largest integer that a bound may ask for has the same number of digits. */
const LARGEST_INTEGER = 10n ** 19n - 1n
/** Digits that may follow those of a bound. */
const SPARE_DIGITS = 6
/** Maximum digits of a bound after the decimal point; a double may have 324. */
const MOST_DECIMALS = 20
/** Up to this many digits of a bound, doubles distinguish it from all numbers that may be written next to it. */
const SHORT_BOUND = 9
const DIGIT = range('0', '9')

/** The integers of a range, in decimal. Null if there are none. */
export function integersWithin({ min, max }: NumberRange): Expression | null {
  const low = min === null ? LEAST_INTEGER : lowest(min)
  const high = max === null ? GREATEST_INTEGER : -lowest(mirrored(max))
  if (low > high) return null
  const options: Expression[] = []
  if (low < 0n) options.push(sequence([literal('-'), naturals(high < -1n ? -high : 1n, -low)]))
  if (high >= 0n) options.push(naturals(low > 0n ? low : 0n, high))
  return choice(options)
}

/** The decimal numbers of a range, without exponents. Null if none can be written. */
export function numbersWithin({ min, max }: NumberRange): Expression | null {
  const zero: Bound = { value: 0, exclusive: false }
  const largest: Bound = { value: LARGEST, exclusive: false }
  const options: (Expression | null)[] = []
  if (min === null || min.value < 0) {
    const from = max !== null && max.value < 0 ? mirrored(max) : { ...zero, exclusive: true }
    const inner = positives(from, min === null ? largest : mirrored(min))
    options.push(inner && sequence([literal('-'), inner]))
  }
  if (max === null || max.value >= 0) {
    options.push(positives(min !== null && min.value >= 0 ? min : zero, max ?? largest))
  }
  // Larger ones are integers.
  const beyond: Bound = { value: LARGEST, exclusive: true }
  options.push(integersWithin({ min: min !== null && min.value > LARGEST ? min : beyond, max }))
  options.push(integersWithin({ min, max: max !== null && max.value < -LARGEST ? max : mirrored(beyond) }))
  return choiceOrNull(options)
}

export function mirrored({ value, exclusive }: Bound): Bound {
  return { value: -value, exclusive }
}

export function nextInteger({ value, exclusive }: Bound): number {
  return exclusive ? Math.floor(value) + 1 : Math.ceil(value)
}

/**
 * The first integer above a bound. If the bound's double represents several integers, the client may have written any
 * of them: the next double is certainly above it.
 */
function lowest(bound: Bound): bigint {
  if (bound.value >= Number(LARGEST_INTEGER)) return LARGEST_INTEGER + 1n
  if (bound.value <= -Number(LARGEST_INTEGER)) return -LARGEST_INTEGER
  return BigInt(Math.abs(bound.value) > Number.MAX_SAFE_INTEGER ? nextDouble(bound.value) : nextInteger(bound))
}

/** The smallest finite double above another. */
function nextDouble(value: number): number {
  const double = new Float64Array([value === 0 ? 0 : value])
  const bits = new BigInt64Array(double.buffer)
  bits[0]! += value < 0 ? -1n : 1n
  return double[0]!
}

/** The integers from `low` to `high`, neither below zero. */
function naturals(low: bigint, high: bigint): Expression {
  const options: Expression[] = []
  for (let start = low; start <= high; ) {
    const digits = String(start).length
    const longest = 10n ** BigInt(digits) - 1n
    const end = longest < high ? longest : high
    if (/^10*$/.test(String(start)) && end === longest) {
      // All numbers of several lengths.
      const most = String(high + 1n).length - 1
      options.push(sequence([range('1', '9'), repeat(DIGIT, digits - 1, most - 1)]))
      start = 10n ** BigInt(most)
      continue
    }
    options.push(sameLength(String(start), String(end)))
    start = end + 1n
  }
  return choice(options)
}

/** Digit strings between two of equal length. */
function sameLength(low: string, high: string): Expression {
  if (low === high) return literal(low)
  if (/^0*$/.test(low) && /^9*$/.test(high)) return repeat(DIGIT, low.length, low.length)
  const [first, last] = [Number(low[0]), Number(high[0])]
  const rest = low.length - 1
  if (first === last) return sequence([literal(low[0]!), sameLength(low.slice(1), high.slice(1))])
  if (rest === 0) return digit(first, last)
  const options: Expression[] = []
  let [from, to] = [first, last]
  if (!/^0*$/.test(low.slice(1))) {
    options.push(sequence([literal(low[0]!), sameLength(low.slice(1), '9'.repeat(rest))]))
    from++
  }
  if (!/^9*$/.test(high.slice(1))) {
    options.push(sequence([literal(high[0]!), sameLength('0'.repeat(rest), high.slice(1))]))
    to--
  }
  if (from <= to) options.push(sequence([digit(from, to), repeat(DIGIT, rest, rest)]))
  return choice(options)
}

function digit(first: number, last: number): Expression {
  return first === last ? literal(String(first)) : range(String(first), String(last))
}

/** A non-negative bound, as digits. */
interface Decimal {
  readonly whole: number
  /** Digits after the decimal point; the last one is not zero. */
  readonly fraction: string
  readonly exclusive: boolean
}

function positives(min: Bound, max: Bound): Expression | null {
  if (min.value > LARGEST) return null
  const [lower, upper] = certain(min, max.value > LARGEST ? { value: LARGEST, exclusive: false } : max)
  const [low, high] = [lowDecimal(lower), highDecimal(upper)]
  const options: (Expression | null)[] = []
  if (low.whole === high.whole) options.push(withFraction(low.whole, fractions(low, high)))
  else if (low.whole < high.whole) {
    options.push(withFraction(low.whole, fractions(low, null)))
    options.push(withFraction(high.whole, fractions(null, high)))
    if (low.whole + 1 < high.whole) {
      options.push(sequence([naturals(BigInt(low.whole + 1), BigInt(high.whole - 1)), fractions(null, null)!]))
    }
  }
  return choiceOrNull(options)
}

function withFraction(whole: number, fraction: Expression | null): Expression | null {
  return fraction === null ? null : sequence([literal(String(whole)), fraction])
}

/** A non-negative lower bound. A bound with more digits is rounded up. */
function lowDecimal({ value, exclusive }: Bound): Decimal {
  const [whole, fraction] = digitsOf(value)
  if (fraction.length <= MOST_DECIMALS) return { whole: Number(whole), fraction, exclusive }
  const unit = 10n ** BigInt(MOST_DECIMALS)
  const rounded = BigInt(whole + fraction.slice(0, MOST_DECIMALS)) + 1n
  const digits = String(rounded % unit).padStart(MOST_DECIMALS, '0')
  return { whole: Number(rounded / unit), fraction: digits.replace(/0+$/, ''), exclusive: false }
}

/** A non-negative upper bound. A bound with more digits is rounded down. */
function highDecimal({ value, exclusive }: Bound): Decimal {
  const [whole, fraction] = digitsOf(value)
  const isRounded = fraction.length > MOST_DECIMALS
  const kept = fraction.slice(0, MOST_DECIMALS).replace(/0+$/, '')
  return { whole: Number(whole), fraction: kept, exclusive: exclusive && !isRounded }
}

/**
 * The same bounds, or the next doubles in place of exclusive ones: numbers that are beyond a bound by their digits may be the
 * same double as the bound where either has many digits after the point, because the numbers between have them too.
 */
function certain(min: Bound, max: Bound): [min: Bound, max: Bound] {
  const decimals = Math.max(digitsOf(min.value)[1].length, digitsOf(max.value)[1].length)
  const isOpen = ({ value, exclusive }: Bound) => exclusive && value !== 0
  const isLong = (bound: Bound) => isOpen(bound) && digitsOf(bound.value)[0].length + decimals > SHORT_BOUND
  if (!isLong(min) && !isLong(max)) return [min, max]
  const above = (bound: Bound) => (isOpen(bound) ? { value: nextDouble(bound.value), exclusive: false } : bound)
  return [above(min), mirrored(above(mirrored(max)))]
}

/** The shortest digits, before and after the decimal point, that identify a double from 0 to `LARGEST`. */
function digitsOf(value: number): [whole: string, fraction: string] {
  const [digits = '', exponent = '0'] = String(value).split('e')
  const [whole = '', fraction = ''] = digits.split('.')
  const zeros = -Number(exponent)
  return zeros === 0 ? [whole, fraction] : ['0', '0'.repeat(zeros - 1) + whole + fraction]
}

/** What may follow the digits before the decimal point; null if nothing may, not even the end. */
function fractions(low: Decimal | null, high: Decimal | null): Expression | null {
  const spare = Math.max(low?.fraction.length ?? 0, high?.fraction.length ?? 0) + SPARE_DIGITS
  const digits = decimals('', low, high, spare)
  return choiceOrNull([mayEnd('', low, high) ? EMPTY : null, digits && sequence([literal('.'), digits])])
}

/** One or more digits after `prefix`. Each bound applies as long as its digits equal `prefix`. */
function decimals(prefix: string, low: Decimal | null, high: Decimal | null, spare: number): Expression | null {
  if (spare === 0) return null
  if (low === null && high === null) return repeat(DIGIT, 1, spare)
  const at = prefix.length
  const first = low === null ? 0 : Number(low.fraction[at] ?? 0)
  const last = high === null ? 9 : Number(high.fraction[at] ?? 0)
  const options: (Expression | null)[] = []
  for (let value = first; value <= last; value++) {
    const next = prefix + value
    // A bound that is already exceeded holds for all further digits.
    const nextLow = low !== null && value === first && !settled(next, low) ? low : null
    const nextHigh = high !== null && value === last ? high : null
    if (nextLow === null && nextHigh === null) {
      const free = value
      let end = value
      while (end + 1 <= last && (high === null || end + 1 < last)) end++
      value = end
      options.push(sequence([digit(free, end), repeat(DIGIT, 0, spare - 1)]))
      continue
    }
    const more = decimals(next, nextLow, nextHigh, spare - 1)
    const rest = choiceOrNull([mayEnd(next, nextLow, nextHigh) ? EMPTY : null, more])
    options.push(rest && sequence([literal(String(value)), rest]))
  }
  return choiceOrNull(options)
}

/** Whether a lower bound whose digits are equal so far is satisfied by all further digits. */
function settled(digits: string, low: Decimal): boolean {
  return !low.exclusive && digits.length >= low.fraction.length
}

function mayEnd(digits: string, low: Decimal | null, high: Decimal | null): boolean {
  if (low !== null && (digits.length < low.fraction.length || low.exclusive)) return false
  return high === null || digits.length < high.fraction.length || !high.exclusive
}
