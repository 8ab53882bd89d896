/**
 * Large and hostile bodies, one after another, and sixty concurrent images of 19 MB: the effect of each on another
 * client, and on memory. Before them, long lists at each field (`flood-fields.ts`). Linux only (reads /proc).
 */
import { randomFillSync } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import sharp from 'sharp'
import { floodFields } from './flood-fields.ts'
import { type Benchmark, print } from './support/benchmark.ts'
import { observed } from './support/bystander.ts'
import { residentBytes } from './support/process-tree.ts'
import { type BenchServer, freePort, startLookout } from './support/server.ts'
import { table } from './support/table.ts'

const MODEL = 'service-mk1.5'
const CLIENTS = 60
const SAMPLE_MS = 100
const CHAT = '/v1/chat/completions'

interface Case {
  readonly name: string
  readonly bodies: readonly Buffer[]
}

export const flood: Benchmark = {
  summary: 'large and hostile bodies, long lists at every field, 60 images of 19 MB: effect on others, and memory',
  withPeer: false,

  async run({ quick }) {
    const png = await noise()
    const images = Array.from({ length: quick ? 10 : 40 }, (_, i) => imageBody(png, 200 + i))
    print(await floodFields(MODEL, images, quick))
    const port = await freePort()
    await using server = await startLookout(null, MODEL, { environment: { LOOKOUT_METRICS_PORT: String(port) } })
    const metrics = `http://127.0.0.1:${port}/metrics`
    await delay(2000)
    const idle = await residentBytes(server.pid)
    const rows: string[][] = []
    for (const each of await cases(quick ? 10 : CLIENTS)) rows.push(await measure(each, server, metrics))
    print(`### Large bodies

Idle, all processes together: ${mib(idle)} MiB.

${table(['bodies', 'responses', 'time for all', 'slowest /healthz', 'longest gap in a stream', 'event loop blocked', 'peak memory'], rows)}`)
  },
}

async function measure({ name, bodies }: Case, server: BenchServer, metrics: string): Promise<string[]> {
  const statuses = new Map<number, number>()
  let most = 0
  let ended = false
  let tookMs = 0
  await eventLoopMs(metrics)
  const sampling = async () => {
    while (!ended) {
      most = Math.max(most, await residentBytes(server.pid))
      await delay(SAMPLE_MS)
    }
  }
  const seen = await observed(server, async () => {
    const sampled = sampling()
    const started = performance.now()
    const send = async (body: Buffer) => {
      const headers = { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' }
      const response = await fetch(server.url + CHAT, { method: 'POST', headers, body: new Uint8Array(body) })
      await response.text()
      statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1)
    }
    await Promise.all(bodies.map(send))
    tookMs = performance.now() - started
    ended = true
    await sampled
  })
  const held = await eventLoopMs(metrics)
  const answers = [...statuses].map(([status, count]) => `${count} x ${status}`).join(', ')
  const ms = (value: number) => `${value.toFixed(0)} ms`
  return [name, answers, ms(tookMs), ms(seen.healthMs), ms(seen.tokenMs), ms(held), `${mib(most)} MiB`]
}

async function cases(clients: number): Promise<Case[]> {
  const user = (content: string) =>
    `{"model": "${MODEL}", "max_completion_tokens": 8, "messages": [{"role": "user", "content": ${content}}]}`
  const items = (item: string, count: number) => `${`${item},`.repeat(count - 1)}${item}`
  const tool = (parameters: string) => `[{"type": "function", "function": {"name": "f", "parameters": ${parameters}}}]`
  const withTools = (tools: string) => `${user('"Hi"').slice(0, -1)}, "tools": ${tools}}`
  const one = (name: string, text: string): Case => ({ name, bodies: [Buffer.from(text)] })
  const words = 'the quick brown fox jumps over the lazy dog; '
  const png = await noise()
  const flood = (name: string, first: number): Case => ({
    name: `${clients} concurrent images of 19 MB, ${name}`,
    bodies: Array.from({ length: clients }, (_, i) => imageBody(png, first + i)),
  })
  return [
    flood('on a server that has just started', 1),
    one('10 million numbers as content parts', user(`[${items('1', 9.9e6)}]`)),
    one('6.5 million empty messages', `{"model": "${MODEL}", "messages": [${items('{}', 6.5e6)}]}`),
    one('60,000 invalid messages', `{"model": "${MODEL}", "messages": [${items('{}', 6e4)}]}`),
    one('parameters with 3,400 nested arrays', withTools(tool(`{"a": ${'['.repeat(3400)}${']'.repeat(3400)}}`))),
    one(
      'parameters with 100,000 properties',
      withTools(
        tool(`{"type": "object", "properties": {${Array.from({ length: 1e5 }, (_, i) => `"p${i}": {}`).join(',')}}}`),
      ),
    ),
    one('8,000 messages', `{"model": "${MODEL}", "messages": [${items('{"role": "user", "content": "Hi"}', 8000)}]}`),
    one('15 MB of words', user(JSON.stringify(words.repeat(15e6 / words.length)))),
    one('19 MB of spaces', user(JSON.stringify(' '.repeat(19e6)))),
    one('19 MB of tool call tags', user(JSON.stringify('<tool_call>'.repeat(19e6 / 11)))),
    one(
      '19 MB of base64 with one invalid character',
      user(`[{"type": "image_url", "image_url": {"url": "data:image/png;base64,${'A'.repeat(19e6)}!"}}]`),
    ),
    { name: 'an image of 19 MB', bodies: [imageBody(png, 0)] },
    flood('after all these', 101),
  ]
}

/** A PNG of 14 MB: noise, which cannot be compressed. */
async function noise(): Promise<Buffer> {
  const [width, height] = [2200, 2150]
  const raw = { width, height, channels: 3 } as const
  return sharp(randomFillSync(Buffer.alloc(width * height * 3)), { raw })
    .png()
    .toBuffer()
}

/** A body with a unique image, so that none is cached. */
function imageBody(png: Buffer, number: number): Buffer {
  const data = Buffer.concat([png, Buffer.from([number, 0, 0, 0])]).toString('base64')
  const content = [
    { type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } },
    { type: 'text', text: 'What is it?' },
  ]
  return Buffer.from(JSON.stringify({ model: MODEL, max_completion_tokens: 8, messages: [{ role: 'user', content }] }))
}

async function eventLoopMs(url: string): Promise<number> {
  const text = await (await fetch(url)).text()
  return 1000 * Number(/^lookout_event_loop_delay_seconds (\S+)/m.exec(text)?.[1])
}

function mib(bytes: number): string {
  return (bytes / 2 ** 20).toFixed(0)
}
