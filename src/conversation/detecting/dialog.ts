import type { Leaf } from '../../grounding/annotation.ts'
import type { DetectionKind, Scene } from '../../grounding/dialect.ts'
import type { ServedModel } from '../../inference/catalog/registry.ts'
import { invalidRequest, say } from '../../lib/errors/errors.ts'
import { type Path, within } from '../../lib/errors/param.ts'
import { type Point, pixelsToGrid } from '../../media/coordinates.ts'
import type { DecodedImage } from '../../media/decoding/process/protocol.ts'
import type { Size } from '../../media/pixels.ts'
import type { LoadedMedia, LoadedPart } from '../prompt/media-parts.ts'
import { dialectOf, sceneOf } from '../reply/grounding.ts'
import type { DetectRequest, ExemplarAnnotation, Targets, TrackMedia } from '../request/detect-request.ts'
import type { MediaContent, MediaUrl, PlacedMessage } from '../request/message.ts'
import { centre } from './detection.ts'

interface PlacedUrl {
  readonly url: MediaUrl
  readonly param: Path
}

/** Returns the URLs of all images. The image to search is last. */
export function imageUrlsOf(request: DetectRequest): PlacedUrl[] {
  return [...exemplarUrlsOf(request), { url: request.picture, param: ['media', 'image_url'] }]
}

export function exemplarUrlsOf({ exemplars, negatives }: Targets): PlacedUrl[] {
  return [
    ...exemplars.map((exemplar, i) => ({ url: exemplar.picture, param: ['exemplars', i, 'media', 'image_url'] })),
    ...negatives.map((url, i) => ({ url, param: ['negative_exemplars', i, 'media', 'image_url'] })),
  ]
}

/** Returns the URLs of the frames, or of the video. */
export function trackUrlsOf(media: TrackMedia): PlacedUrl[] {
  if (media.type === 'video') return [{ url: media.video, param: ['media', 'video_url'] }]
  return media.frames.map(({ picture: url }, i) => ({ url, param: ['media', 'frames', i, 'image_url'] }))
}

interface Search {
  readonly request: Targets
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
export function dialogOf({ request, labels, kind, model }: Search, images: readonly DecodedImage[]): Dialog {
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
  const common = { mention: mention ?? categories[0]! }
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
