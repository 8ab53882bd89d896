/**
 * What a server process costs in front of an engine that takes no time of it: requests, streams and streamed tokens, with
 * keys, rate limits and usage records as a user has them. The clients are a process of their own. Linux only (reads
 * /proc).
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomFillSync } from 'node:crypto'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import sharp from 'sharp'
import { Accounts } from '../src/accounts/accounts.ts'
import { encodePng } from '../src/media/png.ts'
import { cacheDirectory } from '../src/setup/native-library.mjs'
import { Database } from '../src/storage/database.ts'
import { type Benchmark, print } from './support/benchmark.ts'
import { FRESH, type Load, type Observed } from './support/load.ts'
import { processorTicks } from './support/process-tree.ts'
import { freePort, startLookout } from './support/server.ts'
import { median, percentile } from './support/statistics.ts'
import { table } from './support/table.ts'

const MODEL = 'service-mk1.5'
const CLIENT = fileURLToPath(new URL('support/load-client.ts', import.meta.url))
const SERVICE = fileURLToPath(new URL('support/paced-service.ts', import.meta.url))
const TICK_MS = 10
const PACE = 50
/** Tokens of a reply; at 50 tokens/s it takes 6 s. */
const REPLY_TOKENS = 300
const CLOSED_LOOP_CLIENTS = 32
const STREAMS: readonly { readonly clients: number; readonly processes: number }[] = [
  ...[250, 500, 1000, 2000].map((clients) => ({ clients, processes: 1 })),
  // As behind a load balancer.
  { clients: 2000, processes: 2 },
]
const PICTURES = 8
/** Tokens that arrive later than this, one in a hundred, are felt: the goal is held only below it. */
const LATE_MS = 100

export const frontEnd: Benchmark = {
  summary: 'what a server process holds in front of an engine that answers at once: requests/s, streams, tokens/s',
  withPeer: false,

  async run({ quick }) {
    const measureMs = quick ? 3_000 : 8_000
    const requests: string[][] = []
    {
      await using server = await start(null)
      const text = chatOf(QUESTION)
      const cases: [string, object[]][] = [
        ['text, whole reply of 16 tokens', [{ ...text, max_completion_tokens: 16 }]],
        ['text, streamed, 1 token', [{ ...text, ...STREAMED, max_completion_tokens: 1 }]],
        ['a JPEG of 1024 x 768, inline, whole reply of 16 tokens', await pictureChats()],
      ]
      for (const [name, bodies] of cases) {
        const { seen, apiMs, othersMs } = await server.measure(bodies, { clients: CLOSED_LOOP_CLIENTS, measureMs })
        const perRequest = (ms: number) => (ms / seen.responses).toFixed(3)
        requests.push([
          name,
          ((seen.responses / seen.ms) * 1000).toFixed(0),
          perRequest(apiMs),
          perRequest(othersMs),
          ...[0.5, 0.99].map((part) => percentile(seen.totalMs, part).toFixed(1)),
          (seen.bytes / seen.responses).toFixed(0),
        ])
      }
    }
    const streams: string[][] = []
    for (const row of quick ? STREAMS.slice(0, 2) : STREAMS) streams.push(await measureStreams(row, measureMs))
    const png = await encodedPicture(quick ? 5 : 20)
    print(`### Front end

The clients run beside the server, on the same cores. Processor time is the servers' own, from /proc; "others" are the database, the decoders and the threads of other processes.

${CLOSED_LOOP_CLIENTS} clients, each of which sends its next request when it has its response:

${table(['request', 'requests/s', 'API process, ms of CPU time', 'others, ms', 'median, ms', '99th percentile, ms', 'bytes of response'], requests)}
Streams of ${REPLY_TOKENS} tokens, which the engine makes at ${PACE} tokens/s each whether the server keeps up or not. Held: 99 of 100 tokens arrive less than ${LATE_MS} ms after they were due.

${table(['streams', 'processes', 'tokens/s', 'streams at full pace', 'tokens/event', 'API, µs/token', 'others, µs/token', 'of one core', 'bytes/token', 'lateness p50 / p99, ms', 'first event p50 / p99, ms', 'event loop p99 / max, ms', 'KiB/stream', 'held'], streams)}
The same picture as PNG, as an engine on another machine gets it: ${png.ms.toFixed(0)} ms of one core, ${(png.bytes / 1024).toFixed(0)} KiB.`)
  },
}

/** Streams that are spread over processes evenly; each has a client of its own. */
async function measureStreams({ clients, processes }: (typeof STREAMS)[number], measureMs: number): Promise<string[]> {
  await using servers = new AsyncDisposableStack()
  const started = await Promise.all(Array.from({ length: processes }, () => start(PACE)))
  for (const server of started) servers.use(server)
  const body = { ...chatOf(QUESTION), ...STREAMED, max_completion_tokens: REPLY_TOKENS }
  const load = { clients: clients / processes, measureMs, rampMs: (1000 * REPLY_TOKENS) / PACE }
  const results = await Promise.all(
    started.map(async (server) => {
      const before = await server.residentBytes()
      const result = await server.measure([body], load)
      return { ...result, grown: result.resident - before }
    }),
  )
  const sum = (of: (result: (typeof results)[number]) => number) => results.reduce((total, each) => total + of(each), 0)
  const samples = (of: (seen: Observed) => readonly number[]) => results.flatMap(({ seen }) => of(seen))
  const tokens = sum(({ seen }) => seen.tokens)
  const perSecond = sum(({ seen }) => (seen.tokens / seen.ms) * 1000)
  const microseconds = (ms: number) => ((1000 * ms) / tokens).toFixed(1)
  const late = samples((seen) => seen.lateMs)
  return [
    `${clients}`,
    `${processes}`,
    perSecond.toFixed(0),
    (perSecond / PACE).toFixed(0),
    (tokens / sum(({ seen }) => seen.events)).toFixed(2),
    microseconds(sum(({ apiMs }) => apiMs)),
    microseconds(sum(({ othersMs }) => othersMs)),
    `${(100 * sum(({ apiMs, seen }) => apiMs / seen.ms)).toFixed(0)} %`,
    (sum(({ seen }) => seen.bytes) / tokens).toFixed(0),
    quantiles(late),
    quantiles(samples((seen) => seen.firstMs)),
    `${Math.max(...results.map(({ eventLoop }) => eventLoop.p99)).toFixed(1)} / ${Math.max(...results.map(({ eventLoop }) => eventLoop.max)).toFixed(0)}`,
    (sum(({ grown }) => grown) / clients / 1024).toFixed(0),
    percentile(late, 0.99) < LATE_MS ? 'yes' : 'no',
  ]
}

function quantiles(samples: readonly number[]): string {
  return [0.5, 0.99].map((part) => percentile(samples, part).toFixed(1)).join(' / ')
}

const QUESTION = 'What is in the second row, and how many of them are there? Answer in one sentence. '.repeat(4)
const STREAMED = { stream: true, stream_options: { include_usage: true } }

function chatOf(content: unknown) {
  return {
    model: MODEL,
    messages: [
      { role: 'system', content: 'You answer questions about pictures, briefly.' },
      { role: 'user', content },
    ],
  }
}

/** A picture of 1024 x 768 pixels that compresses about as well as a photograph: noise of a quarter of the size. */
function picture() {
  const [width, height] = [1024, 768]
  const raw = { width: width / 4, height: height / 4, channels: 3 } as const
  return sharp(randomFillSync(Buffer.alloc(raw.width * raw.height * 3)), { raw }).resize(width, height)
}

/** Encodes the pixels of a picture without loss, as an engine on another machine gets it. */
async function encodedPicture(runs: number): Promise<{ readonly ms: number; readonly bytes: number }> {
  const { data, info } = await picture().raw().toBuffer({ resolveWithObject: true })
  const times: number[] = []
  let bytes = 0
  for (let run = 0; run < runs; run++) {
    const started = performance.now()
    bytes = (await encodePng({ width: info.width, height: info.height, data })).length
    times.push(performance.now() - started)
  }
  return { ms: median(times), bytes }
}

/** Chats about JPEG files. */
async function pictureChats(): Promise<object[]> {
  return Promise.all(
    Array.from({ length: PICTURES }, async () => {
      const jpeg = await picture().jpeg({ quality: 85 }).toBuffer()
      // Bytes after the end of the picture make each one new to the server's caches.
      const padded = Buffer.concat([jpeg, Buffer.alloc((3 - (jpeg.length % 3)) % 3)])
      const url = `data:image/jpeg;base64,${padded.toString('base64')}${FRESH}`
      return {
        ...chatOf([
          { type: 'image_url', image_url: { url } },
          { type: 'text', text: QUESTION },
        ]),
        max_completion_tokens: 16,
      }
    }),
  )
}

/** Starts the server with a key of the database and limits that no client reaches. @param pace in tokens per second. */
async function start(pace: number | null) {
  const gaugesPort = await freePort()
  const server = await startLookout(null, MODEL, {
    program: SERVICE,
    environment: {
      LOOKOUT_RATE_LIMITS: 'chat=100000000',
      BENCH_TOKENS_PER_SECOND: String(pace ?? 0),
      BENCH_GAUGES_PORT: String(gaugesPort),
    },
  })
  const key = await newKey(server.directory)
  const gauges = async () =>
    (await (await fetch(`http://127.0.0.1:${gaugesPort}`)).json()) as Record<'p50' | 'p99' | 'max', number>
  return {
    residentBytes: () => residentOf(server.pid),
    async measure(bodies: readonly object[], load: Pick<Load, 'clients' | 'measureMs'> & { rampMs?: number }) {
      const files = bodies.map((_, index) => join(server.directory, `body-${index}.json`))
      await Promise.all(files.map((file, index) => writeFile(file, JSON.stringify(bodies[index]))))
      const client = startClient({ rampMs: 500, ...load, url: server.url, key, bodies: files })
      await client.line()
      await gauges()
      const [api, all] = await Promise.all([ticksOf(server.pid), processorTicks(server.pid)])
      const seen = JSON.parse(await client.line()) as Observed
      const [apiAfter, allAfter] = await Promise.all([ticksOf(server.pid), processorTicks(server.pid)])
      const apiMs = (apiAfter - api) * TICK_MS
      const eventLoop = await gauges()
      const resident = await residentOf(server.pid)
      await client.ended
      return {
        seen,
        apiMs,
        othersMs: (allAfter - all) * TICK_MS - apiMs,
        eventLoop,
        resident,
      }
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

async function newKey(directory: string): Promise<string> {
  const database = await Database.open({
    url: null,
    directory: join(directory, 'database'),
    cacheDirectory: cacheDirectory(),
  })
  try {
    const accounts = new Accounts(database)
    await accounts.createOrganisation('bench')
    return (await accounts.createKey({ organisation: 'bench' })).key
  } finally {
    await database.close()
  }
}

function startClient(load: Load) {
  const child: ChildProcess = spawn(process.execPath, [CLIENT, JSON.stringify(load)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  process.once('exit', () => child.kill('SIGKILL'))
  const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]()
  return {
    ended: once(child, 'exit'),
    async line(): Promise<string> {
      const { value, done } = await lines.next()
      if (done) throw new Error('The clients ended early.')
      return value
    },
  }
}

/** Processor time of one process alone, in clock ticks. */
async function ticksOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
  const [user, system] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13)
  return Number(user) + Number(system)
}

async function residentOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) * 1024
}
