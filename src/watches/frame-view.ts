import { LiveFrame } from '../media/live/live-frame.ts'
import type { MediaLoader } from '../media/media-loader.ts'
import type { Size } from '../media/pixels.ts'
import type { KeyOwner } from './key-owner.ts'
import type { Look, WatchFrame } from './look.ts'
import { COMPARED, greyOf } from './motion.ts'
import type { LookAnswer } from './question-value.ts'
import type { HeldWatch } from './watch-desk.ts'
import { boxInFrame, checkRegion, gridOf } from './watch-region.ts'

interface FrameViewOptions {
  readonly media: Pick<MediaLoader, 'open'>
  readonly look: Look
  readonly owner: KeyOwner
  /** Fires when the watch stops. */
  readonly signal: AbortSignal
}

/** The parameter that errors about a frame name. */
export const FRAME = 'frame'

/** Decodes the frames of one watch and asks the model about them. Only the watch's region is looked at. */
export class FrameView {
  readonly #options: FrameViewOptions

  constructor(options: FrameViewOptions) {
    this.#options = options
  }

  /** Decodes the watch's region of a frame, at the size at which frames are compared. @throws ApiError 400 */
  async open(
    { media: medium }: WatchFrame,
    { organisationId, settings: { region } }: HeldWatch,
  ): Promise<{ readonly grey: Uint8Array; readonly original: Size }> {
    const { signal } = this.#options
    using media = this.#options.media.open(organisationId, signal, { isTransient: true })
    const shown = medium()
    const reference =
      shown instanceof LiveFrame
        ? ({ type: 'frame', frame: shown } as const)
        : ({ type: 'inline', media: shown } as const)
    const input = { reference, param: FRAME, signal }
    const { image, original } = await media.image(input, COMPARED, region ? gridOf(region) : undefined)
    if (region) checkRegion(region, original)
    return { grey: greyOf(image), original }
  }

  /** Asks the model. @param beginBy the latest time to begin; null for no limit. */
  async ask(
    questions: readonly object[],
    { media }: Pick<WatchFrame, 'media'>,
    watch: HeldWatch,
    beginBy: number | null,
  ): Promise<readonly LookAnswer[]> {
    const principal = await this.#options.owner.of(watch)
    const { signal } = this.#options
    const { id, settings } = watch
    const region = settings.region ? gridOf(settings.region) : null
    const asked = { watch: id, principal, model: settings.model, questions, frame: media(), region, beginBy, signal }
    return this.#options.look(asked)
  }

  /** Asks where things are. The boxes are relative to the whole frame. */
  async places(
    questions: readonly object[],
    frame: Pick<WatchFrame, 'media'> & { readonly about: Size },
    watch: HeldWatch,
  ): Promise<readonly LookAnswer[]> {
    const { region } = watch.settings
    const found = await this.ask(questions, frame, watch, null)
    if (!region) return found
    return found.map(({ box, ...answer }) => ({ ...answer, ...(box && { box: boxInFrame(box, region, frame.about) }) }))
  }
}
