import { forTerminal } from './for-terminal.ts'

/** Says something that does not keep a command from its work. */
export function warn(message: string): void {
  process.stderr.write(`lookout: ${forTerminal(message)}\n`)
}
