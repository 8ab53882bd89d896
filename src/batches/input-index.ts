import type { ErrorCode } from '../lib/errors/error-codes.ts'
import { getOrMake } from '../lib/get-or-make.ts'
import type { BatchProblem } from '../storage/schema.ts'
import { readInputLine } from './input-line.ts'
import { splitLines } from './lines.ts'

/** The same limit as OpenAI's. */
const MOST_LINES = 50_000
/** A request of the largest size, with the rest of its line. */
const MOST_LINE_BYTES = 21 * 2 ** 20
const MOST_PROBLEMS = 100

/** A line to run. */
export interface IndexedLine {
  readonly customId: string
  /** Offset of its request in the file, in bytes. */
  readonly start: number
  readonly length: number
  /** Whether it asks for a stream. */
  readonly streams: boolean
}

export type InputIndex =
  | { readonly lines: readonly IndexedLine[] }
  /** In the order of the file, and only the first ones of many. */
  | { readonly problems: readonly BatchProblem[] }

/**
 * Reads an input from end to end without holding it.
 * @returns the lines in the order to run them: lines about the same media follow one another, so that the media is
 * encoded once. Or what is wrong with the input.
 */
export async function indexInput(
  input: AsyncIterable<Uint8Array>,
  endpoint: string,
  mostLines = MOST_LINES,
): Promise<InputIndex> {
  const groups = new Map<string, IndexedLine[]>()
  const seen = new Map<string, number>()
  const problems: BatchProblem[] = []
  for await (const { number, start, bytes } of splitLines(input, MOST_LINE_BYTES)) {
    if (seen.size === mostLines) {
      problems.push(problemAt(null, 'too_many_lines', `The file has more than ${mostLines} lines`, null))
      break
    }
    if (problems.length === MOST_PROBLEMS) break
    if (bytes === null) {
      const most = MOST_LINE_BYTES / 2 ** 20
      problems.push(problemAt(number, 'line_too_long', `The line is longer than ${most} MiB`, null))
      continue
    }
    const read = readInputLine(bytes, endpoint)
    if ('problem' in read) {
      problems.push({ ...read.problem, line: number })
      continue
    }
    const { customId, media, body, streams } = read
    const earlier = seen.get(customId)
    if (earlier !== undefined) {
      const message = `The custom_id is that of line ${earlier}; each must be used once`
      problems.push(problemAt(number, 'duplicate_custom_id', message, 'custom_id'))
      continue
    }
    seen.set(customId, number)
    const group = media ?? `line ${number}`
    const line = { customId, start: start + body.start, length: body.length, streams }
    getOrMake(groups, group, () => []).push(line)
  }
  if (problems.length === 0 && seen.size === 0) {
    problems.push(problemAt(null, 'empty_file', 'The file has no lines', null))
  }
  return problems.length > 0 ? { problems } : { lines: [...groups.values()].flat() }
}

function problemAt(line: number | null, code: ErrorCode, message: string, param: string | null): BatchProblem {
  return { code, message, param, line }
}
