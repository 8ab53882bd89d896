import { stat } from 'node:fs/promises'
import { ServerError } from '../../client/server-error.ts'
import { ConfigError } from '../../config/config.ts'
import { warn } from '../warn.ts'
import { isAboutInput } from './connection.ts'
import { MediaError, picturesIn } from './media.ts'
import { note } from './screen.ts'

/** An input of a command. It is opened when its turn comes: a folder may hold more than fits in memory. */
export interface Input<Opened> {
  readonly name: string
  open(): Promise<Opened>
}

export interface Inputs<Opened> {
  readonly inputs: readonly Input<Opened>[]
  /** Whether there is only one, and not from a folder. */
  readonly isSingle: boolean
}

/** The inputs that arguments name: files, the pictures of folders, and `-` for standard input. */
export async function collectInputs<Opened>(
  words: readonly string[],
  { file, piped }: { file(path: string): Promise<Opened>; piped(): Promise<Input<Opened>> },
): Promise<Inputs<Opened>> {
  const inputs: Input<Opened>[] = []
  const fromFile = (path: string) => ({ name: path, open: () => file(path) })
  let hasFolder = false
  for (const word of words) {
    if (word === '-') inputs.push(await piped())
    else if ((await stat(word)).isDirectory()) {
      hasFolder = true
      inputs.push(...(await picturesIn(word)).map(fromFile))
    } else inputs.push(fromFile(word))
  }
  return { inputs, isSingle: words.length <= 1 && !hasFolder }
}

/**
 * Asks about each input. If there are several, a faulty one causes only a warning.
 * @param outcome describes the faulty ones, as `pictures could not be searched`.
 * @returns a message to print after the results are written; null if all inputs have a result.
 */
export async function askEach<Opened>(
  { inputs, isSingle }: Inputs<Opened>,
  outcome: string,
  ask: (input: Input<Opened>, index: number) => Promise<void>,
): Promise<ConfigError | null> {
  if (!isSingle) {
    return eachOf(inputs, outcome, async (input, index) => {
      if (inputs.length > 1 && process.stderr.isTTY) note(`${index + 1}/${inputs.length} ${input.name}`)
      await ask(input, index)
    })
  }
  const [input] = inputs as readonly [Input<Opened>]
  await ask(input, 0).catch((error: unknown) => {
    throw new Faults().areOf(error) ? new ConfigError(faultOf(error, input.name)) : error
  })
  return null
}

/**
 * Does work for each of several inputs. A faulty one causes only a warning.
 * @param outcome describes the faulty ones, as `pictures could not be searched`.
 * @returns a message to print after the results are written, even if the rest cannot be done; null if none is missing.
 * @throws the error that concerns all inputs, if none is done.
 */
export async function eachOf<One extends { readonly name: string }>(
  inputs: readonly One[],
  outcome: string,
  work: (input: One, index: number) => Promise<void>,
): Promise<ConfigError | null> {
  const faults = new Faults()
  let failures = 0
  for (const [index, input] of inputs.entries()) {
    try {
      await work(input, index)
      faults.end()
    } catch (error) {
      const done = index - failures
      if (faults.areOf(error)) {
        failures++
        warn(faultOf(error, input.name))
      } else if (done === 0) throw error
      else return new ConfigError(`${faultOf(error, input.name)} (${done} of ${inputs.length} are done)`)
    }
  }
  return failures === 0 ? null : new ConfigError(`${failures} of ${inputs.length} ${outcome}`)
}

/** After failures at this many inputs in a row, the server counts as broken. */
const MOST_FAULTS = 5

/**
 * Distinguishes faults of single inputs, after which others may still be answered, from errors that concern all inputs.
 */
export class Faults {
  #inRow = 0

  /** Call it for each input that is answered. */
  end(): void {
    this.#inRow = 0
  }

  /** Whether an error concerns only one input. */
  areOf(error: unknown): boolean {
    if (!isFault(error)) return error instanceof MediaError || isAboutInput(error)
    this.#inRow++
    return this.#inRow < MOST_FAULTS
  }
}

/** Whether the server has failed, perhaps because of this input. An unavailable or full server is another matter. */
function isFault(error: unknown): boolean {
  return error instanceof ServerError && error.status >= 500 && error.status !== 503
}

/** What is wrong with an input. Errors that are not the server's already name it. */
function faultOf(error: unknown, name: string): string {
  const { message } = error as Error
  return error instanceof ServerError ? `${name}: ${message}` : message
}

/** @throws the first error of any item, once all running work has ended. */
export async function inParallel<Item>(
  items: readonly Item[],
  jobs: number,
  work: (item: Item, index: number) => Promise<void>,
): Promise<void> {
  const queue = items.entries()
  let isFailed = false
  const run = async () => {
    // All workers share one iterator.
    for (const [index, item] of queue) {
      if (isFailed) return
      await work(item, index).catch((error: unknown) => {
        isFailed = true
        throw error
      })
    }
  }
  const outcomes = await Promise.allSettled(Array.from({ length: Math.min(jobs, items.length) }, run))
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
}
