/** Splits by every other file, because data about the same file is not independent. */
export function halves<One extends { readonly file: string }>(
  all: readonly One[],
): readonly [first: readonly One[], second: readonly One[]] {
  const files = [...new Set(all.map(({ file }) => file))]
  const even = new Set(files.filter((_, index) => index % 2 === 0))
  return [all.filter(({ file }) => even.has(file)), all.filter(({ file }) => !even.has(file))]
}
