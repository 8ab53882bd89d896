import type { ImageLoader, LoadedImage, RgbImage } from '../media/index.ts'
import type { ImageLimits } from '../models/card.ts'
import { type ImageContent, type PlacedMessage, partsOf } from './message.ts'

/** The part of the media room that a conversation needs. */
export type ImageSource = Pick<ImageLoader, 'load'>

export type LoadedImages = ReadonlyMap<ImageContent, RgbImage>

/** Pictures of one request that are fetched and decoded at a time. */
const CONCURRENCY = 8

/**
 * Loads every picture of the conversation, as the model takes it. The first failure ends the others.
 * @throws ApiError 400 naming the picture at fault.
 */
export async function loadImages(
  messages: readonly PlacedMessage[],
  limits: ImageLimits | undefined,
  source: ImageSource,
  signal: AbortSignal,
): Promise<LoadedImages> {
  const [outcome] = await loadImageGroups([messages], limits, source, signal)
  if (outcome!.status === 'rejected') throw outcome!.reason
  return outcome!.value
}

/**
 * Loads the pictures of several groups of messages. A failure ends the others of its own group only.
 * @throws the signal's reason once that has fired.
 */
export async function loadImageGroups(
  messages: readonly (readonly PlacedMessage[])[],
  limits: ImageLimits | undefined,
  source: ImageSource,
  signal: AbortSignal,
): Promise<PromiseSettledResult<LoadedImages>[]> {
  const groups = messages.map((group) => new ImageGroup(group, signal))
  const queue = groups.flatMap((group) => group.waiting.map((picture) => ({ group, ...picture })))
  if (queue.length > 0 && !limits) throw new Error('A model without image limits was admitted with a picture')
  const next = queue.values()
  const worker = async () => {
    for (const { group, part, param } of next) {
      if (group.signal.aborted) continue
      try {
        group.images.set(part, (await source.load(part.image_url.url, limits!, param, group.signal)).image)
      } catch (error) {
        group.fail(error)
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(CONCURRENCY, queue.length) }, worker))
  signal.throwIfAborted()
  return groups.map((group) => group.outcome)
}

/**
 * Loads pictures by their addresses, with the size of their originals. The first failure ends the others.
 * @throws ApiError 400 naming the picture at fault.
 */
export async function loadPictures(
  wanted: readonly { readonly url: string; readonly param: string }[],
  limits: ImageLimits,
  source: ImageSource,
  signal: AbortSignal,
): Promise<LoadedImage[]> {
  const failed = new AbortController()
  const either = AbortSignal.any([signal, failed.signal])
  const loaded: LoadedImage[] = []
  const next = wanted.entries()
  const worker = async () => {
    for (const [i, { url, param }] of next) {
      either.throwIfAborted()
      loaded[i] = await source.load(url, limits, param, either)
    }
  }
  try {
    await Promise.all(Array.from({ length: Math.min(CONCURRENCY, wanted.length) }, worker))
    return loaded
  } catch (error) {
    failed.abort(error)
    throw error
  }
}

class ImageGroup {
  readonly waiting: { readonly part: ImageContent; readonly param: string }[] = []
  readonly images = new Map<ImageContent, RgbImage>()
  /** Fires when no more pictures of the group are wanted. */
  readonly signal: AbortSignal
  readonly #failed = new AbortController()

  constructor(messages: readonly PlacedMessage[], signal: AbortSignal) {
    this.signal = AbortSignal.any([signal, this.#failed.signal])
    for (const placed of messages) {
      for (const { part, param } of partsOf(placed)) {
        if (part.type === 'image_url') this.waiting.push({ part, param: `${param}.image_url.url` })
      }
    }
  }

  /** The first failure is the one that counts: those after it are its doing. */
  fail(error: unknown): void {
    this.#failed.abort(error)
  }

  get outcome(): PromiseSettledResult<LoadedImages> {
    const { aborted, reason } = this.#failed.signal
    return aborted ? { status: 'rejected', reason } : { status: 'fulfilled', value: this.images }
  }
}
