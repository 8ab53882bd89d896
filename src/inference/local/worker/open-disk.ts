import type { Numerics } from '../../contract/engine.ts'
import { DiskPrefixes } from '../disk/disk-prefixes.ts'
import { fingerprint } from '../disk/fingerprint.ts'
import { PieceStore } from '../disk/piece-store.ts'
import type { EngineSettings } from '../protocol.ts'
import { PrefillCosts } from '../scheduler/batch/prefill-costs.ts'
import type { SchedulerDisk } from '../scheduler/scheduler.ts'

/**
 * Opens the prefix cache on disk, if the settings name one. If that fails, nothing is stored there, and standard error says
 * why.
 */
export function openDisk(settings: EngineSettings, numerics: Pick<Numerics, 'fingerprint'>): SchedulerDisk | null {
  const { prefixDisk } = settings
  if (prefixDisk === undefined || settings.prefixCacheBytes === 0) return null
  try {
    const store = new PieceStore({ ...prefixDisk, fingerprint: fingerprint(settings, numerics) })
    const opening = store.open()
    opening.catch((error: Error) => warn(prefixDisk.directory, error))
    const costs = new PrefillCosts()
    const costOf: PrefillCosts['of'] = (key, from, to) => costs.of(key, from, to)
    const keepsAll = prefixDisk.keepsAll ?? false
    return { prefixes: new DiskPrefixes({ store, opening, costOf, keepsAll }), costs }
  } catch (error) {
    warn(prefixDisk.directory, error as Error)
    return null
  }
}

function warn(directory: string, error: Error): void {
  process.stderr.write(`The prefix cache cannot use ${directory}: ${error.message}\n`)
}
