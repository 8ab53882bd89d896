import { createHash } from 'node:crypto'
import { statSync } from 'node:fs'
import type { Numerics } from '../../contract/engine.ts'
import type { EngineSettings } from '../protocol.ts'
import { FORMAT } from './piece-file.ts'

/**
 * Identifies everything that determines the content of a saved sequence: what its numbers depend on, the modification times
 * of the weights, and the storage format. Only an engine with the same fingerprint can use the files.
 */
export function fingerprint(settings: EngineSettings, numerics: Pick<Numerics, 'fingerprint'>): string {
  // All settings count except those listed here, so a new one counts by default.
  const {
    model,
    modelParts = [model],
    projector,
    // The keys of what adapters compute have hashes of them.
    adapters: _adapters,
    origin: _origin,
    maxSequences: _maxSequences,
    printedTokens: _printedTokens,
    repetition: _repetition,
    threads: _threads,
    maxWaiting: _maxWaiting,
    prefixCacheBytes: _prefixCacheBytes,
    encoderCacheBytes: _encoderCacheBytes,
    prefixDisk: _prefixDisk,
    seed: _seed,
    ...determining
  } = settings
  // The samples in `numerics` may miss a change of the weights.
  const changed = [...modelParts, ...(projector === null ? [] : [projector])].map(
    (file) => `${statSync(file, { bigint: true }).mtimeNs}`,
  )
  const hashed = JSON.stringify([FORMAT, numerics.fingerprint, changed, sorted(determining)])
  return createHash('sha256').update(hashed).digest('hex').slice(0, 24)
}

function sorted(fields: object): [string, unknown][] {
  return Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1))
}
