/**
 * What each setting of `src/lib/guarded/memory.ts` buys: the same load with all of them, and with one left out at a time. Linux only
 * (reads /proc).
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import sharp from 'sharp'
import { LEAVE_OUT, type MemorySetting } from '../src/lib/guarded/memory.ts'
import { upload } from './accounts.ts'
import { Load } from './memory.ts'
import { type Benchmark, print } from './support/benchmark.ts'
import { post } from './support/chat.ts'
import { peakByProgram, residentByProgram } from './support/process-tree.ts'
import { type BenchServer, SILENT_SERVICE, startLookout } from './support/server.ts'
import { median } from './support/statistics.ts'
import { table } from './support/table.ts'

const MODEL = 'service-mk1.5'
const SETTLE_MS = 2_000
const REST_MS = 25_000

/** By their names in the report; memory in MiB. */
type Figures = Readonly<Record<string, number>>

interface Scenario {
  readonly name: string
  readonly settings: readonly MemorySetting[]
  readonly program?: string
  measure(server: BenchServer, seconds: number): Promise<Figures>
}

const SCENARIOS: readonly Scenario[] = [
  {
    name: 'A server that has just started, and has rested for 25 s',
    settings: ['idle-release', 'idle-trim', 'quick-wasm', 'one-arena'],
    async measure(server) {
      await delay(SETTLE_MS)
      const started = await residentByProgram(server.pid)
      await delay(REST_MS)
      const rested = await residentByProgram(server.pid)
      return {
        'all, started': sum(started),
        'all, rested': sum(rested),
        'database, started': mib(started, 'database-process'),
      }
    },
  },
  {
    name: 'Chats about images and multilook',
    settings: ['young-heap', 'mapped-blocks'],
    async measure(server, seconds) {
      const end = performance.now() + seconds * 1000
      const load = new Load(server, () => performance.now() < end)
      await load.run()
      const used = await residentByProgram(server.pid)
      return {
        'chats/s': load.chats / seconds,
        engine: mib(used, 'engine-process'),
        decoders: mib(used, 'decoder-process'),
        all: sum(used),
      }
    },
  },
  {
    name: 'Photos of 12 megapixels, two at a time',
    settings: ['young-heap', 'mapped-blocks', 'image-cache', 'image-threads'],
    program: SILENT_SERVICE,
    async measure(server, seconds) {
      const photo = await photoOf(4000, 3000)
      const images = await repeat(seconds, 2, (n) => ask(server, distinct(photo, n)))
      const peak = await peakByProgram(server.pid)
      const used = await residentByProgram(server.pid)
      return {
        'images/s': images / seconds,
        decoders: mib(used, 'decoder-process'),
        'decoders at their most': mib(peak, 'decoder-process'),
      }
    },
  },
  {
    name: 'Uploads of 127 MiB, one at a time',
    settings: ['heap-growth', 'stream-collection'],
    program: SILENT_SERVICE,
    async measure(server, seconds) {
      const bytes = randomBytes(127 * 2 ** 20)
      await upload(server.url, server.apiKey, bytes.subarray(0, 2 ** 20))
      const before = mib(await residentByProgram(server.pid), 'silent-service')
      const speeds: number[] = []
      await repeat(seconds, 1, async () => speeds.push(await upload(server.url, server.apiKey, bytes)))
      const peak = mib(await peakByProgram(server.pid), 'silent-service')
      return { 'MiB/s': median(speeds), 'grown at its most': peak - before }
    },
  },
  {
    name: 'Request bodies of 19 MB, sixteen at a time',
    settings: ['body-collection'],
    program: SILENT_SERVICE,
    async measure(server, seconds) {
      const photo = await photoOf(64, 64)
      const large = Buffer.concat([photo, randomBytes(14 * 2 ** 20)])
      await ask(server, photo)
      const before = mib(await residentByProgram(server.pid), 'silent-service')
      const bodies = await repeat(seconds, 16, (n) => ask(server, distinct(large, n)))
      const peak = mib(await peakByProgram(server.pid), 'silent-service')
      return { 'bodies/s': bodies / seconds, 'grown at its most': peak - before }
    },
  },
]

export const memorySettings: Benchmark = {
  summary: 'what each memory setting buys: the same loads with one of them left out at a time',
  withPeer: false,

  async run({ quick, repetitions }) {
    const runs = repetitions ?? (quick ? 1 : 3)
    for (const { name, settings, program, measure } of SCENARIOS) {
      const ways = [null, ...settings]
      const measured: Figures[][] = ways.map(() => [])
      for (let run = 0; run < runs; run++) {
        for (const [index, setting] of ways.entries()) {
          const environment: Record<string, string> = setting === null ? {} : { [LEAVE_OUT]: setting }
          await using server = await startLookout(null, MODEL, { environment, ...(program ? { program } : {}) })
          measured[index]!.push(await measure(server, quick ? 20 : 60))
        }
      }
      const columns = Object.keys(measured[0]![0]!)
      const rows = ways.map((setting, index) => [
        setting === null ? 'all settings' : `without ${setting}`,
        ...columns.map((column) => median(measured[index]!.map((figures) => figures[column]!)).toFixed(1)),
      ])
      print(`### ${name}\n\nMemory in MiB, medians of ${runs}.\n\n${table(['', ...columns], rows)}`)
    }
  },
}

/** Calls as many at a time, each with a number of its own. @returns how many were answered in time. */
async function repeat(seconds: number, atOnce: number, call: (n: number) => Promise<unknown>): Promise<number> {
  const end = performance.now() + seconds * 1000
  let started = 0
  let answered = 0
  const work = async () => {
    while (performance.now() < end) {
      await call(started++)
      answered++
    }
  }
  await Promise.all(Array.from({ length: atOnce }, work))
  return answered
}

async function ask(server: BenchServer, image: Buffer): Promise<void> {
  const url = `data:image/jpeg;base64,${image.toString('base64')}`
  const content = [{ type: 'image_url', image_url: { url } }]
  const body = { model: server.model, messages: [{ role: 'user', content }], max_completion_tokens: 4 }
  await (await post(server, '/v1/chat/completions', body)).json()
}

/** Soft shapes and a little noise, as JPEG. */
async function photoOf(width: number, height: number): Promise<Buffer> {
  const noise = { type: 'gaussian', mean: 128, sigma: 50 } as const
  const small = await sharp({ create: { width: 200, height: 150, channels: 3, background: '#808080', noise } })
    .png()
    .toBuffer()
  return sharp(small).resize(width, height, { fit: 'fill' }).jpeg({ quality: 90 }).toBuffer()
}

/** The same image for a decoder, and another one for every cache: what follows the end of a JPEG is ignored. */
function distinct(image: Buffer, n: number): Buffer {
  return Buffer.concat([image, Buffer.from(`${n}`)])
}

function mib(bytes: ReadonlyMap<string, number>, program: string): number {
  return (bytes.get(program) ?? 0) / 2 ** 20
}

function sum(bytes: ReadonlyMap<string, number>): number {
  return [...bytes.values()].reduce((total, value) => total + value, 0) / 2 ** 20
}
