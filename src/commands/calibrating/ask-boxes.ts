import type { Detections } from '../../client/answers.ts'
import type { LookoutClient } from '../../client/client.ts'
import { ServerError } from '../../client/server-error.ts'
import { ConfigError } from '../../config/config.ts'
import type { BoxEvidence } from '../../conversation/detecting/confidence.ts'
import { matchBoxes } from '../../exports/box-matching.ts'
import type { DetectedBox } from '../../exports/detected-picture.ts'
import { MediaError, openPicture, sendMedia } from '../asking/media.ts'
import { toDetected } from '../detecting/results.ts'
import type { BoxExample } from './box-examples.ts'
import { twoAtOnce } from './two-at-once.ts'

/** The found and the known boxes of one category in one picture. */
export interface FoundList {
  /** Lists of one file are not independent. */
  readonly file: string
  readonly known: readonly DetectedBox[]
  readonly found: readonly FoundBox[]
  /** The probability of continuing at the end; null if the engine gives none. */
  readonly more: number | null
}

export interface FoundBox {
  readonly box: DetectedBox
  readonly evidence: BoxEvidence
  readonly right: boolean
}

/** Whether the model wrote the box by itself, rather than as the further one that it was asked for. */
export function isListed({ evidence }: Pick<FoundBox, 'evidence'>): boolean {
  return evidence.rank <= evidence.listLength
}

/** Boxes with less overlap with a known one are wrong. */
export const LEAST_IOU = 0.5

/**
 * Searches each picture for its categories, with the evidence for each box and, if the engine can score replies, with
 * one further box for each category.
 * @param onFile called after each picture.
 * @returns a list for each category of each picture, in order.
 * @throws ConfigError naming the example that cannot be asked.
 */
export async function askBoxes(
  examples: readonly BoxExample[],
  { client, model, onFile }: { client: LookoutClient; model: string; onFile?: (done: number, files: number) => void },
): Promise<readonly FoundList[]> {
  // Engines that cannot score replies still give the probabilities of what the model writes.
  let isThorough = true
  const ask = async (body: object): Promise<Detections> => {
    // Another request may find out first that the engine cannot score replies.
    const asked = isThorough
    const config = { confidence: asked ? 'thorough' : true, evidence: true, min_confidence: 0 }
    try {
      return await client.detect({ ...body, model, config })
    } catch (error) {
      if (!asked || !(error instanceof ServerError) || error.param !== 'config.confidence') throw error
      isThorough = false
      return ask(body)
    }
  }
  const lists = await twoAtOnce(examples, (example) => search(example, client, ask), onFile)
  return lists.flat()
}

async function search(
  example: BoxExample,
  client: LookoutClient,
  ask: (body: object) => Promise<Detections>,
): Promise<readonly FoundList[]> {
  const { file, place, categories } = example
  await using uploads = new AsyncDisposableStack()
  try {
    const picture = await openPicture(file)
    const [sent] = await sendMedia([picture], client, uploads)
    const answer = await ask({ media: { type: 'image', image_url: sent!.url }, categories })
    return categories.map((category) => listOf(category, example, answer))
  } catch (error) {
    if (error instanceof MediaError) throw new ConfigError(`${place}: ${error.message}`)
    if (!(error instanceof ServerError) || error.param === null || !/^(media|categories)\b/.test(error.param))
      throw error
    throw new ConfigError(`${place}: ${error.param.startsWith('media') ? `${file}: ` : ''}${error.message}`)
  }
}

function listOf(category: string, { file, known: all }: BoxExample, { detections, categories }: Detections): FoundList {
  const own = detections.filter(({ mention }) => mention === category)
  const known = all.filter(({ label }) => label === category)
  const { boxes } = toDetected({ name: file, width: 0, height: 0, detections: own, finish_reason: '' }, file)
  const found = own.map(({ evidence }, i) => {
    const { list_length: listLength, read = null, ...place } = evidence!
    return { box: boxes[i]!, evidence: { ...place, listLength, read } }
  })
  // A further box must not take a match from those that the model wrote by itself.
  const listed = matched(known, found.filter(isListed))
  const right = new Set([
    ...listed,
    ...matched(
      known.filter((box) => !listed.has(box)),
      found,
    ),
  ])
  return {
    file,
    known,
    found: found.map((one) => ({ ...one, right: right.has(one.box) })),
    more: categories?.find(({ mention }) => mention === category)?.evidence?.more ?? null,
  }
}

/** The boxes of both lists that match. */
function matched(known: readonly DetectedBox[], found: readonly Pick<FoundBox, 'box'>[]): ReadonlySet<DetectedBox> {
  const boxes = found.map(({ box }) => box)
  const { pairs } = matchBoxes(known, boxes, LEAST_IOU)
  return new Set(pairs.flatMap((pair) => [known[pair.known]!, boxes[pair.found]!]))
}
