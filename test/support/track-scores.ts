import { assign } from '../../src/conversation/detecting/assignment.ts'

/** A box with the identity that it has in all frames; in any unit of length. */
export interface ScoredBox {
  readonly id: number
  readonly left: number
  readonly top: number
  readonly right: number
  readonly bottom: number
}

export interface ScoredFrame {
  readonly known: readonly ScoredBox[]
  readonly found: readonly ScoredBox[]
}

/** Counts over all frames, which can be added up over clips. */
export interface TrackCounts {
  readonly known: number
  readonly found: number
  readonly missed: number
  readonly extra: number
  /** How often a thing goes on under another identity. */
  readonly switches: number
  /** Boxes that are right where each thing has the one identity that suits it best. */
  readonly identified: number
}

/** Boxes with at least this intersection over union can be the same thing. */
const LEAST_IOU = 0.5

/** The measures of CLEAR MOT and of identities, as py-motmetrics computes them. */
export function countTracks(frames: readonly ScoredFrame[]): TrackCounts {
  const last = new Map<number, number>()
  const together = new Map<number, Map<number, number>>()
  let [known, found, matched, switches] = [0, 0, 0, 0]
  for (const frame of frames) {
    known += frame.known.length
    found += frame.found.length
    const ious = frame.known.map((one) => frame.found.map((other) => iou(one, other)))
    const free = new Set(frame.found.keys())
    const waiting: number[] = []
    for (const [row, { id }] of frame.known.entries()) {
      for (const [column, other] of frame.found.entries()) {
        if (ious[row]![column]! < LEAST_IOU) continue
        const counts = together.get(id) ?? new Map<number, number>()
        together.set(id, counts.set(other.id, (counts.get(other.id) ?? 0) + 1))
      }
      const before = frame.found.findIndex((other) => other.id === last.get(id))
      if (before >= 0 && free.has(before) && ious[row]![before]! >= LEAST_IOU) {
        free.delete(before)
        matched++
      } else waiting.push(row)
    }
    const columns = [...free]
    // As many pairs as possible come first.
    const gain = (value: number) => (value >= LEAST_IOU ? 1000 + value : 0)
    const pairs = assign(waiting.map((row) => columns.map((column) => gain(ious[row]![column]!))))
    for (const [index, pair] of pairs.entries()) {
      if (pair === null) continue
      const [thing, track] = [frame.known[waiting[index]!]!.id, frame.found[columns[pair]!]!.id]
      matched++
      if (last.has(thing) && last.get(thing) !== track) switches++
      last.set(thing, track)
    }
  }
  const tracks = [...new Set(frames.flatMap((frame) => frame.found.map(({ id }) => id)))]
  const counts = [...together.values()].map((of) => tracks.map((id) => of.get(id) ?? 0))
  const identified = assign(counts).reduce(
    (sum: number, track, row) => sum + (track === null ? 0 : counts[row]![track]!),
    0,
  )
  return { known, found, missed: known - matched, extra: found - matched, switches, identified }
}

export function addCounts(all: readonly TrackCounts[]): TrackCounts {
  const sum = (key: keyof TrackCounts) => all.reduce((total, one) => total + one[key], 0)
  return {
    known: sum('known'),
    found: sum('found'),
    missed: sum('missed'),
    extra: sum('extra'),
    switches: sum('switches'),
    identified: sum('identified'),
  }
}

export function idf1({ known, found, identified }: TrackCounts): number {
  return (2 * identified) / (known + found)
}

export function mota({ known, missed, extra, switches }: TrackCounts): number {
  return 1 - (missed + extra + switches) / known
}

export function iou(one: ScoredBox, other: ScoredBox): number {
  const width = Math.min(one.right, other.right) - Math.max(one.left, other.left)
  const height = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top)
  if (width <= 0 || height <= 0) return 0
  const area = ({ left, top, right, bottom }: ScoredBox) => (right - left) * (bottom - top)
  return (width * height) / (area(one) + area(other) - width * height)
}
