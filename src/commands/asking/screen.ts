import { setTimeout as delay } from 'node:timers/promises'
import { forTerminal } from '../for-terminal.ts'
import { onStop } from '../until-stopped.ts'

/** Messages of commands that ask a model, beside their results, and how these commands end. */

/** How long a stopped command may take to remove its files from the server. */
const MOST_PARTING_MS = 5_000
const removals = new Set<() => Promise<void>>()
const parting = new AbortController()

/** Fires when the process is about to end: from then on, it only removes its files from the server. */
export const partingSignal: AbortSignal = parting.signal

/** Waits for the process to end if it is about to: errors no longer concern the user then. */
export async function untilParted(): Promise<void> {
  if (partingSignal.aborted) await new Promise(() => {})
}

/** Registers a removal from the server, which also runs after a Ctrl-C. @returns a function that removes it. */
export function removedInAnyCase(remove: () => Promise<void>): () => Promise<void> {
  removals.add(remove)
  return async () => {
    await remove()
    removals.delete(remove)
  }
}

/**
 * Lets Ctrl-C end the process: at once if nothing is to be removed from the server. A service that was started for this
 * process sees it end and ends too.
 * @param partWith what to say before.
 */
export function endWithUser(partWith: () => void = () => {}): void {
  onStop((exitCode) => {
    partWith()
    if (removals.size === 0) process.exit(exitCode)
    parting.abort()
    const removed = Promise.all([...removals].map((remove) => remove()))
    void Promise.race([removed, delay(MOST_PARTING_MS)]).then(() => process.exit(exitCode))
  })
}

/** One line beside the results, for the user who watches. */
export function note(text: string): void {
  process.stderr.write(`${dim(forTerminal(text))}\n`)
}

export function dim(text: string): string {
  return process.stderr.isTTY && !process.env.NO_COLOR ? `\x1b[2m${text}\x1b[22m` : text
}

/**
 * Prints to standard output, unchanged if that is a file or a pipe. Resolves when it is writable: a slow reader slows
 * the reply down.
 */
export async function print(text: string): Promise<void> {
  if (process.stdout.write(process.stdout.isTTY ? forTerminal(text) : text)) return
  await new Promise<void>((resolve) => process.stdout.once('drain', resolve))
}
