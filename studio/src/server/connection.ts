import { computed, signal } from '@preact/signals'
import { local, ofTab } from '../storage.ts'
import type { Model } from './wire.ts'

/*
 * The key that the page calls the server with. `npm start` prints a link with the key in its fragment, which no request
 * carries; it is taken out of the address at once, so that it does not end up in bookmarks.
 */

const KEY = 'lookout-key'
const MODEL = 'lookout-model'

/** Why the page cannot use the key that it was given, in a sentence; null while it can. */
export const keyProblem = signal<string | null>(null)
export const key = signal<string | null>(takeKey())
/** The key that the server refused last. */
export const rejectedKey = signal<string | null>(null)
export const models = signal<readonly Model[]>([])
const chosenModel = signal<string | null>(local.getItem(MODEL))

/** Those that write, of which one is asked; others make embeddings. */
export const writers = computed(() => models.value.filter(({ max_output_tokens: most }) => most > 0))

/** The chosen model, or else the first. */
export const model = computed<Model | null>(
  () => writers.value.find(({ id }) => id === chosenModel.value) ?? writers.value[0] ?? null,
)

/**
 * Uses another key, where it can be one; null asks for one.
 * @param keep whether other tabs, and this browser when it starts again, may use the key too.
 */
export function useKey(text: string | null, keep = false): void {
  const given = text === null ? null : keyIn(text)
  if (text !== null && given === null) return
  ofTab.removeItem(KEY)
  local.removeItem(KEY)
  if (given !== null) (keep ? local : ofTab).setItem(KEY, given)
  key.value = given
}

// A link with a key that is opened in a tab with this page loads nothing.
addEventListener('hashchange', () => {
  if (linkedKey() !== null) key.value = takeKey()
})

export function rejectKey(given: string | null): void {
  rejectedKey.value = given
}

export function chooseModel(id: string): void {
  local.setItem(MODEL, id)
  chosenModel.value = id
}

function linkedKey(): string | null {
  return new URLSearchParams(location.hash.slice(1)).get('key')
}

function takeKey(): string | null {
  const linked = linkedKey()
  if (linked !== null) history.replaceState(null, '', location.pathname + location.search)
  const text = linked || (ofTab.getItem(KEY) ?? local.getItem(KEY))
  const known = text === null ? null : keyIn(text)
  if (linked && known !== null) ofTab.setItem(KEY, known)
  return known
}

/** The key in a text that was pasted or linked; null, and `keyProblem` says why, where no request could carry it. */
function keyIn(text: string): string | null {
  // Pages that keys are copied from have marks of no width.
  const given = text.replaceAll(/[\u200b-\u200f\u2060\ufeff]/g, '').trim()
  const other = /[^\x21-\x7e]/u.exec(given)?.[0]
  keyProblem.value =
    other === undefined
      ? null
      : `A key cannot contain ${other.trim() === '' ? 'a space' : `“${other}”`}. Copy the whole key again.`
  return other === undefined ? given : null
}
