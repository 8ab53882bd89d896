import { computed, signal } from '@preact/signals'
import type { Attachment } from '../media/attachment.ts'
import { attachments, selected } from '../media/attachments.ts'
import { tokensOf } from '../widgets/fields/token-input.tsx'

/** A box around an object like those to find. */
export interface Example {
  readonly id: string
  /** The id of its attachment. */
  readonly media: string
  readonly label: string
  /** In pixels of the upright picture. */
  readonly left: number
  readonly top: number
  readonly right: number
  readonly bottom: number
}

/** What to search for: names, examples, and pictures that show none of it. */
export const categories = signal<readonly string[]>([])
/** What is being typed; it counts as a category when the search starts. */
export const categoryDraft = signal('')
export const examples = signal<readonly Example[]>([])
const negativeIds = signal<ReadonlySet<string>>(new Set())

const images = computed(() => attachments.value.filter(({ kind }) => kind === 'image'))
export const negatives = computed(() => images.value.filter(({ id }) => negativeIds.value.has(id)))
/** The pictures to search. */
export const searchable = computed(() => images.value.filter(({ id }) => !negativeIds.value.has(id)))
/** The picture on the stage. */
export const shownImage = computed<Attachment | null>(() => (selected.value?.kind === 'image' ? selected.value : null))

/** All media that a session can keep. */
export function attachmentsById(): ReadonlyMap<string, Attachment> {
  return new Map(attachments.value.map((one) => [one.id, one]))
}

/** Shows what a session had. */
export function replaceTargets(saved: {
  readonly categories: readonly string[]
  readonly examples: readonly Example[]
  readonly negatives: readonly string[]
}): void {
  categories.value = saved.categories
  categoryDraft.value = ''
  examples.value = saved.examples
  negativeIds.value = new Set(saved.negatives)
}

export function isNegative(id: string): boolean {
  return negativeIds.value.has(id)
}

export function toggleNegative(id: string): void {
  const next = new Set(negativeIds.value)
  if (!next.delete(id)) next.add(id)
  negativeIds.value = next
}

/** Adds names, separated by commas or line breaks; each counts once. */
export function addCategories(text: string): void {
  categories.value = [...new Set([...categories.value, ...tokensOf(text)])]
}

export function removeCategory(name: string): void {
  categories.value = categories.value.filter((one) => one !== name)
}

/** The name of the next example: what is being asked for, as far as that is known. */
export function nextExampleLabel(): string {
  return categoryDraft.value.trim() || examples.value.at(-1)?.label || categories.value[0] || 'object'
}

export function changeExample(id: string, label: string): void {
  examples.value = examples.value.map((one) => (one.id === id ? { ...one, label } : one))
}

export function removeExample(id: string): void {
  examples.value = examples.value.filter((one) => one.id !== id)
}
