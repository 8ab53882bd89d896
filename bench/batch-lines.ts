/** What batches of hostile or invalid lines cost: the time for a line, and how long they hold up another client. */
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type Benchmark, print } from './support/benchmark.ts'
import { observed } from './support/bystander.ts'
import { post } from './support/chat.ts'
import { type BenchServer, startLookout } from './support/server.ts'
import { table } from './support/table.ts'

/** Its engine takes no time for itself: all that is measured is ours. */
const SERVICE = fileURLToPath(new URL('support/paced-service.ts', import.meta.url))
const TOKENS_PER_SECOND = '50'
const MODEL = 'service-mk1.5'
const CHAT = '/v1/chat/completions'
const POLL_MS = 50

interface Case {
  readonly name: string
  readonly lines: number
  readonly input: Blob
  /** Whether to cancel it as soon as it runs. */
  readonly isCancelled?: true
}

export const batchLines: Benchmark = {
  summary: 'batches of large, invalid, blank and cancelled lines: time for a line, effect on other clients',
  withPeer: false,

  async run({ quick }) {
    const rows: string[][] = []
    await using server = await startLookout(null, MODEL, {
      program: SERVICE,
      environment: { BENCH_TOKENS_PER_SECOND: TOKENS_PER_SECOND, BENCH_GAUGES_PORT: '0' },
    })
    const idle = await observed(server, () => delay(2_000))
    for (const each of cases(quick ? 5_000 : 50_000)) rows.push(await measure(server, each))
    print(`### Batches of lines that no model runs

Without a batch, the slowest answer of \`/healthz\` takes ${ms(idle.healthMs)}, the longest gap in a stream ${ms(idle.tokenMs)}.

${table(['input', 'ended as', 'seconds', 'ms for a line', 'slowest /healthz', 'longest gap in a stream'], rows)}`)
  },
}

function cases(many: number): readonly Case[] {
  const line = (id: number, body: string) =>
    `{"custom_id":"${id}","method":"POST","url":"${CHAT}","body":{"model":"${MODEL}","max_completion_tokens":1,${body}}}\n`
  const each = (count: number, body: string) => new Blob(Array.from({ length: count }, (_, id) => line(id, body)))
  const text = (bytes: number) => `"messages":[{"role":"user","content":"${'word '.repeat(bytes / 5)}"}]`
  const image = `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,${'A'.repeat(9e6)}"}}]}]`
  return [
    { name: '20 lines with 9 MB of text', lines: 20, input: each(20, text(9e6)) },
    { name: '20 lines with 9 MB of a damaged image', lines: 20, input: each(20, image) },
    { name: '10 million line breaks', lines: 1e7, input: new Blob(['\n'.repeat(1e7)]) },
    { name: `${many} invalid requests`, lines: many, input: each(many, '"messages":[],"temperature":9') },
    { name: `${many} requests, cancelled`, lines: many, input: each(many, text(50)), isCancelled: true },
  ]
}

async function measure(server: BenchServer, { name, lines, input, isCancelled }: Case): Promise<string[]> {
  const headers = { authorization: `Bearer ${server.apiKey}` }
  const form = new FormData()
  form.set('purpose', 'batch')
  form.set('file', input, 'lines.jsonl')
  const uploaded = await fetch(`${server.url}/v1/files`, { method: 'POST', headers, body: form })
  const { id: input_file_id } = (await uploaded.json()) as { id: string }
  let status = ''
  let tookMs = 0
  const seen = await observed(server, async () => {
    const started = performance.now()
    const created = await post(server, '/v1/batches', { input_file_id, endpoint: CHAT, completion_window: '24h' })
    const { id } = (await created.json()) as { id: string }
    const look = async () => {
      status = ((await (await fetch(`${server.url}/v1/batches/${id}`, { headers })).json()) as { status: string })
        .status
    }
    const until = async (...wanted: string[]) => {
      for (await look(); !wanted.includes(status); await look()) await delay(POLL_MS)
    }
    if (isCancelled) {
      await until('in_progress')
      await post(server, `/v1/batches/${id}/cancel`, {})
    }
    await until('completed', 'failed', 'cancelled')
    tookMs = performance.now() - started
  })
  const perLine = (tookMs / lines).toPrecision(2)
  return [name, status, (tookMs / 1000).toFixed(1), perLine, ms(seen.healthMs), ms(seen.tokenMs)]
}

function ms(value: number): string {
  return `${value.toFixed(0)} ms`
}
