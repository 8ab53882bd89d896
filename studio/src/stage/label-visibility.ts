import { signal } from '@preact/signals'

const LABELS = 'lookout-labels'

/** Whether all labels show, or only that of the mark that the pointer is on. */
export const showsLabels = signal(localStorage.getItem(LABELS) !== 'hover')

export function toggleLabels(): void {
  showsLabels.value = !showsLabels.value
  localStorage.setItem(LABELS, showsLabels.value ? 'always' : 'hover')
}
