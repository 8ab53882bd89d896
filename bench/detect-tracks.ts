/**
 * How well tracks of detect follow things: ten clips of twenty frames with three to five moving shapes of two kinds, six in ten of
 * which vanish for two to five frames. Compared with SORT over plain detect of the same frames.
 */
import {
  addCounts,
  countTracks,
  idf1,
  mota,
  type ScoredBox,
  type ScoredFrame,
  type TrackCounts,
} from '../test/support/track-scores.ts'
import { type Benchmark, type BenchOptions, print } from './support/benchmark.ts'
import { type MovingShapes, movingShapes } from './support/moving-shapes.ts'
import { type BenchServer, startLookout } from './support/server.ts'
import { type LabelledBox, sort } from './support/sort.ts'
import { table } from './support/table.ts'

const MODEL = 'service-mk1.5'
/** Nothing was tuned on these. */
const SEEDS = { first: 2001, count: 10 }
/** Frames in the two seconds that a thing may be away. */
const PATIENCE_FRAMES = 8
const GOALS = ['goal', '.900', '.840', '10', '']

interface Reply {
  readonly detections: readonly {
    readonly mention: string
    readonly track?: number
    readonly timestamp?: number
    readonly point_box: Readonly<Record<'top_left' | 'bottom_right', { readonly x: number; readonly y: number }>>
  }[]
}

export const detectTracks: Benchmark = {
  summary: 'tracks of detect in ten clips of moving shapes, against SORT: IDF1, MOTA, switches',
  withPeer: false,

  async run(options) {
    await using server = await startLookout(null, MODEL)
    print(`### Tracks, the shipped model\n\n${await trackFigures(server, options)}`)
  },
}

/** @returns a table in Markdown. */
async function trackFigures(server: BenchServer, { quick }: Pick<BenchOptions, 'quick'>): Promise<string> {
  const [own, sorted]: [TrackCounts[], TrackCounts[]] = [[], []]
  for (let seed = SEEDS.first; seed < SEEDS.first + (quick ? 2 : SEEDS.count); seed++) {
    const clip = await movingShapes(seed)
    own.push(countTracks(await tracked(server, clip)))
    sorted.push(countTracks(await sortedFrames(server, clip)))
  }
  const row = (name: string, counts: readonly TrackCounts[]) => {
    const sum = addCounts(counts)
    const shares = [idf1(sum), mota(sum)].map((share) => share.toFixed(3).replace(/^0/, ''))
    return [name, ...shares, ...[sum.switches, sum.missed].map(String)]
  }
  const rows = [row('SORT over detect', sorted), row('`config.tracks`', own), GOALS]
  const about = `${own.length} clips from seed ${SEEDS.first} on, ${addCounts(own).known} true boxes, IoU .5`
  return `${about}.\n\n${table(['', 'IDF1', 'MOTA', 'switches', 'missed'], rows)}`
}

async function tracked(server: BenchServer, { kinds, frames }: MovingShapes): Promise<ScoredFrame[]> {
  const shown = frames.map(({ picture, seconds }) => ({ image_url: urlOf(picture), timestamp: seconds }))
  const { detections } = await detect(server, {
    media: { type: 'frames', frames: shown },
    categories: kinds,
    config: { tracks: true },
  })
  return frames.map(({ seconds, boxes }) => {
    const found = detections.filter(({ timestamp }) => timestamp === seconds)
    return { known: boxes, found: found.map((one): ScoredBox => ({ id: one.track!, ...cornersOf(one) })) }
  })
}

async function sortedFrames(server: BenchServer, { kinds, frames }: MovingShapes): Promise<ScoredFrame[]> {
  const found: LabelledBox[][] = []
  for (const { picture } of frames) {
    const media = { type: 'image', image_url: urlOf(picture) }
    const { detections } = await detect(server, { media, categories: kinds })
    found.push(detections.map((one) => ({ label: one.mention, ...cornersOf(one) })))
  }
  const followed = sort(found, PATIENCE_FRAMES)
  return frames.map(({ boxes }, index) => ({ known: boxes, found: followed[index]! }))
}

async function detect({ url, apiKey, model }: BenchServer, fields: object): Promise<Reply> {
  const response = await fetch(`${url}/v1/detect`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, ...fields }),
  })
  if (!response.ok) throw new Error(await response.text())
  return (await response.json()) as Reply
}

function urlOf(picture: Buffer): string {
  return `data:image/jpeg;base64,${picture.toString('base64')}`
}

function cornersOf({ point_box: { top_left: from, bottom_right: to } }: Reply['detections'][number]) {
  return { left: from.x, top: from.y, right: to.x, bottom: to.y }
}
