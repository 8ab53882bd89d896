import { invalidRequest } from '../lib/errors.ts'
import type { PixelRegion } from '../media/coordinates.ts'
import type { Cuts, DecodedImage } from '../media/decoding/protocol.ts'
import { closeTarget } from '../media/image-detail.ts'
import type { RgbImage, Size } from '../media/pixels.ts'
import { fittingGrid, MOST_TILES, partsToCut, planTiles, quartersOf, type TileGrid } from '../media/tile-plan.ts'
import type { ImageLimits } from '../models/card.ts'
import type { Call } from './call.ts'
import { checkDetect } from './capability-checks.ts'
import { type DetectReply, ratePicture, replyAbout, type Searched, searchPicture } from './detect.ts'
import { toDetection } from './detecting/detection.ts'
import { imageUrlsOf } from './detecting/dialog.ts'
import { groupsOf, kindToFind, labelsOf } from './detecting/labels.ts'
import {
  type Again,
  type Found,
  foundAgain,
  foundIn,
  isAgreed,
  LOOK_SHARES,
  lookAt,
  mergeFinds,
  onGrid,
  type Thing,
  withoutRepeats,
} from './detecting/ladder.ts'
import { openLabels, RATED, ratingsOf } from './detecting/tile-ratings.ts'
import { Patience } from './patience.ts'
import { loadCuts, loadPictures } from './prompt/media-parts.ts'
import type { ConfidenceRequest, DetectRequest } from './request/detect-request.ts'

export type TiledRequest = DetectRequest & { readonly tiles: NonNullable<DetectRequest['tiles']> }

export function isTiled(request: DetectRequest): request is TiledRequest {
  return request.tiles !== null
}

/** The most second looks: things beyond them are kept without one. */
export const MOST_LOOKS = 256
/** The most of them at quarters of tiles. */
const MOST_QUARTERS = 128
/** Branches and tiles that the engine has at a time. */
const BRANCHES_AT_ONCE = 64
const TILES_AT_ONCE = 16

/** A part of the picture, as the model gets it. */
type Cut = readonly [part: PixelRegion, image: RgbImage]

/** How parts of the picture are searched. */
interface PartSearch {
  readonly labelsFor: (part: PixelRegion) => readonly string[] | null
  readonly finds: Map<PixelRegion, readonly Found[]>
  readonly ratingOf: (part: PixelRegion) => ConfidenceRequest | null
}

/**
 * Searches a picture tile by tile, each as a picture of its own, and merges what is found. Where the list of a label may lack
 * something, it searches the quarters of the tile for that label. Then it looks at things again, in parts of the picture that
 * show them large, and keeps those that it finds again.
 */
export function answerInTiles(request: TiledRequest, call: Call): Promise<DetectReply> {
  return new TiledSearch(request, call).answer()
}

/** @throws ApiError 400 for too many tiles. */
export function gridsFor(picture: Size, { tiles }: TiledRequest, limits: ImageLimits): TileGrid[] {
  const grids = planTiles(picture, tiles, limits)
  if (grids !== null) return grids
  const size = `${picture.width} x ${picture.height} pixels`
  const fits = `at most ${MOST_TILES} are possible, as with [${fittingGrid(picture, tiles).join(', ')}]`
  throw tiles.grid === 'auto'
    ? invalidRequest(`Things of ${tiles.smallest} pixels in a picture of ${size} need too many tiles: ${fits}`, [
        'config',
        'smallest',
      ])
    : invalidRequest(`A grid of ${tiles.grid.join(' x ')} has too many tiles, with its coarser grids: ${fits}`, [
        'config',
        'tiles',
      ])
}

class TiledSearch {
  readonly #request: TiledRequest
  readonly #call: Call
  readonly #labels: readonly string[] | null
  #exemplars: readonly DecodedImage[] = []
  readonly #patience: Patience
  #isComplete = true
  /** Labels of which a tile may show more; null for any. */
  readonly #open = new Map<PixelRegion, readonly (string | null)[]>()
  /** The deadline's error once it has passed. */
  #late: unknown = null

  constructor(request: TiledRequest, call: Call) {
    checkDetect(request, call.model)
    this.#request = request
    this.#call = call
    this.#patience = new Patience(call)
    this.#labels = labelsOf(request)
  }

  async answer(): Promise<DetectReply> {
    const { tiles, output, confidence } = this.#request
    this.#exemplars = await loadPictures(imageUrlsOf(this.#request).slice(0, -1), this.#limits, this.#call)
    const whole = await this.#load(tiles)
    const { original } = whole
    const grids = gridsFor(original, this.#request, this.#limits)
    if (grids.length === 1) return this.#answerWhole(whole)
    const finds = new Map<PixelRegion, readonly Found[]>()
    const last: Cut = [grids.at(-1)!.tiles[0]!, whole.image]
    const [finest, ...coarser] = grids as [TileGrid, ...TileGrid[]]
    const ratings = tiles.looks === 'all' ? ratingsOf(grids, this.#call.model.card.detection) : new Map()
    const known = { before: [last], first: whole.cuts ?? [] }
    await this.#searchAll(this.#cuts(partsToCut(grids), this.#limits, known), {
      labelsFor: () => this.#labels,
      finds,
      ratingOf: (part) => ratings.get(part) ?? this.#usualRating,
    })
    if (finds.size === 0) throw this.#late
    const tilesLeft = grids.reduce((sum, grid) => sum + grid.tiles.length, -finds.size)
    const quarters = ratings.size === 0 ? [] : await this.#searchQuarters(finest.tiles, finds)
    const merged = mergeFinds(original, [{ ...finest, tiles: [...finest.tiles, ...quarters] }, ...coarser], finds)
    const { things, looks } = await this.#lookAgain(merged, original, quarters.length)
    const kept = things.filter(({ sureness }) => confidence === null || sureness!.confidence >= confidence.least)
    return {
      detections: this.#sorted(kept).map((thing) => {
        return { ...toDetection(onGrid(thing, original), output, original), ...(confidence && thing.sureness) }
      }),
      ...(confidence && {
        // A list of one tile says nothing of the others.
        categories: (this.#labels ?? [null]).map((label) => ({ label, complete: null, more: null })),
        // A fit is about pictures that show a thing as large as looks do.
        isCalibrated: this.#call.model.card.detection !== undefined && tiles.looks === 'all',
      }),
      finishReason: this.#isComplete && this.#late === null ? 'complete' : 'length',
      tiling: { grids: grids.map(({ grid }) => grid), looks, tilesLeft: this.#late === null ? null : tilesLeft },
    }
  }

  get #limits(): ImageLimits {
    return this.#call.model.card.image!
  }

  /** Of parts of the picture that need no other. */
  get #usualRating(): ConfidenceRequest | null {
    return this.#request.confidence && RATED
  }

  #load(cuts: Cuts, target = this.#limits): Promise<DecodedImage> {
    const picture = imageUrlsOf(this.#request).at(-1)!
    return this.#patience.run(() => loadCuts(picture, { target, cuts }, this.#call))
  }

  /** A picture that is no larger than a tile is searched as it would be without tiles. */
  async #answerWhole(whole: DecodedImage): Promise<DetectReply> {
    this.#call.held.dispose()
    const kind = kindToFind(this.#request, this.#labels, this.#call.model)
    const asked = { request: this.#request, labels: this.#labels, kind }
    const searched = await searchPicture(asked, [...this.#exemplars, whole], this.#call)
    const reply = await replyAbout(whole.original, searched, this.#request, this.#call)
    return { ...reply, tiling: { grids: [[1, 1]], looks: 0, tilesLeft: null } }
  }

  /**
   * Parts of the picture, as many at a time as one task of a decoder returns.
   * @param known those that are loaded already: some that come before the parts, and the first of the parts.
   */
  async *#cuts(
    parts: readonly PixelRegion[],
    target = this.#limits,
    { before = [], first = [] }: { readonly before?: readonly Cut[]; readonly first?: readonly RgbImage[] } = {},
  ): AsyncGenerator<Cut, void, void> {
    yield* before
    for (let done = 0, cuts = first; done < parts.length; cuts = []) {
      const next = cuts.length > 0 ? cuts : (await this.#load(parts.slice(done), target)).cuts!
      for (const image of next) yield [parts[done++]!, image]
    }
  }

  /** Searches the parts, several at a time, until the deadline. */
  async #searchAll(cuts: AsyncGenerator<Cut, void, void>, { labelsFor, finds, ratingOf }: PartSearch): Promise<void> {
    const search = async () => {
      try {
        // All searches share one iterator.
        for await (const [part, image] of cuts) {
          const confidence = ratingOf(part)
          const request = { ...this.#request, confidence }
          const asked = { request, labels: labelsFor(part), kind: 'box' } as const
          const images = [...this.#exemplars, { image, original: part }]
          const searched = await searchPicture(asked, images, this.#call, this.#patience.generate)
          finds.set(part, await this.#foundIn(part, searched, confidence))
          this.#isComplete &&= searched.isComplete
        }
      } catch (error) {
        if (!this.#call.deadline.caused(error)) throw error
        this.#late = error
      }
    }
    const atOnce = Math.max(1, Math.min(TILES_AT_ONCE, Math.floor(BRANCHES_AT_ONCE / groupsOf(this.#labels).length)))
    await Promise.all(Array.from({ length: atOnce }, search))
  }

  async #foundIn(
    part: PixelRegion,
    searched: Searched,
    confidence: ConfidenceRequest | null,
  ): Promise<readonly Found[]> {
    const { leaves, searches } = searched
    // Some engines do not tell how sure the model is, and the request may not ask.
    const isRated = this.#request.confidence !== null || searches.every(({ isRated }) => isRated)
    if (confidence === null || !isRated) return leaves.map((leaf) => foundIn(leaf, part))
    const { lists, isComplete } = await this.#patience.run(() => ratePicture(searched, confidence, this.#call))
    this.#isComplete &&= isComplete
    if (!confidence.isThorough) this.#open.set(part, openLabels(lists))
    return lists
      .flatMap(({ objects }) => objects)
      .filter((object) => object.confidence >= confidence.least)
      .map(({ leaf, ...sureness }) => foundIn(leaf, part, sureness))
  }

  /** @returns the quarters that were searched. */
  async #searchQuarters(
    tiles: readonly PixelRegion[],
    finds: Map<PixelRegion, readonly Found[]>,
  ): Promise<PixelRegion[]> {
    const quarters = tiles.flatMap((tile) =>
      (this.#open.get(tile) ?? []).flatMap((label) => quartersOf(tile).map((part) => [part, label] as const)),
    )
    const labels = new Map(quarters.slice(0, MOST_QUARTERS))
    const labelsFor = (part: PixelRegion) => {
      const label = labels.get(part)!
      return label === null ? null : [label]
    }
    await this.#searchAll(this.#cuts([...labels.keys()]), { labelsFor, finds, ratingOf: () => this.#usualRating })
    return [...labels.keys()].filter((part) => finds.has(part))
  }

  /**
   * Things that are not found again at one share of a crop are looked at once more at the next.
   * @param before how many looks there were.
   */
  async #lookAgain(
    things: readonly Thing[],
    picture: Size,
    before: number,
  ): Promise<{ readonly things: Thing[]; readonly looks: number }> {
    const { tiles, confidence } = this.#request
    const { looks } = tiles
    const isDue = ({ isCoarse, mention }: Thing) =>
      (looks === 'all' || (looks === 'coarse' && isCoarse)) && mention !== ''
    const others = new Set(things.filter(({ isDoubtful }) => !isDoubtful))
    const agreed = looks === 'none' ? [] : things.filter(isAgreed)
    const again = new Map<Thing, Again>(agreed.map((thing) => [thing, { ...thing, isAlone: true }]))
    for (const thing of agreed) others.delete(thing)
    let due = things.filter((thing) => isDue(thing) && !again.has(thing))
    let count = before
    const { card } = this.#call.model
    const target = closeTarget(card.image!, card.video)
    for (const share of LOOK_SHARES) {
      const crops = new Map(due.slice(0, MOST_LOOKS - count).map((thing) => [lookAt(thing, picture, share), thing]))
      const finds = new Map<PixelRegion, readonly Found[]>()
      const cuts = this.#cuts([...crops.keys()], target)
      const labelsFor = (part: PixelRegion) => [crops.get(part)!.mention]
      await this.#searchAll(cuts, { labelsFor, finds, ratingOf: () => confidence && { ...confidence, least: 0 } })
      count += finds.size
      due = []
      for (const [part, thing] of crops) {
        const found = finds.get(part)
        if (found === undefined) continue
        others.delete(thing)
        const kept = foundAgain(thing, found)
        if (kept === null) due.push(thing)
        else again.set(thing, kept)
      }
    }
    const kept = things.flatMap((thing) => again.get(thing) ?? [])
    return { things: withoutRepeats(kept, [...others]), looks: count }
  }

  /** In the order of the labels; those of one label from top to bottom. */
  #sorted(things: readonly Thing[]): Thing[] {
    const labels = this.#labels ?? [...new Set(things.map(({ mention }) => mention))]
    const order = new Map(labels.map((label, index) => [label, index]))
    return [...things].sort(
      (one, other) => order.get(one.mention)! - order.get(other.mention)! || one.box.top - other.box.top,
    )
  }
}
