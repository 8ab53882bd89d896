/** Makes something when it is first asked for, and once. */
export function lazy<Result>(make: () => Result): () => Result {
  let made: { readonly result: Result } | null = null
  return () => {
    made ??= { result: make() }
    return made.result
  }
}
