/** From the first byte up to the second one, exclusive. */
export type ByteRange = readonly [from: number, to: number]

/** The ranges, sorted and merged where they touch. */
export function joined(ranges: readonly ByteRange[]): ByteRange[] {
  const result: [number, number][] = []
  for (const [from, to] of [...ranges].sort((a, b) => a[0] - b[0])) {
    const last = result.at(-1)
    if (to <= from) continue
    if (last !== undefined && from <= last[1]) last[1] = Math.max(last[1], to)
    else result.push([from, to])
  }
  return result
}

export function totalOf(ranges: readonly ByteRange[]): number {
  return joined(ranges).reduce((sum, [from, to]) => sum + to - from, 0)
}

/** The missing ranges of `size` bytes, in pieces of at most `most`. */
export function missingOf(ranges: readonly ByteRange[], size: number, most: number): ByteRange[] {
  const missing: ByteRange[] = []
  let at = 0
  for (const [from, to] of [...joined(ranges), [size, size] as const]) {
    for (; at < from; at += most) missing.push([at, Math.min(from, at + most)])
    at = to
  }
  return missing
}
