/** The median; for an even number of values, the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  if (values.length === 0) throw new Error('No values.')
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** The smallest value that at least this share of the values does not exceed. */
export function percentile(values: readonly number[], part: number): number {
  if (values.length === 0) throw new Error('No values.')
  return values.toSorted((a, b) => a - b)[Math.ceil(part * values.length) - 1]!
}

/** The median ratio of values measured in pairs, in which slow drifts of the machine cancel out. */
export function medianRatio(numerators: readonly number[], denominators: readonly number[]): number {
  return median(numerators.map((value, index) => value / denominators[index]!))
}

/**
 * The two of the values between which the median of what they are drawn from lies with at least 95 %, for any
 * distribution; null for fewer than six values.
 */
export function medianInterval(values: readonly number[]): readonly [least: number, most: number] | null {
  const sorted = values.toSorted((a, b) => a - b)
  const count = sorted.length
  // The chance that none of that number of coins is heads, then one, and so on: too few values lie on one side of the median.
  let missed = 0
  let rank = 0
  for (let chance = 0.5 ** count; 2 * (missed + chance) <= 0.05; rank++) {
    missed += chance
    chance *= (count - rank) / (rank + 1)
  }
  return rank === 0 ? null : [sorted[rank - 1]!, sorted[count - rank]!]
}

/** Formats the median, minimum and maximum: "12.3 (11.9 to 14.0)". A single value stands alone. */
export function spread(values: readonly number[], digits = 1): string {
  if (values.length === 1) return values[0]!.toFixed(digits)
  const [least, most] = [Math.min(...values), Math.max(...values)]
  return `${median(values).toFixed(digits)} (${least.toFixed(digits)} to ${most.toFixed(digits)})`
}
