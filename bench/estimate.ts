/**
 * What the catalogue says of a model's speed before it is fetched, against the speed of the loaded model. Both are of
 * this machine: the estimate from a measurement as `lookout pull` makes it, the speed from one reply at a time.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { estimateSpeed } from '../src/catalogue/speed-estimate.ts'
import { machineSpeed } from '../src/inference/engines/engines.ts'
import { LocalEngine } from '../src/inference/local/host/local-engine.ts'
import { readGgufHeader } from '../src/models/read/gguf.ts'
import { tensorBytes } from '../src/models/read/gguf-writer.ts'
import { generate } from './engine.ts'
import { type Benchmark, print } from './support/benchmark.ts'
import { type BenchModel, type BenchModelName, prepareModel } from './support/models.ts'
import { FreshText } from './support/prompts.ts'
import { median } from './support/statistics.ts'
import { table } from './support/table.ts'

const MODELS: readonly BenchModelName[] = ['half-billion', 'two-billion']
const PROMPT_WORDS = 500
/** By which an estimate may be too high or too low. */
const FACTOR = 1.5

interface Speeds {
  readonly tokensPerSecond: number
  readonly promptTokensPerSecond: number
}

export const estimate: Benchmark = {
  summary: "the catalogue's estimate of a model's speed on this machine, against its speed",
  withPeer: false,

  async run({ quick, repetitions }) {
    const runs = repetitions ?? (quick ? 1 : 3)
    const ratios: number[] = []
    const rows: string[][] = []
    for (const name of MODELS) {
      const model = await prepareModel(name)
      const [estimated, measured] = await compare(model, runs)
      const row = (field: keyof Speeds) => {
        const ratio = estimated[field] / measured[field]
        ratios.push(ratio)
        return [estimated[field].toFixed(1), measured[field].toFixed(1), ratio.toFixed(2)]
      }
      rows.push([model.name, 'reply', ...row('tokensPerSecond')])
      rows.push([model.name, 'prompt', ...row('promptTokensPerSecond')])
    }
    const isWithin = ratios.every((ratio) => Math.max(ratio, 1 / ratio) <= FACTOR)
    print(`### Estimated speed

Tokens per second of one request alone; medians of ${runs} repetition${runs === 1 ? '' : 's'} in turn.

${table(['model', '', 'estimated', 'measured', 'ratio'], rows)}
All within a factor of ${FACTOR}: ${isWithin ? 'yes' : 'no'}.
`)
  },
}

async function compare({ card, model }: BenchModel, runs: number): Promise<[Speeds, Speeds]> {
  const { tensors } = await readGgufHeader(model)
  const cost = {
    bytes: tensors.reduce((sum, tensor) => sum + tensorBytes(tensor), 0),
    parameters: tensors.reduce((sum, { shape }) => sum + shape.reduce((product, side) => product * side, 1), 0),
  }
  const engine = await LocalEngine.start(card, { backend: 'cpu' })
  try {
    const fresh = new FreshText()
    await generate(engine, fresh.words(PROMPT_WORDS), 1)
    const estimated: Speeds[] = []
    const measured: Speeds[] = []
    for (let run = 0; run < runs; run++) {
      const { decode, prefill } = await generate(engine, fresh.words(PROMPT_WORDS), 1)
      measured.push({ tokensPerSecond: decode, promptTokensPerSecond: prefill })
      estimated.push(estimateSpeed(cost, await freshSpeed()))
    }
    return [mediansOf(estimated), mediansOf(measured)]
  } finally {
    await engine.close()
  }
}

/** The speed of this machine, with nothing that an earlier measurement kept. */
async function freshSpeed() {
  const dataDirectory = await mkdtemp(join(tmpdir(), 'lookout-estimate-'))
  try {
    const speed = await machineSpeed({ dataDirectory, backend: 'cpu' })
    if (speed === null) throw new Error('This machine cannot be measured.')
    return speed
  } finally {
    await rm(dataDirectory, { recursive: true, force: true })
  }
}

function mediansOf(speeds: readonly Speeds[]): Speeds {
  const of = (field: keyof Speeds) => median(speeds.map((speed) => speed[field]))
  return { tokensPerSecond: of('tokensPerSecond'), promptTokensPerSecond: of('promptTokensPerSecond') }
}
