import type { Generation } from '../inference/contract/generation.ts'
import type { PromptPart } from '../inference/contract/parts.ts'
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
import type { Deadline } from './request/deadline.ts'
import type { DetectRequest } from './request/detect-request.ts'

export interface DetectReply {
  readonly detections: readonly Detection[]
  /** `length` when an answer was truncated. */
  readonly finishReason: 'complete' | 'length'
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
    const branch = await branchOf({ param, prefix, suffix, spec, asked: AS_MANY_AS_FIT }, call)
    const written = group && new Map(group.map((label) => [detection.written?.(label) ?? label, label]))
    searches.push(new DetectionSearch({ branch, reply: spec.createReader(), reader: reader(scene), labels: written }))
  }
  const branches = searches.map(({ branch }) => branch)
  const work = { organisation, prefix: prefix.parts, branches, whole: true }
  await followToDeadline(searches, await model.engine.generate(work, signal), call.deadline)

  const size = images.at(-1)!.original
  return {
    detections: searches.flatMap(({ leaves }) => leaves.map((leaf) => toDetection(leaf, request.output, size))),
    finishReason: searches.every(({ isComplete }) => isComplete) ? 'complete' : 'length',
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
