import { assign } from './assignment.ts'

/** A centre and side lengths, in thousandths of the picture's height. */
export interface Place {
  readonly x: number
  readonly y: number
  readonly width: number
  readonly height: number
}

/** An object that was found in a frame. */
export interface Sighting {
  readonly label: string
  readonly place: Place
  /** The name under which it was found, which describes its appearance; null if it was found only under its label. */
  readonly name: string | null
  /** Whether it was found only under its name: it may only continue a track of that name. */
  readonly isSought?: boolean
}

/** An object that is tracked through the frames. */
export interface Track extends Place {
  /** From 1. */
  readonly id: number
  readonly label: string
  /** Its appearance, in the model's words; null if unknown. */
  readonly name: string | null
  /** Velocity of the centre, in thousandths of the picture's height per second; null after a single sighting. */
  readonly speed: { readonly x: number; readonly y: number } | null
  /** When it was last seen, in whole milliseconds. */
  readonly seenAt: number
}

/** The state that tracking carries from one frame to the next. */
export interface TracksState {
  /** Time of the last frame, in whole milliseconds. */
  readonly at: number
  readonly nextId: number
  readonly tracks: readonly Track[]
}

/** The greatest distance from the expected place, as a multiple of the object's size: with known speed, and without. */
const REACH = { known: 2, unknown: 3 }
/** It may be farther by this share of the distance that it would have covered since. */
const REACH_OF_WAY = 0.6
/** Penalty on the gain for each natural-log unit by which the area changes. */
const GROWTH_COST = 0.3
/** Gain for the same name, for another name, and if a name is unknown. */
const LOOKS = { same: 1, other: 0.1, unknown: 0.5 }
/** Weight of the speed between the last two sightings in the average. */
const NEWEST_SPEED = 0.8

/**
 * Tracks objects through frames. Each sighting continues the track that fits best in place and appearance, or begins
 * one. An object that is not seen is expected to move on at the same speed, and is forgotten after a while. The same
 * frames give the same tracks, whether in one run or with the state stored in between.
 */
export class Tracks {
  #state: TracksState
  readonly #patience: number
  readonly #most: number

  /**
   * @param state of the frames before; null at the beginning.
   * @param options.patience how long a track stays without a sighting, in seconds.
   * @param options.most tracks to keep: those that were seen last.
   */
  constructor(state: TracksState | null, { patience, most }: { readonly patience: number; readonly most: number }) {
    this.#state = state ?? { at: 0, nextId: 1, tracks: [] }
    this.#patience = patience * 1000
    this.#most = most
  }

  get state(): TracksState {
    return this.#state
  }

  /** The tracks that a frame at this time can continue. */
  at(seconds: number): readonly Track[] {
    const now = toMs(seconds)
    const { at, tracks } = this.#state
    return tracks.filter(({ seenAt }) => seenAt === at || now - seenAt <= this.#patience)
  }

  /**
   * @param seconds time of the frame, not before that of the last one.
   * @returns the id of the track of each sighting; null for one that was found only under a name and continues no
   * track.
   */
  follow(seconds: number, sightings: readonly Sighting[]): (number | null)[] {
    const now = toMs(seconds)
    const known = this.at(seconds)
    const paired = assign(known.map((track) => sightings.map((one) => gainOf(track, one, now))))
    const ids = sightings.map((): number | null => null)
    const tracks = known.map((track, index) => {
      const pair = paired[index] ?? null
      if (pair === null) return track
      ids[pair] = track.id
      return moved(track, sightings[pair]!, now)
    })
    let { nextId } = this.#state
    for (const [index, { label, place, name, isSought }] of sightings.entries()) {
      if (ids[index] !== null || isSought) continue
      ids[index] = nextId
      tracks.push({ id: nextId, label, name, speed: null, seenAt: now, ...rounded(place) })
      nextId++
    }
    this.#state = { at: now, nextId, tracks: this.#latest(tracks) }
    return ids
  }

  /** Names tracks that have no name yet. */
  name(names: ReadonlyMap<number, string>): void {
    const tracks = this.#state.tracks.map((track) => ({ ...track, name: track.name ?? names.get(track.id) ?? null }))
    this.#state = { ...this.#state, tracks }
  }

  #latest(tracks: readonly Track[]): readonly Track[] {
    if (tracks.length <= this.#most) return tracks
    const kept = new Set([...tracks].sort((a, b) => b.seenAt - a.seenAt || a.id - b.id).slice(0, this.#most))
    return tracks.filter((track) => kept.has(track))
  }
}

/** The gain if the sighting continues the track; at most 0 if it cannot. */
function gainOf(track: Track, { label, place, name, isSought = false }: Sighting, now: number): number {
  if (track.label !== label || (isSought && track.name !== name)) return 0
  const isSame = track.name === null || name === null ? null : track.name === name
  const seconds = (now - track.seenAt) / 1000
  const way = track.speed === null ? 0 : Math.hypot(track.speed.x, track.speed.y) * seconds
  const x = track.x + (track.speed?.x ?? 0) * seconds
  const y = track.y + (track.speed?.y ?? 0) * seconds
  const [area, newArea] = [1 + track.width * track.height, 1 + place.width * place.height]
  const size = Math.sqrt(Math.sqrt(area * newArea))
  const reach = (track.speed === null ? REACH.unknown : REACH.known) + (REACH_OF_WAY * way) / size
  const closeness = 1 - Math.hypot(place.x - x, place.y - y) / size / reach
  if (closeness <= 0) return 0
  const looks = isSame === null ? LOOKS.unknown : isSame ? LOOKS.same : LOOKS.other
  return closeness + looks - GROWTH_COST * Math.abs(Math.log(newArea / area))
}

function moved(track: Track, { place, name }: Sighting, now: number): Track {
  const seconds = (now - track.seenAt) / 1000
  const seen = { ...track, ...rounded(place), name: track.name ?? name }
  if (seconds <= 0) return seen
  const newest = { x: (seen.x - track.x) / seconds, y: (seen.y - track.y) / seconds }
  const old = track.speed ?? newest
  const mixed = (axis: 'x' | 'y') => tenths(NEWEST_SPEED * newest[axis] + (1 - NEWEST_SPEED) * old[axis])
  return { ...seen, speed: { x: mixed('x'), y: mixed('y') }, seenAt: now }
}

/** Rounds to tenths, as in a state, so that storing a state in between changes nothing. */
function rounded({ x, y, width, height }: Place): Place {
  return { x: tenths(x), y: tenths(y), width: tenths(width), height: tenths(height) }
}

function tenths(value: number): number {
  // Zero has no sign in a state.
  return Math.round(value * 10) / 10 || 0
}

/** The unit of all times in a state. */
export function toMs(seconds: number): number {
  return Math.round(seconds * 1000)
}
