/**
 * Decoding, against the same work done by bare tools: 256 frames of a 640 x 360 film by FFmpeg's command line, and a picture
 * of 12 megapixels by sharp. Both in turn in the same run, what decodes for the service as the service runs it: in a process
 * of its own, the bytes sent there and the pixels back.
 */
import { execFile, spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import sharp from 'sharp'
import { DecoderPool } from '../src/media/decoder-pool.ts'
import { targetSize } from '../src/media/resize.ts'
import { loadCard } from '../src/models/card.ts'
import { type Benchmark, print } from './support/benchmark.ts'
import { SHIPPED_CARD } from './support/models.ts'
import { median, medianRatio } from './support/statistics.ts'
import { table } from './support/table.ts'

const SECONDS = 60
const FRAMES = 256
const FILM = { width: 640, height: 360 }
const PICTURE = { width: 4000, height: 3000 }
const asked = { organisation: 'bench', signal: new AbortController().signal }

export const media: Benchmark = {
  summary: 'decoding a film and a large picture, against FFmpeg and sharp by themselves',
  withPeer: false,

  async run({ quick, repetitions }) {
    const runs = repetitions ?? (quick ? 3 : 9)
    const card = await loadCard(SHIPPED_CARD)
    const pool = new DecoderPool({ size: 1 })
    const directory = await mkdtemp(join(tmpdir(), 'lookout-bench-'))
    try {
      const rows = [await picture(pool, card.image!, runs)]
      if (await isInstalled('ffmpeg')) rows.push(await film(pool, card.video!, directory, runs))
      else print('FFmpeg is not installed: the film is left out.')
      print(`### Media\n\n${table(['', 'Lookout', 'bare tool', 'ratio'], rows)}`)
    } finally {
      await pool.close()
      await rm(directory, { recursive: true })
    }
  },
}

type Limits<Kind extends 'image' | 'video'> = NonNullable<Awaited<ReturnType<typeof loadCard>>[Kind]>

async function picture(pool: DecoderPool, limits: Limits<'image'>, runs: number): Promise<string[]> {
  // Like a photo: soft shapes and a little noise.
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
  const bytes = await sharp(small).resize(PICTURE.width, PICTURE.height).jpeg({ quality: 90 }).toBuffer()
  const target = targetSize(PICTURE, limits)
  const [ours, theirs] = await inTurn(runs, [
    () => pool.decode({ type: 'image', data: bytes, target: limits, region: null }, { ...asked, param: 'picture' }),
    () => sharp(bytes).autoOrient().resize(target.width, target.height, { fit: 'fill' }).raw().toBuffer(),
  ])
  return row(`JPEG of 12 megapixels (${size(bytes)}) to ${target.width} x ${target.height}`, ours!, theirs!)
}

async function film(pool: DecoderPool, limits: Limits<'video'>, directory: string, runs: number): Promise<string[]> {
  const path = join(directory, 'film.mp4')
  const source = `testsrc2=size=${FILM.width}x${FILM.height}:rate=30:duration=${SECONDS}`
  await promisify(execFile)('ffmpeg', ['-loglevel', 'error', '-f', 'lavfi', '-i', source, '-pix_fmt', 'yuv420p', path])
  const bytes = await readFile(path)
  const { width, height } = targetSize(FILM, limits)
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
      const { frames } = await pool.decode(task, { ...asked, param: 'film' })
      if (frames.length !== FRAMES) throw new Error(`${frames.length} frames instead of ${FRAMES}`)
    },
    () =>
      drained('ffmpeg', ['-loglevel', 'error', '-i', path, '-vf', filter, '-f', 'rawvideo', '-pix_fmt', 'rgb24', '-']),
  ])
  return row(`${FRAMES} frames of ${SECONDS} s, ${FILM.width} x ${FILM.height} (${size(bytes)})`, ours!, theirs!)
}

/** Times of each way, in ms; the first of each does not count. */
async function inTurn(runs: number, ways: readonly (() => Promise<unknown>)[]): Promise<number[][]> {
  const times: number[][] = ways.map(() => [])
  for (let run = 0; run <= runs; run++) {
    for (const [i, way] of ways.entries()) {
      const started = performance.now()
      await way()
      if (run > 0) times[i]!.push(performance.now() - started)
    }
  }
  return times
}

async function drained(command: string, args: readonly string[]): Promise<void> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let bytes = 0
  for await (const piece of child.stdout) bytes += (piece as Buffer).length
  if (bytes === 0) throw new Error(`${command} gave nothing`)
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
