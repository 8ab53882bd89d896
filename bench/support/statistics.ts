/** The middle value; the mean of the two in the middle when their number is even. */
export function median(values: readonly number[]): number {
  if (values.length === 0) throw new Error('No values.')
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** The least value that so large a part of the values does not exceed. */
export function percentile(values: readonly number[], part: number): number {
  if (values.length === 0) throw new Error('No values.')
  return values.toSorted((a, b) => a - b)[Math.ceil(part * values.length) - 1]!
}

/** Median of the ratios of values that were measured one after the other: slow drifts of the machine cancel out. */
export function medianRatio(numerators: readonly number[], denominators: readonly number[]): number {
  return median(numerators.map((value, index) => value / denominators[index]!))
}

/** "12.3 (11.9 to 14.0)": median, least and most; a single value stands alone. */
export function spread(values: readonly number[], digits = 1): string {
  if (values.length === 1) return values[0]!.toFixed(digits)
  const [least, most] = [Math.min(...values), Math.max(...values)]
  return `${median(values).toFixed(digits)} (${least.toFixed(digits)} to ${most.toFixed(digits)})`
}
