import { iouOf } from '../lib/rectangle.ts'
import type { DetectedBox } from './detected-picture.ts'

/** A known box and a found one that are taken for the same object, by their places in the lists. */
interface Pair {
  readonly known: number
  readonly found: number
  readonly iou: number
}

export interface Matching {
  readonly pairs: readonly Pair[]
  /** Known boxes that were not found. */
  readonly missed: readonly number[]
  /** Found boxes that are not known. */
  readonly extra: readonly number[]
}

/**
 * Matches boxes of the same label, the best pair first, as long as their IoU is at least `least`. Each box is in one pair
 * at most. COCO does so at one threshold, there in the order of confidence, which detections here do not have.
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

/** The candidates, best first, without those of which a side is in a better one. */
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
  /** Null where nothing was found. */
  readonly precision: number | null
  /** Null where nothing is known. */
  readonly recall: number | null
  /** Mean IoU of the matched pairs; null where there are none. */
  readonly meanIou: number | null
}

export interface Compared {
  readonly known: readonly DetectedBox[]
  readonly found: readonly DetectedBox[]
  readonly matching: Matching
}

/** How well the boxes of all pictures agree: for each label in alphabetical order, and in all. */
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

/** Labels that differ only in case are the same. */
function nameOf(label: string): string {
  return label.trim().toLowerCase()
}
