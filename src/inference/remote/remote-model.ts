import { resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { FamilyImageLimits } from '../../families/image-limits.ts'
import type { RemoteModelCard } from '../../models/card.ts'
import { CardError } from '../../models/card-error.ts'
import { chooseTemplate, traitsOf } from '../../models/derive/chosen-template.ts'
import { type FolderHeaders, headersFor, LEAST_PIXELS } from '../../models/read/hugging-face.ts'
import { readFolder } from '../../models/read/model-reader.ts'
import { tokensOf } from '../../models/read/vocabulary.ts'
import { SERVER_ENGINES } from '../../models/server-engines.ts'
import { checkFiles } from '../contract/card-checks.ts'
import type { ModelInfo } from '../contract/engine.ts'

export interface RemoteModel {
  readonly info: ModelInfo
  readonly headers: FolderHeaders
  /** Absolute path of the folder with the tokenizer. */
  readonly folder: string
}

/** Checks that the server's processor resizes images as the card says: otherwise coordinates would be wrong. */
function checkGeometry(
  image: NonNullable<RemoteModelCard['image']>,
  limits: FamilyImageLimits,
  reject: (field: string, problem: string) => never,
): void {
  const about = 'by config.json and preprocessor_config.json, which the servers use as well'
  for (const field of ['pixelsPerToken', 'square', 'longestEdge', 'enlarges', 'fills', 'tiles'] as const) {
    if (isDeepStrictEqual(image[field], limits[field])) continue
    const wanted = limits[field] === undefined ? 'be left out' : `be ${JSON.stringify(limits[field])}`
    reject(`image.${field}`, `must ${wanted}, ${about}`)
  }
  const { minTokens = 1, maxTokens = Number.POSITIVE_INFINITY } = limits
  if (image.minTokens < minTokens) reject('image.minTokens', `must be at least ${minTokens}, ${about}`)
  if (image.maxTokens > maxTokens) reject('image.maxTokens', `must be at most ${maxTokens}, ${about}`)
  if (limits.fills && image.maxTokens !== maxTokens) reject('image.maxTokens', `must be ${maxTokens}, ${about}`)
}

/** Frames are sent as images, with their own sizes. */
function checkFrames(
  video: NonNullable<RemoteModelCard['video']>,
  { square, fills, minTokens = 1, maxTokens = Number.POSITIVE_INFINITY }: FamilyImageLimits,
  reject: (field: string, problem: string) => never,
): void {
  if (square || fills) reject('video', 'must be left out: the processor of this model gives all images one size')
  if (video.minTokens < minTokens) reject('video.minTokens', `must be at least ${minTokens}, as for images`)
  if (video.maxTokens > maxTokens) reject('video.maxTokens', `must be at most ${maxTokens}, as for images`)
}

/**
 * Reads the description of a remote model from its card and Hugging Face folder.
 * @throws CardError for an incomplete folder, or a card that promises something that its servers do not support.
 */
export async function describeRemoteModel(card: RemoteModelCard): Promise<RemoteModel> {
  const headers = headersFor(card.engine.type, await readFolder(card.engine.tokenizer, card))
  const { language, encoder, images, unserved } = headers
  const engine = SERVER_ENGINES[card.engine.type]
  const reject = (field: string, problem: string): never => {
    throw new CardError(card.file, field, problem)
  }
  if (card.audio !== undefined) reject('audio', `${engine} is not asked about sound: leave it out`)
  if (card.video !== undefined && card.video.layout.framesPerGrid !== 1)
    reject('video.layout.framesPerGrid', `must be 1: ${engine} is sent the frames of a video as images`)
  if (card.image !== undefined && unserved !== null) reject('image', unserved)
  if (card.image !== undefined && images?.limits) checkGeometry(card.image, images.limits, reject)
  if (card.video !== undefined && images?.limits) checkFrames(card.video, images.limits, reject)
  const least = Number(encoder?.get(LEAST_PIXELS) ?? 0)
  const most = Number(encoder?.get('clip.vision.image_max_pixels') ?? Number.POSITIVE_INFINITY)
  for (const field of ['image', 'video'] as const) {
    const limits = card[field]
    if (limits === undefined) continue
    const pixels = limits.pixelsPerToken ** 2
    // It would resize images of other sizes, and coordinates would be wrong.
    const about = `of preprocessor_config.json, which the servers use as well`
    if (limits.minTokens * pixels < least)
      reject(`${field}.minTokens`, `must be at least ${Math.ceil(least / pixels)}, by the smallest size ${about}`)
    if (limits.maxTokens * pixels > most)
      reject(`${field}.maxTokens`, `must be at most ${Math.floor(most / pixels)}, by the largest size ${about}`)
  }
  const takesImages = card.image !== undefined && images !== null
  const tokens = tokensOf(language)!
  const text = (name: 'bos' | 'eos') => {
    const id = language.get(`tokenizer.ggml.${name}_token_id`)
    return typeof id === 'number' ? String(tokens.at(id)) : ''
  }
  const template = await chooseTemplate(card.engine.chatTemplate, language, card)
  const info: ModelInfo = {
    // Servers may extend the context that the model was trained with, so each is asked for its own.
    contextTokens: card.engine.contextTokens,
    longestTokenBytes: Number.POSITIVE_INFINITY,
    chatTemplate: template.source,
    templateTraits: await traitsOf(template, card),
    bosToken: text('bos'),
    eosToken: text('eos'),
    modalities: { image: takesImages, audio: false },
  }
  checkFiles(card, info)
  return { info, headers, folder: resolve(card.directory, card.engine.tokenizer) }
}
