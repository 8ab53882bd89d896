/**
 * What a benchmark compares this tree with: the peer, or, with `--against PATH`, another tree of Lookout. That tree runs its
 * own sources with the kernels and packages of its own set-up.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { LocalEngine } from '../../src/inference/local/host/local-engine.ts'
import { run } from '../../src/setup/run.mjs'
import { type BenchOptions, UsageError } from './benchmark.ts'
import { type BenchModel, SHIPPED_CARD } from './models.ts'
import { requirePeer } from './peer-build.ts'
import { type BenchServer, type PeerOptions, startLookout, startPeer } from './server.ts'
import { median, medianInterval, medianRatio } from './statistics.ts'
import { table } from './table.ts'

/** Rounds of a comparison with another tree, for small models and others: so few that the interval has the two extremes. */
const ROUNDS = { small: 12, large: 6 }

/** Figures of one row, in pairs. */
export interface Compared {
  readonly row: string
  readonly now: readonly number[]
  readonly other: readonly number[]
}

/**
 * Has the other tree compile its kernels for the processor, if that is not this machine's. Called before `useProcessor`.
 * @throws UsageError where there is no such tree.
 */
export async function prepareTree(path: string, processor: string): Promise<void> {
  if (!existsSync(join(path, 'src/main.ts')) || !existsSync(join(path, 'node_modules'))) {
    throw new UsageError(`${path} is no tree of Lookout in which npm install has run.`)
  }
  if (processor === 'native') return
  const module = pathToFileURL(join(path, 'bench/support/processor.ts')).href
  await run(process.execPath, ['--input-type=module', '-e', `(await import('${module}')).useProcessor('${processor}')`])
}

/** @returns what starts the server to compare with. @throws SetupError when a peer is needed and not built. */
export function otherServer({
  against,
}: BenchOptions): (model: BenchModel, settings: PeerOptions) => Promise<BenchServer> {
  if (against !== null) {
    const program = join(against, 'src/main.ts')
    // Our card of the shipped model may say what that tree does not know, and its own is for the same weights.
    const cardOf = ({ cardFile }: BenchModel) => (cardFile === SHIPPED_CARD ? null : cardFile)
    return (model) => startLookout(cardOf(model), model.id, { name: 'the other tree', program })
  }
  const peer = requirePeer()
  return (model, settings) => startPeer(peer, model, settings)
}

/** Starts the engine of another tree; its supervisor runs in this process. */
export async function otherEngine(path: string, { cardFile }: BenchModel): Promise<LocalEngine> {
  const load = (name: string) => import(pathToFileURL(join(path, 'src', name)).href)
  const { loadLocalCard } = await load('models/card.ts')
  const { LocalEngine } = await load('inference/local/host/local-engine.ts')
  return LocalEngine.start(await loadLocalCard(cardFile))
}

export function roundsAgainst({ quick, repetitions }: BenchOptions, { isSmall }: BenchModel): number {
  return repetitions ?? (quick ? ROUNDS.large : isSmall ? ROUNDS.small : ROUNDS.large)
}

export function againstTable(title: string, about: string, rounds: number, rows: readonly Compared[]): string {
  return `### ${title}, against another tree

${about} Medians of ${rounds === 1 ? '1 round' : `${rounds} rounds or more`} in turn. The ratio is the median of the rounds' ratios, with an interval that holds it with at least 95 %.

${table(
  ['', 'rounds', 'before', 'now', 'now / before', '95 % interval'],
  rows.map(({ row, now, other }) => {
    const interval = medianInterval(now.map((value, index) => value / other[index]!))
    const digits = (value: number) => (value < 10 ? value.toFixed(2) : value.toFixed(0))
    return [
      row,
      String(now.length),
      digits(median(other)),
      digits(median(now)),
      medianRatio(now, other).toFixed(3),
      interval === null ? 'needs 6 rounds' : interval.map((value) => value.toFixed(3)).join(' to '),
    ]
  }),
)}`
}
