/**
 * Pairs rows with columns so that the sum of the gains is maximal (the Hungarian algorithm, with potentials). A pair
 * without a positive gain is never made.
 * @param gains a list for each row, all of one length.
 * @returns the column of each row; null for none.
 */
export function assign(gains: readonly (readonly number[])[]): (number | null)[] {
  const columns = gains[0]?.length ?? 0
  // Each row has an extra column that stands for no pair.
  const width = columns + gains.length
  const gainOf = (row: number, column: number) => (column < columns ? Math.max(0, gains[row]![column]!) : 0)
  const [rowPotential, columnPotential] = [new Float64Array(gains.length + 1), new Float64Array(width + 1)]
  /** The row of each column, from 1; 0 for none. A row that is added starts in column 0. */
  const rowOf = new Int32Array(width + 1)
  for (let added = 1; added <= gains.length; added++) {
    const least = new Float64Array(width + 1).fill(Number.POSITIVE_INFINITY)
    const from = new Int32Array(width + 1)
    const isDone = new Uint8Array(width + 1)
    let column = 0
    rowOf[0] = added
    do {
      isDone[column] = 1
      const row = rowOf[column]!
      let [step, next] = [Number.POSITIVE_INFINITY, 0]
      for (let other = 1; other <= width; other++) {
        if (isDone[other]) continue
        const slack = -gainOf(row - 1, other - 1) - rowPotential[row]! - columnPotential[other]!
        if (slack < least[other]!) [least[other], from[other]] = [slack, column]
        if (least[other]! < step) [step, next] = [least[other]!, other]
      }
      for (let other = 0; other <= width; other++) {
        if (isDone[other]) {
          rowPotential[rowOf[other]!]! += step
          columnPotential[other]! -= step
        } else least[other]! -= step
      }
      column = next
    } while (rowOf[column] !== 0)
    while (column !== 0) {
      rowOf[column] = rowOf[from[column]!]!
      column = from[column]!
    }
  }
  const result = gains.map((): number | null => null)
  for (let column = 1; column <= columns; column++) {
    const row = rowOf[column]! - 1
    if (row >= 0 && gains[row]![column - 1]! > 0) result[row] = column - 1
  }
  return result
}
