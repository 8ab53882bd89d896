import type { LookoutClient } from '../../client/client.ts'
import { ConfigError } from '../../config/config.ts'
import { type ConnectionOptions, findPlace } from '../asking/connection.ts'
import { Faults, inParallel } from '../asking/inputs.ts'
import { endWithUser, note } from '../asking/screen.ts'
import { warn } from '../warn.ts'
import type { Input, Journal } from './journal.ts'
import { createProgress } from './progress.ts'

interface RunOptions<Asked extends Input> {
  readonly inputs: readonly Asked[]
  /** What they are, in the plural. */
  readonly noun: string
  /** The number of concurrent requests. */
  readonly jobs: number
}

/** Finds where to ask. @returns functions to ask about inputs without a result. */
export async function prepareRun<Asked extends Input>(
  connection: ConnectionOptions,
  { inputs, noun, jobs }: RunOptions<Asked>,
) {
  const progress = createProgress(noun)
  const place = await findPlace({ ...connection, say: progress.say })

  /**
   * Adds the results of `answer` to the journal.
   * @returns by input, why there is no result.
   * @throws ConfigError if the server fails at all of them.
   */
  async function ask(
    journal: Journal,
    model: string | null,
    answer: (client: LookoutClient, input: Asked) => Promise<unknown>,
  ): Promise<ReadonlyMap<string, string>> {
    const failures = new Map<string, string>()
    const left = inputs.filter((input) => !journal.has(input))
    let done = inputs.length - left.length
    if (done > 0) note(`${done} of ${inputs.length} ${noun} are done already`)
    if (left.length === 0) return failures
    await using opened = await place.open(model)
    progress.begin(inputs.length, done)
    const sofar = () => `${done} of ${inputs.length} ${noun} are done, and the same command goes on from there`
    endWithUser(() => progress.say(sofar()))
    const faults = new Faults()
    try {
      await inParallel(left, jobs, async (input) => {
        try {
          const result = await answer(opened.client, input)
          faults.end()
          await journal.add(input, result)
          done++
        } catch (error) {
          if (!faults.areOf(error)) throw error
          failures.set(input.file, (error as Error).message)
        }
        progress.advance()
      })
    } catch (error) {
      progress.clear()
      await journal.close(false)
      throw new ConfigError(`${(error as Error).message} (${sofar()})`)
    }
    progress.end()
    return failures
  }
  return { place, ask }
}

/** Warns of each failure. @returns a message with their number; null if there are none. */
export function sayFailures(
  failures: ReadonlyMap<string, string>,
  inputs: readonly Input[],
  outcome: string,
): string | null {
  for (const { file } of inputs) {
    const message = failures.get(file)
    if (message !== undefined) warn(message.includes(file) ? message : `${file}: ${message}`)
  }
  return failures.size === 0 ? null : `${failures.size} of ${inputs.length} ${outcome}`
}
