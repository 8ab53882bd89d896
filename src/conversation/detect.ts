import type { Leaf } from '../grounding/annotation.ts'
import type { DetectionKind, Scene } from '../grounding/dialect.ts'
import type { ServedModel } from '../inference/catalog/registry.ts'
import type { Generation } from '../inference/contract/generation.ts'
import type { PromptPart } from '../inference/contract/parts.ts'
import { invalidRequest, say } from '../lib/errors.ts'
import { type Path, within } from '../lib/param.ts'
import { sumOf } from '../lib/sum.ts'
import { gridToPixels, type Point, pixelsToGrid } from '../media/coordinates.ts'
import type { DecodedImage } from '../media/decoding/protocol.ts'
import type { Size } from '../media/pixels.ts'
import { branchOf, type Call } from './call.ts'
import { checkDetect } from './capability-checks.ts'
import { DetectionSearch } from './detection-search.ts'
import { type LoadedMedia, type LoadedPart, loadPictures } from './prompt/media-parts.ts'
import { untrusted } from './prompt/placeholders.ts'
import { buildSharedPrompt } from './prompt/prompt.ts'
import { thoughtBudget } from './prompt/thinking.ts'
import { AS_MANY_AS_FIT, MeasuredPrompt } from './prompt/token-budget.ts'
import { followSearches } from './reply/annotation-search.ts'
import { dialectOf, sceneOf } from './reply/grounding.ts'
import { ReplySpec } from './reply/reply-spec.ts'
import type { Deadline } from './request/deadline.ts'
import type { Box, DetectRequest, ExemplarAnnotation } from './request/detect-request.ts'
import type { MediaContent, MediaUrl, PlacedMessage } from './request/message.ts'

export interface DetectReply {
  readonly detections: readonly Detection[]
  /** `length` when an answer was truncated. */
  readonly finishReason: 'complete' | 'length'
}

/** In pixels of the upright image. */
type Detection = { readonly mention: string } & ({ readonly box: Box } | { readonly point: Point })

/** Maximum characters of all labels together. They become part of a pattern, whose size is limited. */
const MOST_CHARACTERS = 4000
/** Maximum branches over one image. With more labels, several share a branch. */
const MOST_SEARCHES = 16

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

/** Splits the labels into one group per branch. */
function groupsOf(labels: readonly string[] | null): readonly (readonly string[] | null)[] {
  if (labels === null) return [null]
  const size = Math.ceil(labels.length / MOST_SEARCHES)
  return Array.from({ length: Math.ceil(labels.length / size) }, (_, i) => labels.slice(i * size, (i + 1) * size))
}

/**
 * Returns the labels that objects may have: the categories or, without any, the exemplars' mentions. Null for any label.
 */
function labelsOf({ categories, exemplars }: DetectRequest): readonly string[] | null {
  const shown = exemplars.flatMap(({ annotations }, i) =>
    annotations.map(({ mention }, j) => {
      if (mention !== null || new Set(categories).size === 1) return mention ?? categories[0]!
      const param = ['exemplars', i, 'annotations', j, 'mention']
      throw invalidRequest(say`Missing '${param}': it is required unless there is exactly one category`, param)
    }),
  )
  const labels = [...new Set((categories.length > 0 ? categories : shown).map((label) => label.toWellFormed()))]
  const length = sumOf(labels, (label) => label.length)
  if (length > MOST_CHARACTERS) {
    const param = categories.length > 0 ? 'categories' : 'exemplars'
    throw invalidRequest(`All labels together may have at most ${MOST_CHARACTERS} characters, got ${length}`, param)
  }
  return labels.length === 0 ? null : labels
}

/** Points are requested for a single label, or from a model without boxes. Otherwise they are the centres of boxes. */
function kindToFind(
  { output, exemplars, negatives }: DetectRequest,
  labels: readonly string[] | null,
  { served }: ServedModel,
): DetectionKind {
  if (!served.outputFormats.includes('box')) return 'point'
  const single = labels?.length === 1 && exemplars.length === 0 && negatives.length === 0
  return output === 'point' && single && served.outputFormats.includes('point') ? 'point' : 'box'
}

/** Returns the URLs of all images. The image to search is last. */
export function imageUrlsOf({ picture, exemplars, negatives }: DetectRequest): { url: MediaUrl; param: Path }[] {
  return [
    ...exemplars.map((exemplar, i) => ({ url: exemplar.picture, param: ['exemplars', i, 'media', 'image_url'] })),
    ...negatives.map((url, i) => ({ url, param: ['negative_exemplars', i, 'media', 'image_url'] })),
    { url: picture, param: ['media', 'image_url'] },
  ]
}

interface Search {
  readonly request: DetectRequest
  readonly labels: readonly string[] | null
  readonly kind: DetectionKind
  readonly model: ServedModel
}

interface Dialog {
  readonly messages: readonly PlacedMessage[]
  readonly media: LoadedMedia
  readonly scene: Scene
}

/** Builds the turns: each image with its question and, for all but the last, the correct answer. */
function dialogOf({ request, labels, kind, model }: Search, images: readonly DecodedImage[]): Dialog {
  const { detection } = dialectOf(model.card)
  const messages: PlacedMessage[] = []
  const media = new Map<MediaContent, LoadedPart>()
  const ask = (image: DecodedImage, param: Path, kind: DetectionKind, names: readonly string[] | null) => {
    const part: MediaContent = { type: 'image_url', image_url: { url: '' } }
    media.set(part, { parts: [{ type: 'image', image: image.image }] })
    const text = detection.question(kind, names)
    messages.push({ message: { role: 'user', content: [part, { type: 'text', text }] }, param })
  }
  const answer = (leaves: readonly Leaf[], param: Path) => {
    const content = detection.answer(leaves, sceneOf(messages.slice(-1), media))
    messages.push({ message: { role: 'assistant', content }, param })
  }
  const next = images.values()
  for (const [i, { annotations }] of request.exemplars.entries()) {
    const param = ['exemplars', i]
    const image = next.next().value!
    const shown = annotations.every(({ box }) => box !== null) && kind === 'box' ? 'box' : 'point'
    const leaves = annotations.map((annotation, j) =>
      leafOf(annotation, shown, image.original, request.categories, within(param, 'annotations', j)),
    )
    ask(image, param, shown, [...new Set(leaves.map(({ mention }) => mention!))])
    answer(leaves, param)
  }
  for (const i of request.negatives.keys()) {
    const param = ['negative_exemplars', i]
    ask(next.next().value!, param, kind, labels)
    answer([], param)
  }
  ask(next.next().value!, ['media'], kind, labels)
  return { messages, media, scene: sceneOf(messages.slice(-1), media) }
}

/** @throws ApiError 400 when the annotation lies outside its image. */
function leafOf(
  { mention, point, box }: ExemplarAnnotation,
  kind: DetectionKind,
  size: Size,
  categories: readonly string[],
  param: Path,
): Leaf {
  const common = { mention: (mention ?? categories[0]!).toWellFormed() }
  if (point) checkInside(point, size, within(param, 'point'))
  if (box) {
    checkInside(box.topLeft, size, within(param, 'point_box', 'top_left'))
    checkInside(box.bottomRight, size, within(param, 'point_box', 'bottom_right'))
  }
  if (kind === 'box') {
    const corners = [box!.topLeft, box!.bottomRight].map((corner) => pixelsToGrid(corner, size))
    return { ...common, kind: 'point_box', points: corners }
  }
  return { ...common, kind: 'point', points: [pixelsToGrid(point ?? centre(box!), size)] }
}

/** The right and bottom edges belong to the image, so a box may end there. */
function checkInside(point: Point, size: Size, param: Path): void {
  for (const [axis, side] of [
    ['x', size.width],
    ['y', size.height],
  ] as const) {
    if (point[axis] <= side) continue
    const coordinate = within(param, axis)
    throw invalidRequest(
      say`Invalid '${coordinate}': it lies outside the image, which has ${size.width} x ${size.height} pixels`,
      coordinate,
    )
  }
}

function centre({ topLeft, bottomRight }: Box): Point {
  return { x: (topLeft.x + bottomRight.x) / 2, y: (topLeft.y + bottomRight.y) / 2 }
}

function toDetection({ mention = '', kind, points }: Leaf, output: DetectionKind, size: Size): Detection {
  if (kind === 'point') return { mention, point: gridToPixels(points[0]!, size) }
  const [topLeft, bottomRight] = points as readonly [Point, Point]
  if (output === 'point') return { mention, point: gridToPixels(centre({ topLeft, bottomRight }), size) }
  return { mention, box: { topLeft: gridToPixels(topLeft, size), bottomRight: gridToPixels(bottomRight, size) } }
}
