import { signal } from '@preact/signals'
import type { Edges } from '../../../src/watches/watch-region.ts'
import { changeWatch } from './watches.ts'
import type { Watch } from './wire.ts'

/** The part of the frame that is being chosen; null while none is. */
export const draft = signal<Edges | null>(null)

export const WHOLE: Edges = { top: 0, left: 0, bottom: 1, right: 1 }
/** Digits of a fraction that are kept of what is drawn. */
const DIGITS = 3

export function leaveRegion(): void {
  draft.value = null
}

/** Whether something is left of the frame. */
export function isRegion({ top, left, bottom, right }: Edges): boolean {
  return top < bottom && left < right
}

export async function saveRegion(watch: Watch, region: Edges | null): Promise<void> {
  leaveRegion()
  await changeWatch(watch, { region: region && rounded(region) })
}

function rounded({ top, left, bottom, right }: Edges): Edges {
  const round = (side: number) => Number(side.toFixed(DIGITS))
  return { top: round(top), left: round(left), bottom: round(bottom), right: round(right) }
}
