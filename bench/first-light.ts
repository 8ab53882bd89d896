/**
 * Figures of an idle server and of a single request: start-up time, resident memory of all processes, time to the first
 * text about a 256 x 256 image, and decoding speed. Linux only (reads /proc).
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
/** After this time all processes have released unused memory (`src/lib/memory.ts`). */
const REST_MS = 25_000

export const firstLight: Benchmark = {
  summary: 'an idle server and one request at a time: start-up, memory, time to the first text, decoding speed',
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
      // A new image each time, so that nothing is cached.
      const content = [await fresh.image(), { type: 'text', text: 'Detect all objects.' } as const]
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
    ['resident memory after start-up', mib(started)],
    [`resident memory after ${runs} requests`, mib(used)],
    [`resident memory after ${REST_MS / 1000} s idle`, mib(rested)],
    ['time to the first text, first request', `${first[0]!.toFixed(0)} ms`],
    [`time to the first text, median of ${runs}`, `${median(first).toFixed(0)} ms`],
    ['decoding speed, median', speed.length > 0 ? `${median(speed).toFixed(0)} tokens/s` : 'replies too short'],
  ],
)}`)
  },
}
