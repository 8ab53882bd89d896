import type { Files } from '../files/files.ts'
import type { BatchProblem } from '../storage/schema.ts'
import type { OpenBatch } from './batch-desk.ts'
import type { TakenLine } from './line-desk.ts'

/** The most bytes to read at a time, unless one line alone is longer. */
const MOST_BYTES = 2 ** 20
/** The most bytes between two requests: the rest of one line and the beginning of the next. */
const MOST_GAP = 4 * 2 ** 10

export const INPUT_DELETED: BatchProblem = {
  code: 'input_file_deleted',
  message: 'The input file has been deleted',
  param: 'input_file_id',
  line: null,
}

/** Only servers that share the store of the input can run the batch. */
export class NotInStore extends Error {
  constructor() {
    super('The input is not in the blob store of this server')
  }
}

/** The bytes of a line's request; null if the input has been deleted. They are read when they are first asked for. */
export type RequestBytes = () => Promise<Buffer | null>

/** Reads adjacent lines of the input together: a read for each would take longer than running a short line. */
export function requestBytes(
  files: Pick<Files, 'find' | 'read'>,
  batch: OpenBatch,
  lines: readonly TakenLine[],
  signal: AbortSignal,
): RequestBytes[] {
  const wanted: RequestBytes[] = []
  for (let from = 0, to = 0; from < lines.length; from = to) {
    const { start } = lines[from]!
    let end = start + lines[from]!.length
    for (to = from + 1; to < lines.length; to++) {
      const next = lines[to]!
      const isNext = next.start >= end && next.start - end <= MOST_GAP
      if (!isNext || next.start + next.length - start > MOST_BYTES) break
      end = next.start + next.length
    }
    let reading: Promise<Buffer | null> | null = null
    for (const line of lines.slice(from, to)) {
      wanted.push(async () => {
        reading ??= read(files, batch, start, end, signal)
        const at = line.start - start
        return (await reading)?.subarray(at, at + line.length) ?? null
      })
    }
  }
  return wanted
}

async function read(
  files: Pick<Files, 'find' | 'read'>,
  { organisationId, inputFileId }: OpenBatch,
  start: number,
  end: number,
  signal: AbortSignal,
): Promise<Buffer | null> {
  const stream = await files.read(organisationId, inputFileId, { first: start, last: end - 1 }, signal)
  if (stream !== null) return Buffer.concat(await stream.toArray({ signal }))
  if ((await files.find(organisationId, inputFileId)) !== null) throw new NotInStore()
  return null
}
