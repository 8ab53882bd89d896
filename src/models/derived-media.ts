import { audioLimits, encoders, type FamilyImageLimits, familyMarks, imageLimits } from '../families/gguf.ts'
import { FAMILIES, type Family, type FamilyName, TIMED_PAIRS } from '../families/index.ts'
import { isObject, merged, named } from './card-values.ts'
import type { ModelHeaders } from './model-headers.ts'
import type { Origins } from './origins.ts'
import type { WrittenCard, WrittenServe } from './written-card.ts'

export interface MediaSource {
  readonly card: WrittenCard
  readonly serves: readonly WrittenServe[]
  readonly family: FamilyName | null
  readonly headers: ModelHeaders
  readonly contextTokens: number
  readonly origins: Origins
  /** Tells of encoders that are not used. */
  warn(message: string): void
}

/** What the card is to have under these names. */
export interface MediaLimits {
  readonly image: unknown
  readonly video: unknown
  readonly audio: unknown
  /** The modalities of an id that names none: an encoder that is there and whose limits are known is served. */
  readonly modalities: readonly string[]
}

/** The contract's longest sound, in tokens. */
const MOST_AUDIO = 8192
/** The share of the context that one picture may take, and one video or sound. */
const PICTURE_SHARE = 1 / 2
const FILM_SHARE = 3 / 4

const IMAGE_FIELDS = ['pixelsPerToken', 'minTokens', 'maxTokens']
const VIDEO_FIELDS = [...IMAGE_FIELDS, 'framesPerSecond', 'maxFrames', 'layout']
/** What `imageLimits` reads for each limit. */
const IMAGE_KEYS: Readonly<Record<string, readonly string[]>> = {
  pixelsPerToken: ['clip.vision.patch_size', 'clip.vision.spatial_merge_size', 'clip.vision.projector.scale_factor'],
  minTokens: ['clip.vision.image_min_pixels'],
  maxTokens: ['clip.vision.image_max_pixels'],
  square: [],
}

/** Limits of what a model is shown: for what its ids promise, and for what they leave open. */
export async function deriveMedia(source: MediaSource): Promise<MediaLimits> {
  const { card, serves, headers, family, warn } = source
  const isOpen = serves.some(({ modalities }) => modalities === undefined)
  const promises = (what: string) => serves.some(({ modalities }) => modalities?.includes(what))
  const encoder = isOpen ? await headers.encoder() : null
  const has = encoders(encoder)
  const image = await imageOf(source, { served: promises('image') || promises('video') || has.image, isOpen })
  const sees = has.image && isComplete(image, IMAGE_FIELDS)
  if (has.image && !sees && family !== null) {
    const { projector } = familyMarks({ language: new Map(), encoder })
    const { title } = FAMILIES[family]
    warn(`how images of ${title} ('${projector}') are sized is not known here: the model is served without them`)
  }
  const video = videoOf(source, { image, served: promises('video') || sees, isOpen })
  const audio = has.audio ? await audioOf(source) : card.audio
  return {
    image: isOpen && !sees ? card.image : image,
    video,
    audio,
    modalities: [
      'text',
      ...(sees ? ['image'] : []),
      ...(sees && isComplete(video, VIDEO_FIELDS) ? ['video'] : []),
      ...(has.audio && audio !== undefined ? ['audio'] : []),
    ],
  }
}

interface Wanted {
  /** Whether the model is served with it. */
  readonly served: boolean
  /** Whether an id leaves its modalities open. */
  readonly isOpen: boolean
}

/** Limits of images, where the model is served with such or the card gives some of its own. */
async function imageOf(
  { card: { image }, family, headers, contextTokens, origins }: MediaSource,
  { served, isOpen }: Wanted,
): Promise<unknown> {
  const { image: rule = null }: Partial<Family> = family === null ? {} : FAMILIES[family]
  if (rule === null || family === null || (image === undefined && !served)) return image
  const given = isObject(image) ? image : {}
  const encoder = isComplete(given, IMAGE_FIELDS) ? null : await headers.encoder()
  const known = imageLimits(rule, encoder)
  const limits = isOpen ? fitting(known, Math.floor(contextTokens * PICTURE_SHARE)) : known
  for (const [field, keys] of Object.entries(IMAGE_KEYS)) {
    if (field in given || !(field in limits)) continue
    const sources = rule.square && field !== 'pixelsPerToken' ? ['clip.vision.image_size'] : keys
    const read = sources.filter((key) => encoder?.has(key))
    origins.note(`image.${field}`, true, read.length > 0 ? read.join(', ') : named(family))
  }
  return merged(limits, image, true)
}

function videoOf(
  { card: { video: given }, family, contextTokens, origins }: MediaSource,
  { image, served, isOpen }: Wanted & { readonly image: unknown },
): unknown {
  // Video was shown in this way to all models before there were families.
  if (family === null) return merged({ layout: TIMED_PAIRS }, given, false)
  const { video: rule }: Family = FAMILIES[family]
  // One encoder takes images and frames, so a token covers as much of either.
  const side = isObject(image) && image.pixelsPerToken !== undefined ? { pixelsPerToken: image.pixelsPerToken } : {}
  const video = merged(rule === null ? null : { ...side, ...rule }, given, served)
  if (isOpen && given === undefined && !isComplete(video, VIDEO_FIELDS)) return undefined
  origins.note('video', video, named(family))
  return isOpen && given === undefined && isObject(video) ? shortened(video, contextTokens * FILM_SHARE) : video
}

async function audioOf({ card, headers, contextTokens, origins, warn }: MediaSource): Promise<unknown> {
  if (card.audio !== undefined) return card.audio
  const rule = audioLimits((await headers.encoder())!)
  if (rule === null) {
    warn('the audio encoder is of no known kind: the model is served without sound')
    return undefined
  }
  const maxTokens = Math.min(MOST_AUDIO, Math.floor(contextTokens * FILM_SHARE))
  return origins.note('audio', { ...rule, maxTokens }, 'the audio projector')
}

/** No picture may fill the context; one that always has the same size cannot be made smaller. */
function fitting(limits: FamilyImageLimits, most: number): FamilyImageLimits {
  const { minTokens, maxTokens, square } = limits
  if (square || minTokens === undefined || maxTokens === undefined || maxTokens <= most) return limits
  return { ...limits, maxTokens: Math.max(minTokens, most) }
}

/** As many frames of a video as fit. */
function shortened(video: Readonly<Record<string, unknown>>, most: number): unknown {
  const { maxTokens, maxFrames, layout } = video as {
    maxTokens: number
    maxFrames: number
    layout: { framesPerGrid: number }
  }
  const fits = Math.max(2, Math.floor(most / maxTokens) * layout.framesPerGrid)
  return { ...video, maxFrames: Math.min(maxFrames, fits) }
}

function isComplete(limits: unknown, fields: readonly string[]): boolean {
  return isObject(limits) && fields.every((field) => limits[field] !== undefined)
}
