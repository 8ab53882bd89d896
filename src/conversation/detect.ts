import type { Leaf } from '../grounding/annotation.ts'
import type { DetectionKind, Scene } from '../grounding/dialect.ts'
import type { Generation, Measurement, PromptUsage } from '../inference/contract/generation.ts'
import type { PromptPart } from '../inference/contract/parts.ts'
import type { Work } from '../inference/contract/work.ts'
import type { DecodedImage } from '../media/decoding/process/protocol.ts'
import type { Size } from '../media/pixels.ts'
import type { Grid } from '../media/tile-plan.ts'
import { branchOf, type Call } from './call/call.ts'
import { checkDetect } from './call/capability-checks.ts'
import { type Detection, toDetection } from './detecting/detection.ts'
import { dialogOf, imageUrlsOf } from './detecting/dialog.ts'
import { groupsOf, kindToFind, labelsOf } from './detecting/labels.ts'
import type { RatedList, Sureness } from './detecting/rated-list.ts'
import { DetectionSearch } from './detecting/search.ts'
import { ALTERNATIVES, type Rating, rateSearches } from './detection-ratings.ts'
import { loadPictures } from './prompt/media-parts.ts'
import { untrusted } from './prompt/placeholders.ts'
import { buildSharedPrompt, type SharedPrompt } from './prompt/prompt.ts'
import { thoughtBudget } from './prompt/thinking.ts'
import { AS_MANY_AS_FIT, MeasuredPrompt } from './prompt/token-budget.ts'
import { followSearches } from './reply/annotation-search.ts'
import { dialectOf } from './reply/grounding.ts'
import { ReplySpec } from './reply/reply-spec.ts'
import { sharedPromptUsage } from './reply/usage.ts'
import type { Deadline } from './request/deadline.ts'
import type { ConfidenceRequest, DetectRequest, Targets } from './request/detect-request.ts'

export interface DetectReply {
  readonly detections: readonly (Detection & Partial<Sureness>)[]
  /** One for each label, or one without a label for all objects. Present if the request asks for confidence. */
  readonly categories?: readonly CategoryReply[]
  /** Whether the probabilities were fitted to examples. Present with `categories`. */
  readonly isCalibrated?: boolean
  /** `length` if an answer was truncated, or a thorough one was not ready in time. */
  readonly finishReason: 'complete' | 'length'
  /** Present if the picture was searched tile by tile. */
  readonly tiling?: Tiling
}

export interface Tiling {
  /** The finest first. */
  readonly grids: readonly Grid[]
  /** Number of second looks. */
  readonly looks: number
  /** Number of tiles that were not searched by the deadline; null if it did not pass. */
  readonly tilesLeft: number | null
}

/** How sure the model is that it has found all objects of a label, or all objects if the label is null. */
interface CategoryReply extends Pick<RatedList, 'complete' | 'more'> {
  readonly label: string | null
}

/** A picture that is shrunk more than this per side may have objects that the model cannot see. */
const MOST_SHRUNK = 4

/** What is asked about each picture. */
export interface Asked {
  readonly request: Targets
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
  const searched = await searchPicture({ request, labels, kind }, images, call)
  const { original, image } = images.at(-1)!
  noteShrinking(original, image, call)
  return replyAbout(original, searched, request, call)
}

/** The reply about a picture of this size, with confidence if the request asks for that. */
export async function replyAbout(
  picture: Size,
  searched: Searched,
  { output, confidence }: DetectRequest,
  call: Call,
): Promise<DetectReply> {
  const { leaves, isComplete } = searched
  const reply = (leaf: Leaf) => toDetection(leaf, output, picture)
  const finishReason = isComplete ? 'complete' : 'length'
  if (confidence === null) return { detections: leaves.map(reply), finishReason }
  const { lists, ...rating } = await ratePicture(searched, confidence, call)
  const objects = lists.flatMap(({ objects }) => objects)
  return {
    detections: objects
      .filter((object) => object.confidence >= confidence.least)
      .map(({ leaf, ...sureness }) => ({ ...reply(leaf), ...sureness })),
    categories: lists.flatMap(({ labels, complete, more }) =>
      (labels ?? [null]).map((label) => ({ label, complete, more })),
    ),
    isCalibrated: call.model.card.detection !== undefined,
    finishReason: rating.isComplete ? finishReason : 'length',
  }
}

/** @throws ApiError 400 for an engine that gives no log-probabilities. */
export async function ratePicture(
  { searches, prefix, asking }: Searched,
  confidence: ConfidenceRequest,
  call: Call,
): Promise<Rating> {
  return rateSearches({ ...asking, searches, prefix, plain: await asking.plain() }, confidence, call)
}

/** The searches of one picture, and how their questions were put. */
interface Prepared {
  readonly asking: Asking
  readonly prefix: MeasuredPrompt
  readonly searches: readonly DetectionSearch[]
  readonly work: Work
}

export interface Searched extends Prepared {
  readonly leaves: readonly Leaf[]
  /** False when an answer was truncated. */
  readonly isComplete: boolean
}

/**
 * Searches the last of the images; the others belong to exemplars.
 * @param admit hands the work to the engine.
 * @throws ApiError 504 when the deadline passes before the first text.
 */
export async function searchPicture(
  asked: Asked,
  images: readonly DecodedImage[],
  call: Call,
  admit = (work: Work) => call.model.engine.generate(work, call.signal),
): Promise<Searched> {
  const prepared = await prepare(asked, images, call)
  const { searches, work } = prepared
  await followToDeadline(searches, await admit(work), call.deadline)
  return {
    ...prepared,
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
  const { work, prefix } = await prepare(asked, images, call)
  const { prompts, exact } = await call.model.engine.measure(work, call.signal)
  return { ...sharedPromptUsage(prompts, await prefix.countTokens()), exact }
}

/**
 * A constraint limits the model's answer to objects with the requested labels. Each label gets its own branch over the shared
 * image, because a model that is asked for all of them in one answer forgets some. Exemplars become earlier turns with their
 * answers.
 */
async function prepare(asked: Asked, images: readonly DecodedImage[], call: Call): Promise<Prepared> {
  const asking = await askingOf(asked, images, call)
  const groups = groupsOf(asked.labels)
  const { confidence } = asked.request
  const { prefix, searches } = await searchesIn(images.at(-1)!, groups, { ...asking, confidence }, call)
  const branches = searches.map(({ branch }) => branch)
  return {
    asking,
    prefix,
    searches,
    work: { organisation: call.organisation, prefix: prefix.parts, branches, whole: true },
  }
}

/** How the questions of one request are put. */
export interface Asking extends Pick<SharedPrompt, 'suffix'> {
  readonly kind: DetectionKind
  /** The part of the prompt before the picture. */
  readonly opening: readonly PromptPart[]
  /** The parameter that errors about the questions name. */
  readonly param: 'categories' | 'exemplars'
  readonly scene: Scene
  /** Tokens of the thought; null without one. */
  readonly budget: number | null
  /** The confidence to compute; null or absent for none. */
  readonly confidence?: ConfidenceRequest | null
  /** The prompt for questions that are answered in words, without thinking. */
  plain(): Promise<SharedPrompt>
}

/** @param images those of the exemplars, and the first one to search. */
export async function askingOf(
  { request, labels, kind }: Asked,
  images: readonly DecodedImage[],
  { model, style }: Call,
): Promise<Asking> {
  const { detection } = dialectOf(model.card)
  const { scene, messages, media } = dialogOf({ request, labels, kind, model }, images)
  const param = request.categories.length > 0 || request.exemplars.length === 0 ? 'categories' : 'exemplars'
  // Reasoning never shows in the reply, so a model that needs it for exemplars may reason without being asked to.
  const thinking = request.thinking || (request.exemplars.length > 0 && model.card.thought?.exemplars === true)
  const earlier = { param, messages: messages.slice(0, -1), media, instruction: detection.instruction(kind), thinking }
  const shared = await buildSharedPrompt(earlier, style)
  const budget = thinking ? thoughtBudget(request.thinking ? null : 'minimal') : null
  const plain = () => buildSharedPrompt({ ...earlier, instruction: null, thinking: false }, style)
  return { kind, opening: shared.prefix, suffix: shared.suffix, param, scene, budget, plain }
}

/** @returns a search for each group of labels, and the part of the prompt that they share. */
export async function searchesIn(
  { image: picture }: DecodedImage,
  groups: readonly (readonly string[] | null)[],
  { kind, opening, suffix: rest, param, budget, confidence = null, ...asking }: Asking,
  call: Call,
): Promise<{ readonly prefix: MeasuredPrompt; readonly searches: readonly DetectionSearch[] }> {
  const { model } = call
  const { detection, reader } = dialectOf(model.card)
  const scene = { ...asking.scene, image: { width: picture.width, height: picture.height } }
  const image: PromptPart = { type: 'image', image: picture }
  const prefix = new MeasuredPrompt([...opening, image], call)
  const searches: DetectionSearch[] = []
  for (const group of groups) {
    const bound = { type: 'regex', pattern: detection.pattern(kind, group, scene), param, advisory: true } as const
    const spec = new ReplySpec({ bound, thoughtBudget: budget }, model)
    // Every question begins with the image, which is the last part of the shared prefix.
    const [, ...suffix] = rest([image, ...untrusted(detection.question(kind, group))])
    const rated = confidence !== null && {
      topLogProbs: ALTERNATIVES,
      isContinued: confidence.isThorough || confidence.asksFurther === true,
    }
    const asked = { ...AS_MANY_AS_FIT, ...rated }
    const branch = await branchOf({ param, prefix, suffix, spec, asked }, call)
    const written = group && new Map(group.map((label) => [detection.written?.(label) ?? label, label]))
    searches.push(
      new DetectionSearch({ branch, reply: spec.createReader(), createReader: () => reader(scene), labels: written }),
    )
  }
  return { prefix, searches }
}

function noteShrinking(from: Size, to: Size, { trace }: Call): void {
  const factor = Math.sqrt((from.width * from.height) / (to.width * to.height))
  if (factor <= MOST_SHRUNK) return
  const text = `The model sees the picture shrunk ${factor.toFixed(1)} times and may miss small things; tiles show it more`
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
