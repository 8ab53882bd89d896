/**
 * Runs the benchmarks. Each prints a Markdown table with the machine, the versions and the number of repetitions.
 *
 * Usage: npm run bench [-- NAME [--quick] [--repetitions N] [--model NAME] [--against PATH]
 *   [--peer-threads N] [--processor NAME] [--jobs N]
 *   [--data FOLDER] [--limit N] [--python PROGRAM] [--only PART,...] [--anyway] [--json FILE]]
 */
import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { SetupError } from '../src/setup/native-library.mjs'
import { accounts } from './accounts.ts'
import { all } from './all.ts'
import { attention } from './attention.ts'
import { batchLines } from './batch-lines.ts'
import { batches } from './batches.ts'
import { besideImage } from './beside-image.ts'
import { bfcl } from './bfcl.ts'
import { conversation } from './conversation.ts'
import { decisions } from './decisions.ts'
import { decisionsVllm } from './decisions-vllm.ts'
import { detect } from './detect.ts'
import { detectTiles } from './detect-tiles.ts'
import { detectTracks } from './detect-tracks.ts'
import { embeddedDatabase } from './embedded-database.ts'
import { embeddings } from './embeddings.ts'
import { engine } from './engine.ts'
import { estimate } from './estimate.ts'
import { fairness } from './fairness.ts'
import { firstLight } from './first-light.ts'
import { flood } from './flood.ts'
import { frontEnd } from './front-end.ts'
import { gpu } from './gpu.ts'
import { jsonSchema } from './json-schema.ts'
import { media } from './media.ts'
import { memory } from './memory.ts'
import { memorySettings } from './memory-settings.ts'
import { multilook } from './multilook.ts'
import { neighbours } from './neighbours.ts'
import { overhead } from './overhead.ts'
import { overload } from './overload.ts'
import { peer } from './peer.ts'
import { products } from './products.ts'
import { requestMemory } from './request-memory.ts'
import { restart } from './restart.ts'
import { same } from './same.ts'
import { sampling } from './sampling.ts'
import { speculation } from './speculation.ts'
import { studio } from './studio.ts'
import { prepareTree } from './support/against.ts'
import { type Benchmark, print, UsageError } from './support/benchmark.ts'
import { Disturbance, machineFacts } from './support/machine.ts'
import { type BenchModelName, MODEL_NAMES, USUAL_MODELS } from './support/models.ts'
import { useProcessor } from './support/processor.ts'
import { throughput } from './throughput.ts'
import { traces } from './traces.ts'
import { twoModels } from './two-models.ts'
import { vllm } from './vllm.ts'
import { watch } from './watch.ts'
import { watchCameras } from './watch-cameras.ts'
import { watchGrowth } from './watch-growth.ts'

const BENCHMARKS: Record<string, Benchmark> = {
  all,
  'first-light': firstLight,
  multilook,
  decisions,
  embeddings,
  detect,
  'detect-tracks': detectTracks,
  throughput,
  conversation,
  restart,
  engine,
  gpu,
  estimate,
  products,
  attention,
  same,
  sampling,
  speculation,
  overhead,
  traces,
  'front-end': frontEnd,
  neighbours,
  'two-models': twoModels,
  fairness,
  'beside-image': besideImage,
  watch,
  'watch-cameras': watchCameras,
  'watch-growth': watchGrowth,
  batches,
  'batch-lines': batchLines,
  'detect-tiles': detectTiles,
  overload,
  accounts,
  'embedded-database': embeddedDatabase,
  memory,
  'memory-settings': memorySettings,
  'request-memory': requestMemory,
  media,
  flood,
  studio,
  vllm,
  'decisions-vllm': decisionsVllm,
  'json-schema': jsonSchema,
  bfcl,
}

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      quick: { type: 'boolean', default: false },
      repetitions: { type: 'string' },
      model: { type: 'string', multiple: true },
      against: { type: 'string' },
      'peer-threads': { type: 'string' },
      jobs: { type: 'string' },
      processor: { type: 'string', default: 'native' },
      data: { type: 'string' },
      limit: { type: 'string' },
      python: { type: 'string' },
      only: { type: 'string' },
      anyway: { type: 'boolean', default: false },
      json: { type: 'string' },
    },
  })
  const [name] = positionals
  if (name === undefined) return list()
  const models = (values.model ?? BENCHMARKS[name]?.models ?? USUAL_MODELS) as readonly BenchModelName[]
  const unknown = models.find((model) => !MODEL_NAMES.includes(model))
  if (unknown !== undefined)
    throw new UsageError(`Unknown model "${unknown}". The models are ${MODEL_NAMES.join(', ')}.`)
  const options = {
    quick: values.quick,
    repetitions: values.repetitions === undefined ? null : positive(values.repetitions),
    models,
    peerThreads: values['peer-threads'] === undefined ? null : positive(values['peer-threads']),
    against: values.against === undefined ? null : resolve(values.against),
    processor: values.processor,
    jobs: values.jobs === undefined ? availableParallelism() : positive(values.jobs),
    data: values.data ?? null,
    limit: values.limit === undefined ? null : positive(values.limit),
    python: values.python ?? null,
    only: values.only?.split(',') ?? null,
    anyway: values.anyway,
    json: values.json ?? null,
  }
  if (options.against !== null) {
    if (!BENCHMARKS[name]?.comparesTrees) throw new UsageError(`"${name}" does not compare trees.`)
    await prepareTree(options.against, values.processor)
  }
  // `products` compiles what it compares by itself.
  if (values.processor !== 'native' && name !== 'products') await useProcessor(values.processor)
  if (name === 'peer') return peer.run(options)
  const benchmark = BENCHMARKS[name]
  if (benchmark === undefined) throw new UsageError(`Unknown benchmark "${name}". "npm run bench" lists them.`)

  const facts = await machineFacts(benchmark, options)
  const disturbance = await Disturbance.watch()
  await benchmark.run(options)
  const date = new Date().toISOString().slice(0, 10)
  const report = disturbance === null ? '' : `; ${await disturbance.report()}`
  print(`${options.quick ? 'A quick run, ' : ''}${date}, on ${facts}${report}.`)
}

function list(): void {
  const width = Math.max(...Object.keys(BENCHMARKS).map((name) => name.length))
  const line = ([name, { summary }]: readonly [string, Benchmark]) => `  ${name.padEnd(width)}  ${summary}`
  const comparing = Object.keys(BENCHMARKS).filter((name) => BENCHMARKS[name]!.comparesTrees)
  print(`Usage: npm run bench -- NAME [--quick] [--repetitions N] [--model MODEL] [--against PATH]
  [--peer-threads N] [--processor NAME]

${Object.entries(BENCHMARKS).map(line).join('\n')}

Models: ${MODEL_NAMES.join(', ')}; several with --model twice. Without it: ${USUAL_MODELS.join(' and ')}.

Run once first: npm run bench -- peer [--jobs N] [--processor NAME]
  ${' '.repeat(width)}  ${peer.summary}

--against measures another tree of Lookout, in which npm install has run, in place of the peer: ${comparing.join(', ')}.

Run them on an idle machine. Each run measures both servers in turn: ratios carry over to other machines, times do not.`)
}

function positive(text: string): number {
  const value = Number(text)
  if (!Number.isInteger(value) || value < 1) throw new UsageError(`Expected a positive integer, got "${text}".`)
  return value
}

// A regular exit also ends the servers.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))

await main().catch((error: Error) => {
  process.stderr.write(
    `bench: ${error instanceof UsageError || error instanceof SetupError ? error.message : error.stack}\n`,
  )
  process.exit(1)
})
