/** Does something with each item, with at most `many` at a time. */
export async function inTurns<Item>(
  items: Iterable<Item>,
  many: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const left = items[Symbol.iterator]()
  const worker = async () => {
    // All callers share one iterator, which gives each item once.
    for (let next = left.next(); !next.done; next = left.next()) await work(next.value)
  }
  await Promise.all(Array.from({ length: many }, worker))
}
