import type { Leaf } from '../grounding/annotation.ts'
import type { DetectionKind } from '../grounding/dialect.ts'
import type { Generation, Measurement, PromptUsage } from '../inference/contract/generation.ts'
import type { PromptPart } from '../inference/contract/parts.ts'
import type { Work } from '../inference/contract/work.ts'
import type { DecodedImage } from '../media/decoding/protocol.ts'
import type { Size } from '../media/pixels.ts'
import type { Grid } from '../media/tile-plan.ts'
import { branchOf, type Call } from './call.ts'
import { checkDetect } from './capability-checks.ts'
import { type Detection, toDetection } from './detecting/detection.ts'
import { dialogOf, imageUrlsOf } from './detecting/dialog.ts'
import { groupsOf, kindToFind, labelsOf } from './detecting/labels.ts'
import { DetectionSearch } from './detecting/search.ts'
import { loadPictures } from './prompt/media-parts.ts'
import { untrusted } from './prompt/placeholders.ts'
import { buildSharedPrompt } from './prompt/prompt.ts'
import { thoughtBudget } from './prompt/thinking.ts'
import { AS_MANY_AS_FIT, MeasuredPrompt } from './prompt/token-budget.ts'
import { followSearches } from './reply/annotation-search.ts'
import { dialectOf } from './reply/grounding.ts'
import { ReplySpec } from './reply/reply-spec.ts'
import { sharedPromptUsage } from './reply/usage.ts'
import type { Deadline } from './request/deadline.ts'
import type { DetectRequest } from './request/detect-request.ts'

export interface DetectReply {
  readonly detections: readonly Detection[]
  /** `length` when an answer was truncated. */
  readonly finishReason: 'complete' | 'length'
  /** Present where the picture was searched tile by tile. */
  readonly tiling?: Tiling
}

export interface Tiling {
  /** The finest first. */
  readonly grids: readonly Grid[]
  /** How many things were looked at a second time. */
  readonly looks: number
  /** Tiles that were not searched by the deadline; null when it did not pass. */
  readonly tilesLeft: number | null
}

/** A picture that is shrunk more than this per side may have things that the model cannot see. */
const MOST_SHRUNK = 4

/** What is asked about each picture. */
export interface Asked {
  readonly request: DetectRequest
  readonly labels: readonly string[] | null
  readonly kind: DetectionKind
}

/** Searches an image. */
export async function answerDetect(request: DetectRequest, call: Call): Promise<DetectReply> {
  const { model } = call
  checkDetect(request, model)
  const labels = labelsOf(request)
  const images = await loadPictures(imageUrlsOf(request), model.card.image!, call)
  call.held.dispose()
  const kind = kindToFind(request, labels, model)
  const { leaves, isComplete } = await searchPicture({ request, labels, kind }, images, call)
  const { original: size, image } = images.at(-1)!
  noteShrinking(size, image, call)
  return {
    detections: leaves.map((leaf) => toDetection(leaf, request.output, size)),
    finishReason: isComplete ? 'complete' : 'length',
  }
}

export interface Searched {
  readonly leaves: readonly Leaf[]
  /** False when an answer was truncated. */
  readonly isComplete: boolean
}

/**
 * Searches the last of the images; the others are those of exemplars.
 * @param admit hands the work to the engine.
 * @throws ApiError 504 when the deadline passes before the first text.
 */
export async function searchPicture(
  asked: Asked,
  images: readonly DecodedImage[],
  call: Call,
  admit = (work: Work) => call.model.engine.generate(work, call.signal),
): Promise<Searched> {
  const { searches, work } = await workOf(asked, images, call)
  await followToDeadline(searches, await admit(work), call.deadline)
  return {
    leaves: searches.flatMap(({ leaves }) => leaves),
    isComplete: searches.every(({ isComplete }) => isComplete),
  }
}

/** Measures the search of one image. */
export async function measurePicture(
  asked: Asked,
  images: readonly DecodedImage[],
  call: Call,
): Promise<PromptUsage & Pick<Measurement, 'exact'>> {
  const { work, prefix } = await workOf(asked, images, call)
  const { prompts, exact } = await call.model.engine.measure(work, call.signal)
  return { ...sharedPromptUsage(prompts, await prefix.countTokens()), exact }
}

/**
 * A constraint limits the model's answer to objects with the requested labels. Each label gets its own branch over the shared
 * image, because a model that is asked for all of them in one answer forgets some. Exemplars become earlier turns with their
 * answers.
 */
async function workOf(
  { request, labels, kind }: Asked,
  images: readonly DecodedImage[],
  call: Call,
): Promise<{ readonly searches: DetectionSearch[]; readonly work: Work; readonly prefix: MeasuredPrompt }> {
  const { model, organisation, style } = call
  const { detection, reader } = dialectOf(model.card)
  const { scene, messages, media } = dialogOf({ request, labels, kind, model }, images)

  const param = request.categories.length > 0 || request.exemplars.length === 0 ? 'categories' : 'exemplars'
  // Reasoning never shows in the reply, so a model that needs it for exemplars may reason without being asked to.
  const thinking = request.thinking || (request.exemplars.length > 0 && model.card.thought?.exemplars === true)
  const earlier = { param, messages: messages.slice(0, -1), media, instruction: detection.instruction(kind), thinking }
  const shared = await buildSharedPrompt(earlier, style)
  const image: PromptPart = { type: 'image', image: images.at(-1)!.image }
  const prefix = new MeasuredPrompt([...shared.prefix, image], call)
  const budget = thinking ? thoughtBudget(request.thinking ? null : 'minimal') : null
  const searches: DetectionSearch[] = []
  for (const group of groupsOf(labels)) {
    const bound = { type: 'regex', pattern: detection.pattern(kind, group, scene), param, advisory: true } as const
    const spec = new ReplySpec({ bound, thoughtBudget: budget }, model)
    // Every question begins with the image, which is the last part of the shared prefix.
    const [, ...suffix] = shared.suffix([image, ...untrusted(detection.question(kind, group))])
    const branch = await branchOf({ param, prefix, suffix, spec, asked: AS_MANY_AS_FIT }, call)
    const written = group && new Map(group.map((label) => [detection.written?.(label) ?? label, label]))
    searches.push(new DetectionSearch({ branch, reply: spec.createReader(), reader: reader(scene), labels: written }))
  }
  const branches = searches.map(({ branch }) => branch)
  return { searches, prefix, work: { organisation, prefix: prefix.parts, branches, whole: true } }
}

function noteShrinking(from: Size, to: Size, { trace }: Call): void {
  const factor = Math.sqrt((from.width * from.height) / (to.width * to.height))
  if (factor <= MOST_SHRUNK) return
  const text = `The model sees the picture shrunk ${factor.toFixed(1)} times and may miss small things; config.tiles shows it more`
  trace?.note?.('media.image_url', text, 'info')
}

/** At the deadline, the objects found so far count. @throws ApiError 504 when it passes before the first text. */
async function followToDeadline(
  searches: readonly DetectionSearch[],
  generation: Generation,
  deadline: Deadline,
): Promise<void> {
  try {
    await followSearches(searches, generation)
  } catch (error) {
    if (!deadline.caused(error) || !searches.some(({ hasText }) => hasText)) throw error
    for (const search of searches) if (!search.isOver) search.end(true)
  }
}
