import { FAMILIES, type FamilyName } from '../../families/families.ts'
import type { Family, ImageRule, VideoRule } from '../../families/family.ts'
import {
  audioLimits,
  audioProjector,
  encoders,
  familyMarks,
  type GgufMetadata,
  soundProblem,
} from '../../families/gguf.ts'
import { type FamilyImageLimits, imageLimits } from '../../families/image-limits.ts'
import { projectorProblem } from '../../families/llama-cpp-names.ts'
import type { Tiles } from '../../families/tiles.ts'
import { TIMED_PAIRS } from '../../families/video-layout.ts'
import { isObject, merged, named } from '../card-values.ts'
import type { Origins } from '../origins.ts'
import { LEAST_PIXELS } from '../read/hugging-face.ts'
import type { ModelHeaders } from '../read/model-headers.ts'
import { runsOnServers } from '../server-engines.ts'
import type { WrittenCard, WrittenServe } from '../written-card.ts'

export interface MediaSource {
  readonly card: WrittenCard
  readonly serves: readonly WrittenServe[]
  readonly family: FamilyName | null
  readonly headers: ModelHeaders
  readonly contextTokens: number
  readonly origins: Origins
  /** Reports encoders that are not used. */
  warn(message: string): void
}

/** The card's fields of these names. */
export interface MediaLimits {
  readonly image: unknown
  readonly video: unknown
  readonly audio: unknown
  /** The modalities of an id that names none: an encoder is served if it exists and its limits are known. */
  readonly modalities: readonly string[]
}

/** The contract's longest sound, in tokens. */
const MOST_AUDIO = 8192
/** The share of the context that one picture may take, and one video or sound. */
const PICTURE_SHARE = 1 / 2
const FILM_SHARE = 3 / 4

const IMAGE_FIELDS = ['pixelsPerToken', 'minTokens', 'maxTokens']
const VIDEO_FIELDS = [...IMAGE_FIELDS, 'framesPerSecond', 'maxFrames', 'layout']
/** Header keys that `imageLimits` reads for each limit. */
const IMAGE_KEYS: Readonly<Record<string, readonly string[]>> = {
  pixelsPerToken: ['patch_size', 'spatial_merge_size', 'projector.scale_factor'],
  minTokens: ['image_min_pixels'],
  maxTokens: ['image_max_pixels'],
  auto: [],
  square: [],
  longestEdge: [],
  enlarges: [],
  rowEnds: [],
  fills: [],
  tiles: [],
}
const PROCESSOR = 'config.json, preprocessor_config.json'
/** The same for the numbers of tiles, by how images are cut. */
const TILE_KEYS: Readonly<Record<Tiles['grid'], readonly string[]>> = {
  nearest: ['image_size', 'preproc_max_tiles'],
  large: [],
  listed: ['image_size', 'image_grid_pinpoints'],
  longest: ['image_size', 'preproc_image_size'],
  slices: ['image_size'],
  windows: ['image_size', 'preproc_image_size'],
}

/** Limits of a model's media, for modalities that its ids promise or leave open. */
export async function deriveMedia(source: MediaSource): Promise<MediaLimits> {
  const { card, serves, headers, family, warn } = source
  const isOpen = serves.some(({ modalities }) => modalities === undefined)
  const promises = (what: string) => serves.some(({ modalities }) => modalities?.includes(what))
  const encoder = isOpen ? await headers.encoder() : null
  const has = encoders(encoder)
  const image = await imageOf(source, { served: promises('image') || promises('video') || has.image, isOpen })
  // Only the card can say what servers elsewhere see.
  const isShown = has.image || (card.engine.type === 'openai' && card.image !== undefined)
  const sees = isShown && isComplete(image, IMAGE_FIELDS)
  if (has.image && !sees && family !== null) {
    const { projector } = familyMarks({ language: new Map(), encoder })
    const { title } = FAMILIES[family]
    warn(
      `the image sizes of ${title} ('${projector}') are neither known nor in the encoder's file: the model is served without images. Give the limits as "image" in the card`,
    )
  }
  const shown = runsOnServers(card.engine) ? await headers.encoder() : null
  const video = videoOf(source, { image, encoder: shown, served: promises('video') || sees, isOpen })
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
  /** Whether the modality is served. */
  readonly served: boolean
  /** Whether an id leaves its modalities open. */
  readonly isOpen: boolean
}

/** Limits of images, if the model is served with images or the card gives some limits. */
async function imageOf(
  { card: { image }, family, headers, contextTokens, origins }: MediaSource,
  { served, isOpen }: Wanted,
): Promise<unknown> {
  const { image: rule = null }: Partial<Family> = family === null ? {} : FAMILIES[family]
  if (image === undefined && !served) return image
  const processor = (await headers.folder())?.images?.limits ?? null
  if (processor === null && rule === null) return image
  const given = isObject(image) ? image : {}
  const encoder = processor !== null || isComplete(given, IMAGE_FIELDS) ? null : await headers.encoder()
  const known = processor ?? imageLimits(rule!, encoder)
  const byRule = processor !== null ? PROCESSOR : named(family!)
  const limits = isOpen ? fitting(known, Math.floor(contextTokens * PICTURE_SHARE)) : known
  for (const [field, keys] of Object.entries(IMAGE_KEYS)) {
    if (field in given || !(field in limits)) continue
    const read = [...keys, ...countedFrom(field, limits)]
      .map((key) => `clip.vision.${key}`)
      .filter((key) => encoder?.has(key))
    origins.note(`image.${field}`, true, read.length > 0 ? read.join(', ') : byRule)
  }
  origins.note('image.tiles.grid', limits.tiles?.grid, byRule)
  return merged(limits, image, true)
}

/** Further header keys of a limit, if images have fixed sizes, or sizes up to a fixed one. */
function countedFrom(field: string, { square, longestEdge, enlarges, tiles }: FamilyImageLimits): readonly string[] {
  if (field === 'pixelsPerToken' || field === 'rowEnds' || field === 'auto' || field === 'enlarges') return []
  // If the least number of tiles is known, the file gives only the numbers of tiles.
  if (tiles?.grid === 'nearest' && tiles.least !== undefined) return ['preproc_min_tiles', 'preproc_max_tiles']
  if (tiles !== undefined) return TILE_KEYS[tiles.grid]
  if (square) return ['image_size']
  return longestEdge !== undefined && field !== 'minTokens'
    ? ['image_size', ...(enlarges ? ['preproc_image_size'] : [])]
    : []
}

function videoOf(
  { card, family, contextTokens, origins }: MediaSource,
  { image, encoder, served, isOpen }: Wanted & { readonly image: unknown; readonly encoder: GgufMetadata | null },
): unknown {
  const given = card.video
  // The default from before there were families.
  const takesPairs = card.engine.type === 'local' || card.engine.type === undefined
  const layout = takesPairs ? TIMED_PAIRS : { ...TIMED_PAIRS, framesPerGrid: 1 }
  if (family === null) return merged({ layout }, given, false)
  const { video: familyRule, image: imageRule }: Family = FAMILIES[family]
  const limits = isObject(image) ? image : {}
  // Servers prepare frames as they prepare images: if all images have one size, frames cannot be smaller.
  const ofServers = limits.square || limits.fills ? null : familyRule
  const rule = takesPairs ? familyRule : ofServers && videoAsImages(ofServers, imageRule, encoder)
  // One encoder is used for images and frames, so a token covers the same area of either.
  const side = limits.pixelsPerToken !== undefined ? { pixelsPerToken: limits.pixelsPerToken } : {}
  const video = merged(rule === null ? null : { ...side, ...rule }, given, served)
  if (isOpen && given === undefined && !isComplete(video, VIDEO_FIELDS)) return undefined
  origins.note('video', video, named(family))
  return isOpen && given === undefined && isObject(video) ? shortened(video, contextTokens * FILM_SHARE) : video
}

/**
 * A family's rule for engines that get the frames of a video as images, each after its timestamp as text: servers merge
 * frames only in whole videos, to which they add timestamps of their own.
 * @param encoder its processor enlarges images below a size.
 */
function videoAsImages(video: VideoRule, image: ImageRule | null, encoder: GgufMetadata | null): VideoRule {
  const pixels = encoder?.get(LEAST_PIXELS)
  const least = typeof pixels === 'number' && image !== null ? pixels / (image.patchSize * image.mergeSize) ** 2 : 1
  return {
    ...video,
    layout: video.layout.framesPerGrid === 1 ? video.layout : { ...TIMED_PAIRS, framesPerGrid: 1 },
    minTokens: Math.max(Math.ceil(least), video.minTokens ?? 1),
    ...(video.maxTokens === undefined ? {} : { maxTokens: Math.max(Math.ceil(least), video.maxTokens) }),
  }
}

async function audioOf({ card, headers, contextTokens, origins, warn }: MediaSource): Promise<unknown> {
  if (card.audio !== undefined) return card.audio
  const encoder = (await headers.encoder())!
  const rule = audioLimits(encoder)
  const type = audioProjector(encoder)
  const problem =
    rule === null
      ? `the audio encoder '${type}' ${projectorProblem(type ?? '') ?? 'is of no known kind'}`
      : soundProblem(encoder)
  if (rule === null || problem !== null) {
    warn(`${problem}: the model is served without sound`)
    return undefined
  }
  const maxTokens = Math.min(MOST_AUDIO, Math.floor(contextTokens * FILM_SHARE))
  return origins.note('audio', { ...rule, maxTokens }, 'the audio projector')
}

/** Limits with which no picture fills the context. One of a fixed size or number of tiles cannot be made smaller. */
function fitting(limits: FamilyImageLimits, most: number): FamilyImageLimits {
  const { minTokens, maxTokens, square, enlarges, fills, tiles } = limits
  if (
    square ||
    enlarges ||
    fills ||
    tiles?.grid === 'longest' ||
    minTokens === undefined ||
    maxTokens === undefined ||
    maxTokens <= most
  )
    return limits
  return { ...limits, maxTokens: Math.max(minTokens, most) }
}

/** Limits for as many frames of a video as fit. */
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
