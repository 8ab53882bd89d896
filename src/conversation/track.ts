import type { Leaf } from '../grounding/annotation.ts'
import type { PromptUsage } from '../inference/contract/generation.ts'
import { invalidRequest, say } from '../lib/errors/errors.ts'
import { within } from '../lib/errors/param.ts'
import { seal, unseal } from '../lib/secrets/seal.ts'
import type { DecodedImage } from '../media/decoding/process/protocol.ts'
import type { Size } from '../media/pixels.ts'
import type { Call } from './call/call.ts'
import { checkDetect, named } from './call/capability-checks.ts'
import { type Asked, type Asking, askingOf, measurePicture, searchesIn } from './detect.ts'
import type { DetectMeasure } from './detect-measure.ts'
import { type Detection, toDetection } from './detecting/detection.ts'
import { exemplarUrlsOf, trackUrlsOf } from './detecting/dialog.ts'
import { groupsOf, kindToFind, labelsOf } from './detecting/labels.ts'
import { matchNames, nameOf } from './detecting/named-things.ts'
import { LONGEST_NAME, labelKey, MOST_TRACKS, readState, writeState } from './detecting/track-state.ts'
import { type Place, type Sighting, Tracks, type TracksState, toMs } from './detecting/tracks.ts'
import { loadPictures, loadVideoPictures, MAX_MEDIA } from './prompt/media-parts.ts'
import { followSearches } from './reply/annotation-search.ts'
import { totalPrompt } from './reply/usage.ts'
import type { TrackRequest } from './request/detect-request.ts'

export interface TrackReply {
  /** In the order of the frames. */
  readonly detections: readonly TrackedDetection[]
  /** The times of the frames that were searched, in seconds. */
  readonly times: readonly number[]
  /** Size of the upright video; null for frames. */
  readonly size: Size | null
  /** The state for the next request. */
  readonly state: string
  /** Frames that the time limit left out, at the end. */
  readonly framesLeft: number
  /** `length` when an answer was truncated, or frames were left out. */
  readonly finishReason: 'complete' | 'length'
}

type TrackedDetection = Detection & {
  /** From 1; the same in all frames that show the object. */
  readonly track: number
  readonly seconds: number
}

interface Frame {
  readonly picture: DecodedImage
  readonly seconds: number
}

/** The frame rate for models whose cards give none. */
const FRAMES_PER_SECOND = 2
const MOST_FRAMES = 128
/** The most names of tracks that are looked for in one frame, each in a branch of its own. */
const MOST_NAMES = 8
/** The side length of a point, in thousandths of the picture's height. */
const POINT_SIDE = 50
const STATE = ['config', 'state']
const FRAMES = ['media', 'frames']

/**
 * Searches frames one after the other, and matches detections of the same object. Beside the labels, each frame is
 * searched for the names of the tracks so far ("red circle"), which the model gives when an object is first seen: names
 * distinguish similar objects, and find objects that the labels alone miss.
 */
export async function answerTracks(request: TrackRequest, call: Call): Promise<TrackReply> {
  const { deadline } = call
  const { asked, shown, frames, size, state } = await openClip(request, call)
  const { labels } = asked
  const tracks = new Tracks(state, { patience: request.patience, most: MOST_TRACKS })
  const [first] = frames
  const asking = first && (await askingOf(asked, [...shown, first.picture], call))
  const found: TrackedDetection[] = []
  const times: number[] = []
  let isComplete = true
  for (const frame of frames) {
    try {
      const { objects, isWhole } = await searchFrame(frame, tracks, { labels, asking: asking!, request, call })
      found.push(...objects)
      times.push(frame.seconds)
      isComplete &&= isWhole
    } catch (error) {
      if (!deadline.caused(error) || times.length === 0) throw error
      isComplete = false
      break
    }
  }
  return {
    detections: found,
    times,
    size,
    state: seal(writeState(tracks.state), await call.secret(), contextOf(call)),
    framesLeft: frames.length - times.length,
    finishReason: isComplete ? 'complete' : 'length',
  }
}

/** Loads the frames to search. */
async function openClip(request: TrackRequest, call: Call) {
  const { model } = call
  checkDetect(request, model)
  const labels = labelsOf(request)
  const state = await openState(request.state, call)
  checkFrames(request, state)
  const shown = await loadPictures(exemplarUrlsOf(request), model.card.image!, call)
  const { frames, size } = await loadFrames(request, state, call)
  call.held.dispose()
  return { asked: { request, labels, kind: kindToFind(request, labels, model) }, shown, frames, size, state }
}

/**
 * Measures the searches of frames. Searches by names of tracks depend on what is found, so only their maximum is known.
 */
export async function measureTracks(request: TrackRequest, call: Call): Promise<DetectMeasure> {
  const { asked, shown, frames, state } = await openClip(request, call)
  const bySize = new Map<string, Awaited<ReturnType<typeof measurePicture>>>()
  const [usages, further]: [PromptUsage[], number[]] = [[], []]
  for (const { picture } of frames) {
    const size = `${picture.image.width}x${picture.image.height}`
    const images = [...shown, picture]
    if (!bySize.has(size)) {
      bySize.set(size, await measurePicture(asked, images, call))
      const named = await measurePicture({ ...asked, labels: ['a'] }, images, call)
      // Each byte of a name takes at most one token.
      further.push(named.promptTokens + LONGEST_NAME)
    }
    usages.push(bySize.get(size)!)
  }
  const follows = asked.kind === 'box' && state !== null
  const gives = givesNames(asked) ? MOST_NAMES + Number(asked.labels !== null) : follows ? MOST_NAMES : 0
  return {
    ...totalPrompt(usages),
    exact: [...bySize.values()].every(({ exact }) => exact),
    frames: frames.length,
    grids: null,
    mostLooks: gives * frames.length,
    lookTokens: gives === 0 ? 0 : Math.max(0, ...further),
  }
}

/** Whether objects are named when they are first seen. */
function givesNames({ kind, request }: Pick<Asked, 'kind' | 'request'>): boolean {
  return kind === 'box' && request.exemplars.length === 0
}

interface FrameSearch {
  readonly labels: readonly string[] | null
  readonly asking: Asking
  readonly request: TrackRequest
  readonly call: Call
}

/** Searches one frame, and follows the tracks into it. */
async function searchFrame(
  { picture, seconds }: Frame,
  tracks: Tracks,
  { labels, asking, request, call }: FrameSearch,
): Promise<{ readonly objects: readonly TrackedDetection[]; readonly isWhole: boolean }> {
  const search = async (groups: readonly (readonly string[] | null)[]) => {
    const { prefix, searches } = await searchesIn(picture, groups, asking, call)
    const work = {
      organisation: call.organisation,
      prefix: prefix.parts,
      branches: searches.map(({ branch }) => branch),
      whole: true,
    }
    await followSearches(searches, await call.model.engine.generate(work, call.signal))
    return searches
  }
  const groups = groupsOf(labels)
  const before = tracks.at(seconds)
  // An object found under a name is matched by overlap with one found under a label: points never overlap.
  const isNamed = asking.kind === 'box'
  const names = isNamed ? [...new Set(before.flatMap(({ name }) => name ?? []))].slice(0, MOST_NAMES) : []
  const searches = await search([...groups, ...names.map((name) => [name])])
  const leaves = (some: typeof searches) => some.flatMap(({ leaves }) => leaves)
  const plain = leaves(searches.slice(0, groups.length))
  const named = leaves(searches.slice(groups.length)).filter(({ kind }) => kind === 'point_box')
  const matched = matchNames({ plain, named })

  const aspect = picture.original.width / picture.original.height
  const sighted = plain.map((leaf, index): [Leaf, Sighting] => [
    leaf,
    { label: labelKey(leaf.mention ?? ''), place: placeOf(leaf, aspect), name: matched.names[index]! },
  ])
  for (const leaf of matched.others) {
    // Two tracks may have the same name and different labels: either may continue here.
    for (const label of new Set(before.filter(({ name }) => name === leaf.mention).map((track) => track.label))) {
      const mention = labels === null ? leaf.mention : labels.find((one) => labelKey(one) === label)
      if (mention === undefined) continue
      sighted.push([
        { ...leaf, mention },
        { label, place: placeOf(leaf, aspect), name: leaf.mention!, isSought: true },
      ])
    }
  }
  const ids = tracks.follow(
    seconds,
    sighted.map(([, sighting]) => sighting),
  )
  const begun = plain.filter((_, index) => before.every(({ id }) => id !== ids[index]))
  if (begun.length > 0 && givesNames({ kind: asking.kind, request })) {
    const all = labels === null ? plain : leaves(await search([null]))
    const given = plain.flatMap((leaf, index): [number, string][] => {
      const name = begun.includes(leaf) ? nameOf(leaf, all) : null
      return name === null || labels?.includes(name) || Buffer.byteLength(name) > LONGEST_NAME
        ? []
        : [[ids[index]!, name]]
    })
    tracks.name(new Map(given))
  }
  const objects = sighted.flatMap(([leaf], index): TrackedDetection[] => {
    const track = ids[index] ?? null
    return track === null ? [] : [{ ...toDetection(leaf, request.output, picture.original), track, seconds }]
  })
  return { objects, isWhole: searches.every(({ isComplete }) => isComplete) }
}

function placeOf({ kind, points }: Leaf, aspect: number): Place {
  const [from, to] = points
  if (kind === 'point') return { x: from!.x * aspect, y: from!.y, width: POINT_SIDE, height: POINT_SIDE }
  const [width, height] = [(to!.x - from!.x) * aspect, to!.y - from!.y]
  return { x: from!.x * aspect + width / 2, y: from!.y + height / 2, width, height }
}

/** @throws ApiError 400 for too many frames, or frames before the time of the state. */
function checkFrames({ media, exemplars, negatives }: TrackRequest, state: TracksState | null): void {
  if (media.type === 'video') return
  const { frames } = media
  if (frames.length + exemplars.length + negatives.length > MAX_MEDIA) {
    throw invalidRequest(`A request may contain at most ${MAX_MEDIA} images and video frames`, FRAMES)
  }
  if (state === null || toMs(frames[0]!.seconds) >= state.at) return
  const param = within(FRAMES, 0, 'timestamp')
  const end = state.at / 1000
  throw invalidRequest(say`Invalid '${param}': the state ends at ${end} seconds, and frames must not be earlier`, param)
}

/** @returns the frames, in order of time; for a video, those after the time of the state. */
async function loadFrames(
  { media, exemplars, negatives }: TrackRequest,
  state: TracksState | null,
  call: Call,
): Promise<{ readonly frames: readonly Frame[]; readonly size: Size | null }> {
  const { card } = call.model
  const urls = trackUrlsOf(media)
  if (media.type === 'frames') {
    const pictures = await loadPictures(urls, card.image!, call)
    return {
      frames: pictures.map((picture, index) => ({ picture, seconds: media.frames[index]!.seconds })),
      size: null,
    }
  }
  const { framesPerSecond, maxFrames } = card.video ?? { framesPerSecond: FRAMES_PER_SECOND, maxFrames: MOST_FRAMES }
  const limits = { ...card.image!, framesPerSecond, maxFrames }
  const most = MAX_MEDIA - exemplars.length - negatives.length
  const { frames, original } = await loadVideoPictures(urls[0]!, { limits, maxFrames: most }, call)
  // A video that takes too long for one request is sent again, with the state.
  const looks = frames
    .map(({ image, since }) => ({ picture: { image, original }, seconds: toMs(since) / 1000 }))
    .filter(({ seconds }, index, all) => {
      // A frame of a slow video may be sampled several times.
      return seconds !== all[index - 1]?.seconds && (state === null || toMs(seconds) > state.at)
    })
  return { frames: looks, size: original }
}

async function openState(sealed: string | null, call: Call): Promise<TracksState | null> {
  if (sealed === null) return null
  const text = unseal(sealed, await call.secret(), contextOf(call))
  if (text !== null) return readState(text)
  const message = say`Invalid '${STATE}': it is not the state of a reply of ${named(call.model)} to this organisation`
  throw invalidRequest(message, STATE)
}

/** A state is bound to one organisation and one model. */
function contextOf({ organisation, model }: Call): readonly string[] {
  return ['tracks', organisation, model.id]
}
