import { Worker } from 'node:worker_threads'
import type { BatchProblem } from '../storage/schema.ts'
import type { IndexedLine } from './input-index.ts'
import type { IndexerSaid } from './input-worker.ts'

const WORKER_FILE = new URL('./input-worker.ts', import.meta.url)

/**
 * What is in an input. Its lines come in parts, as the thread that has read it hands them over; disposing of the index ends
 * the thread.
 */
export type InputParts = AsyncDisposable &
  (
    | { readonly parts: AsyncIterable<readonly IndexedLine[]> }
    /** In order of the file; the first ones, where there are many. */
    | { readonly problems: readonly BatchProblem[] }
  )

/**
 * Reads an input from end to end, in a thread of its own: nothing of it is split, parsed or compared on the event loop. The
 * thread needs no wall against its input, because what it holds is bounded: one line of `MOST_LINE_BYTES` with `MOST_VALUES`
 * values, and ids and places of `MOST_LINES` lines. `index-input.test.ts` measures that.
 */
export async function indexedInput(
  input: AsyncIterable<Uint8Array>,
  endpoint: string,
  signal: AbortSignal,
): Promise<InputParts> {
  const thread = new IndexingThread(endpoint, signal)
  const dispose = () => thread.end()
  try {
    let said = await thread.first
    for await (const piece of input) {
      if (said !== 'more') break
      // A copy: streams cut their pieces from memory that they use again.
      const own = new Uint8Array(piece)
      said = await thread.ask(own, [own.buffer])
    }
    if (said === 'more') said = await thread.ask(null)
    if (said === 'more') throw new Error('The thread that reads an input asks for more than there is')
    return { ...('problems' in said ? said : { parts: partsOf(thread, said) }), [Symbol.asyncDispose]: dispose }
  } catch (error) {
    await dispose()
    throw error
  }
}

async function* partsOf(
  thread: IndexingThread,
  first: IndexerSaid,
): AsyncGenerator<readonly IndexedLine[], void, void> {
  for (let said = first; typeof said === 'object' && 'lines' in said; said = await thread.ask(null)) {
    yield said.lines
    if (said.isLast) return
  }
}

class IndexingThread {
  readonly #worker: Worker
  readonly #signal: AbortSignal
  /** What it says before anything is sent. */
  readonly first: Promise<IndexerSaid>

  constructor(endpoint: string, signal: AbortSignal) {
    signal.throwIfAborted()
    this.#worker = new Worker(WORKER_FILE, { workerData: endpoint })
    this.#worker.unref()
    // An error of a thread that is no longer used.
    this.#worker.on('error', () => {})
    this.#signal = signal
    signal.addEventListener('abort', this.end, { once: true })
    this.first = this.#next()
  }

  ask(piece: Uint8Array | null, transfer: readonly ArrayBuffer[] = []): Promise<IndexerSaid> {
    const answer = this.#next()
    this.#worker.postMessage(piece, transfer)
    return answer
  }

  readonly end = async (): Promise<void> => {
    this.#signal.removeEventListener('abort', this.end)
    await this.#worker.terminate()
  }

  #next(): Promise<IndexerSaid> {
    return new Promise((resolve, reject) => {
      const worker = this.#worker
      const settle = (act: () => void) => {
        worker.off('message', onMessage).off('error', onError).off('exit', onExit)
        act()
      }
      const onMessage = (said: IndexerSaid) => settle(() => resolve(said))
      const onError = (error: Error) => settle(() => reject(error))
      const onExit = () => settle(() => reject(new Error('The thread that reads an input has ended')))
      worker.on('message', onMessage).on('error', onError).on('exit', onExit)
    })
  }
}
