import { iouOf } from '../lib/rectangle.ts'
import type { DetectedBox } from './detected-picture.ts'

/** A known box and a found one that count as the same object, by their indices. */
interface Pair {
  readonly known: number
  readonly found: number
  readonly iou: number
}

export interface Matching {
  readonly pairs: readonly Pair[]
  /** Known boxes that were not found. */
  readonly missed: readonly number[]
  /** Found boxes without a known one. */
  readonly extra: readonly number[]
}

/**
 * Matches boxes with the same label, best pair first, with an IoU of at least `least`. Each box is in at most one pair.
 * COCO does so at one threshold, but in order of confidence, which detections here do not have.
 */
export function matchBoxes(known: readonly DetectedBox[], found: readonly DetectedBox[], least: number): Matching {
  const candidates: Pair[] = []
  for (const [index, box] of known.entries()) {
    for (const [place, other] of found.entries()) {
      if (nameOf(box.label) !== nameOf(other.label)) continue
      const iou = iouOf(box, other)
      if (iou > 0 && iou >= least) candidates.push({ known: index, found: place, iou })
    }
  }
  const pairs = distinctPairs(candidates.sort((one, other) => other.iou - one.iou))
  const [paired, pairedFound] = [new Set(pairs.map((pair) => pair.known)), new Set(pairs.map((pair) => pair.found))]
  return {
    pairs,
    missed: [...known.keys()].filter((index) => !paired.has(index)),
    extra: [...found.keys()].filter((index) => !pairedFound.has(index)),
  }
}

/** The candidates, best first, without those that share a side with a better one. */
export function distinctPairs<One extends Omit<Pair, 'iou'>>(candidates: readonly One[]): One[] {
  const [known, found] = [new Set<number>(), new Set<number>()]
  return candidates.filter((pair) => {
    if (known.has(pair.known) || found.has(pair.found)) return false
    known.add(pair.known)
    found.add(pair.found)
    return true
  })
}

export interface Score {
  readonly label: string
  readonly known: number
  readonly found: number
  readonly matched: number
  /** Null if nothing was found. */
  readonly precision: number | null
  /** Null if nothing is known. */
  readonly recall: number | null
  /** Mean IoU of the matched pairs; null if there are none. */
  readonly meanIou: number | null
}

export interface Compared {
  readonly known: readonly DetectedBox[]
  readonly found: readonly DetectedBox[]
  readonly matching: Matching
}

/** Agreement between the boxes of all pictures: for each label in alphabetical order, and in total. */
export function scoresOf(pictures: readonly Compared[]): { readonly labels: readonly Score[]; readonly total: Score } {
  const names = new Map<string, string>()
  for (const { known, found } of pictures) {
    for (const { label } of [...known, ...found]) if (!names.has(nameOf(label))) names.set(nameOf(label), label.trim())
  }
  const score = (label: string, isCounted: (label: string) => boolean): Score => {
    let [known, found] = [0, 0]
    const ious: number[] = []
    for (const one of pictures) {
      known += one.known.filter((box) => isCounted(box.label)).length
      found += one.found.filter((box) => isCounted(box.label)).length
      for (const pair of one.matching.pairs) if (isCounted(one.known[pair.known]!.label)) ious.push(pair.iou)
    }
    const matched = ious.length
    return {
      label,
      known,
      found,
      matched,
      precision: found === 0 ? null : matched / found,
      recall: known === 0 ? null : matched / known,
      meanIou: matched === 0 ? null : ious.reduce((sum, iou) => sum + iou, 0) / matched,
    }
  }
  return {
    labels: [...names]
      .map(([name, shown]) => score(shown, (label) => nameOf(label) === name))
      .sort((one, other) => one.label.localeCompare(other.label)),
    total: score('all', () => true),
  }
}

/** Labels that differ only in case are equal. */
function nameOf(label: string): string {
  return label.trim().toLowerCase()
}
