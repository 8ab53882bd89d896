import { signal } from '@preact/signals'
import { MODES } from './modes.ts'

/** The mode on the page. */
export const modeId = signal(MODES[0].id)
