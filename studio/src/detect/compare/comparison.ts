import { computed, signal } from '@preact/signals'
import { type Compared, matchBoxes, type Score, scoresOf } from '../../../../src/exports/box-matching.ts'
import type { Spot } from '../labelling/spot.ts'
import { results } from '../results.ts'
import { sureSpots } from '../sureness.ts'
import { searchable } from '../targets.ts'
import { type KnownPicture, readCoco } from './coco-file.ts'

/** The file that results are compared with; null when they are not. */
export const knownFile = signal<{ readonly name: string; readonly pictures: ReadonlyMap<string, KnownPicture> } | null>(
  null,
)
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
  /** Names that several pictures have, in the file or on the stage. */
  readonly ambiguous: readonly string[]
}

/** The known boxes as spots, made once, so that marks of those that are missed stay the same. */
const knownSpots = computed(() => {
  const spots = new Map<string, readonly Spot[] | null>()
  for (const [name, { boxes }] of knownFile.value?.pictures ?? []) {
    spots.set(
      name,
      boxes?.map((box, index) => ({ id: `known ${name} ${index}`, kind: 'box' as const, ...box })) ?? null,
    )
  }
  return spots
})

export const comparisons = computed<Comparisons | null>(() => {
  const file = knownFile.value
  if (file === null) return null
  const outcomes = new Map<string, Outcome>()
  const compared: Compared[] = []
  const [otherSizes, ambiguous]: [string[], string[]] = [[], []]
  let absent = file.pictures.size
  for (const [name, pictures] of Map.groupBy(searchable.value, ({ name }) => name)) {
    const known = knownSpots.value.get(name)
    const searched = pictures.find(({ id }) => results.value.has(id))
    if (searched === undefined || known === undefined) continue
    absent--
    if (known === null || pictures.length > 1) {
      ambiguous.push(name)
      continue
    }
    const { id, width, height } = searched
    const { size } = file.pictures.get(name)!
    if (size && (size.width !== width || size.height !== height)) otherSizes.push(name)
    const found = sureSpots(results.value.get(id)).filter(({ kind }) => kind === 'box')
    const matching = matchBoxes(known, found, leastIou.value)
    compared.push({ known, found, matching })
    outcomes.set(id, {
      matched: new Map(matching.pairs.map((pair) => [found[pair.found]!.id, pair.iou])),
      missed: matching.missed.map((index) => known[index]!),
    })
  }
  return { outcomes, ...scoresOf(compared), absent, otherSizes, ambiguous }
})

export async function openKnownFile(file: File): Promise<void> {
  knownFileError.value = null
  try {
    knownFile.value = { name: file.name, pictures: readCoco(await file.text()) }
  } catch (error) {
    knownFileError.value = (error as Error).message
  }
}
