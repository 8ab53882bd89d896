/**
 * The engine without HTTP, against llama.cpp's own `llama-batched-bench`, or that of another tree: `Engine.generate` with one prefix and several
 * branches against a shared prompt, and several calls of it against separate prompts. The peer neither samples nor
 * detokenises. Lookout's engine does both, in a separate process that sends its events to this one.
 */

import { setTimeout } from 'node:timers/promises'
import { GREEDY } from '../src/inference/contract/greedy.ts'
import type { Branch } from '../src/inference/contract/work.ts'
import { LocalEngine } from '../src/inference/local/host/local-engine.ts'
import { run as runProgram } from '../src/setup/run.mjs'
import { againstTable, type Compared, otherEngine, roundsAgainst } from './support/against.ts'
import { type Benchmark, type BenchOptions, print } from './support/benchmark.ts'
import { inTurn } from './support/in-turn.ts'
import { type BenchModel, prepareModel } from './support/models.ts'
import { type Peer, requirePeer } from './support/peer-build.ts'
import { FreshText } from './support/prompts.ts'
import { median, medianRatio } from './support/statistics.ts'
import { table } from './support/table.ts'

export const BATCHES = [1, 2, 4, 8, 16, 32]
/** Sequences with a prompt of their own each. */
const APART = [4, 16]
/** Time that their prompts may take together, in s. */
const LONGEST_PREFILL_S = 20
/** Tokens of each prompt that are measured. By comparison, asking for their number takes no time. */
const APART_TOKENS = 128
const ASKING_MS = 10
/** Tokens that may be generated before all prompts are prefilled. */
const SPARE_TOKENS = 1000
const OUTPUT_TOKENS = 32
/** How long a row is measured against another tree: short rounds differ more, so there are more of them. */
const ROW_MS = 30_000
export const PREFIX_WORDS = 500
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
  summary: 'the engine alone, against llama-batched-bench: sequences with one prompt, and with a prompt each',
  withPeer: true,
  comparesTrees: true,

  async run(options) {
    const peer = options.against === null ? requirePeer() : null
    for (const name of options.models) {
      const model = await prepareModel(name)
      const own = await LocalEngine.start(model.card)
      try {
        if (peer === null) {
          print(await compareTrees(model, own, options))
          continue
        }
        print(await compare(peer, model, own, options))
        print(await compareApart(peer, model, own, options))
      } finally {
        await own.close()
      }
    }
  },
}

function repetitionsOf(model: BenchModel, options: BenchOptions): number {
  return options.repetitions ?? (options.quick ? 1 : model.isSmall ? 7 : 3)
}

async function compareTrees(model: BenchModel, own: LocalEngine, options: BenchOptions): Promise<string> {
  const other = await otherEngine(options.against!, model)
  try {
    const rounds = roundsAgainst(options, model)
    const fresh = new FreshText()
    const rows: Compared[] = []
    const prefill: { readonly now: number[]; readonly other: number[] } = { now: [], other: [] }
    const until = { least: rounds, ms: options.quick ? 0 : ROW_MS }
    const tokens = await countTokens(own, fresh.words(PREFIX_WORDS))
    for (const batch of BATCHES) {
      const text = () => fresh.words(PREFIX_WORDS)
      const measure = (engine: LocalEngine) => (prefix: string) => generate(engine, prefix, batch)
      if (batch === BATCHES[0]) await inTurn(1, text, measure(own), measure(other))
      const [now, before] = await inTurn(until, text, measure(own), measure(other))
      const of = (speeds: readonly Speed[], what: keyof Speed) => speeds.map((speed) => speed[what])
      prefill.now.push(...of(now, 'prefill'))
      prefill.other.push(...of(before, 'prefill'))
      rows.push({ row: `decoding, ${batch} with one prompt`, now: of(now, 'decode'), other: of(before, 'decode') })
    }
    rows.unshift({ row: 'prefill', ...prefill })
    for (const batch of APART.filter((count) => fitsApart(count, median(prefill.other)))) {
      const texts = () => Array.from({ length: batch }, () => fresh.words(PREFIX_WORDS))
      const measure = (engine: LocalEngine) => (prompts: readonly string[]) => decodeApart(engine, prompts)
      const [now, before] = await inTurn(until, texts, measure(own), measure(other))
      rows.push({ row: `decoding, ${batch} with a prompt each`, now, other: before })
    }
    const [mb, mbBefore] = (await Promise.all([own.stats(), other.stats()])).map(
      ({ residentBytes }) => residentBytes / 1e6,
    )
    const about = `Prompts of about ${tokens} tokens; tokens per second. At the end, ${mbBefore!.toFixed(0)} MB of the process were resident before, and ${mb!.toFixed(0)} now.`
    return againstTable(`Engine alone, ${model.name}`, about, rounds, rows)
  } finally {
    await other.close()
  }
}

const fitsApart = (batch: number, prefill: number) => (batch * PREFIX_WORDS) / prefill < LONGEST_PREFILL_S

async function compare(peer: Peer, model: BenchModel, own: LocalEngine, options: BenchOptions): Promise<string> {
  const repetitions = repetitionsOf(model, options)
  const fresh = new FreshText()
  const prefixTokens = await countTokens(own, fresh.words(PREFIX_WORDS))
  await generate(own, fresh.words(PREFIX_WORDS), WARM_UP_BATCH)
  const measureOwn = async () => {
    const speeds: Speed[] = []
    for (const batch of BATCHES) speeds.push(await generate(own, fresh.words(PREFIX_WORDS), batch))
    return speeds
  }
  const measurePeer = () => batchedBench(peer, model, prefixTokens)
  const [lookout, batched] = await inTurn(repetitions, () => {}, measureOwn, measurePeer)
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

/** The peer's KV cache holds each sequence by itself, which is its default. */
async function compareApart(peer: Peer, model: BenchModel, own: LocalEngine, options: BenchOptions): Promise<string> {
  const repetitions = repetitionsOf(model, options)
  const fresh = new FreshText()
  const promptTokens = await countTokens(own, fresh.words(PREFIX_WORDS))
  const { prefill } = await generate(own, fresh.words(PREFIX_WORDS), WARM_UP_BATCH)
  const batches = APART.filter((batch) => fitsApart(batch, prefill))
  const measureOwn = async () => {
    const speeds: number[] = []
    for (const batch of batches) {
      const texts = Array.from({ length: batch }, () => fresh.words(PREFIX_WORDS))
      speeds.push(await decodeApart(own, texts))
    }
    return speeds
  }
  const measurePeer = () =>
    batchedBench(peer, model, promptTokens, { batches, shared: false, outputTokens: APART_TOKENS })
  const [lookout, batched] = await inTurn(repetitions, () => {}, measureOwn, measurePeer)
  const rows = batches.map((batch, index) => {
    const [own, peers] = [lookout.map((run) => run[index]!), batched.map((run) => run[index]!.decode)]
    return [String(batch), median(own).toFixed(0), median(peers).toFixed(0), medianRatio(own, peers).toFixed(2)]
  })
  return `### Engine alone, a prompt for each sequence, ${model.name}, ${model.threads} thread${model.threads === 1 ? '' : 's'} each

Prompts of about ${promptTokens} tokens with nothing in common, ${APART_TOKENS} tokens for each sequence; tokens per second once all prompts are prefilled. Medians of ${repetitions} repetition${repetitions === 1 ? '' : 's'} in turn.

${table(['sequences', 'Lookout decodes', 'llama-batched-bench decodes', 'ratio'], rows)}`
}

/** @returns generated tokens per second of several requests, once all of them are being decoded. */
async function decodeApart(own: LocalEngine, texts: readonly string[]): Promise<number> {
  const stop = new AbortController()
  const generated = async () => (await own.stats()).decodedTokens
  let waiting = texts.length
  const { promise: allDecode, resolve } = Promise.withResolvers<void>()
  const requests = texts.map(async (text) => {
    const branch: Branch = { suffix: [], n: 1, maxTokens: APART_TOKENS + SPARE_TOKENS, sampling: GREEDY }
    const prefix = [{ type: 'text', text, trusted: false }] as const
    const { events } = await own.generate({ organisation: 'bench', prefix, branches: [branch] }, stop.signal)
    let isFirst = true
    for await (const event of events) {
      if (event.type === 'error') throw event.error
      if (event.type === 'finish') throw new Error('A reply ended before it was measured.')
      if (isFirst && --waiting === 0) resolve()
      isFirst = false
    }
  })
  await Promise.race([allDecode, ...requests])
  const [before, started] = [await generated(), performance.now()]
  let count = 0
  while (count < texts.length * APART_TOKENS) {
    await setTimeout(ASKING_MS)
    count = (await generated()) - before
  }
  const ms = performance.now() - started
  stop.abort()
  await Promise.allSettled(requests)
  return (count / ms) * 1000
}

export function countTokens(own: LocalEngine, text: string): Promise<number> {
  const { signal } = new AbortController()
  return own.countTokens([{ type: 'text', text, trusted: false }], { organisation: 'bench', signal })
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
  options: {
    batches?: readonly number[]
    flashAttention?: string
    /** Whether all sequences have one prompt; their cells are in one KV cache then. */
    shared?: boolean
    outputTokens?: number
  } = {},
): Promise<Speed[]> {
  const { batches = BATCHES, flashAttention = 'auto', shared = true, outputTokens = OUTPUT_TOKENS } = options
  const threads = String(model.threads)
  const output = await runProgram(peer.batchedBench, [
    ...['--model', model.model, '--ctx-size', String(model.card.engine.contextTokens)],
    ...['--batch-size', String(BATCH_ROWS), '--ubatch-size', String(BATCH_ROWS)],
    ...['--threads', threads, '--threads-batch', threads],
    ...[
      '-npp',
      String(prefixTokens),
      '-ntg',
      String(outputTokens),
      '-npl',
      [WARM_UP_BATCH, ...batches].join(','),
      ...(shared ? ['-pps', '--kv-unified'] : []),
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
