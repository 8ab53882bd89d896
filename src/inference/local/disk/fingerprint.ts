import { createHash } from 'node:crypto'
import { statSync } from 'node:fs'
import type { Numerics } from '../../contract/engine.ts'
import type { EngineSettings } from '../protocol.ts'
import { FORMAT } from './piece-file.ts'

/**
 * Names everything that determines the content of a saved sequence: what its numbers depend on, the times of change of the
 * weights, and how it is stored. What is on disk is of use to an engine with the same fingerprint only.
 */
export function fingerprint(settings: EngineSettings, numerics: Pick<Numerics, 'fingerprint'>): string {
  // All settings count, but for those that are listed here: a new one then counts until somebody finds that it need not.
  const {
    model,
    modelParts = [model],
    projector,
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
  // Samples of the weights may miss a change.
  const changed = [...modelParts, ...(projector === null ? [] : [projector])].map(
    (file) => `${statSync(file, { bigint: true }).mtimeNs}`,
  )
  const hashed = JSON.stringify([FORMAT, numerics.fingerprint, changed, sorted(determining)])
  return createHash('sha256').update(hashed).digest('hex').slice(0, 24)
}

function sorted(fields: object): [string, unknown][] {
  return Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1))
}
