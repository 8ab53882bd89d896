/** Pictures of 12 megapixels with sixty known things, most of them small: searched whole, and tile by tile. */
import { performance } from 'node:perf_hooks'
import sharp from 'sharp'
import type { Detections } from '../src/client/answers.ts'
import { brierScore, calibrationError, type Rated } from '../src/commands/calibrating/box-quality.ts'
import { matchBoxes } from '../src/exports/box-matching.ts'
import type { DetectedBox } from '../src/exports/detected-picture.ts'
import { areaOf, iouOf } from '../src/lib/rectangle.ts'
import type { PixelRegion } from '../src/media/coordinates.ts'
import { planTiles } from '../src/media/tile-plan.ts'
import { type Benchmark, print } from './support/benchmark.ts'
import { BIG_SIZE, type BigPicture, bigPicture, LARGE_SIDE } from './support/big-picture.ts'
import { post } from './support/chat.ts'
import { shippedModel } from './support/models.ts'
import { type BenchServer, startLookout } from './support/server.ts'
import { medianRatio, spread } from './support/statistics.ts'
import { table } from './support/table.ts'

const PICTURES = 3
/** A box is right when it has at least this intersection over union with one of its label. */
const LEAST_IOU = 0.5
/** Requests of a client that cuts the tiles itself. */
const AT_ONCE = 16
/** It takes boxes for the same thing whose intersection has more than this share of the smaller one, as SAHI does. */
const SAME_SHARE = 0.5
const WAYS = [
  { name: 'whole', config: {} },
  { name: 'tiles, no looks', config: { tiles: 'auto', looks: 'none' } },
  { name: 'the same with confidence', config: { tiles: 'auto', looks: 'none', confidence: true } },
  { name: 'tiles, looks at what coarse grids found', config: { tiles: 'auto', looks: 'coarse' } },
  { name: 'tiles, looks at all', config: { tiles: 'auto' } },
  { name: 'the same with confidence', config: { tiles: 'auto', confidence: true } },
  { name: 'the same, thorough', config: { tiles: 'auto', confidence: 'thorough' } },
  { name: `the same tiles, cut by the client, ${AT_ONCE} at once, no looks`, config: null },
]

export const detectTiles: Benchmark = {
  summary: 'small things in pictures of 12 megapixels, searched whole and tile by tile',
  withPeer: false,

  async run({ quick, repetitions }) {
    const model = await shippedModel()
    await using lookout = await startLookout(model.cardFile, model.id)
    const count = repetitions ?? (quick ? 1 : PICTURES)
    const first = Date.now() % 1_000_000
    print(
      await tilesTable(
        lookout,
        Array.from({ length: count }, (_, index) => first + index),
        planTiles(BIG_SIZE, { grid: 'auto', smallest: null }, model.card.image!)!.flatMap(({ tiles }) => tiles),
      ),
    )
  },
}

interface Counts {
  known: number
  found: number
  right: number
  large: number
  looks: number
  readonly ms: number[]
  /** Boxes with confidence. */
  readonly rated: Rated[]
}

/**
 * A Markdown table: what is found on the pictures with these seeds in each way, and how long it takes.
 * @param tiles of all grids, for a client that cuts them.
 */
async function tilesTable(
  server: BenchServer,
  seeds: readonly number[],
  tiles: readonly PixelRegion[],
): Promise<string> {
  const counts = WAYS.map((): Counts => ({ known: 0, found: 0, right: 0, large: 0, looks: 0, ms: [], rated: [] }))
  let large = 0
  // Another picture warms the server up: it keeps what it has decoded.
  await search(server, await bigPicture(seeds[0]! - 1), {})
  for (const seed of seeds) {
    large += (await bigPicture(seed)).truth.filter(isLarge).length
    for (const [index, { config }] of WAYS.entries()) {
      // The server has not seen a picture of this tint, so no cache shortens the time.
      const picture = await bigPicture(seed, index)
      const { boxes, looks, ms } = await (config === null
        ? searchTiles(server, picture, tiles)
        : search(server, picture, config))
      const { pairs } = matchBoxes(picture.truth, boxes, LEAST_IOU)
      const own = counts[index]!
      own.known += picture.truth.length
      own.found += boxes.length
      own.right += pairs.length
      own.large += pairs.filter(({ known }) => isLarge(picture.truth[known]!)).length
      own.looks += looks
      own.ms.push(ms)
      const right = new Set(pairs.map(({ found }) => found))
      for (const [at, { confidence }] of boxes.entries()) {
        if (confidence !== undefined) own.rated.push({ confidence, right: right.has(at) })
      }
    }
  }
  const rows = WAYS.map(({ name }, index) => {
    const { known, found, right, large: ownLarge, looks, ms, rated } = counts[index]!
    return [
      name,
      (right / known).toFixed(3),
      found === 0 ? '' : (right / found).toFixed(3),
      `${ownLarge}/${large}`,
      String(looks),
      spread(ms, 0),
      medianRatio(ms, counts[0]!.ms).toFixed(1),
      rated.length === 0 ? '' : `${brierScore(rated)!.toFixed(3)} / ${calibrationError(rated)!.toFixed(3)}`,
    ]
  })
  const { width, height } = BIG_SIZE
  return `### Detection in large pictures

${width} x ${height} pixels, four categories; pictures with the seeds ${seeds.join(', ')}. A box is right at an IoU of ${LEAST_IOU}.

${table(['searched', 'recall', 'precision', 'large things', 'looks', 'ms', 'times whole', 'Brier / ECE'], rows)}`
}

interface SearchResult {
  readonly boxes: DetectedBox[]
  readonly looks: number
  readonly ms: number
}

async function search(
  server: BenchServer,
  { png, categories }: Omit<BigPicture, 'truth'>,
  config: object,
): Promise<SearchResult> {
  const media = { type: 'image', image_url: `data:image/png;base64,${png.toString('base64')}` }
  const started = performance.now()
  const response = await post(server, '/v1/detect', { media, categories, config })
  const { detections, looks = 0 } = (await response.json()) as Detections
  const ms = performance.now() - started
  const boxes = detections.map(({ mention: label, point_box: box, confidence }) => ({
    label,
    ...(confidence !== undefined && { confidence }),
    ...{ left: box!.top_left.x, top: box!.top_left.y, right: box!.bottom_right.x, bottom: box!.bottom_right.y },
  }))
  return { boxes, looks, ms }
}

/** What a client does with a server that knows no tiles: it decodes the picture once, and sends each tile as a PNG. */
async function searchTiles(
  server: BenchServer,
  { png, categories }: BigPicture,
  tiles: readonly PixelRegion[],
): Promise<SearchResult> {
  const started = performance.now()
  const { data, info } = await sharp(png).raw().toBuffer({ resolveWithObject: true })
  const found: (DetectedBox & { readonly side: number })[] = []
  const queue = tiles.values()
  const work = async () => {
    // All workers take from the one iterator.
    for (const tile of queue) {
      const cut = sharp(data, { raw: info }).extract(tile).png({ compressionLevel: 1 })
      const { boxes } = await search(server, { png: await cut.toBuffer(), categories }, {})
      for (const { label, left, top, right, bottom } of boxes) {
        const { left: x, top: y } = tile
        found.push({ label, left: left + x, top: top + y, right: right + x, bottom: bottom + y, side: tile.width })
      }
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  // Those of the finest grid first, and of a grid the largest: others may be cut.
  const sorted = found.toSorted((one, other) => one.side - other.side || areaOf(other) - areaOf(one))
  return { boxes: merged(sorted), looks: 0, ms: performance.now() - started }
}

/** Each box as large as it and what it is merged with. */
function merged(boxes: readonly DetectedBox[]): DetectedBox[] {
  const kept: DetectedBox[] = []
  for (const box of boxes) {
    const index = kept.findIndex((other) => other.label === box.label && sharedWith(other, box) > SAME_SHARE)
    const same = kept[index]
    if (same === undefined) kept.push(box)
    else {
      const [left, top] = [Math.min(same.left, box.left), Math.min(same.top, box.top)]
      const [right, bottom] = [Math.max(same.right, box.right), Math.max(same.bottom, box.bottom)]
      kept[index] = { label: box.label, left, top, right, bottom }
    }
  }
  return kept
}

/** Share of the smaller one's area. */
function sharedWith(one: DetectedBox, other: DetectedBox): number {
  const iou = iouOf(one, other)
  const both = (iou * (areaOf(one) + areaOf(other))) / (1 + iou)
  return both / Math.max(1, Math.min(areaOf(one), areaOf(other)))
}

function isLarge({ left, right, top, bottom }: DetectedBox): boolean {
  return Math.max(right - left, bottom - top) >= LARGE_SIDE
}
