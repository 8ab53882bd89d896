import { forTerminal } from './for-terminal.ts'

/** Prints a warning. */
export function warn(message: string): void {
  process.stderr.write(`lookout: ${forTerminal(message)}\n`)
}
