/** Entry of the thread in which a server pulls a model. Hashing and decrypting gigabytes would hold up its replies. */
import { parentPort, workerData } from 'node:worker_threads'
import { ConfigError } from '../config/config.ts'
import { availableMemory } from '../models/machine-memory.ts'
import { ConnectionError } from './http-client.ts'
import { FullDiskError, HubError } from './hub-error.ts'
import { readHubSettings } from './hub-settings.ts'
import { pull } from './pull.ts'
import type { PullFailure, PullMessage, PullTask } from './pull-thread.ts'
import { TUNING } from './tuning.ts'

const { address, projector, isDryRun, store, memoryLimitBytes } = workerData as PullTask
const port = parentPort!
const post = (message: PullMessage) => port.postMessage(message)
const stop = new AbortController()
let hasChosen = false
port.once('message', () => stop.abort())

try {
  const { ids } = await pull(
    { address, quant: null, projector: projector === 'none' ? null : 'auto', id: null },
    {
      settings: await readHubSettings(process.env),
      store,
      available: Math.min(availableMemory(), memoryLimitBytes ?? Number.POSITIVE_INFINITY),
      tuning: TUNING,
      signal: stop.signal,
      report: (event) => {
        if (hasChosen) return
        post({ type: 'event', event })
        if (event.type !== 'choice' || !isDryRun) return
        hasChosen = true
        stop.abort()
      },
    },
  )
  post({ type: 'ended', id: ids[0]! })
} catch (error) {
  if (hasChosen) post({ type: 'ended', id: null })
  else post({ type: 'failed', failure: failureOf(error as Error) })
} finally {
  port.close()
}

function failureOf(error: Error): PullFailure {
  const { message } = error
  if (error instanceof FullDiskError) return { kind: 'disk', message }
  if (error instanceof HubError && error.cause instanceof ConnectionError) return { kind: 'unreachable', message }
  if (error instanceof HubError || error instanceof ConfigError) return { kind: 'refused', message }
  return { kind: 'internal', message: error.stack ?? message }
}
