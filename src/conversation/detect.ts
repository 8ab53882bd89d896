import type { Leaf } from '../grounding/annotation.ts'
import type { Generation } from '../inference/contract/generation.ts'
import type { PromptPart } from '../inference/contract/parts.ts'
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
import { buildSharedPrompt } from './prompt/prompt.ts'
import { thoughtBudget } from './prompt/thinking.ts'
import { AS_MANY_AS_FIT, MeasuredPrompt } from './prompt/token-budget.ts'
import { followSearches } from './reply/annotation-search.ts'
import { dialectOf } from './reply/grounding.ts'
import { ReplySpec } from './reply/reply-spec.ts'
import type { Deadline } from './request/deadline.ts'
import type { DetectRequest } from './request/detect-request.ts'

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
  const { model, organisation, style, signal } = call
  checkDetect(request, model)
  const labels = labelsOf(request)
  const images = await loadPictures(imageUrlsOf(request), model.card.image!, call)
  call.held.dispose()
  const kind = kindToFind(request, labels, model)
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
    const asked = { ...AS_MANY_AS_FIT, topLogProbs: request.confidence === null ? null : ALTERNATIVES }
    const branch = await branchOf({ param, prefix, suffix, spec, asked }, call)
    const written = group && new Map(group.map((label) => [detection.written?.(label) ?? label, label]))
    const parts = { branch, reply: spec.createReader(), reader: reader(scene), labels: written }
    searches.push(new DetectionSearch(parts))
  }
  const branches = searches.map(({ branch }) => branch)
  const work = { organisation, prefix: prefix.parts, branches, whole: true }
  await followToDeadline(searches, await model.engine.generate(work, signal), call.deadline)

  const { original } = images.at(-1)!
  const reply = (leaf: Leaf) => toDetection(leaf, request.output, original)
  const finishReason = searches.every(({ isComplete }) => isComplete) ? 'complete' : 'length'
  if (request.confidence === null) {
    return { detections: searches.flatMap(({ leaves }) => leaves.map(reply)), finishReason }
  }
  const plain = thinking ? await buildSharedPrompt({ ...earlier, thinking: false }, style) : shared
  const searched = { searches, kind, scene, param, prefix, shared: plain }
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
