import { computed, signal } from '@preact/signals'
import type { Spot } from './labelling/spot.ts'
import { type Result, results } from './results.ts'

/** What is less likely to be right is drawn faintly, and is in no table, comparison or export. */
export const leastConfidence = signal(0)

export const isRated = computed(() => [...results.value.values()].some(({ rating }) => rating !== null))

/** What a person drew or changed is sure. */
export function isSure({ confidence = 1 }: Spot): boolean {
  return confidence >= leastConfidence.value
}

export function sureSpots(result: Result | undefined): readonly Spot[] {
  return result?.spots.filter(isSure) ?? []
}
