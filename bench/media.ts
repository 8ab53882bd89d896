/**
 * Media decoding against plain tools: 256 frames of a 640 x 360 video against the FFmpeg command line, and an image of
 * 12 megapixels against sharp. Each run measures both in turn. The decoder runs as in the service: in a separate
 * process that receives the bytes and returns the pixels. Documents of 100 pages go to a server.
 */
import { execFile, spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import sharp from 'sharp'
import { DecoderPool } from '../src/media/decoding/process/decoder-pool.ts'
import { targetSize } from '../src/media/resize.ts'
import { loadCard } from '../src/models/card.ts'
import { makePdf, streamOf } from '../test/support/pdf.ts'
import { type Benchmark, print } from './support/benchmark.ts'
import { SHIPPED_CARD } from './support/models.ts'
import { peakByProgram } from './support/process-tree.ts'
import { type BenchServer, SILENT_SERVICE, startLookout } from './support/server.ts'
import { median, medianRatio } from './support/statistics.ts'
import { table } from './support/table.ts'

const SECONDS = 60
const FRAMES = 256
const VIDEO = { width: 640, height: 360 }
const MODEL = 'service-mk1.5'
const PAGES = 100
/** Different ones in a document. */
const SCANS = 4
const LOOK_MS = 250
const A4 = { width: 595, height: 842 }
/** At 300 to the inch. */
const SCAN = { width: 2480, height: 3508 }
const IMAGE = { width: 4000, height: 3000 }
const input = { organisation: 'bench', signal: new AbortController().signal }

export const media: Benchmark = {
  summary: 'decoding a video and a large image, against FFmpeg and sharp on their own, and documents of 100 pages',
  withPeer: false,

  async run({ quick, repetitions }) {
    const runs = repetitions ?? (quick ? 3 : 9)
    const card = await loadCard(SHIPPED_CARD)
    const pool = new DecoderPool({ size: 1 })
    const directory = await mkdtemp(join(tmpdir(), 'lookout-bench-'))
    try {
      const rows = [await image(pool, card.image!, runs)]
      if (await isInstalled('ffmpeg')) rows.push(await video(pool, card.video!, directory, runs))
      else print('FFmpeg is not installed: the video is skipped.')
      print(`### Media\n\n${table(['', 'Lookout', 'plain tool', 'ratio'], rows)}`)
      await documents()
    } finally {
      await pool.close()
      await rm(directory, { recursive: true })
    }
  },
}

type Limits<Kind extends 'image' | 'video'> = NonNullable<Awaited<ReturnType<typeof loadCard>>[Kind]>

async function image(pool: DecoderPool, limits: Limits<'image'>, runs: number): Promise<string[]> {
  // Similar to a photo: soft shapes and a little noise.
  const small = await sharp({
    create: {
      width: 200,
      height: 150,
      channels: 3,
      background: '#808080',
      noise: { type: 'gaussian', mean: 128, sigma: 50 },
    },
  })
    .png()
    .toBuffer()
  const bytes = await sharp(small).resize(IMAGE.width, IMAGE.height).jpeg({ quality: 90 }).toBuffer()
  const target = targetSize(IMAGE, limits)
  const [ours, theirs] = await inTurn(runs, [
    () => pool.decode({ type: 'image', data: bytes, target: limits, region: null }, { ...input, param: 'image' }),
    () => sharp(bytes).autoOrient().resize(target.width, target.height, { fit: 'fill' }).raw().toBuffer(),
  ])
  return row(`JPEG of 12 megapixels (${size(bytes)}) to ${target.width} x ${target.height}`, ours!, theirs!)
}

async function video(pool: DecoderPool, limits: Limits<'video'>, directory: string, runs: number): Promise<string[]> {
  const path = join(directory, 'video.mp4')
  const source = `testsrc2=size=${VIDEO.width}x${VIDEO.height}:rate=30:duration=${SECONDS}`
  await promisify(execFile)('ffmpeg', ['-loglevel', 'error', '-f', 'lavfi', '-i', source, '-pix_fmt', 'yuv420p', path])
  const bytes = await readFile(path)
  const { width, height } = targetSize(VIDEO, limits)
  const task = {
    type: 'video',
    data: bytes,
    format: 'video/mp4',
    limits: { ...limits, framesPerSecond: 30, maxFrames: FRAMES },
    maxFrames: FRAMES,
    sound: null,
  } as const
  const filter = `fps=${FRAMES}/${SECONDS},scale=${width}:${height}`
  const [ours, theirs] = await inTurn(runs, [
    async () => {
      const { frames } = await pool.decode(task, { ...input, param: 'video' })
      if (frames.length !== FRAMES) throw new Error(`${frames.length} frames instead of ${FRAMES}`)
    },
    () =>
      drained('ffmpeg', ['-loglevel', 'error', '-i', path, '-vf', filter, '-f', 'rawvideo', '-pix_fmt', 'rgb24', '-']),
  ])
  return row(`${FRAMES} frames of ${SECONDS} s, ${VIDEO.width} x ${VIDEO.height} (${size(bytes)})`, ours!, theirs!)
}

/** Through the API: with the shipped model, and with an engine that answers at once. Each once: it takes long. */
async function documents(): Promise<void> {
  const files = { text: printedPages(), scans: await scannedPages() }
  const rows: string[][] = []
  for (const program of [SILENT_SERVICE, undefined]) {
    for (const [kind, bytes] of Object.entries(files)) {
      const url = `data:application/pdf;base64,${bytes.toString('base64')}`
      const parts = [
        { type: 'file', file: { file_data: url } },
        { type: 'text', text: 'What is this?' },
      ]
      const asks = {
        '/v1/chat/completions': { messages: [{ role: 'user', content: parts }], max_completion_tokens: 8 },
        '/v1/ocr': { document: { type: 'document_url', document_url: url } },
      }
      for (const [path, body] of Object.entries(asks)) {
        await using server = await startLookout(null, MODEL, program === undefined ? {} : { program })
        let decoders = 0
        // A decoder that rests ends, and takes its peak with it.
        const look = async () => {
          decoders = Math.max(decoders, (await peakByProgram(server.pid)).get('decoder-process') ?? 0)
        }
        const timer = setInterval(look, LOOK_MS)
        const started = performance.now()
        await post(server, path, body)
        const seconds = (performance.now() - started) / 1000
        clearInterval(timer)
        await look()
        const engine = program === undefined ? 'the shipped model' : 'none'
        const megabytes = `${(decoders / 1e6).toFixed(0)} MB`
        rows.push([`${kind} (${size(bytes)})`, `\`${path}\``, engine, `${seconds.toFixed(1)} s`, megabytes])
      }
    }
  }
  const head = ['', 'endpoint', 'engine', 'time', 'peak of all decoders']
  print(`#### Documents of ${PAGES} A4 pages\n\n${table(head, rows)}`)
}

async function post({ url, apiKey, model }: BenchServer, path: string, body: object): Promise<void> {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
  const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify({ model, ...body }) })
  const text = await response.text()
  if (!response.ok) throw new Error(`${path}: ${text}`)
}

/** Each of 60 lines of 90 characters. */
function printedPages(): Buffer {
  const line = 'The quick brown fox jumps over the lazy dog, and 0123456789 sheep have seen it. '
  const lines = Array.from({ length: 60 }, (_, at) => `(${at} ${line}) Tj T*`).join(' ')
  return makePdf(
    Array.from({ length: PAGES }, (_, at) => ({ content: `BT /F1 11 Tf 13 TL 40 800 Td (${at}) Tj T* ${lines} ET` })),
  )
}

/** A scanner's JPEG for each page, in colour. */
async function scannedPages(): Promise<Buffer> {
  const noise = { type: 'gaussian', mean: 220, sigma: 12 } as const
  const paper = { ...SCAN, channels: 3, background: '#ffffff', noise } as const
  const jpeg = await sharp({ create: paper }).jpeg({ quality: 75 }).toBuffer()
  const { width, height } = SCAN
  const entries = `/Type /XObject /Subtype /Image /Width ${width} /Height ${height} /ColorSpace /DeviceRGB /BitsPerComponent 8 /Filter /DCTDecode`
  const scan = streamOf(jpeg, entries)
  const first = 3 + 2 * PAGES
  const pages = Array.from({ length: PAGES }, (_, at) => ({
    content: `${A4.width} 0 0 ${A4.height} 0 0 cm /Scan Do`,
    resources: `/XObject << /Scan ${first + (at % SCANS)} 0 R >>`,
  }))
  return makePdf(pages, { objects: Array(SCANS).fill(scan) })
}

/** Measures the functions in turn. Returns the times of each in ms, without its first run. */
async function inTurn(runs: number, works: readonly (() => Promise<unknown>)[]): Promise<number[][]> {
  const times: number[][] = works.map(() => [])
  for (let run = 0; run <= runs; run++) {
    for (const [i, work] of works.entries()) {
      const started = performance.now()
      await work()
      if (run > 0) times[i]!.push(performance.now() - started)
    }
  }
  return times
}

async function drained(command: string, args: readonly string[]): Promise<void> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let bytes = 0
  for await (const piece of child.stdout) bytes += (piece as Buffer).length
  if (bytes === 0) throw new Error(`${command} produced no output`)
}

async function isInstalled(command: string): Promise<boolean> {
  return promisify(execFile)(command, ['-version']).then(
    () => true,
    () => false,
  )
}

function row(what: string, ours: readonly number[], theirs: readonly number[]): string[] {
  const ms = (times: readonly number[]) => `${median(times).toFixed(0)} ms`
  return [what, ms(ours), ms(theirs), medianRatio(ours, theirs).toFixed(2)]
}

function size(bytes: Uint8Array): string {
  return `${(bytes.length / 1e6).toFixed(1)} MB`
}
