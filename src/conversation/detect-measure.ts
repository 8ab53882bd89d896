import type { Measurement, PromptUsage } from '../inference/contract/generation.ts'
import type { DecodedImage } from '../media/decoding/process/protocol.ts'
import type { Size } from '../media/pixels.ts'
import { targetSize } from '../media/resize.ts'
import type { Grid } from '../media/tile-plan.ts'
import type { Call } from './call/call.ts'
import { checkDetect } from './call/capability-checks.ts'
import { type Asked, measurePicture } from './detect.ts'
import { imageUrlsOf } from './detecting/dialog.ts'
import { kindToFind, labelsOf } from './detecting/labels.ts'
import { loadPictures } from './prompt/media-parts.ts'
import { totalPrompt } from './reply/usage.ts'
import type { DetectRequest } from './request/detect-request.ts'
import { gridsFor, isTiled, MOST_LOOKS } from './tiled-detect.ts'

/** The prompts of all searches. The number of second looks depends on what is found, so only its maximum is known. */
export interface DetectMeasure extends PromptUsage, Pick<Measurement, 'exact'> {
  /** How many frames of a clip are searched; null for a picture. */
  readonly frames: number | null
  /** The finest first; null if the picture is searched as a whole. */
  readonly grids: readonly Grid[] | null
  readonly mostLooks: number
  /** The most tokens of one look. */
  readonly lookTokens: number
}

/** Measures the searches of a picture. Generates nothing. @throws ApiError */
export async function measureDetect(request: DetectRequest, call: Call): Promise<DetectMeasure> {
  const { model } = call
  checkDetect(request, model)
  const labels = labelsOf(request)
  const limits = model.card.image!
  const images = await loadPictures(imageUrlsOf(request), limits, call)
  call.held.dispose()
  const whole = images.at(-1)!
  const exemplars = images.slice(0, -1)
  const grids = isTiled(request) ? gridsFor(whole.original, request, limits) : null
  const kind = grids === null || grids.length === 1 ? kindToFind(request, labels, model) : 'box'
  const asked = { request, labels, kind } as const
  const ofWhole = await measurePicture(asked, images, call)
  if (grids === null || grids.length === 1) {
    return { ...ofWhole, frames: null, grids: grids?.map(({ grid }) => grid) ?? null, mostLooks: 0, lookTokens: 0 }
  }
  // All tiles of a grid have one size.
  const measure = (asked: Asked, size: Size) =>
    measurePicture(asked, [...exemplars, blank(targetSize(size, limits))], call)
  const ofGrids: { readonly count: number; readonly usage: PromptUsage }[] = [{ count: 1, usage: ofWhole }]
  for (const { tiles } of grids.slice(0, -1)) {
    ofGrids.push({ count: tiles.length, usage: await measure(asked, tiles[0]!) })
  }
  const usages = ofGrids.flatMap(({ count, usage }) => Array<PromptUsage>(count).fill(usage))
  const mostLooks = request.tiles!.looks === 'none' ? 0 : MOST_LOOKS
  const looks: PromptUsage[] = []
  for (const alone of mostLooks === 0 ? [] : (labels?.map((label) => [label]) ?? [null])) {
    looks.push(await measure({ request, labels: alone, kind: 'box' }, LARGE))
  }
  // Near the picture's edges, crops have other aspect ratios, which may take a few tokens more.
  const lookTokens = Math.max(
    0,
    ...looks.map((one) => one.promptTokens - one.imageTokens + Math.max(one.imageTokens, limits.maxTokens)),
  )
  return {
    ...totalPrompt(usages),
    exact: ofWhole.exact,
    frames: null,
    grids: grids.map(({ grid }) => grid),
    mostLooks,
    lookTokens,
  }
}

/** Larger than any picture that a model gets. */
const LARGE = { width: 8192, height: 8192 }

/** The engine does not look at pictures that it measures. */
function blank(size: Size): DecodedImage {
  return { image: { ...size, data: new Uint8Array(0) }, original: size }
}
