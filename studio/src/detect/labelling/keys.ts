import type { Shortcut } from '../../keyboard/shortcut.ts'

/** A Mac changes desktops with Control and the arrows; other systems go back a page with Alt and the left arrow. */
export const isMac = /Mac|iPhone|iPad/.test(navigator.platform)

/** What the keys do in this mode, as long as nothing is being typed. */
export const KEYS: readonly Shortcut[] = [
  { keys: ['N', 'P'], what: 'Select the next or previous object (or Tab, on the picture)' },
  { keys: ['1', '9', '0'], what: 'Give it the class with this key' },
  { keys: ['C'], what: 'Find a class by its letters' },
  { keys: ['← ↑ → ↓'], what: 'Move it; with Shift, ten times as far' },
  { keys: [isMac ? 'Option ←' : 'Ctrl ←', '↑ → ↓'], what: 'Move its bottom right corner, likewise' },
  { keys: ['X'], what: 'Switch to its top left corner, and back' },
  { keys: ['E'], what: 'Fit it to the edges in the picture' },
  { keys: ['Del'], what: 'Delete it' },
  { keys: ['W'], what: 'Draw a box, or set a point' },
  { keys: ['S', 'Space'], what: 'Accept the picture and go to the next one' },
  { keys: ['D', 'A'], what: 'Show the next or previous picture' },
  { keys: ['Ctrl Z'], what: 'Undo; with Shift, redo' },
  { keys: ['Esc'], what: 'Clear the selection; stop drawing' },
]
