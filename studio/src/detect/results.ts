import { computed, signal } from '@preact/signals'
import { attachments, select } from '../media/attachments.ts'
import type { Spot } from './labelling/spot.ts'

/** What is known about one picture: what the model found, and what has become of it by hand. */
export interface Result {
  readonly found: readonly Spot[]
  readonly spots: readonly Spot[]
  /** Categories of the search. */
  readonly asked: readonly string[]
  /** The model that searched; null if none did, or if it is not known. */
  readonly model: string | null
  /** What is known of how sure the model is; null where it was not asked for. */
  readonly rating: Rating | null
  /** Whether the model was stopped before it had finished. */
  readonly isCut: boolean
  /** Whether a person accepted it. */
  readonly isReviewed: boolean
  /** Null where nothing was searched. */
  readonly milliseconds: number | null
}

export interface Rating {
  /** Whether the numbers were fitted to examples. */
  readonly isCalibrated: boolean
  /** How likely it is that none is missing, by category: null where all was searched for, or it is not known. */
  readonly whole: readonly { readonly label: string | null; readonly chance: number | null }[]
}

/** By the ids of the attachments. */
export type Results = ReadonlyMap<string, Result>

const MOST_STEPS = 1000
const EMPTY: Result = {
  found: [],
  spots: [],
  asked: [],
  model: null,
  rating: null,
  isCut: false,
  isReviewed: false,
  milliseconds: null,
}

export const results = signal<Results>(new Map())
const past = signal<readonly Results[]>([])
const future = signal<readonly Results[]>([])
export const canUndo = computed(() => past.value.length > 0)
export const canRedo = computed(() => future.value.length > 0)

/** @param isMore of the step before, which is undone with it. */
function commit(media: string, result: Result, isMore = false): void {
  if (!isMore) past.value = [...past.value, results.value].slice(-MOST_STEPS)
  future.value = []
  results.value = new Map(results.value).set(media, result)
}

/** Shows what a session had. Nothing before it can be brought back. */
export function replaceResults(saved: Results): void {
  past.value = []
  future.value = []
  results.value = saved
}

export function undo(): void {
  const before = past.value.at(-1)
  if (before === undefined) return
  past.value = past.value.slice(0, -1)
  future.value = [...future.value, results.value]
  showChange(before)
}

export function redo(): void {
  const after = future.value.at(-1)
  if (after === undefined) return
  future.value = future.value.slice(0, -1)
  past.value = [...past.value, results.value]
  showChange(after)
}

/** What is undone may be on another picture than the one that is shown. */
function showChange(next: Results): void {
  const changed = attachments.value.find(({ id }) => next.get(id) !== results.value.get(id))
  results.value = next
  if (changed) select(changed.id)
}

/** What a search found takes the place of all that was there; undoing brings it back. */
export function takeFound(media: string, found: Omit<Result, 'spots' | 'isReviewed'>): void {
  commit(media, { ...found, spots: found.found, isReviewed: false })
}

export function addSpot(media: string, spot: Spot): void {
  const result = results.value.get(media) ?? EMPTY
  commit(media, { ...result, spots: [...result.spots, spot] })
}

export function changeSpot(
  media: string,
  id: string,
  change: Partial<Omit<Spot, 'id' | 'confidence'>>,
  isMore?: boolean,
): void {
  const result = results.value.get(media)
  const spot = result?.spots.find((one) => one.id === id)
  if (result === undefined || spot === undefined) return
  if (isSame(spot, { ...spot, ...change })) return
  // What a person says of it is not what the model was sure of.
  const { confidence: _, ...own } = spot
  const changed = { ...own, ...change }
  commit(media, { ...result, spots: result.spots.map((one) => (one === spot ? changed : one)) }, isMore)
}

export function removeSpot(media: string, id: string): void {
  const result = results.value.get(media)
  if (!result?.spots.some((one) => one.id === id)) return
  commit(media, { ...result, spots: result.spots.filter((one) => one.id !== id) })
}

/** Says whether a picture is right as it is. */
export function setReviewed(media: string, isReviewed: boolean): void {
  const result = results.value.get(media) ?? EMPTY
  if (result.isReviewed !== isReviewed) commit(media, { ...result, isReviewed })
}

/** Takes back all that was done by hand on a picture. */
export function restoreFound(media: string): void {
  const result = results.value.get(media)
  if (result) commit(media, { ...result, spots: result.found })
}

/** Whether a spot is as the model found it. */
export function originOf({ found }: Result, spot: Spot): 'found' | 'changed' | 'added' {
  const original = found.find(({ id }) => id === spot.id)
  if (original === undefined) return 'added'
  return isSame(original, spot) ? 'found' : 'changed'
}

/** How many spots were added, changed or removed by hand. */
export function countEdits(result: Result): number {
  const left = new Set(result.spots.map(({ id }) => id))
  const removed = result.found.filter(({ id }) => !left.has(id)).length
  return removed + result.spots.filter((spot) => originOf(result, spot) !== 'found').length
}

function isSame(one: Spot, other: Spot): boolean {
  return (['label', 'left', 'top', 'right', 'bottom'] as const).every((key) => one[key] === other[key])
}
