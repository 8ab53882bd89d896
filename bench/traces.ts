/**
 * What traces cost: one client sends requests to three services in turn, whose engines answer at once. One traces nothing,
 * one is set up to trace and samples no request, one sends a trace of every request to a collector.
 */
import { fileURLToPath } from 'node:url'
import { type Benchmark, print } from './support/benchmark.ts'
import { chat, chatsAtOnce, type Message } from './support/chat.ts'
import { type BenchServer, SILENT_SERVICE, startLookout } from './support/server.ts'
import { median, percentile } from './support/statistics.ts'
import { table } from './support/table.ts'

const MODEL = 'service-mk1.5'
const MANY_TOKENS = 512
/** Enough for both sides' code to be compiled. */
const WARM_UP_CALLS = 200
const HELLO: readonly Message[] = [{ role: 'user', content: 'Hello' }]
const SINK = fileURLToPath(new URL('support/trace-sink.ts', import.meta.url))

export const traces: Benchmark = {
  summary: 'the cost of traces: milliseconds per request and per token, with and without them',
  withPeer: false,

  async run({ quick, repetitions }) {
    const runs = repetitions ?? (quick ? 200 : 1000)
    await using collector = await startLookout(null, MODEL, { program: SINK })
    const start = (environment: Readonly<Record<string, string>>) =>
      startLookout(null, MODEL, { program: SILENT_SERVICE, environment })
    const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url }
    await using off = await start({ OTEL_SDK_DISABLED: 'true' })
    await using unsampled = await start({ ...endpoint, OTEL_TRACES_SAMPLER: 'always_off' })
    await using on = await start({ ...endpoint, OTEL_TRACES_SAMPLER: 'always_on' })
    const services = [off, unsampled, on]

    const rows: string[][] = []
    const row = async (label: string, runs: number, call: (service: BenchServer) => Promise<number>) => {
      const times: number[][] = services.map(() => [])
      const count = Math.min(WARM_UP_CALLS, runs)
      for (let i = 0; i < count + runs; i++) {
        // Each is the first in turn as often as the others.
        for (let at = 0; at < services.length; at++) {
          const index = (i + at) % services.length
          const ms = await call(services[index]!)
          if (i >= count) times[index]!.push(ms)
        }
      }
      rows.push([label, ...times.map((own) => `${median(own).toFixed(3)} (${percentile(own, 0.99).toFixed(3)})`)])
    }
    await row('chat, a short text', runs, async (service) => (await chatsAtOnce(service, [HELLO], 1)).totalMs)
    await row('each further token, streamed', Math.ceil(runs / 10), async (service) => {
      const { totalMs } = await chat(service, HELLO, 1)
      return ((await chat(service, HELLO, MANY_TOKENS)).totalMs - totalMs) / (MANY_TOKENS - 1)
    })
    print(`### Traces

One client sends one request at a time, to three services in turn whose engines answer at once; ${runs} requests per row and service, a tenth of that for tokens. Medians, with the 99th percentile, in ms; they include the client's own work.

${table(['', 'no traces', 'no request sampled', 'every request traced'], rows)}`)
  },
}
