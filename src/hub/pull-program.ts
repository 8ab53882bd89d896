/**
 * Entry point of the process in which a server pulls a model. Hashing and decrypting gigabytes would delay its replies,
 * and a list of files may be crafted to fill its memory.
 */
import { ConfigError } from '../config/config.ts'
import { memoryForModels } from '../models/machine-memory.ts'
import { ConnectionError } from './download/http-client.ts'
import { FullDiskError, HubError } from './hub-error.ts'
import { readHubSettings } from './hub-settings.ts'
import { pull } from './pull.ts'
import type { PullFailure, PullMessage, PullTask } from './pull-process.ts'
import { TUNING } from './tuning.ts'

const stop = new AbortController()
let hasChosen = false

process.once('message', (task: PullTask) => {
  process.once('message', () => stop.abort())
  // Complete parts stay, and the next pull continues after them.
  process.once('disconnect', () => process.exit())
  void run(task)
})

async function run({ address, projector, isDryRun, store, memoryLimitBytes, speed }: PullTask): Promise<void> {
  try {
    const { ids } = await pull(
      { address, quant: null, projector: projector === 'none' ? null : 'auto', id: null },
      {
        settings: await readHubSettings(process.env),
        store,
        available: memoryForModels(memoryLimitBytes),
        machineSpeed: async () => speed,
        tuning: TUNING,
        signal: stop.signal,
        report: (event) => {
          if (hasChosen) return
          tell({ type: 'event', event })
          if (event.type !== 'choice' || !isDryRun) return
          hasChosen = true
          stop.abort()
        },
      },
    )
    end({ type: 'ended', id: ids[0]! })
  } catch (error) {
    end(hasChosen ? { type: 'ended', id: null } : { type: 'failed', failure: failureOf(error as Error) })
  }
}

function tell(message: PullMessage, sent?: () => void): void {
  process.send!(message, undefined, undefined, sent)
}

function end(message: PullMessage): void {
  tell(message, () => process.exit())
}

/** Error codes for a folder that cannot be used. */
const FOLDER_ERRORS: ReadonlySet<string | undefined> = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'EISDIR', 'EIO'])
const DISK_ERRORS: ReadonlySet<string | undefined> = new Set(['ENOSPC', 'EDQUOT'])

function failureOf(error: Error): PullFailure {
  if (error instanceof FullDiskError) return { kind: 'disk', message: error.told }
  if (error instanceof HubError) {
    return { kind: error.cause instanceof ConnectionError ? 'unavailable' : 'refused', message: error.told }
  }
  if (error instanceof ConfigError) return { kind: 'refused', message: error.message }
  const { code } = error as NodeJS.ErrnoException
  if (DISK_ERRORS.has(code)) return { kind: 'disk', message: 'The disk of the server is full' }
  if (FOLDER_ERRORS.has(code)) {
    return { kind: 'folder', message: `The server cannot use the folders in which it keeps models (${code})` }
  }
  return { kind: 'internal', message: error.stack ?? error.message }
}
