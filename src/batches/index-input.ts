import { setImmediate as nextTurn } from 'node:timers/promises'
import { Tinypool } from 'tinypool'
import type { ErrorCode } from '../lib/error-codes.ts'
import type { BatchProblem } from '../storage/index.ts'
import { type InputLine, readInputLine } from './input-line.ts'
import type { LineTask } from './line-worker.ts'
import { splitLines } from './lines.ts'

/** As many as OpenAI allows. */
export const MOST_LINES = 50_000
/** A request of the largest size, with the rest of its line. */
export const MOST_LINE_BYTES = 21 * 2 ** 20
/** Longer lines are read in a thread. */
const READ_AT_ONCE_BYTES = 128 * 1024
/** Bytes that are read between turns of the event loop. */
const TURN_BYTES = 256 * 1024
const MOST_PROBLEMS = 100
const IDLE_MS = 10_000
/** V8's heap of the thread, in MiB: a line and its value. */
const THREAD_HEAP = { maxOldGenerationSizeMb: 512 }

/** A line that is to be run. */
export interface IndexedLine {
  readonly customId: string
  readonly start: number
  readonly length: number
}

export type InputIndex =
  | { readonly lines: readonly IndexedLine[] }
  /** In order of the file; the first ones, where there are many. */
  | { readonly problems: readonly BatchProblem[] }

/** Reads inputs from end to end without holding them. */
export class InputIndexer {
  readonly #threads = new Tinypool({
    filename: new URL('./line-worker.ts', import.meta.url).href,
    minThreads: 0,
    maxThreads: 1,
    idleTimeout: IDLE_MS,
    resourceLimits: THREAD_HEAP,
  })

  /**
   * @returns the lines in the order in which they are to be run: lines about the same media follow one another, so that
   * these are encoded once. Or what is wrong with the input.
   */
  async index(input: AsyncIterable<Uint8Array>, endpoint: string): Promise<InputIndex> {
    const groups = new Map<string, IndexedLine[]>()
    const seen = new Map<string, number>()
    const problems: BatchProblem[] = []
    let bytesInTurn = 0
    for await (const { number, start, length, bytes } of splitLines(input, MOST_LINE_BYTES)) {
      if (seen.size === MOST_LINES) {
        problems.push(problemAt(null, 'too_many_lines', `The file has more than ${MOST_LINES} lines`, null))
        break
      }
      if (problems.length === MOST_PROBLEMS) break
      bytesInTurn += length
      if (bytesInTurn > TURN_BYTES) {
        bytesInTurn = 0
        await nextTurn()
      }
      if (bytes === null) {
        const most = MOST_LINE_BYTES / 2 ** 20
        problems.push(problemAt(number, 'line_too_long', `The line is longer than ${most} MiB`, null))
        continue
      }
      const read = await this.#read(bytes, endpoint)
      if ('problem' in read) {
        problems.push({ ...read.problem, line: number })
        continue
      }
      const { customId, media } = read
      const earlier = seen.get(customId)
      if (earlier !== undefined) {
        const message = `The custom_id is that of line ${earlier}; each must be used once`
        problems.push(problemAt(number, 'duplicate_custom_id', message, 'custom_id'))
        continue
      }
      seen.set(customId, number)
      const group = media ?? `line ${number}`
      const line = { customId, start, length }
      const others = groups.get(group)
      if (others === undefined) groups.set(group, [line])
      else others.push(line)
    }
    if (problems.length === 0 && seen.size === 0) {
      problems.push(problemAt(null, 'empty_file', 'The file has no lines', null))
    }
    return problems.length > 0 ? { problems } : { lines: [...groups.values()].flat() }
  }

  async close(): Promise<void> {
    await this.#threads.destroy()
  }

  async #read(bytes: Buffer, endpoint: string): Promise<InputLine> {
    if (bytes.length <= READ_AT_ONCE_BYTES) return readInputLine(bytes, endpoint)
    return this.#threads.run({ bytes, endpoint } satisfies LineTask)
  }
}

function problemAt(line: number | null, code: ErrorCode, message: string, param: string | null): BatchProblem {
  return { code, message, param, line }
}
