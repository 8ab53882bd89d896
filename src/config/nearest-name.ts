/** More typing mistakes than this make another word. */
const MOST_EDITS = 3

/** The name closest to a misspelt one; null if none is close enough. */
export function nearestName(misspelt: string, names: readonly string[]): string | null {
  const [nearest] = names
    .map((name) => ({ name, edits: editDistance(misspelt, name) }))
    .sort((a, b) => a.edits - b.edits)
  return nearest !== undefined && nearest.edits <= MOST_EDITS ? nearest.name : null
}

/** Number of characters to insert, delete or replace (Levenshtein distance). */
export function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(replaced, row[j]! + 1, next[j - 1]! + 1))
    }
    row = next
  }
  return row[b.length]!
}
