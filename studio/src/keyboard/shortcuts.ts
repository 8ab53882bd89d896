import { signal } from '@preact/signals'
import { modeId } from '../mode-choice.ts'
import { MODES } from '../modes.ts'
import type { Shortcut } from './shortcut.ts'

export const helpIsShown = signal(false)

/** What the keyboard does in all modes. */
export const SHORTCUTS: readonly Shortcut[] = [
  { keys: ['/'], what: 'Write a question' },
  { keys: ['Enter'], what: 'Ask' },
  { keys: ['Shift Enter'], what: 'Insert a line break' },
  { keys: ['Esc'], what: 'Stop the answer, or close what is open' },
  {
    keys: ['Alt 1', `Alt ${MODES.length}`],
    what: `Change to ${MODES.map(({ title }) => title).join(', ')}`,
  },
  { keys: ['+', '−', '0'], what: 'On an image: zoom in, zoom out, show all of it' },
  { keys: ['← ↑ → ↓'], what: 'On an image: move it' },
  { keys: ['?'], what: 'Show this help' },
]

/** Listens to the page's shortcuts. @returns a function that stops it. */
export function watchShortcuts(): () => void {
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.defaultPrevented || document.querySelector('dialog[open]') !== null) return
    if (event.altKey && !event.ctrlKey && !event.metaKey) {
      // By the key's place: with Alt, some layouts give another character.
      const mode = MODES[Number(/^Digit([1-9])$/.exec(event.code)?.[1]) - 1]
      if (mode === undefined) return
      event.preventDefault()
      modeId.value = mode.id
      return
    }
    if (event.ctrlKey || event.metaKey || isText(event.target)) return
    if (event.key === '?') {
      event.preventDefault()
      helpIsShown.value = true
    } else if (event.key === '/' && focusDraft()) event.preventDefault()
  }
  addEventListener('keydown', onKeyDown)
  return () => removeEventListener('keydown', onKeyDown)
}

/** Where the user writes in the mode on the page. @returns whether there is such a place */
export function focusDraft(): boolean {
  const field = document.querySelector<HTMLElement>('.panel [data-draft]') ?? firstField()
  field?.focus()
  return field !== null
}

function firstField(): HTMLElement | null {
  return document.querySelector(
    '.panel :is(textarea, input:not([type="checkbox"], [type="radio"], [type="range"], [type="file"]))',
  )
}

function isText(target: EventTarget | null): boolean {
  return (
    target instanceof Element && target.matches('textarea, select, [contenteditable], input:not([type="checkbox"])')
  )
}
