/**
 * Checks that models of every family compute right: greedy replies and probabilities as llama-server of the same release
 * gives them, and the same replies wherever the engine reuses what it has computed. `embeddings` compares vectors and
 * scores of each pooling. The models are tiny, with random weights, and are generated for each run.
 *
 * Usage: npm run parity -- families [MODEL...]
 *        npm run parity -- embeddings
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { SetupError } from '../../src/setup/native-library.mjs'
import { TINY_MODELS } from '../../test/support/tiny-models/tiny-models.ts'
import { print } from '../support/benchmark.ts'
import { type Peer, requirePeer } from '../support/peer-build.ts'
import { checkFamily } from './family.ts'
import { type Report, report } from './report.ts'
import { checkVectors } from './vectors.ts'

/** An invalid command line. */
class UsageError extends Error {}

async function main(): Promise<boolean> {
  const { positionals } = parseArgs({ allowPositionals: true })
  const [what, ...names] = positionals
  if (what !== 'families' && what !== 'embeddings') {
    throw new UsageError('Usage: npm run parity -- families [MODEL...], or npm run parity -- embeddings')
  }
  const unknown = names.find((name) => !TINY_MODELS.some((model) => model.name === name))
  if (unknown !== undefined) {
    const known = TINY_MODELS.map(({ name }) => name).join(', ')
    throw new UsageError(`Unknown model "${unknown}". The models are ${known}.`)
  }
  const peer = requirePeer()
  const folder = await mkdtemp(join(tmpdir(), 'lookout-parity-'))
  try {
    const { table, notes, passed } =
      what === 'embeddings' ? await checkVectors(folder, peer) : await checkFamilies(names, folder, peer)
    print([table, ...notes].join('\n'))
    return passed
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function checkFamilies(names: readonly string[], folder: string, peer: Peer): Promise<Report> {
  const results = []
  for (const model of TINY_MODELS.filter(({ name }) => names.length === 0 || names.includes(name))) {
    process.stderr.write(`${model.name} ...\n`)
    results.push(await checkFamily(model, folder, peer))
  }
  return report(results)
}

// A regular exit also ends the servers.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))

try {
  process.exit((await main()) ? 0 : 1)
} catch (error) {
  const isPlain = error instanceof UsageError || error instanceof SetupError
  process.stderr.write(`parity: ${isPlain ? error.message : (error as Error).stack}\n`)
  process.exit(1)
}
