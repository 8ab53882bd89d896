/**
 * How fast attention is by how it is computed: by our kernel over keys and values of 16 and of 8 bits, and by ggml with and
 * without flash attention. The engine alone, as in `engine.ts`.
 */
import { LocalEngine } from '../src/inference/local/host/local-engine.ts'
import { KV_TYPES } from '../src/models/derive/kv-cost.ts'
import { batchedBench, generate, type Speed } from './engine.ts'
import { type Benchmark, type BenchOptions, print } from './support/benchmark.ts'
import { type BenchModel, prepareModel } from './support/models.ts'
import { type Peer, requirePeer } from './support/peer-build.ts'
import { FreshText } from './support/prompts.ts'
import { median } from './support/statistics.ts'
import { table } from './support/table.ts'

/** Words of the prefix, each about one token. */
const DEPTHS = [500, 2000]
const BATCHES = [1, 16]
const FLASH_ATTENTION = ['on', 'off']

export const attention: Benchmark = {
  summary: 'decoding and prefill at a depth: keys and values of 16 and 8 bits, ggml with and without flash attention',
  withPeer: true,

  async run(options) {
    const peer = requirePeer()
    for (const name of options.models) print(await compare(peer, await prepareModel(name), options))
  },
}

async function compare(peer: Peer, model: BenchModel, options: BenchOptions): Promise<string> {
  const repetitions = options.repetitions ?? (options.quick ? 1 : 3)
  const fresh = new FreshText()
  /** By depth, batch and way of computing. */
  const speeds = new Map<string, Speed[]>()
  const keep = (depth: number, batch: number, way: string, speed: Speed) => {
    const key = `${depth} ${batch} ${way}`
    speeds.set(key, [...(speeds.get(key) ?? []), speed])
  }
  const tokens = new Map<number, number>()
  for (let run = 0; run < repetitions; run++) {
    for (const kvType of KV_TYPES) {
      const { card } = model
      const own = await LocalEngine.start({ ...card, engine: { ...card.engine, kvType } } as typeof card)
      try {
        await generate(own, fresh.words(DEPTHS[0]!), BATCHES[0]!)
        for (const depth of DEPTHS) {
          const text = fresh.words(depth)
          const parts = [{ type: 'text', text, trusted: false }] as const
          const { signal } = new AbortController()
          tokens.set(depth, await own.countTokens(parts, { organisation: 'bench', signal }))
          for (const batch of BATCHES) keep(depth, batch, kvType, await generate(own, fresh.words(depth), batch))
        }
      } finally {
        await own.close()
      }
    }
    for (const flashAttention of FLASH_ATTENTION) {
      for (const depth of DEPTHS) {
        const results = await batchedBench(peer, model, tokens.get(depth)!, { batches: BATCHES, flashAttention })
        for (const [i, batch] of BATCHES.entries()) keep(depth, batch, flashAttention, results[i]!)
      }
    }
  }
  const ways = [...KV_TYPES, ...FLASH_ATTENTION]
  const rows = DEPTHS.flatMap((depth) =>
    BATCHES.map((batch) => [
      `${tokens.get(depth)}, ${batch}`,
      ...(['decode', 'prefill'] as const).flatMap((field) =>
        ways.map((way) => median(speeds.get(`${depth} ${batch} ${way}`)!.map((speed) => speed[field])).toFixed(0)),
      ),
    ]),
  )
  const columns = ['Lookout, f16', 'Lookout, q8_0', 'ggml, flash attention', 'ggml without']
  return `### Attention, ${model.name}, ${model.threads} thread${model.threads === 1 ? '' : 's'} each

Tokens per second, medians of ${repetitions} repetition${repetitions === 1 ? '' : 's'}; ggml by llama-batched-bench.

${table(['prefix, sequences', ...['decode', 'prefill'].flatMap((what) => columns.map((of) => `${what}: ${of}`))], rows)}`
}
