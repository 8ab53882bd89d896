/**
 * The engine without HTTP: `Engine.generate` with one prefix and several branches, against llama.cpp's own
 * `llama-batched-bench` with a shared prompt. The peer neither samples nor detokenises. Lookout's engine does both, in
 * a separate process that sends its events to this one.
 */

import type { Branch } from '../src/inference/engine.ts'
import { GREEDY } from '../src/inference/greedy.ts'
import { LocalEngine } from '../src/inference/local/host/local-engine.ts'
import { run as runProgram } from '../src/setup/run.mjs'
import { type Benchmark, type BenchOptions, print } from './support/benchmark.ts'
import { type BenchModel, prepareModel } from './support/models.ts'
import { type Peer, requirePeer } from './support/peer-build.ts'
import { FreshText } from './support/prompts.ts'
import { median, medianRatio } from './support/statistics.ts'
import { table } from './support/table.ts'

const BATCHES = [1, 2, 4, 8, 16, 32]
const OUTPUT_TOKENS = 32
const PREFIX_WORDS = 500
const BATCH_ROWS = 512
/** Batch of the warm-up run, in which memory is touched for the first time. */
const WARM_UP_BATCH = 1

export interface Speed {
  /** Prompt tokens per second. */
  readonly prefill: number
  /** Generated tokens per second, all sequences together. */
  readonly decode: number
}

export const engine: Benchmark = {
  summary: 'the engine alone, against llama-batched-bench: prefill and decoding of 1 to 32 sequences',
  withPeer: true,

  async run(options) {
    const peer = requirePeer()
    for (const name of options.models) {
      const model = await prepareModel(name, peer)
      const own = await LocalEngine.start(model.card)
      try {
        print(await compare(peer, model, own, options))
      } finally {
        await own.close()
      }
    }
  },
}

async function compare(peer: Peer, model: BenchModel, own: LocalEngine, options: BenchOptions): Promise<string> {
  const repetitions = options.repetitions ?? (options.quick ? 1 : model.isSmall ? 7 : 3)
  const fresh = new FreshText()
  const prefix = [{ type: 'text', text: fresh.words(PREFIX_WORDS), trusted: false }] as const
  const prefixTokens = await own.countTokens(prefix, { organisation: 'bench', signal: new AbortController().signal })
  await generate(own, fresh.words(PREFIX_WORDS), WARM_UP_BATCH)
  const lookout: Speed[][] = []
  const batched: Speed[][] = []
  for (let run = 0; run < repetitions; run++) {
    const measureOwn = async () => {
      const speeds: Speed[] = []
      for (const batch of BATCHES) {
        const text = fresh.words(PREFIX_WORDS)
        speeds.push(await generate(own, text, batch))
      }
      lookout.push(speeds)
    }
    const measurePeer = async () => void batched.push(await batchedBench(peer, model, prefixTokens))
    for (const measure of run % 2 === 0 ? [measureOwn, measurePeer] : [measurePeer, measureOwn]) await measure()
  }
  const rows = BATCHES.map((batch, index) => {
    const of = (speeds: readonly Speed[][], field: keyof Speed) => speeds.map((run) => run[index]![field])
    const cells = (field: keyof Speed) => [
      median(of(lookout, field)).toFixed(0),
      median(of(batched, field)).toFixed(0),
      medianRatio(of(lookout, field), of(batched, field)).toFixed(2),
    ]
    return [String(batch), ...cells('decode'), ...cells('prefill')]
  })
  return `### Engine alone, ${model.name}, ${model.threads} thread${model.threads === 1 ? '' : 's'} each

One shared prefix of about ${prefixTokens} tokens, ${OUTPUT_TOKENS} tokens for each sequence; tokens per second, medians of ${repetitions} repetition${repetitions === 1 ? '' : 's'} in turn.

${table(
  [
    'sequences',
    'Lookout decodes',
    'llama-batched-bench decodes',
    'ratio',
    'Lookout prefills',
    'llama-batched-bench prefills',
    'ratio',
  ],
  rows,
)}`
}

/** Derives the times from the events: the first ends the prefill and one step, the last ends the remaining steps. */
export async function generate(own: LocalEngine, text: string, batch: number): Promise<Speed> {
  const branch: Branch = { suffix: [], n: 1, maxTokens: OUTPUT_TOKENS, sampling: GREEDY }
  const started = performance.now()
  const { prompts, events } = await own.generate(
    {
      organisation: 'bench',
      prefix: [{ type: 'text', text, trusted: false }],
      branches: Array.from({ length: batch }, () => branch),
    },
    new AbortController().signal,
  )
  let first = 0
  let generated = 0
  for await (const event of events) {
    if (event.type === 'error') throw event.error
    if (first === 0) first = performance.now()
    if (event.type === 'finish') generated += event.completionTokens
  }
  if (generated !== batch * OUTPUT_TOKENS) throw new Error(`The engine generated ${generated} tokens.`)
  const stepMs = (performance.now() - first) / (OUTPUT_TOKENS - 1)
  return {
    prefill: (prompts[0]!.promptTokens / (first - stepMs - started)) * 1000,
    decode: (batch / stepMs) * 1000,
  }
}

export async function batchedBench(
  peer: Peer,
  model: BenchModel,
  prefixTokens: number,
  { batches = BATCHES, flashAttention = 'auto' }: { batches?: readonly number[]; flashAttention?: string } = {},
): Promise<Speed[]> {
  const threads = String(model.threads)
  const output = await runProgram(peer.batchedBench, [
    ...['--model', model.model, '--ctx-size', String(model.card.engine.contextTokens), '--kv-unified'],
    ...['--batch-size', String(BATCH_ROWS), '--ubatch-size', String(BATCH_ROWS)],
    ...['--threads', threads, '--threads-batch', threads],
    ...[
      '-npp',
      String(prefixTokens),
      '-ntg',
      String(OUTPUT_TOKENS),
      '-npl',
      [WARM_UP_BATCH, ...batches].join(','),
      '-pps',
      ...['--flash-attn', flashAttention],
    ],
    ...['--output-format', 'jsonl'],
  ])
  const lines = output.split('\n').filter((line) => line.startsWith('{'))
  const results = lines.map((line) => JSON.parse(line) as { pl: number; speed_pp: number; speed_tg: number })
  return batches.map((batch) => {
    const result = results.findLast(({ pl }) => pl === batch)
    if (result === undefined) throw new Error(`llama-batched-bench reported nothing for ${batch} sequences:\n${output}`)
    return { prefill: result.speed_pp, decode: result.speed_tg }
  })
}
