import type { Leaf } from '../grounding/annotation.ts'
import type { DetectionKind, Scene } from '../grounding/dialect.ts'
import type { Generation } from '../inference/contract/generation.ts'
import type { PromptPart } from '../inference/contract/parts.ts'
import type { DecodedImage } from '../media/decoding/protocol.ts'
import { branchOf, type Call } from './call.ts'
import { checkDetect } from './capability-checks.ts'
import { type Detection, toDetection } from './detecting/detection.ts'
import { dialogOf, imageUrlsOf } from './detecting/dialog.ts'
import { groupsOf, kindToFind, labelsOf } from './detecting/labels.ts'
import type { RatedList, RatedObject } from './detecting/rated-list.ts'
import { DetectionSearch } from './detecting/search.ts'
import { ALTERNATIVES, rateSearches } from './detection-ratings.ts'
import { loadPictures } from './prompt/media-parts.ts'
import { untrusted } from './prompt/placeholders.ts'
import { buildSharedPrompt, type SharedPrompt } from './prompt/prompt.ts'
import { thoughtBudget } from './prompt/thinking.ts'
import { AS_MANY_AS_FIT, MeasuredPrompt } from './prompt/token-budget.ts'
import { followSearches } from './reply/annotation-search.ts'
import { dialectOf } from './reply/grounding.ts'
import { ReplySpec } from './reply/reply-spec.ts'
import type { Deadline } from './request/deadline.ts'
import type { DetectRequest, Targets } from './request/detect-request.ts'

export interface DetectReply {
  readonly detections: readonly (Detection & Partial<Sureness>)[]
  /** One for each label; of all objects, one without a label. Present where the request asks how sure the model is. */
  readonly categories?: readonly CategoryReply[]
  /** Whether the probabilities were fitted to examples. Present with `categories`. */
  readonly isCalibrated?: boolean
  /** `length` when an answer was truncated. */
  readonly finishReason: 'complete' | 'length'
}

/** How sure the model is of an object, and what that was computed from. */
type Sureness = Omit<RatedObject, 'leaf'>

/** How sure the model is that it has found all objects of a label; of any, where that is null. */
interface CategoryReply extends Pick<RatedList, 'complete' | 'more'> {
  readonly label: string | null
}

/**
 * Searches an image. A constraint limits the model's answer to objects with the requested labels. Each label gets its own
 * branch over the shared image, because a model that is asked for all of them in one answer forgets some. Exemplars become
 * earlier turns with their answers.
 */
export async function answerDetect(request: DetectRequest, call: Call): Promise<DetectReply> {
  const { model, organisation, signal } = call
  checkDetect(request, model)
  const labels = labelsOf(request)
  const images = await loadPictures(imageUrlsOf(request), model.card.image!, call)
  call.held.dispose()
  const asking = await askingOf(request, labels, images, call)
  const { prefix, searches } = await searchesIn(
    images.at(-1)!,
    groupsOf(labels),
    { ...asking, isRated: request.confidence !== null },
    call,
  )
  const branches = searches.map(({ branch }) => branch)
  const work = { organisation, prefix: prefix.parts, branches, whole: true }
  await followToDeadline(searches, await model.engine.generate(work, signal), call.deadline)

  const { original } = images.at(-1)!
  const reply = (leaf: Leaf) => toDetection(leaf, request.output, original)
  const finishReason = searches.every(({ isComplete }) => isComplete) ? 'complete' : 'length'
  if (request.confidence === null) {
    return { detections: searches.flatMap(({ leaves }) => leaves.map(reply)), finishReason }
  }
  const { kind, scene, param } = asking
  const searched = { searches, kind, scene, param, prefix, shared: await asking.withoutThought() }
  const lists = await rateSearches(searched, request.confidence, call)
  const objects = lists.flatMap(({ objects }) => objects)
  const { least } = request.confidence
  return {
    detections: objects
      .filter(({ confidence }) => confidence >= least)
      .map(({ leaf, ...sureness }) => ({ ...reply(leaf), ...sureness })),
    categories: lists.flatMap(({ labels, complete, more }) =>
      (labels ?? [null]).map((label) => ({ label, complete, more })),
    ),
    isCalibrated: model.card.detection !== undefined,
    finishReason,
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
  /** Whether the engine is to say how likely each token was. */
  readonly isRated?: boolean
  /** The prompt for questions that are answered at once. */
  withoutThought(): Promise<SharedPrompt>
}

/** @param images those of the exemplars, and the first one to search. */
export async function askingOf(
  request: Targets,
  labels: readonly string[] | null,
  images: readonly DecodedImage[],
  { model, style }: Call,
): Promise<Asking> {
  const kind = kindToFind(request, labels, model)
  const { detection } = dialectOf(model.card)
  const { scene, messages, media } = dialogOf({ request, labels, kind, model }, images)
  const param = request.categories.length > 0 || request.exemplars.length === 0 ? 'categories' : 'exemplars'
  // Reasoning never shows in the reply, so a model that needs it for exemplars may reason without being asked to.
  const thinking = request.thinking || (request.exemplars.length > 0 && model.card.thought?.exemplars === true)
  const earlier = { param, messages: messages.slice(0, -1), media, instruction: detection.instruction(kind), thinking }
  const shared = await buildSharedPrompt(earlier, style)
  const budget = thinking ? thoughtBudget(request.thinking ? null : 'minimal') : null
  const withoutThought = async () => (thinking ? buildSharedPrompt({ ...earlier, thinking: false }, style) : shared)
  return { kind, opening: shared.prefix, suffix: shared.suffix, param, scene, budget, withoutThought }
}

/** @returns a search for each group of labels, and the part of the prompt that they share. */
export async function searchesIn(
  { image: picture }: DecodedImage,
  groups: readonly (readonly string[] | null)[],
  { kind, opening, suffix: rest, param, budget, isRated = false, ...asking }: Asking,
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
    const asked = { ...AS_MANY_AS_FIT, topLogProbs: isRated ? ALTERNATIVES : null }
    const branch = await branchOf({ param, prefix, suffix, spec, asked }, call)
    const written = group && new Map(group.map((label) => [detection.written?.(label) ?? label, label]))
    searches.push(new DetectionSearch({ branch, reply: spec.createReader(), reader: reader(scene), labels: written }))
  }
  return { prefix, searches }
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
