import { Worker } from 'node:worker_threads'
import { ApiError, internalError, invalidRequest, serviceUnavailable } from '../lib/errors.ts'
import type { PullEvent } from './pull-event.ts'

/** What the thread is to pull. */
export interface PullTask {
  /** Of a model in a repository of the hub. */
  readonly address: string
  readonly projector: 'auto' | 'none'
  /** Whether it ends when it has told what there is to choose from. */
  readonly isDryRun: boolean
  /** Folder of the cards. */
  readonly store: string
  /** Bytes that all models may take together; null for no limit. */
  readonly memoryLimitBytes: number | null
}

export interface PullFailure {
  readonly kind: 'refused' | 'unreachable' | 'disk' | 'internal'
  readonly message: string
}

/** What the thread posts. Whatever is posted to it ends the pull. */
export type PullMessage =
  | { readonly type: 'event'; readonly event: PullEvent }
  | { readonly type: 'ended'; readonly id: string | null }
  | { readonly type: 'failed'; readonly failure: PullFailure }

const WORKER_FILE = new URL('./pull-worker.ts', import.meta.url)
/** For parts of files that are being written when the pull is aborted. */
const STOP_MS = 5_000
const RETRY_SECONDS = 30

/**
 * Pulls a model in a thread of its own. When the promise settles, the thread has ended.
 * @returns the id that the model is served under; null for a dry run.
 * @throws ApiError; the signal's reason.
 */
export async function pullInThread(
  task: PullTask,
  report: (event: PullEvent) => void,
  signal: AbortSignal,
): Promise<string | null> {
  signal.throwIfAborted()
  const worker = new Worker(WORKER_FILE, { workerData: task })
  let late: NodeJS.Timeout | undefined
  const stop = () => {
    worker.postMessage('stop')
    late = setTimeout(() => void worker.terminate(), STOP_MS)
  }
  signal.addEventListener('abort', stop)
  let result: { readonly id: string | null } | null = null
  let failure = internalError(new Error('The thread of a pull ended'))
  worker.on('message', (message: PullMessage) => {
    if (message.type === 'ended') result = message
    else if (message.type === 'failed') failure = errorOf(message.failure)
    else if (!signal.aborted) report(message.event)
  })
  worker.on('error', (error) => {
    failure = internalError(error)
  })
  try {
    await new Promise<void>((resolve) => worker.once('exit', () => resolve()))
  } finally {
    clearTimeout(late)
    signal.removeEventListener('abort', stop)
  }
  // Only the listener assigns it, which the compiler does not see.
  const ended = result as { readonly id: string | null } | null
  if (ended !== null) return ended.id
  signal.throwIfAborted()
  throw failure
}

function errorOf({ kind, message }: PullFailure): ApiError {
  switch (kind) {
    case 'refused':
      return invalidRequest(message, 'model', { code: 'pull_failed' })
    case 'unreachable':
      return serviceUnavailable(message, RETRY_SECONDS)
    case 'disk':
      return new ApiError(message, { status: 507, type: 'server_error', code: 'disk_full' })
    case 'internal':
      return internalError(new Error(message))
  }
}
