/**
 * The figures of a server at rest and of one question: time until it is ready, resident memory of all its processes,
 * time to the first text about a 256 x 256 picture, and decoding speed. Linux only (reads /proc).
 */
import { setTimeout as delay } from 'node:timers/promises'
import { type Benchmark, print } from './support/benchmark.ts'
import { chat } from './support/chat.ts'
import { residentBytes } from './support/process-tree.ts'
import { FreshText } from './support/prompts.ts'
import { startLookout } from './support/server.ts'
import { median } from './support/statistics.ts'
import { table } from './support/table.ts'

const MODEL = 'service-mk1.5'
const MAX_TOKENS = 256
/** After this long all processes have given back what they do not need (`src/lib/memory.ts`). */
const REST_MS = 25_000

export const firstLight: Benchmark = {
  summary: 'a server at rest and one question at a time: start, memory, first text, decoding speed',
  withPeer: false,

  async run({ quick, repetitions }) {
    const runs = repetitions ?? (quick ? 5 : 20)
    await using server = await startLookout(null, MODEL)
    await delay(2000)
    const started = await residentBytes(server.pid)
    const fresh = new FreshText()
    const first: number[] = []
    const speed: number[] = []
    for (let run = 0; run < runs; run++) {
      // A picture of its own each time, so that nothing of it is cached.
      const content = [await fresh.picture(), { type: 'text', text: 'Detect all objects.' } as const]
      const result = await chat(server, [{ role: 'user', content }], MAX_TOKENS)
      first.push(result.firstMs)
      const { completionTokens, totalMs, firstMs } = result
      if (completionTokens > 1) speed.push(((completionTokens - 1) / (totalMs - firstMs)) * 1000)
    }
    const used = await residentBytes(server.pid)
    await delay(REST_MS)
    const rested = await residentBytes(server.pid)
    const mib = (bytes: number) => `${(bytes / 2 ** 20).toFixed(0)} MiB`
    print(`### First light, shipped model

${table(
  ['', 'figure'],
  [
    ['start to ready', `${server.readyMs.toFixed(0)} ms`],
    ['resident memory, just started', mib(started)],
    [`resident memory, after ${runs} questions`, mib(used)],
    [`resident memory, idle for ${REST_MS / 1000} s`, mib(rested)],
    ['first text about a new 256 x 256 picture, first question', `${first[0]!.toFixed(0)} ms`],
    [`the same, median of ${runs}`, `${median(first).toFixed(0)} ms`],
    ['decoding, median', speed.length > 0 ? `${median(speed).toFixed(0)} tokens/s` : 'answers too short'],
  ],
)}`)
  },
}
