import { parseArgs } from 'node:util'
import { ConfigError } from '../config/config.ts'

/** One word of the command line: `lookout NAME ...`. */
export interface Command {
  /** What `lookout NAME --help` prints. */
  readonly help: string
  /** Resolves when the command has done its work, or runs on by itself. @throws Error whose message is for the user. */
  run(args: readonly string[]): Promise<void>
}

/**
 * Runs the action named by the word after a command.
 * @param expected list of the actions, for the error.
 */
export function runAction(
  [action = '', ...args]: readonly string[],
  actions: Readonly<Record<string, Command['run']>>,
  expected: string,
): Promise<void> {
  if (Object.hasOwn(actions, action)) return actions[action]!(args)
  throw new ConfigError(expected)
}

/** @throws ConfigError when there are arguments. */
export function expectNoArguments(args: readonly string[]): void {
  try {
    parseArgs({ args: [...args], options: {} })
  } catch (error) {
    throw new ConfigError(`${(error as Error).message}; see --help`)
  }
}
