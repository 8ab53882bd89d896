import { assign } from '../../src/conversation/detecting/assignment.ts'
import { iou, type ScoredBox } from '../../test/support/track-scores.ts'

/** A box with what it is called. */
export interface LabelledBox extends Omit<ScoredBox, 'id'> {
  readonly label: string
}

interface Followed {
  readonly box: ScoredBox
  readonly label: string
  /** Pixels for each frame. */
  readonly dx: number
  readonly dy: number
  /** Frames since it was seen. */
  readonly age: number
}

const LEAST_IOU = 0.3
const NEWEST_SPEED = 0.6

/**
 * The tracker that others are measured against (arxiv.org/abs/1602.00763): the best assignment by IoU with where a thing is
 * expected at constant speed. A running mean of the speed takes the place of its Kalman filter.
 * @param most frames for which a thing that is not seen stays the same one.
 */
export function sort(frames: readonly (readonly LabelledBox[])[], most: number): ScoredBox[][] {
  let known: Followed[] = []
  let nextId = 1
  return frames.map((found) => {
    const boxes = found.map((box): ScoredBox => ({ ...box, id: 0 }))
    const expected = known.map(({ box, dx, dy, age }) => shifted(box, dx * age, dy * age))
    const gains = known.map(({ label }, row) =>
      found.map((one, column) => (one.label === label ? iou(expected[row]!, boxes[column]!) : 0)),
    )
    const paired = assign(gains.map((row) => row.map((gain) => (gain < LEAST_IOU ? 0 : gain))))
    known = known.flatMap((track, row): Followed[] => {
      const pair = paired[row] ?? null
      if (pair === null) return track.age < most ? [{ ...track, age: track.age + 1 }] : []
      const box = { ...boxes[pair]!, id: track.box.id }
      boxes[pair] = box
      const [x, y] = [0, 1].map((axis) => (centre(box)[axis]! - centre(track.box)[axis]!) / track.age) as [
        number,
        number,
      ]
      const mixed = (newest: number, old: number) => NEWEST_SPEED * newest + (1 - NEWEST_SPEED) * old
      return [{ ...track, box, dx: mixed(x, track.dx), dy: mixed(y, track.dy), age: 1 }]
    })
    for (const [index, box] of boxes.entries()) {
      if (box.id !== 0) continue
      boxes[index] = { ...box, id: nextId++ }
      known.push({ box: boxes[index], label: found[index]!.label, dx: 0, dy: 0, age: 1 })
    }
    return boxes
  })
}

function centre({ left, top, right, bottom }: ScoredBox): [x: number, y: number] {
  return [(left + right) / 2, (top + bottom) / 2]
}

function shifted({ id, left, top, right, bottom }: ScoredBox, dx: number, dy: number): ScoredBox {
  return { id, left: left + dx, top: top + dy, right: right + dx, bottom: bottom + dy }
}
