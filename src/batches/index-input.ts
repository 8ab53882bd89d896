import { Worker } from 'node:worker_threads'
import type { BatchProblem } from '../storage/schema.ts'
import type { IndexedLine } from './input-index.ts'
import type { IndexerSaid } from './input-worker.ts'

const WORKER_FILE = new URL('./input-worker.ts', import.meta.url)

/**
 * The index of an input. Its lines arrive in parts from the thread that has read it. Disposing of the index ends the
 * thread.
 */
export type InputParts = AsyncDisposable &
  (
    | { readonly parts: AsyncIterable<readonly IndexedLine[]> }
    /** In the order of the file, and only the first ones of many. */
    | { readonly problems: readonly BatchProblem[] }
  )

/**
 * Reads an input from end to end, in a thread of its own: nothing of it is split, parsed or compared on the event loop. The
 * thread needs no memory limit, because it never holds more than one line of `MOST_LINE_BYTES` with `MOST_VALUES`
 * values, and the ids and offsets of `MOST_LINES` lines. `index-input.test.ts` measures that.
 */
export async function indexedInput(
  input: AsyncIterable<Uint8Array>,
  endpoint: string,
  signal: AbortSignal,
): Promise<InputParts> {
  const thread = openThread(endpoint, signal)
  try {
    let said = await thread.first
    for await (const piece of input) {
      if (said !== 'more') break
      // A copy: streams cut their pieces from memory that they reuse.
      const own = new Uint8Array(piece)
      said = await thread.ask(own, [own.buffer])
    }
    if (said === 'more') said = await thread.ask(null)
    if (said === 'more') throw new Error('The thread that reads an input asks for more than there is')
    return { ...('problems' in said ? said : { parts: partsOf(thread, said) }), [Symbol.asyncDispose]: thread.end }
  } catch (error) {
    await thread.end()
    throw error
  }
}

async function* partsOf(
  { ask }: Pick<ReturnType<typeof openThread>, 'ask'>,
  first: IndexerSaid,
): AsyncGenerator<readonly IndexedLine[], void, void> {
  for (let said = first; typeof said === 'object' && 'lines' in said; said = await ask(null)) {
    yield said.lines
    if (said.isLast) return
  }
}

function openThread(endpoint: string, signal: AbortSignal) {
  signal.throwIfAborted()
  const worker = new Worker(WORKER_FILE, { workerData: endpoint })
  worker.unref()
  let answer = Promise.withResolvers<IndexerSaid>()
  worker.on('message', (said: IndexerSaid) => answer.resolve(said))
  worker.on('error', (error) => answer.reject(error))
  worker.on('exit', () => answer.reject(new Error('The thread that reads an input has ended')))
  const end = async (): Promise<void> => {
    signal.removeEventListener('abort', end)
    await worker.terminate()
  }
  signal.addEventListener('abort', end, { once: true })
  return {
    /** Its first message, before anything is sent. */
    first: answer.promise,
    ask(piece: Uint8Array | null, transfer: readonly ArrayBuffer[] = []): Promise<IndexerSaid> {
      answer = Promise.withResolvers()
      worker.postMessage(piece, transfer)
      return answer.promise
    },
    end,
  }
}
