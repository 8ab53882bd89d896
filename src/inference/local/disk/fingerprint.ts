import { createHash } from 'node:crypto'
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { LLAMA_RELEASE } from '../../../setup/native-library.mjs'
import type { NativePaths } from '../native/native-paths.ts'
import type { EngineSettings } from '../protocol.ts'
import { FORMAT } from './piece-file.ts'

/** Pieces of a file of weights that are read, beside its first ones. */
const SAMPLES = 256
const SAMPLE_BYTES = 4096
const HEAD_BYTES = 2 ** 20

/**
 * Names everything that determines the content of a saved sequence. What is on disk is of use to an engine with the same
 * fingerprint only. Reads some of the weights: their size, their time of change, their header and samples.
 * @param weights all files of the weights.
 */
export function fingerprint(settings: EngineSettings, paths: NativePaths, weights: readonly string[]): string {
  // All settings count, but for those that are listed here: a new one then counts until somebody finds that it need not.
  const {
    model: _model,
    projector: _projector,
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
  const hash = createHash('sha256')
  const libraries = [
    LLAMA_RELEASE,
    process.platform,
    process.arch,
    nameOf(paths.mtmd),
    nameOf(paths.kernels),
    ...paths.gpu.libraries.map(({ name }) => name),
  ]
  hash.update(JSON.stringify([FORMAT, libraries, sorted(determining)]))
  for (const file of weights) hash.update(digest(file))
  return hash.digest('hex').slice(0, 24)
}

/** The folder of a compiled library is named for its sources and its flags. */
function nameOf(library: string | null): string | null {
  return library === null ? null : basename(dirname(library))
}

function sorted(fields: object): [string, unknown][] {
  return Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1))
}

function digest(path: string): Buffer {
  const file = openSync(path, 'r')
  try {
    const { size, mtimeNs } = fstatSync(file, { bigint: true })
    const hash = createHash('sha256').update(`${size} ${mtimeNs}\0`)
    const buffer = Buffer.allocUnsafe(HEAD_BYTES)
    const add = (at: number, length: number) => hash.update(buffer.subarray(0, readSync(file, buffer, 0, length, at)))
    add(0, HEAD_BYTES)
    for (let i = 1; i <= SAMPLES; i++) add(Math.floor((Number(size) - SAMPLE_BYTES) * (i / SAMPLES)), SAMPLE_BYTES)
    return hash.digest()
  } finally {
    closeSync(file)
  }
}
