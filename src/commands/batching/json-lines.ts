import { createReadStream, openSync } from 'node:fs'
import { type FileLine, splitLines } from '../../batches/lines.ts'
import { ConfigError } from '../../config/config.ts'

/** A batch's response has at most 32 MiB; those of other servers may be larger. */
export const MOST_LINE_BYTES = 128 * 2 ** 20

export function textOr<Other>(value: unknown, other: Other): string | Other {
  return typeof value === 'string' ? value : other
}

/** Opens a file for reading at any position. @throws ConfigError */
export function openFile(path: string): number {
  try {
    return openSync(path, 'r')
  } catch (error) {
    throw cannotRead(path, error)
  }
}

/** The lines of a file that are not blank. @throws ConfigError if it cannot be read. */
export async function* linesOf(path: string): AsyncGenerator<FileLine, void, void> {
  try {
    yield* splitLines(createReadStream(path, { highWaterMark: 2 ** 20 }), MOST_LINE_BYTES)
  } catch (error) {
    throw error instanceof ConfigError ? error : cannotRead(path, error)
  }
}

function cannotRead(path: string, error: unknown): ConfigError {
  return new ConfigError(`${path} cannot be read: ${(error as NodeJS.ErrnoException).code ?? error}`)
}
