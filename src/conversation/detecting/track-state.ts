import { createHash } from 'node:crypto'
import type { Track, TracksState } from './tracks.ts'

/**
 * The most tracks that a state holds. With names of at most `LONGEST_NAME` bytes, a sealed state of this many always
 * stays below 8 KB.
 */
export const MOST_TRACKS = 64
/** In bytes of UTF-8. */
export const LONGEST_NAME = 48

/** A short key for a label of any length. */
export function labelKey(label: string): string {
  return createHash('sha256').update(label).digest('base64url').slice(0, 8)
}

/**
 * A track as numbers: id, indices of label and name, place and speed in tenths, and the time since it was last seen.
 */
type Row = readonly (number | null)[]
type Written = readonly [
  at: number,
  nextId: number,
  labels: readonly string[],
  names: readonly string[],
  rows: readonly Row[],
]

/** Serialises a state compactly. */
export function writeState({ at, nextId, tracks }: TracksState): string {
  const labels = [...new Set(tracks.map(({ label }) => label))]
  const names = [...new Set(tracks.flatMap(({ name }) => name ?? []))]
  const tenths = (value: number) => Math.round(value * 10)
  const rows = tracks.map(
    ({ id, label, name, speed, seenAt, ...place }): Row => [
      ...[id, labels.indexOf(label), name === null ? null : names.indexOf(name), at - seenAt],
      ...[place.x, place.y, place.width, place.height].map(tenths),
      ...(speed === null ? [] : [tenths(speed.x), tenths(speed.y)]),
    ],
  )
  return JSON.stringify([at, nextId, labels, names, rows] satisfies Written)
}

/** @param text from `writeState`. */
export function readState(text: string): TracksState {
  const [at, nextId, labels, names, rows] = JSON.parse(text) as Written
  const tracks = rows.map((row): Track => {
    const [id, label, name, ago, x, y, width, height, dx, dy] = row as readonly number[]
    return {
      id: id!,
      label: labels[label!]!,
      name: row[2] === null ? null : names[name!]!,
      ...{ x: x! / 10, y: y! / 10, width: width! / 10, height: height! / 10 },
      speed: dx === undefined ? null : { x: dx / 10, y: dy! / 10 },
      seenAt: at - ago!,
    }
  })
  return { at, nextId, tracks }
}
