import { computed, signal } from '@preact/signals'
import type { Model } from './wire.ts'

/*
 * The key that the page calls the server with. `npm start` prints a link with the key in its fragment, which no request
 * carries; it is taken out of the address at once, so that it does not end up in bookmarks.
 */

const KEY = 'lookout-key'
const MODEL = 'lookout-model'

export const key = signal<string | null>(takeKey())
/** The key that the server refused last. */
export const rejectedKey = signal<string | null>(null)
export const models = signal<readonly Model[]>([])
const chosenModel = signal<string | null>(localStorage.getItem(MODEL))

/** Those that write, of which one is asked; others make embeddings. */
export const writers = computed(() => models.value.filter(({ max_output_tokens: most }) => most > 0))

/** The chosen model, or else the first. */
export const model = computed<Model | null>(
  () => writers.value.find(({ id }) => id === chosenModel.value) ?? writers.value[0] ?? null,
)

/** @param keep whether other tabs, and this browser when it starts again, may use the key too. */
export function useKey(given: string | null, keep = false): void {
  sessionStorage.removeItem(KEY)
  localStorage.removeItem(KEY)
  if (given !== null) (keep ? localStorage : sessionStorage).setItem(KEY, given)
  key.value = given
}

export function rejectKey(given: string | null): void {
  rejectedKey.value = given
}

export function chooseModel(id: string): void {
  localStorage.setItem(MODEL, id)
  chosenModel.value = id
}

function takeKey(): string | null {
  const given = new URLSearchParams(location.hash.slice(1)).get('key')
  if (given !== null) {
    sessionStorage.setItem(KEY, given)
    history.replaceState(null, '', location.pathname + location.search)
  }
  return sessionStorage.getItem(KEY) ?? localStorage.getItem(KEY)
}
