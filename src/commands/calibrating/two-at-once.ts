import { ConfigError } from '../../config/config.ts'
import { Faults, inParallel } from '../asking/inputs.ts'
import { warn } from '../warn.ts'

/** Number of concurrent requests: one picture is read while another is encoded. */
const AT_ONCE = 2

/**
 * Asks about each item, in order. An item at which the server fails is left out, and the command then ends with an
 * error.
 * @param onDone called after each.
 * @returns the answers, in the same order.
 * @throws ConfigError if there is none.
 */
export async function twoAtOnce<Item extends { readonly file: string }, Answer>(
  items: readonly Item[],
  ask: (item: Item) => Promise<Answer>,
  onDone: (done: number, of: number) => void = () => {},
): Promise<readonly Answer[]> {
  const answers: { readonly answer: Answer }[] = []
  const faults = new Faults()
  let done = 0
  await inParallel(items, AT_ONCE, async (item, index) => {
    try {
      answers[index] = { answer: await ask(item) }
      faults.end()
    } catch (error) {
      if (!faults.areOf(error)) throw error
      warn(`${item.file}: ${(error as Error).message}`)
      process.exitCode = 1
    }
    onDone(++done, items.length)
  })
  const answered = answers.filter((one) => one !== undefined)
  if (answered.length === 0) throw new ConfigError('no example could be asked')
  return answered.map(({ answer }) => answer)
}
