/**
 * Makes the samples of the Studio that are not pictures: a video with a soundtrack and a spoken sentence, of the world that
 * the shipped model knows. What they make is committed.
 *
 * Usage: npm run samples [-- directory], with espeak-ng installed
 */
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import sharp from 'sharp'
import type { RgbImage } from '../src/media/pixels.ts'
import { makeAudio, makeVideo, SOUNDTRACK_RATE } from '../test/support/video.ts'

const directory = resolve(process.argv[2] ?? fileURLToPath(new URL('../docs/pictures', import.meta.url)))

const SIZE = { width: 480, height: 360 }
const SECONDS = 5
const FRAMES_PER_SECOND = 20
const SPOKEN = 'three black sheep'
/** What the voice says in the video, and when, in seconds. */
const SOUNDTRACK = { words: 'red circle', at: 2 }

interface Actor {
  /** As SVG, around a centre. */
  readonly shape: (x: number, y: number) => string
  /** Seconds in which it is visible. */
  readonly from: number
  readonly to: number
  /** Its centre at the beginning and at the end. */
  readonly path: readonly [Place, Place]
}

type Place = readonly [x: number, y: number]

const ACTORS: readonly Actor[] = [
  {
    shape: star('#1e4fd8', 62),
    from: 0,
    to: SECONDS,
    path: [
      [80, 110],
      [395, 110],
    ],
  },
  {
    shape: (x, y) => `<circle cx="${x}" cy="${y}" r="56" fill="#d81e1e"/>`,
    from: 2,
    to: 4.5,
    path: [
      [150, 255],
      [150, 255],
    ],
  },
  {
    shape: (x, y) => `<rect x="${x - 48}" y="${y - 48}" width="96" height="96" fill="#1e9e3a"/>`,
    from: 3,
    to: 4.5,
    path: [
      [340, 265],
      [340, 265],
    ],
  },
]

function star(fill: string, radius: number): Actor['shape'] {
  const corners = Array.from({ length: 10 }, (_, index) => {
    const angle = (index * Math.PI) / 5 - Math.PI / 2
    const reach = index % 2 === 0 ? radius : radius * 0.4
    return [Math.cos(angle) * reach, Math.sin(angle) * reach] as const
  })
  return (x, y) => `<polygon points="${corners.map(([dx, dy]) => `${x + dx},${y + dy}`).join(' ')}" fill="${fill}"/>`
}

async function frameAt(seconds: number): Promise<RgbImage> {
  const { width, height } = SIZE
  const visible = ACTORS.filter(({ from, to }) => seconds >= from && seconds < to)
  const shapes = visible.map(({ shape, from, to, path: [start, end] }) => {
    const part = (seconds - from) / (to - from)
    return shape(start[0] + (end[0] - start[0]) * part, start[1] + (end[1] - start[1]) * part)
  })
  const ground = '<rect width="100%" height="100%" fill="#f2efe6"/>'
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}">${ground}${shapes.join('')}</svg>`
  return { width, height, data: await sharp(Buffer.from(svg)).removeAlpha().raw().toBuffer() }
}

/** Synthetic speech, as the model has heard it in training. @returns samples within -1..1 */
async function speak(words: string, rate: number): Promise<Float32Array> {
  const args = ['-v', 'en-us+Andy', '-s', '130', '-p', '50', '--stdout', words]
  const { stdout } = await promisify(execFile)('espeak-ng', args, { encoding: 'buffer', maxBuffer: 2 ** 24 })
  const [ownRate, data] = [stdout.readUInt32LE(24), stdout.subarray(44)]
  const samples = Float32Array.from({ length: data.length >> 1 }, (_, i) => data.readInt16LE(i * 2) / 32768)
  return Float32Array.from({ length: Math.floor((samples.length * rate) / ownRate) }, (_, i) => {
    const at = (i * ownRate) / rate
    const [before, after] = [samples[Math.floor(at)] ?? 0, samples[Math.ceil(at)] ?? 0]
    return before + (after - before) * (at % 1)
  })
}

async function soundtrack(): Promise<Float32Array> {
  const samples = new Float32Array(SECONDS * SOUNDTRACK_RATE)
  samples.set(await speak(SOUNDTRACK.words, SOUNDTRACK_RATE), SOUNDTRACK.at * SOUNDTRACK_RATE)
  return samples
}

const times = Array.from({ length: SECONDS * FRAMES_PER_SECOND }, (_, index) => (index * 1000) / FRAMES_PER_SECOND)
const frames = await Promise.all(times.map((time) => frameAt(time / 1000)))
const video = await makeVideo({
  format: 'webm',
  codec: 'libvpx-vp9',
  frames,
  times,
  interval: FRAMES_PER_SECOND,
  bitsPerSecond: 120_000,
  soundtrack: await soundtrack(),
})
const rate = 22_050
const audio = await makeAudio({ format: 'mp3', samples: await speak(SPOKEN, rate), rate })
for (const [name, bytes] of [
  ['shapes.webm', video],
  ['words.mp3', audio],
] as const) {
  await writeFile(join(directory, name), bytes)
  process.stdout.write(`${join(directory, name)}: ${bytes.length} bytes\n`)
}
