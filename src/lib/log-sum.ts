/** The logarithm of the sum of the exponentials of the values. */
export function logSum(values: readonly number[]): number {
  const most = Math.max(...values)
  if (most === Number.NEGATIVE_INFINITY) return most
  return most + Math.log(values.reduce((sum, value) => sum + Math.exp(value - most), 0))
}
