/**
 * How long a token takes to be chosen from a row of logits, by what the request asks for: Lookout's samplers with and
 * without compiled kernels, and llama.cpp's chain of samplers. It is what a step costs beside the model itself, for each
 * sequence: little beside a CPU, much beside a GPU. In this process, without an engine; llama.cpp's samplers are those of the
 * library from npm, not of the peer.
 */

import { GREEDY } from '../src/inference/contract/greedy.ts'
import type { Sampling } from '../src/inference/contract/work.ts'
import { chooseFrom, rankTokens } from '../src/inference/local/native/choice.ts'
import { Context } from '../src/inference/local/native/context.ts'
import { loadNativeLibraries } from '../src/inference/local/native/libraries.ts'
import { PLAIN_OPERATIONS } from '../src/inference/local/native/logits-operations.ts'
import { Model } from '../src/inference/local/native/model.ts'
import { locateNativeLibraries } from '../src/inference/local/native/native-paths.ts'
import { DrawingSampler } from '../src/inference/local/sampling/drawing-sampler.ts'
import { GreedySampler } from '../src/inference/local/sampling/greedy-sampler.ts'
import type { FreeSampler, Rows } from '../src/inference/local/sampling/sampler.ts'
import { type Benchmark, type BenchOptions, print } from './support/benchmark.ts'
import { LlamaSampler } from './support/llama-sampler.ts'
import { type BenchModel, prepareModel } from './support/models.ts'
import { median } from './support/statistics.ts'
import { table } from './support/table.ts'

const RANDOM: Sampling = { ...GREEDY, temperature: 0.7 }
const KINDS: readonly (readonly [name: string, sampling: Sampling])[] = [
  ['the likeliest token', GREEDY],
  ['temperature .7', RANDOM],
  ['temperature .7, top_k 20, top_p .8', { ...RANDOM, topK: 20, topP: 0.8 }],
  ['temperature .7, top_p .9', { ...RANDOM, topP: 0.9 }],
]
/** Number of the alternatives beside each token. */
const LOG_PROBS = 5
const ROWS = 16
const MEASURED_MS = 200

export const sampling: Benchmark = {
  summary: "choosing a token from a row of logits, beside llama.cpp's samplers",
  withPeer: false,

  async run(options) {
    for (const name of options.models) print(measure(await prepareModel(name), options))
  },
}

function measure({ name, model: file }: BenchModel, { repetitions, quick }: BenchOptions): string {
  const paths = locateNativeLibraries()
  const native = loadNativeLibraries(paths)
  const model = new Model(native.llama, file, [])
  const context = new Context(native, model, { cells: 256, sequences: ROWS, threads: 1, batchRows: ROWS })
  const count = repetitions ?? (quick ? 1 : 5)
  try {
    for (let row = 0; row < ROWS; row++) context.batch.add(100 + row, 0, row, true)
    context.decodeBatch()
    const plain: Rows = { choose: (row, ask) => chooseFrom(PLAIN_OPERATIONS, context.logits(row), ask) }
    const usOf = (choose: (row: number) => void) => median(Array.from({ length: count }, () => time(choose)))
    const cells = (us: readonly (number | null)[]) => us.map((one) => (one === null ? '' : one.toFixed(0)))
    const rows = KINDS.map(([kind, asked]) => {
      const sampler: FreeSampler = asked.temperature === 0 ? new GreedySampler() : new DrawingSampler(asked, 1)
      const chain = new LlamaSampler(paths.llama, asked)
      try {
        const own = usOf((row) => sampler.sample(context, row))
        const ownPlain = usOf((row) => sampler.sample(plain, row))
        const peer = usOf((row) => chain.sample(context.handle, row))
        return [kind, ...cells([own, ownPlain, peer]), (peer / own).toFixed(1)]
      } finally {
        chain.close()
      }
    })
    const ranked = [context.operations, PLAIN_OPERATIONS].map((operations) =>
      usOf((row) => rankTokens(operations, context.logits(row), 1, LOG_PROBS)),
    )
    rows.push([`log-probabilities, ${LOG_PROBS} alternatives`, ...cells([...ranked, null]), ''])
    return `### Choosing a token, vocabulary of ${name}: ${model.vocabularySize} tokens

µs for each row of logits on one thread, medians of ${count} repetition${count === 1 ? '' : 's'}. llama.cpp's samplers are those of the library that Lookout uses.

${table(['', 'Lookout', 'Lookout without compiled kernels', "llama.cpp's samplers", 'times faster'], rows)}`
  } finally {
    context.close()
    model.close()
  }
}

/** µs that a choice takes. */
function time(choose: (row: number) => void): number {
  choose(0)
  const started = performance.now()
  let chosen = 0
  while (performance.now() - started < MEASURED_MS) for (let row = 0; row < ROWS; row++, chosen++) choose(row)
  return ((performance.now() - started) * 1000) / chosen
}
