/** Requests at a time, so that one picture is read while another is encoded. */
const AT_ONCE = 2

/** Asks about each item, in their order. @param onDone told after each. @returns the answers, in the same order. */
export async function twoAtOnce<Item, Answer>(
  items: readonly Item[],
  ask: (item: Item) => Promise<Answer>,
  onDone: (done: number, of: number) => void = () => {},
): Promise<readonly Answer[]> {
  const answers: Answer[] = []
  const queue = items.entries()
  let done = 0
  const worker = async () => {
    // Both workers take from the one iterator.
    for (const [index, item] of queue) {
      answers[index] = await ask(item)
      onDone(++done, items.length)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  return answers
}
