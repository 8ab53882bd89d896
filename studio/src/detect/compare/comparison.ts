import { computed, signal } from '@preact/signals'
import { type Compared, matchBoxes, type Score, scoresOf } from '../../../../src/exports/box-matching.ts'
import type { Spot } from '../labelling/spot.ts'
import { results } from '../results.ts'
import { sureSpots } from '../sureness.ts'
import { searchable } from '../targets.ts'
import { type KnownPicture, readCoco } from './coco-file.ts'

/** The file that results are compared with; null when they are not. */
export const knownFile = signal<{
  readonly name: string
  readonly pictures: ReadonlyMap<string, KnownPicture | null>
} | null>(null)
/** Why the last file could not be read. */
export const knownFileError = signal<string | null>(null)
/** The IoU from which two boxes are taken for the same object. */
export const leastIou = signal(0.5)

/** How the spots on a picture compare with the boxes that are known. */
interface Outcome {
  /** Ids of spots that are known, with their IoU. */
  readonly matched: ReadonlyMap<string, number>
  /** Known boxes that were not found. */
  readonly missed: readonly Spot[]
}

interface Comparisons {
  /** By the ids of the attachments. */
  readonly outcomes: ReadonlyMap<string, Outcome>
  readonly labels: readonly Score[]
  readonly total: Score
  /** How many pictures of the file have no results on the stage. */
  readonly absent: number
  /** Names of pictures whose size is not that of the file. */
  readonly otherSizes: readonly string[]
  /** Names that several pictures of the file have: which of them is meant, is not known. */
  readonly ambiguous: readonly string[]
}

/** The known boxes as spots, made once, so that marks of those that are missed stay the same. */
const knownSpots = computed(() => {
  const spots = new Map<string, readonly Spot[]>()
  for (const [name, picture] of knownFile.value?.pictures ?? []) {
    if (picture === null) continue
    spots.set(
      name,
      picture.boxes.map((box, index) => ({ id: `known ${name} ${index}`, kind: 'box' as const, ...box })),
    )
  }
  return spots
})

export const comparisons = computed<Comparisons | null>(() => {
  const file = knownFile.value
  if (file === null) return null
  const outcomes = new Map<string, Outcome>()
  const compared: Compared[] = []
  const otherSizes: string[] = []
  const names = new Set<string>()
  const ambiguous: string[] = []
  for (const { id, name, width, height } of searchable.value) {
    const result = results.value.get(id)
    const known = knownSpots.value.get(name)
    if (result !== undefined && file.pictures.get(name) === null) ambiguous.push(name)
    if (result === undefined || known === undefined) continue
    names.add(name)
    const { size } = file.pictures.get(name)!
    if (size && (size.width !== width || size.height !== height)) otherSizes.push(name)
    const found = sureSpots(result).filter(({ kind }) => kind === 'box')
    const matching = matchBoxes(known, found, leastIou.value)
    compared.push({ known, found, matching })
    outcomes.set(id, {
      matched: new Map(matching.pairs.map((pair) => [found[pair.found]!.id, pair.iou])),
      missed: matching.missed.map((index) => known[index]!),
    })
  }
  return { outcomes, ...scoresOf(compared), absent: file.pictures.size - names.size, otherSizes, ambiguous }
})

export async function openKnownFile(file: File): Promise<void> {
  knownFileError.value = null
  try {
    knownFile.value = { name: file.name, pictures: readCoco(await file.text()) }
  } catch (error) {
    knownFileError.value = (error as Error).message
  }
}
