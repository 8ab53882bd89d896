import type { MachineSpeed } from '../catalogue/speed-estimate.ts'
import { ApiError, internalError, invalidRequest, serviceUnavailable } from '../lib/errors/errors.ts'
import { OWN_ENDS } from '../lib/guarded/guarded-process.ts'
import { spawnLimited } from '../lib/guarded/limited-process.ts'
import type { PullEvent } from './pull-event.ts'

/** The task of the process. */
export interface PullTask {
  /** The address of a model in a repository of the hub. */
  readonly address: string
  readonly projector: 'auto' | 'none'
  /** Whether to report only the choices, and to fetch nothing. */
  readonly isDryRun: boolean
  /** Folder of the cards. */
  readonly store: string
  /** Bytes of memory that all models together may use; null for no limit. */
  readonly memoryLimitBytes: number | null
  /** How fast this machine computes; null if that is unknown, or does not matter. */
  readonly speed: MachineSpeed | null
}

export interface PullFailure {
  readonly kind: 'refused' | 'unavailable' | 'disk' | 'folder' | 'internal'
  /** For clients, without paths; for an internal failure, for the log. */
  readonly message: string
}

/** Messages of the process. The first message to it is its task, and a second one ends the pull. */
export type PullMessage =
  | { readonly type: 'event'; readonly event: PullEvent }
  | { readonly type: 'ended'; readonly id: string | null }
  | { readonly type: 'failed'; readonly failure: PullFailure }

const PROGRAM = new URL('./pull-program.ts', import.meta.url)
/** Memory for lists of files, and for headers and parts that are being fetched. */
const MEMORY_BYTES = 2 ** 30
const HEAP_MB = 384
/** Time to finish writing parts of files when the pull is aborted. */
const STOP_MS = 5_000
const RETRY_SECONDS = 30
const INTERRUPTED: PullFailure = {
  kind: 'unavailable',
  message: 'The pull was interrupted; pull the model again to resume',
}

/**
 * Pulls a model in a process of its own, because a hub sends untrusted data. When the promise settles, the process has
 * ended.
 * @returns the id that the model is served under; null for a dry run.
 * @throws ApiError; the signal's reason.
 */
export async function pullInProcess(
  task: PullTask,
  report: (event: PullEvent) => void,
  signal: AbortSignal,
): Promise<string | null> {
  signal.throwIfAborted()
  const child = spawnLimited({
    program: PROGRAM,
    options: [`--max-old-space-size=${HEAP_MB}`],
    // The process needs the server's settings, token and proxies for the hub.
    environment: process.env,
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    memoryBytes: MEMORY_BYTES,
  })
  let late: NodeJS.Timeout | undefined
  const send = (message: PullTask | 'stop') => child.send(message, () => {})
  const stop = () => {
    send('stop')
    late = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
  }
  signal.addEventListener('abort', stop)
  let result: { readonly id: string | null } | null = null
  let failure: PullFailure = { kind: 'refused', message: `${task.address} cannot be read within a pull's memory` }
  child.on('message', (message: PullMessage) => {
    if (message.type === 'ended') result = message
    else if (message.type === 'failed') failure = message.failure
    else if (!signal.aborted) report(message.event)
  })
  send(task)
  try {
    await new Promise<void>((resolve, reject) => {
      child.once('close', (_code, endedBy: NodeJS.Signals | null) => {
        // The process sends itself no other signal: the system, out of memory, or the operator did.
        if (endedBy !== null && !OWN_ENDS.has(endedBy)) failure = INTERRUPTED
        resolve()
      })
      child.once('error', (error) => reject(internalError(error)))
    })
  } finally {
    clearTimeout(late)
    signal.removeEventListener('abort', stop)
  }
  // Only the listener assigns `result`, which the compiler does not see.
  const ended = result as { readonly id: string | null } | null
  if (ended !== null) return ended.id
  signal.throwIfAborted()
  throw errorOf(failure)
}

function errorOf({ kind, message }: PullFailure): ApiError {
  switch (kind) {
    case 'refused':
      return invalidRequest(message, 'model', { code: 'pull_failed' })
    case 'unavailable':
      return serviceUnavailable(message, RETRY_SECONDS)
    case 'disk':
      return new ApiError(message, { status: 507, type: 'server_error', code: 'disk_full' })
    case 'folder':
      return new ApiError(message, { status: 500, type: 'server_error', code: 'model_store_unusable' })
    case 'internal':
      return internalError(new Error(message))
  }
}
