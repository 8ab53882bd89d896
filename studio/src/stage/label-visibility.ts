import { signal } from '@preact/signals'
import { local } from '../storage.ts'

const LABELS = 'lookout-labels'

/** Whether all labels show, or only that of the mark that the pointer is on. */
export const showsLabels = signal(local.getItem(LABELS) !== 'hover')

export function toggleLabels(): void {
  showsLabels.value = !showsLabels.value
  local.setItem(LABELS, showsLabels.value ? 'always' : 'hover')
}
