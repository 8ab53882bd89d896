import { EXIT_CODES } from '../until-stopped.ts'

/** What commands that ask a model say beside their results. */

/**
 * Lets Ctrl-C end the process at once. A service that was started for this process sees it end and ends too.
 * @param partWith what to say before.
 */
export function endWithUser(partWith: () => void = () => {}): void {
  for (const [signal, code] of Object.entries(EXIT_CODES)) {
    process.on(signal, () => {
      partWith()
      process.exit(code)
    })
  }
}

/** One line beside the results, for the user who watches. */
export function note(text: string): void {
  process.stderr.write(`${dim(text)}\n`)
}

export function dim(text: string): string {
  return process.stderr.isTTY && !process.env.NO_COLOR ? `\x1b[2m${text}\x1b[22m` : text
}

/** Prints to standard output. Resolves when it takes more: a slow reader slows the reply down. */
export async function print(text: string): Promise<void> {
  if (process.stdout.write(text)) return
  await new Promise<void>((resolve) => process.stdout.once('drain', resolve))
}
