/**
 * Resident memory of the server during one chat with many large videos by URL, above that of the idle server. Linux
 * only (reads /proc).
 */
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { makeVideo } from '../test/support/video.ts'
import { type Benchmark, print } from './support/benchmark.ts'
import { post } from './support/chat.ts'
import { residentByProgram } from './support/process-tree.ts'
import { type BenchServer, startLookout } from './support/server.ts'
import { table } from './support/table.ts'

const MODEL = 'service-mk1.5'
const VIDEOS = 40
const MEGABYTES = 100
const PADDING = Buffer.alloc(1e6)
const LIMIT_MIB = 512
const SAMPLE_MS = 50

export const requestMemory: Benchmark = {
  summary: `one chat about ${VIDEOS} videos of ${MEGABYTES} MB by URL: resident memory above the idle server's`,
  withPeer: false,

  async run({ quick }) {
    const videos = quick ? VIDEOS / 4 : VIDEOS
    const web = await serveVideos()
    const { port } = web.address() as AddressInfo
    try {
      await using server = await startLookout(null, MODEL, {
        environment: { LOOKOUT_MEDIA_HOSTS: `127.0.0.1:${port}` },
      })
      await ask(server, port, ['first'])
      await delay(2000)
      const before = await residentByProgram(server.pid)
      const peak = new Map(before)
      let most = 0
      const asking = ask(
        server,
        port,
        Array.from({ length: videos }, (_, i) => String(i)),
      )
      const started = performance.now()
      for (let over = false; !over; ) {
        over = await Promise.race([asking.then(() => true), delay(SAMPLE_MS, false)])
        const now = await residentByProgram(server.pid)
        for (const [program, bytes] of now) peak.set(program, Math.max(bytes, peak.get(program) ?? 0))
        most = Math.max(most, sum(now) - sum(before))
      }
      const seconds = (performance.now() - started) / 1000
      const mib = (bytes: number | undefined) => ((bytes ?? 0) / 2 ** 20).toFixed(0)
      const rows = [...peak].map(([program, bytes]) => [program, mib(before.get(program)), mib(bytes)])
      print(`### Memory of one request

A chat about ${videos} videos of ${MEGABYTES} MB by URL, answered in ${seconds.toFixed(1)} s. Resident memory, MiB.

${table(['process', 'idle', 'peak'], rows)}

All processes together: ${mib(most)} MiB above idle; the limit is ${LIMIT_MIB}.`)
    } finally {
      web.closeAllConnections()
      web.close()
    }
  },
}

/** Serves a small video at every path, with padding that demuxers skip. No two are the same. */
async function serveVideos(): Promise<Server> {
  const still = { width: 320, height: 192, data: new Uint8Array(320 * 192 * 3).fill(90) }
  const video = await makeVideo({ format: 'mp4', frames: Array.from({ length: 20 }, () => still) })
  const web = createServer((request, response) => {
    pipeline(Readable.from(padded(video, request.url!), { objectMode: false }), response).catch(() => {})
  }).listen(0, '127.0.0.1')
  await once(web, 'listening')
  return web
}

function* padded(video: Buffer, path: string): Generator<Buffer, void, void> {
  yield video
  const head = Buffer.alloc(8 + 64)
  head.writeUInt32BE(head.length + MEGABYTES * PADDING.length)
  head.write('free', 4)
  head.write(path, 8)
  yield head
  for (let piece = 0; piece < MEGABYTES; piece++) yield PADDING
}

async function ask(server: BenchServer, port: number, names: readonly string[]): Promise<void> {
  const videos = names.map((name) => ({ type: 'video_url', video_url: { url: `http://127.0.0.1:${port}/${name}` } }))
  const content = [...videos, { type: 'text', text: 'What is shown?' }]
  const body = { model: server.model, messages: [{ role: 'user', content }], max_completion_tokens: 4 }
  const response = await post(server, '/v1/chat/completions', body)
  await response.json()
}

function sum(bytes: ReadonlyMap<string, number>): number {
  return [...bytes.values()].reduce((total, value) => total + value, 0)
}
