import { stat } from 'node:fs/promises'
import { ConfigError } from '../../config/config.ts'
import { warn } from '../warn.ts'
import { isAboutInput } from './connection.ts'
import { MediaError, picturesIn } from './media.ts'
import { note } from './screen.ts'

/** What is asked about, which is opened in its turn: a folder may hold more than memory does. */
export interface Input<Opened> {
  readonly name: string
  open(): Promise<Opened>
}

export interface Inputs<Opened> {
  readonly inputs: readonly Input<Opened>[]
  /** Whether there is one alone, and not in a folder. */
  readonly isSingle: boolean
}

/** What words stand for: files, the pictures of folders, and `-` for standard input. */
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
 * Asks about each input. Of several, one that is at fault costs a warning.
 * @returns how many of them were.
 */
export async function askEach<Opened>(
  { inputs, isSingle }: Inputs<Opened>,
  ask: (input: Input<Opened>, index: number) => Promise<void>,
): Promise<number> {
  let failures = 0
  for (const [index, input] of inputs.entries()) {
    if (inputs.length > 1 && process.stderr.isTTY) note(`${index + 1}/${inputs.length} ${input.name}`)
    try {
      await ask(input, index)
    } catch (error) {
      const fault = faultOf(error, input.name)
      if (isSingle) throw new ConfigError(fault)
      failures++
      warn(fault)
    }
  }
  return failures
}

/** What is wrong with one input, so that others may still be answered. @throws the error, where it is about more. */
export function faultOf(error: unknown, name: string): string {
  if (error instanceof MediaError) return error.message
  if (isAboutInput(error)) return `${name}: ${(error as Error).message}`
  throw error
}
