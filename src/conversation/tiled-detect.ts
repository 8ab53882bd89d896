import type { Leaf } from '../grounding/annotation.ts'
import type { Work } from '../inference/contract/work.ts'
import { invalidRequest } from '../lib/errors/errors.ts'
import type { PixelRegion } from '../media/coordinates.ts'
import type { Cuts, DecodedImage } from '../media/decoding/process/protocol.ts'
import { closeTarget } from '../media/image-detail.ts'
import type { RgbImage, Size } from '../media/pixels.ts'
import { fittingGrid, MOST_TILES, partsToCut, planTiles, type TileGrid } from '../media/tile-plan.ts'
import type { ImageLimits } from '../models/card.ts'
import type { Call } from './call/call.ts'
import { checkDetect } from './call/capability-checks.ts'
import { Patience } from './call/patience.ts'
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
  isRight,
  lookAt,
  mergeFinds,
  onGrid,
  type Thing,
  withoutRepeats,
} from './detecting/ladder.ts'
import { loadCuts, loadPictures } from './prompt/media-parts.ts'
import type { ConfidenceRequest, DetectRequest } from './request/detect-request.ts'

export type TiledRequest = DetectRequest & { readonly tiles: NonNullable<DetectRequest['tiles']> }

export function isTiled(request: DetectRequest): request is TiledRequest {
  return request.tiles !== null
}

/** The most second looks. Further objects are kept without one. */
export const MOST_LOOKS = 256
/** The most branches, and the most tiles, in the engine at a time. */
const BRANCHES_AT_ONCE = 64
const TILES_AT_ONCE = 16

/** Rates each object in a tile. */
const RATED: ConfidenceRequest = { least: 0, isThorough: false }
/** Rates each object and asks for one more: only a fit can weigh that. */
const FURTHER: ConfidenceRequest = { ...RATED, asksFurther: true }
/** With a fit, an object without a second look counts from this probability on. */
const LIKELY = 0.5

/** A part of the picture, prepared for the model. */
type Cut = readonly [part: PixelRegion, image: RgbImage]

/** How parts of the picture are searched. */
interface PartSearch {
  readonly labelsFor: (part: PixelRegion) => readonly string[] | null
  readonly finds: Map<PixelRegion, readonly Found[]>
  readonly confidence: ConfidenceRequest | null
  /** The most parts in the engine at a time. */
  readonly atOnce: number
}

/**
 * Searches a picture tile by tile, each as a picture of its own, and merges the finds. Then it looks at objects again,
 * in parts of the picture that show them large, and keeps those that it finds again. If the model's probabilities are
 * calibrated, a tile whose list may be incomplete is asked for one more object, and only doubtful objects get a second
 * look.
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
    ? invalidRequest(
        `Finding objects of ${tiles.smallest} pixels in a picture of ${size} would take too many tiles: ${fits}`,
        ['config', 'smallest'],
      )
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
    const known = { before: [[grids.at(-1)!.tiles[0]!, whole.image]] as const, first: whole.cuts ?? [] }
    await this.#searchAll(this.#cuts(partsToCut(grids), this.#limits, known), {
      labelsFor: () => this.#labels,
      finds,
      confidence: this.#isFitted ? FURTHER : confidence && RATED,
      atOnce: Math.max(1, Math.min(TILES_AT_ONCE, Math.floor(BRANCHES_AT_ONCE / groupsOf(this.#labels).length))),
    })
    if (finds.size === 0) throw this.#late
    const tilesLeft = grids.reduce((sum, grid) => sum + grid.tiles.length, -finds.size)
    const { things, looks } = await this.#lookAgain(mergeFinds(original, grids, finds), original)
    const kept = things.filter(({ sureness }) => confidence === null || sureness!.confidence >= confidence.least)
    return {
      detections: this.#sorted(kept).map((thing) => {
        return { ...toDetection(onGrid(thing, original), output, original), ...(confidence && thing.sureness) }
      }),
      ...(confidence && {
        // The list of one tile says nothing about the others.
        categories: (this.#labels ?? [null]).map((label) => ({ label, complete: null, more: null })),
        // A fit is for pictures that show objects as large as looks do.
        isCalibrated: this.#call.model.card.detection !== undefined && tiles.looks === 'all',
      }),
      finishReason: this.#isComplete && this.#late === null ? 'complete' : 'length',
      tiling: { grids: grids.map(({ grid }) => grid), looks, tilesLeft: this.#late === null ? null : tilesLeft },
    }
  }

  get #limits(): ImageLimits {
    return this.#call.model.card.image!
  }

  /** Whether probabilities decide which objects need a look. A fit is for boxes that were found without tiles. */
  get #isFitted(): boolean {
    return this.#request.tiles.looks === 'all' && this.#call.model.card.detection !== undefined
  }

  #load(cuts: Cuts, target = this.#limits): Promise<DecodedImage> {
    const picture = imageUrlsOf(this.#request).at(-1)!
    return this.#patience.run(() => loadCuts(picture, { target, cuts }, this.#call))
  }

  /** A picture no larger than a tile is searched as without tiles. */
  async #answerWhole(whole: DecodedImage): Promise<DetectReply> {
    this.#call.held.dispose()
    const kind = kindToFind(this.#request, this.#labels, this.#call.model)
    const asked = { request: this.#request, labels: this.#labels, kind }
    const searched = await searchPicture(asked, [...this.#exemplars, whole], this.#call)
    const reply = await replyAbout(whole.original, searched, this.#request, this.#call)
    return { ...reply, tiling: { grids: [[1, 1]], looks: 0, tilesLeft: null } }
  }

  /**
   * Loads parts of the picture, as many at a time as one decoder task returns.
   * @param known images that are already loaded: some that come before the parts, and the first of the parts.
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
  async #searchAll(
    cuts: AsyncGenerator<Cut, void, void>,
    { labelsFor, finds, confidence, atOnce }: PartSearch,
  ): Promise<void> {
    const request = { ...this.#request, confidence }
    const search = async () => {
      try {
        // All searches share one iterator.
        for await (const [part, image] of cuts) {
          const asked = { request, labels: labelsFor(part), kind: 'box' } as const
          const images = [...this.#exemplars, { image, original: part }]
          // Caching pays only if the search continues: the same part is rarely asked about again.
          const isTransient = this.#exemplars.length === 0 && confidence?.isThorough !== true
          const admit = (work: Work) => this.#patience.generate({ ...work, isTransient })
          const searched = await searchPicture(asked, images, this.#call, admit)
          finds.set(part, await this.#foundIn(part, searched, confidence))
          this.#isComplete &&= searched.isComplete
        }
      } catch (error) {
        if (!this.#call.deadline.caused(error)) throw error
        this.#late = error
      }
    }
    await Promise.all(Array.from({ length: atOnce }, search))
  }

  async #foundIn(
    part: PixelRegion,
    searched: Searched,
    confidence: ConfidenceRequest | null,
  ): Promise<readonly Found[]> {
    const { leaves, searches } = searched
    // Some engines give no log-probabilities, and the request may not need them.
    const isRated = this.#request.confidence !== null || searches.every(({ isRated }) => isRated)
    // An engine that enforces no constraint may yield points, which cannot be matched across tiles.
    const isBox = ({ kind }: Leaf) => kind === 'point_box'
    if (confidence === null || !isRated) return leaves.filter(isBox).map((leaf) => foundIn(leaf, part))
    const { lists, isComplete } = await this.#patience.run(() => ratePicture(searched, confidence, this.#call))
    this.#isComplete &&= isComplete
    return lists
      .flatMap(({ objects }) => objects)
      .filter(({ leaf, confidence: rated }) => isBox(leaf) && rated >= confidence.least)
      .map(({ leaf, ...sureness }) => foundIn(leaf, part, sureness))
  }

  /** Looks again at objects whose rating that may change. */
  async #lookAgain(
    things: readonly Thing[],
    picture: Size,
  ): Promise<{ readonly things: Thing[]; readonly looks: number }> {
    const { tiles, confidence } = this.#request
    const { looks } = tiles
    const isUnlikely = ({ sureness }: Thing) => this.#isFitted && (sureness?.confidence ?? 1) < LIKELY
    const others = new Set(things.filter((thing) => !thing.isDoubtful && !isUnlikely(thing)))
    const again = new Map<Thing, Again>()
    const due: Thing[] = []
    for (const thing of looks === 'none' ? [] : things) {
      const { sureness } = thing
      const known = this.#isFitted && sureness ? isRight(thing, sureness, things, picture) : isAgreed(thing) || null
      if (known !== null) others.delete(thing)
      else if ((looks === 'all' || thing.isCoarse) && thing.mention !== '') due.push(thing)
      if (known) again.set(thing, { ...thing, isAlone: true })
    }
    const crops = new Map(due.slice(0, MOST_LOOKS).map((thing) => [lookAt(thing, picture), thing]))
    const finds = new Map<PixelRegion, readonly Found[]>()
    const { card } = this.#call.model
    await this.#searchAll(this.#cuts([...crops.keys()], closeTarget(card.image!, card.video)), {
      labelsFor: (part) => [crops.get(part)!.mention],
      finds,
      confidence: confidence && { ...confidence, least: 0 },
      atOnce: BRANCHES_AT_ONCE,
    })
    for (const [part, found] of finds) {
      const thing = crops.get(part)!
      others.delete(thing)
      const kept = foundAgain(thing, found)
      if (kept !== null) again.set(thing, kept)
    }
    const kept = things.flatMap((thing) => again.get(thing) ?? [])
    return { things: withoutRepeats(kept, [...others]), looks: finds.size }
  }

  /** Sorts by the order of the labels, and within a label from top to bottom. */
  #sorted(things: readonly Thing[]): Thing[] {
    const labels = this.#labels ?? [...new Set(things.map(({ mention }) => mention))]
    const order = new Map(labels.map((label, index) => [label, index]))
    return [...things].sort(
      (one, other) => order.get(one.mention)! - order.get(other.mention)! || one.box.top - other.box.top,
    )
  }
}
