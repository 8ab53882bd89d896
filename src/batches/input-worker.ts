/**
 * Indexes one input off the event loop. It asks for the input's pieces one by one, and then sends what it has found:
 * problems, or the lines in parts, each once the one before has been received.
 */
import { parentPort, workerData } from 'node:worker_threads'
import type { BatchProblem } from '../storage/schema.ts'
import { type IndexedLine, indexInput } from './input-index.ts'

/**
 * Messages of the thread. Each is answered: `more` with a piece or, at the end of the input, null; lines with anything.
 */
export type IndexerSaid =
  | 'more'
  | { readonly problems: readonly BatchProblem[] }
  | { readonly lines: readonly IndexedLine[]; readonly isLast: boolean }

/** Few enough to be copied between threads, and written to the database, in some milliseconds. */
const LINES_AT_ONCE = 1_000

function ask(said: IndexerSaid): Promise<Uint8Array | null> {
  parentPort!.postMessage(said)
  return new Promise((resolve) => parentPort!.once('message', resolve))
}

async function* pieces(): AsyncGenerator<Uint8Array, void, void> {
  for (let piece = await ask('more'); piece !== null; piece = await ask('more')) yield piece
}

const index = await indexInput(pieces(), workerData as string)
if ('problems' in index) parentPort!.postMessage(index)
else {
  for (let from = 0; from < index.lines.length; from += LINES_AT_ONCE) {
    const lines = index.lines.slice(from, from + LINES_AT_ONCE)
    await ask({ lines, isLast: from + LINES_AT_ONCE >= index.lines.length })
  }
}
