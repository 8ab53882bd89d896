/**
 * How sure detect is of what it finds, against how often that is right, on new pictures of the shipped model's world whose
 * objects are known; and what the answer costs.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LookoutClient } from '../src/client/client.ts'
import { openPicture, sendMedia } from '../src/commands/asking/media.ts'
import { askBoxes, type FoundList, LEAST_IOU } from '../src/commands/calibrating/ask-boxes.ts'
import { type BoxExample, toBoxExample } from '../src/commands/calibrating/box-examples.ts'
import { crossFitted, type Depth, rateBoxes, rateLists } from '../src/commands/calibrating/box-fit.ts'
import {
  boxQuality,
  brierScore,
  calibrationError,
  precisionAt,
  type Rated,
  type RatedList,
  rankingQuality,
} from '../src/commands/calibrating/box-quality.ts'
import { readLines } from '../src/commands/calibrating/examples.ts'
import { twoAtOnce } from '../src/commands/calibrating/two-at-once.ts'
import { iouOf } from '../src/lib/rectangle.ts'
import type { DetectionFit } from '../src/models/detection-schema.ts'
import { type Benchmark, type BenchOptions, print } from './support/benchmark.ts'
import { drawPictures } from './support/drawn-pictures.ts'
import { shippedModel } from './support/models.ts'
import { startLookout } from './support/server.ts'
import { median, medianRatio } from './support/statistics.ts'
import { table } from './support/table.ts'

/** Pictures of each world. */
const WORLDS = { hard: 100, plain: 80, empty: 100 } as const
type World = keyof typeof WORLDS
/** The first one: those before were fitted to, or are measured by `npm run eval -- detect`. */
const FIRST = 200_000
const RECALL = 0.85
/** Boxes of empty pictures count from this confidence. */
const FALSE_FROM = 0.3
/** Pictures whose detection is timed. */
const TIMED = 20

export const detect: Benchmark = {
  summary: 'how sure detect is of its boxes, how often they are right, and what knowing that costs',
  withPeer: false,

  async run(options) {
    const model = await shippedModel()
    const folder = await mkdtemp(join(tmpdir(), 'lookout-detect-'))
    try {
      const sizes = Object.entries(WORLDS).map(([world, count]) => [world, options.quick ? count / 5 : count] as const)
      const worlds = sizes.flatMap(([world, count]) => [`--${world}`, String(count)])
      await drawPictures(options.python, ['detections', '--output', folder, '--first', String(FIRST), ...worlds])
      await using lookout = await startLookout(model.cardFile, model.id)
      const client = new LookoutClient({ url: lookout.url, key: lookout.apiKey })
      const ask = async (world: World) => {
        return askBoxes((await readLines(join(folder, world))).map(toBoxExample), { client, model: model.id })
      }
      const found = { hard: await ask('hard'), plain: await ask('plain'), empty: await ask('empty') }
      const rows = [
        ...qualityRows(found, model.card.detection ?? null),
        ...(await singleRows(join(folder, 'hard'), client, model.id)),
        await costRow(folder, client, options),
      ]
      print(`### Detection, ${model.name}

${sizes.map(([world, count]) => `${count} pictures ${world}`).join(', ')}, of seeds from ${FIRST}. "Other half": by a fit of every other picture of that world.

${table(['', 'boxes', 'as it is', "the card's fit", 'other half', 'goal'], rows)}`)
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  },
}

/** Figures of one kind of evidence: without a fit, by the card's, and by one of the other half. */
function qualityRows(found: Readonly<Record<World, readonly FoundList[]>>, card: DetectionFit | null): string[][] {
  const boxes = (world: World, depth: Depth, show: (rated: readonly RatedList[]) => string) => {
    const lists = found[world]
    const rate = (some: readonly FoundList[], fit: DetectionFit | null) => rateBoxes(some, depth, fit)
    const other = crossFitted<RatedList>(lists, rate)
    const raw = rate(lists, null)
    const count = String(raw.flatMap((list) => list.found).length)
    return [count, show(raw), card === null ? '-' : show(rate(lists, card)), other === null ? '-' : show(other)]
  }
  const calibration = (rated: readonly RatedList[]) => {
    const { brier, ece } = boxQuality(rated)
    return `${shown(brier)} / ${shown(ece)}`
  }
  const precision = (rated: readonly RatedList[]) => {
    const { ap50, ap } = boxQuality(rated)
    return `${shown(ap50)} / ${shown(ap)}`
  }
  const atRecall = (rated: readonly RatedList[]) => precisionAt(rated, RECALL)?.toFixed(3) ?? 'never'
  const sure = (rated: readonly RatedList[]) => {
    return String(rated.flatMap((list) => list.found).filter(({ confidence }) => confidence >= FALSE_FROM).length)
  }
  const whole = (rated: readonly Rated[]) => `${shown(rankingQuality(rated))} / ${shown(calibrationError(rated))}`
  const lists = found.hard
  const other = crossFitted<Rated>(lists, rateLists)
  return [
    ['Brier / ECE, hard, one pass', ...boxes('hard', 'plain', calibration), '.050 / .020'],
    ['the same, thorough', ...boxes('hard', 'thorough', calibration), '.040 / .015'],
    ['Brier / ECE, plain, one pass', ...boxes('plain', 'plain', calibration), ''],
    ['the same, thorough', ...boxes('plain', 'thorough', calibration), ''],
    ['AP50 / AP, hard, one pass', ...boxes('hard', 'plain', precision), ''],
    ['the same, thorough', ...boxes('hard', 'thorough', precision), '.85 / .60'],
    [`precision at recall ${RECALL}, hard, one pass`, ...boxes('hard', 'plain', atRecall), ''],
    ['the same, thorough', ...boxes('hard', 'thorough', atRecall), '.90'],
    [`boxes on empty pictures from ${FALSE_FROM}, thorough`, ...boxes('empty', 'thorough', sure).slice(0, 3), '', '0'],
    [
      'list whole: AUC / ECE, hard',
      String(lists.length),
      whole(rateLists(lists, null)),
      card === null ? '-' : whole(rateLists(lists, card)),
      other === null ? '-' : whole(other),
      '.90 / .03',
    ],
  ]
}

/** How sure `x_box` is of its box, or that there is none: by the mean of the tokens, and by the card's fit. */
async function singleRows(folder: string, client: LookoutClient, model: string): Promise<string[][]> {
  const examples = (await readLines(folder)).map(toBoxExample)
  const ask = async (calibrated: boolean) => {
    const asked = await twoAtOnce(examples, (example) => askSingle(example, calibrated, client, model))
    return asked.flat()
  }
  const rated = [await ask(false), await ask(true)] as const
  return [true, false].map((isThere) => {
    const own = rated.map((all) => all.filter((one) => one.isThere === isThere))
    const figures = own.map((some) => `${shown(brierScore(some))} / ${shown(calibrationError(some))}`)
    const title = isThere ? 'x_box, hard: Brier / ECE' : 'the same, where it says that there is none'
    return [title, String(own[1]!.length), ...figures, '', '- / .03']
  })
}

async function askSingle(
  { file, categories, known }: BoxExample,
  x_calibrated: boolean,
  client: LookoutClient,
  model: string,
) {
  await using uploads = new AsyncDisposableStack()
  const picture = await openPicture(file)
  const { width, height } = picture.size
  const [sent] = await sendMedia([picture], client, uploads)
  const image_url = sent!.url
  const input = [{ role: 'user', content: [{ type: 'input_image', image_url }] }]
  const questions = categories.map((instructions) => ({ type: 'x_box', instructions }))
  const answers = await client.decide({ model, input, questions, x_calibrated })
  return answers.flatMap((answer, index) => {
    if (answer.type !== 'x_box' || answer.confidence === null) return []
    const own = known.filter(({ label }) => label === categories[index])
    const { box, confidence } = answer
    if (box === null) return [{ isThere: false, confidence, right: own.length === 0 }]
    const { left, top, right, bottom } = box
    const found = { left: left * width, top: top * height, right: right * width, bottom: bottom * height }
    return [{ isThere: true, confidence, right: own.some((one) => iouOf(one, found) >= LEAST_IOU) }]
  })
}

/** Time of a detection by what is asked, over that without; the picture has been asked about before. */
async function costRow(folder: string, client: LookoutClient, { quick, repetitions }: BenchOptions): Promise<string[]> {
  const examples = (await readLines(join(folder, 'hard'))).map(toBoxExample).slice(0, quick ? 5 : TIMED)
  const ways = [{}, { confidence: true }, { confidence: 'thorough' }]
  const times: number[][] = ways.map(() => [])
  for (const { file, categories } of examples) {
    const url = `data:image/png;base64,${(await readFile(file)).toString('base64')}`
    const time = async (config: object) => {
      const started = performance.now()
      await client.detect({ media: { type: 'image', image_url: url }, categories, config })
      return performance.now() - started
    }
    for (const config of ways) await time(config)
    const own: number[][] = ways.map(() => [])
    for (let round = 0; round < (repetitions ?? 3); round++) {
      for (const way of round % 2 === 0 ? [0, 1, 2] : [2, 1, 0]) own[way]!.push(await time(ways[way]!))
    }
    for (const [way, all] of own.entries()) times[way]!.push(median(all))
  }
  const [without, one, thorough] = times as [number[], number[], number[]]
  const cost = [one, thorough].map((all) => medianRatio(all, without).toFixed(2)).join(' / ')
  return ['time over plain detect, one pass / thorough', '', cost, '', '', '1.05 / 1.5']
}

function shown(figure: number | null): string {
  return figure?.toFixed(3) ?? '-'
}
